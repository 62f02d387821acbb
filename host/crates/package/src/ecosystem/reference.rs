//! Parses references to packages: `npm:NAME@VERSION`, `pypi:NAME==VERSION`, `crates:NAME@VERSION`.
//!
//! Every part must match the grammar of its registry, so that no part can change the structure of a
//! URL that contains it.
//!
//! For example:
//!
//! ```text
//! npm:hello                 newest version
//! npm:@team/hello@0.1.0     this version; an update selects a newer one
//! npm:hello@next            version that the tag `next` names, now and at each update
//! pypi:hello==0.1.0
//! crates:hello@0.1.0
//! ```

use std::fmt;

use anyhow::{Context, ensure};
use semver::Version;

use super::pep440;

/// Maximum length of a package name in bytes, as npm limits it. The other registries have shorter
/// limits or none.
const MAX_PACKAGE_NAME_BYTES: usize = 214;

/// Maximum length in bytes of the version or tag in a package reference.
const MAX_VERSION_OR_TAG_BYTES: usize = 128;

/// Kind of package, by the registry that hosts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PackageKind {
    /// npm package, a `.tgz` file.
    Npm,
    /// Python package, a wheel.
    Pypi,
    /// Rust crate, a `.crate` file.
    Crates,
}

impl PackageKind {
    /// All kinds of packages.
    pub(crate) const ALL: [Self; 3] = [Self::Npm, Self::Pypi, Self::Crates];

    /// Returns the prefix of package references of this kind.
    pub(crate) fn reference_prefix(self) -> &'static str {
        match self {
            Self::Npm => "npm:",
            Self::Pypi => "pypi:",
            Self::Crates => "crates:",
        }
    }

    /// Returns the separator between name and version in a reference.
    fn version_separator(self) -> &'static str {
        match self {
            Self::Npm | Self::Crates => "@",
            Self::Pypi => "==",
        }
    }

    /// Checks a package name, and returns its canonical form.
    pub(crate) fn check_and_normalize_name(self, name: &str) -> anyhow::Result<String> {
        let rule = match self {
            Self::Npm => {
                "an npm package is named with a-z, 0-9, `-`, `_` and `.`, as `hello` or `@team/hello`"
            }
            Self::Pypi => {
                "a Python package is named with letters, digits, `-`, `_` and `.`, and begins and ends with one of the first two"
            }
            Self::Crates => {
                "a crate is named with letters, digits, `-` and `_`, and begins with a letter"
            }
        };
        let is_valid = name.len() <= MAX_PACKAGE_NAME_BYTES
            && match self {
                Self::Npm => match name.strip_prefix('@') {
                    Some(scoped) => scoped.split_once('/').is_some_and(|(scope, own)| {
                        is_npm_name_part(scope) && is_npm_name_part(own)
                    }),
                    None => is_npm_name_part(name),
                },
                Self::Pypi => is_pypi_name(name),
                Self::Crates => is_crate_name(name),
            };
        let shown: String = name.chars().take(MAX_PACKAGE_NAME_BYTES).collect();
        ensure!(
            is_valid,
            "`{}` is not the name of a package: {rule}",
            shown.escape_debug()
        );
        Ok(match self {
            Self::Npm => name.to_owned(),
            Self::Pypi => normalize_pypi_name(name),
            Self::Crates => name.to_ascii_lowercase(),
        })
    }
}

/// Reference to a package, with a version, a tag, or neither.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageReference {
    pub(crate) kind: PackageKind,
    /// Name of the package, in its canonical form.
    pub(crate) name: String,
    /// Version in the notation of the registry, or a tag of npm.
    pub(crate) version: Option<String>,
}

impl PackageReference {
    /// Parses a reference; `None` if the text does not begin with the prefix of a package kind.
    pub(crate) fn parse_reference(text: &str) -> Option<anyhow::Result<Self>> {
        let starts = |kind: &PackageKind| text.starts_with(kind.reference_prefix());
        let kind = PackageKind::ALL.into_iter().find(starts)?;
        let rest = text.strip_prefix(kind.reference_prefix())?;
        Some(Self::parse_name_and_version(kind, rest).with_context(|| {
            let shown: String = text.chars().take(MAX_PACKAGE_NAME_BYTES).collect();
            format!(
                "`{}` is not a reference, which has the form {}NAME or {}NAME{}VERSION",
                shown.escape_debug(),
                kind.reference_prefix(),
                kind.reference_prefix(),
                kind.version_separator(),
            )
        }))
    }

    fn parse_name_and_version(kind: PackageKind, rest: &str) -> anyhow::Result<Self> {
        // A scoped npm name begins with an `@`, which is not the separator before the version.
        let scope = usize::from(kind == PackageKind::Npm && rest.starts_with('@'));
        let at = rest
            .get(scope..)
            .and_then(|after| after.find(kind.version_separator()));
        let (name, version) = match at.map(|at| at + scope) {
            Some(at) => (
                rest.get(..at).unwrap_or_default(),
                rest.get(at + kind.version_separator().len()..),
            ),
            None => (rest, None),
        };
        let name = kind.check_and_normalize_name(name)?;
        if let Some(version) = version {
            check_package_version(kind, version)?;
        }
        Ok(Self {
            kind,
            name,
            version: version.map(str::to_owned),
        })
    }

    /// Returns a reference to another version of the same package.
    pub(crate) fn with_version(&self, version: String) -> Self {
        Self {
            version: Some(version),
            ..self.clone()
        }
    }

    /// Returns the text of the package reference without its version.
    pub(crate) fn reference_without_version(&self) -> String {
        format!("{}{}", self.kind.reference_prefix(), self.name)
    }

    pub(crate) fn is_same_package(&self, other: &Self) -> bool {
        (self.kind, &self.name) == (other.kind, &other.name)
    }

    /// Whether the reference names an npm tag, which the publisher can move to another version.
    pub(crate) fn is_npm_tag(&self) -> bool {
        let version = self.version.as_deref();
        self.kind == PackageKind::Npm && version.is_some_and(|text| Version::parse(text).is_err())
    }

    /// Converts a version from the registry's notation. Returns `None` if it is not a valid version
    /// of a plugin.
    pub(crate) fn parse_version(&self, text: &str) -> Option<Version> {
        match self.kind {
            PackageKind::Npm | PackageKind::Crates => Version::parse(text).ok(),
            PackageKind::Pypi => pep440::pep440_to_semver(text),
        }
    }
}

impl fmt::Display for PackageReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.kind.reference_prefix(), self.name)?;
        if let Some(version) = &self.version {
            write!(f, "{}{version}", self.kind.version_separator())?;
        }
        Ok(())
    }
}

fn check_package_version(kind: PackageKind, version: &str) -> anyhow::Result<()> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-_+".contains(c);
    let is_word = !version.is_empty()
        && version.len() <= MAX_VERSION_OR_TAG_BYTES
        && version.starts_with(|c: char| c.is_ascii_alphanumeric())
        && version.chars().all(is_plain);
    let shown: String = version.chars().take(MAX_VERSION_OR_TAG_BYTES).collect();
    let shown = shown.escape_debug();
    match kind {
        PackageKind::Npm => ensure!(is_word, "`{shown}` is neither a version nor a tag"),
        PackageKind::Crates => ensure!(
            is_word && Version::parse(version).is_ok(),
            "`{shown}` is not a version such as 0.1.0; ranges are not supported"
        ),
        PackageKind::Pypi => ensure!(
            is_word && pep440::pep440_to_semver(version).is_some(),
            "`{shown}` is not a version that a plugin can have, such as 0.1.0 or 0.1.0rc1"
        ),
    }
    Ok(())
}

fn is_npm_name_part(part: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_.".contains(c);
    !part.is_empty() && !part.starts_with(['.', '_']) && part.chars().all(is_plain)
}

fn is_pypi_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let ends = [name.chars().next(), name.chars().next_back()];
    ends.iter()
        .all(|end| end.is_some_and(|c| c.is_ascii_alphanumeric()))
        && name.chars().all(is_plain)
}

fn is_crate_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    name.len() <= 64
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(is_plain)
}

/// Normalizes the name of a Python package as PEP 503 does: converts to lower case, and replaces
/// each run of `-`, `_` and `.` by one `-`.
pub(crate) fn normalize_pypi_name(name: &str) -> String {
    let mut normal = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '-' | '_' | '.' if normal.ends_with('-') => {}
            '-' | '_' | '.' => normal.push('-'),
            _ => normal.push(c.to_ascii_lowercase()),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_read_and_written_in_their_canonical_form() {
        for (text, expected) in [
            ("npm:hello", "npm:hello"),
            ("npm:@team/hello", "npm:@team/hello"),
            ("npm:@team/hello@0.1.0-rc.1", "npm:@team/hello@0.1.0-rc.1"),
            ("npm:hello@next", "npm:hello@next"),
            ("pypi:Hello_.World==1.0rc1", "pypi:hello-world==1.0rc1"),
            ("crates:Hello_world@0.1.0+x", "crates:hello_world@0.1.0+x"),
        ] {
            let parsed = PackageReference::parse_reference(text).unwrap().unwrap();
            assert_eq!(parsed.to_string(), expected);
        }
        assert!(PackageReference::parse_reference("oci://a.example/b").is_none());
        assert!(PackageReference::parse_reference("./npm:hello").is_none());
    }

    #[test]
    fn references_that_would_change_a_url_are_refused() {
        for text in [
            "npm:",
            "npm:@team",
            "npm:@/hello",
            "npm:@team/",
            "npm:../hello",
            "npm:a/b",
            "npm:.hello",
            "npm:Hello",
            "npm:hel%2flo",
            "npm:hello?x",
            "npm:hello@",
            "npm:hello@^1.0.0",
            "npm:hello@1/../2",
            "npm:hello@-x",
            "npm:@team/hello@1@2",
            "npm:hello\n",
            "pypi:",
            "pypi:-a",
            "pypi:a/b",
            "pypi:a@1.0",
            "pypi:a==",
            "pypi:a==1.0.post1",
            "pypi:a==1.*",
            "pypi:a>=1",
            "pypi:a[extra]",
            "crates:",
            "crates:1a",
            "crates:a.b",
            "crates:a==1.0.0",
            "crates:a@1",
            "crates:a@^1.0.0",
        ] {
            let parsed = PackageReference::parse_reference(text).unwrap();
            assert!(parsed.is_err(), "{text}: {parsed:?}");
        }
    }
}
