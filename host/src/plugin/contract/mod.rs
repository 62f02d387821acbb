//! Versions of the contract that this host supports.
//!
//! A component names the version it was built against in each interface (`rind:plugin/log@0.1.0`), and the SDKs stamp it into
//! a section of their own ([`stamp`]). Both are read before anything is compiled: a component that is newer than this host, or
//! too old for it, is refused with the version that it wants and those that there are.

pub mod stamp;

use semver::Version;

use super::Error;

/// Prefix of the contract's interfaces.
const PACKAGE: &str = "rind:plugin/";

/// The version of `wit/`.
pub const CURRENT: &str = version_of(include_str!("../../../../wit/world.wit"));

/// Every supported version, oldest first; of those that components are taken for by their names (0.1.0, 0.1.1) the last.
pub const SUPPORTED: &[&str] = &[CURRENT];

/// The version in the first line of a WIT file, `package rind:plugin@0.1.0;`.
const fn version_of(wit: &str) -> &str {
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

/// Splits `rind:plugin/pre-tool@0.1.0` into name and version; `None` for interfaces of others.
pub(super) fn split(interface: &str) -> Option<(&str, &str)> {
    let rest = interface.strip_prefix(PACKAGE)?;
    Some(rest.split_once('@').unwrap_or((rest, "")))
}

/// Whether components of version `a` and of version `b` are taken for each other by their names: up to 1.0 those of one minor
/// number, after that those of one major number.
fn is_same_line(a: &Version, b: &Version) -> bool {
    a.major == b.major && (a.major > 0 || a.minor == b.minor)
}

/// Checks that a version is supported. `what` has it, and begins the error: "it imports `rind:plugin/log@0.9.0`".
pub(super) fn check(what: &str, version: &str) -> Result<(), Error> {
    let refuse = |todo: &str| {
        Err(Error::Contract {
            what: what.to_owned(),
            wanted: match version {
                "" => "no version".to_owned(),
                version => format!("version {}", crate::text::clean(version, MAX_VERSION_BYTES)),
            },
            supported: SUPPORTED.join(", "),
            todo: todo.to_owned(),
        })
    };
    let rebuild = "build the plugin with an SDK for a supported version";
    let Ok(wanted) = Version::parse(version) else {
        return refuse(rebuild);
    };
    let mut supported = SUPPORTED
        .iter()
        .filter_map(|known| Version::parse(known).ok());
    let newest = supported.clone().next_back();
    if supported.any(|known| is_same_line(&known, &wanted) && wanted <= known) {
        return Ok(());
    }
    if newest.is_some_and(|newest| wanted > newest) {
        return refuse(&format!("update Rind, or {rebuild}"));
    }
    refuse(rebuild)
}

/// Longest version that is repeated in an error, in bytes.
const MAX_VERSION_BYTES: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_that_of_the_package() {
        assert_eq!(version_of("package a:b@1.2.3;\n\nworld x {}"), "1.2.3");
        assert_eq!(SUPPORTED.last(), Some(&CURRENT));
        assert!(Version::parse(CURRENT).is_ok());
    }

    #[test]
    fn names_of_the_contract_are_split_and_others_are_not() {
        assert_eq!(split("rind:plugin/log@0.1.0"), Some(("log", "0.1.0")));
        assert_eq!(split("rind:plugin/log"), Some(("log", "")));
        assert_eq!(split("wasi:io/poll@0.2.0"), None);
    }

    #[test]
    fn newer_and_unknown_versions_are_refused_with_those_that_there_are() {
        let current = Version::parse(CURRENT).unwrap();
        let later = |minor, patch| {
            let (major, minor) = (current.major, current.minor + minor);
            Version::new(major, minor, current.patch + patch).to_string()
        };
        assert!(check("it is here", CURRENT).is_ok());
        for newer in [later(0, 1), later(1, 0), "99.0.0".to_owned()] {
            let error = check("it imports `x`", &newer).unwrap_err().to_string();
            let expected = format!(
                "it imports `x`, which wants version {newer} of the contract; this host supports {}: update Rind, or build the \
                 plugin with an SDK for a supported version",
                SUPPORTED.join(", ")
            );
            assert_eq!(error, expected);
        }
        for older in ["0.0.9", "", "one"] {
            let error = check("it is there", older).unwrap_err().to_string();
            assert!(
                error.ends_with(": build the plugin with an SDK for a supported version"),
                "{error}"
            );
        }
    }
}
