//! Versions of the plugin contract (the WIT package `rind:plugin`) that this host supports.
//!
//! A component names the version that it was built against in each interface
//! (`rind:plugin/log@0.1.0`), and the SDKs stamp the version into a section of their own
//! ([`stamp`]). Both are read before anything is compiled: a component that is newer than this
//! host, or too old for it, is refused with the version that it needs and the supported versions.

#[cfg(feature = "evolution")]
#[path = "../../../../tests/evolution/next.rs"]
mod next;
pub mod skew;
pub mod sources;
pub mod stamp;

use rind_embed::EmbeddedPackedFolder;
use semver::Version;
use wasmtime::component::{Linker, LinkerInstance};

use super::Error;
use super::hooks::{self, VersionedHookBinder};
use super::host::HostState;
use crate::point::catalog;

/// Prefix of the full names of the plugin contract's interfaces.
const CONTRACT_INTERFACE_PREFIX: &str = "rind:plugin/";

/// Version of the plugin contract in `wit/`, which this host implements.
pub const CURRENT_CONTRACT_VERSION: &str =
    wit_package_version(include_str!("../../../../wit/world.wit"));

/// Files of the contract, with their paths below `wit/`. Released versions are in subdirectories.
static CONTRACT_WIT_FILES: EmbeddedPackedFolder = EmbeddedPackedFolder::new(include_bytes!(
    concat!(env!("OUT_DIR"), "/contract.tar.zst")
));

/// Returns the files of the newest contract with their names and texts: one interface each, and the
/// tables that the SDKs are generated from.
pub fn list_contract_files() -> impl Iterator<Item = (&'static str, &'static str)> {
    CONTRACT_WIT_FILES.files().filter_map(|(path, content)| {
        let is_own = !path.contains('/') && !path.ends_with(".md");
        Some((path, std::str::from_utf8(content).ok()?)).filter(|_| is_own)
    })
}

/// Adds the functions of one interface to its instance in a linker.
pub(super) type LinkInterfaceFn = fn(&mut LinkerInstance<'_, HostState>) -> wasmtime::Result<()>;

/// Version of the contract, described by its differences from the newest version. Interfaces that
/// are not listed are bound and linked with the types of the newest version.
pub(super) struct ContractVersionDifferences {
    number: &'static str,
    /// Interfaces whose functions or types in this version differ from the newest version, each
    /// with its link function.
    imports: &'static [(&'static str, LinkInterfaceFn)],
    /// Points that have other types or another name in this version: the name of the interface, the
    /// name of the point in the catalog, and the types.
    points: &'static [(&'static str, &'static str, &'static dyn VersionedHookBinder)],
}

/// Supported versions, oldest first. Among versions with semver-compatible names (0.1.0 and 0.1.1),
/// only the last one is listed.
static SUPPORTED_CONTRACT_VERSIONS: &[ContractVersionDifferences] = &[
    ContractVersionDifferences {
        number: CURRENT_CONTRACT_VERSION,
        imports: &[],
        points: &[],
    },
    #[cfg(feature = "evolution")]
    next::VERSION,
];

/// Returns the supported versions of the plugin contract, oldest first.
pub fn list_supported_versions() -> impl DoubleEndedIterator<Item = &'static str> {
    SUPPORTED_CONTRACT_VERSIONS
        .iter()
        .map(|version| version.number)
}

/// Whether this host runs components that were built against `version`.
#[must_use]
pub fn is_supported_contract_version(version: &Version) -> bool {
    find_contract_version(version).is_some()
}

/// Finds the supported contract version that runs a component built against `wanted`: a compatible
/// version that is not older.
fn find_contract_version(wanted: &Version) -> Option<&'static ContractVersionDifferences> {
    SUPPORTED_CONTRACT_VERSIONS.iter().find(|known| {
        let number = Version::parse(known.number);
        number.is_ok_and(|number| are_compatible_versions(&number, wanted) && *wanted <= number)
    })
}

/// Finds the point that an exported interface belongs to, and the point's types in the contract
/// version `version`.
pub(super) fn find_hook_binder(
    interface: &str,
    version: &str,
) -> Option<(&'static str, &'static dyn VersionedHookBinder)> {
    let version = find_contract_version(&Version::parse(version).ok()?)?;
    let mut others = version.points.iter();
    if let Some((_, point, binding)) = others.find(|(other, ..)| *other == interface) {
        return Some((point, *binding));
    }
    let row = catalog::CATALOG.iter().find(|row| row.name == interface)?;
    Some((row.name, hooks::find_current_binding(row.name)?))
}

/// Adds an interface to a linker under its name in each supported version. `module` is the name of
/// the Rust module with the interface's bindings.
pub(super) fn link_interface(
    linker: &mut Linker<HostState>,
    module: &str,
    newest: LinkInterfaceFn,
) -> wasmtime::Result<()> {
    let interface = module.replace('_', "-");
    for version in SUPPORTED_CONTRACT_VERSIONS {
        let mut others = version.imports.iter();
        let other = others.find(|(other, _)| *other == interface);
        let name = format!("{CONTRACT_INTERFACE_PREFIX}{interface}@{}", version.number);
        other.map_or(newest, |(_, link)| *link)(&mut linker.instance(&name)?)?;
    }
    Ok(())
}

/// Returns the version in the first line of a WIT file, `package rind:plugin@0.1.0;`.
const fn wit_package_version(wit: &str) -> &str {
    let bytes = wit.as_bytes();
    let mut start = 0;
    while bytes[start] != b'@' {
        start += 1;
    }
    let mut end = start;
    while bytes[end] != b';' {
        end += 1;
    }
    wit.split_at(end).0.split_at(start + 1).1
}

/// Splits `rind:plugin/pre-tool@0.1.0` into name and version; `None` for interfaces of other
/// packages.
pub(super) fn split_interface_name(interface: &str) -> Option<(&str, &str)> {
    let rest = interface.strip_prefix(CONTRACT_INTERFACE_PREFIX)?;
    Some(rest.split_once('@').unwrap_or((rest, "")))
}

/// Whether versions `a` and `b` are semver-compatible by name: the same minor number below 1.0, the
/// same major number from 1.0 on.
fn are_compatible_versions(a: &Version, b: &Version) -> bool {
    a.major == b.major && (a.major > 0 || a.minor == b.minor)
}

/// Whether a version is semver-compatible with the current contract.
fn is_compatible_with_current_contract(version: &str) -> bool {
    let (version, current) = (
        Version::parse(version),
        Version::parse(CURRENT_CONTRACT_VERSION),
    );
    version.is_ok_and(|version| {
        current.is_ok_and(|current| are_compatible_versions(&version, &current))
    })
}

/// Checks that a version is supported. `what` names the origin of the version and begins the error,
/// for example "the component imports `rind:plugin/log@0.9.0`".
pub(super) fn check_contract_version(what: &str, version: &str) -> Result<(), Error> {
    let refuse = |todo: &str| {
        Err(Error::Contract {
            what: what.to_owned(),
            wanted: match version {
                "" => "no version".to_owned(),
                version => format!(
                    "version {}",
                    crate::text::escape_and_truncate_line(version, MAX_QUOTED_VERSION_BYTES)
                ),
            },
            supported: list_supported_versions().collect::<Vec<_>>().join(", "),
            todo: todo.to_owned(),
        })
    };
    let rebuild = "build the plugin with an SDK for a supported version";
    let Ok(wanted) = Version::parse(version) else {
        return refuse(rebuild);
    };
    if is_supported_contract_version(&wanted) {
        return Ok(());
    }
    let newest = list_supported_versions().next_back().map(Version::parse);
    if newest.is_some_and(|newest| newest.is_ok_and(|newest| wanted > newest)) {
        return refuse(&format!("update Rind, or {rebuild}"));
    }
    refuse(rebuild)
}

/// Maximum length in bytes of a version that is quoted in an error.
const MAX_QUOTED_VERSION_BYTES: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_that_of_the_package() {
        assert_eq!(
            wit_package_version("package a:b@1.2.3;\n\nworld x {}"),
            "1.2.3"
        );
        assert!(list_supported_versions().any(|version| version == CURRENT_CONTRACT_VERSION));
        assert!(Version::parse(CURRENT_CONTRACT_VERSION).is_ok());
    }

    #[test]
    fn names_of_the_contract_are_split_and_others_are_not() {
        assert_eq!(
            split_interface_name("rind:plugin/log@0.1.0"),
            Some(("log", "0.1.0"))
        );
        assert_eq!(split_interface_name("rind:plugin/log"), Some(("log", "")));
        assert_eq!(split_interface_name("wasi:io/poll@0.2.0"), None);
    }

    #[test]
    fn newer_and_unknown_versions_are_refused_with_those_that_there_are() {
        let current = Version::parse(list_supported_versions().next_back().unwrap()).unwrap();
        let later = |minor, patch| {
            let (major, minor) = (current.major, current.minor + minor);
            Version::new(major, minor, current.patch + patch).to_string()
        };
        assert!(check_contract_version("it is here", CURRENT_CONTRACT_VERSION).is_ok());
        for newer in [later(0, 1), later(1, 0), "99.0.0".to_owned()] {
            let error = check_contract_version("the component imports `x`", &newer)
                .unwrap_err()
                .to_string();
            let expected = format!(
                "the component imports `x`, which needs version {newer} of the plugin contract; this host supports {}: update Rind, or build the \
                 plugin with an SDK for a supported version",
                list_supported_versions().collect::<Vec<_>>().join(", ")
            );
            assert_eq!(error, expected);
        }
        for older in ["0.0.9", "", "one"] {
            let error = check_contract_version("it is there", older)
                .unwrap_err()
                .to_string();
            assert!(
                error.ends_with(": build the plugin with an SDK for a supported version"),
                "{error}"
            );
        }
    }
}
