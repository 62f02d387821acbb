//! Converts versions of Python packages (PEP 440) to versions of plugins (semantic versions) and
//! back.
//!
//! Only the forms that both notations can express are converted: releases of up to three numbers,
//! and pre-releases with one number.

use semver::{BuildMetadata, Prerelease, Version};

/// Pre-release stages, each with its name in semantic versions, its suffix in PEP 440, and all
/// spellings that PEP 440 accepts.
const PRERELEASE_STAGE_SPELLINGS: [(&str, &str, &[&str]); 4] = [
    ("dev", ".dev", &["dev"]),
    ("alpha", "a", &["a", "alpha"]),
    ("beta", "b", &["b", "beta"]),
    ("rc", "rc", &["rc", "c", "pre", "preview"]),
];

/// Converts a version of a Python package to a semantic version, if possible.
///
/// For example:
///
/// ```text
/// 1.2           ->  1.2.0
/// 1.2.3rc1      ->  1.2.3-rc.1
/// 1.2.3.post1   ->  none
/// ```
pub(crate) fn pep440_to_semver(text: &str) -> Option<Version> {
    let text = text.to_ascii_lowercase();
    let text = text.strip_prefix('v').unwrap_or(&text);
    let is_release = |c: char| c.is_ascii_digit() || c == '.';
    let end = text.find(|c| !is_release(c)).unwrap_or(text.len());
    let (release, rest) = text.split_at(end);
    // The `.` in `1.2.dev0` separates the release from the stage.
    let release = match rest.is_empty() {
        true => release,
        false => release.strip_suffix('.').unwrap_or(release),
    };
    let numbers: Option<Vec<u64>> = release.split('.').map(parse_version_number).collect();
    let numbers = numbers.filter(|all| all.len() <= 3)?;
    let number = |at: usize| numbers.get(at).copied().unwrap_or_default();
    Some(Version {
        major: number(0),
        minor: number(1),
        patch: number(2),
        pre: parse_prerelease_stage(rest)?,
        build: BuildMetadata::EMPTY,
    })
}

fn parse_version_number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

fn parse_prerelease_stage(rest: &str) -> Option<Prerelease> {
    if rest.is_empty() {
        return Some(Prerelease::EMPTY);
    }
    let is_separator = |c: char| "-_.".contains(c);
    let rest = rest.strip_prefix(is_separator).unwrap_or(rest);
    let end = rest.find(|c: char| !c.is_ascii_lowercase());
    let (name, number) = rest.split_at(end.unwrap_or(rest.len()));
    let (stage, ..) = PRERELEASE_STAGE_SPELLINGS
        .iter()
        .find(|(_, _, spellings)| spellings.contains(&name))?;
    let number = number.strip_prefix(is_separator).unwrap_or(number);
    let number = match number.is_empty() {
        true => 0,
        false => parse_version_number(number)?,
    };
    Prerelease::new(&format!("{stage}.{number}")).ok()
}

/// Converts the version of a plugin to PEP 440; `None` if PEP 440 cannot express it.
pub(crate) fn semver_to_pep440(version: &Version) -> Option<String> {
    if !version.build.is_empty() {
        return None;
    }
    let release = format!("{}.{}.{}", version.major, version.minor, version.patch);
    if version.pre.is_empty() {
        return Some(release);
    }
    let (name, number) = version.pre.split_once('.')?;
    let (_, written, _) = PRERELEASE_STAGE_SPELLINGS
        .iter()
        .find(|(stage, ..)| *stage == name)?;
    Some(format!(
        "{release}{written}{}",
        parse_version_number(number)?
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_that_both_notations_express_are_converted() {
        for (python, plugin) in [
            ("1", "1.0.0"),
            ("1.2", "1.2.0"),
            ("v1.2.3", "1.2.3"),
            ("1.2.3a1", "1.2.3-alpha.1"),
            ("1.2.3-beta-2", "1.2.3-beta.2"),
            ("1.2.3rc", "1.2.3-rc.0"),
            ("1.2.3.dev4", "1.2.3-dev.4"),
        ] {
            let plugin = Version::parse(plugin).unwrap();
            assert_eq!(pep440_to_semver(python), Some(plugin.clone()), "{python}");
            let written = semver_to_pep440(&plugin).unwrap();
            assert_eq!(pep440_to_semver(&written), Some(plugin), "{python}");
        }
        for python in [
            "",
            ".",
            "1.",
            "1..2",
            "1.2.3.4",
            "1!1.0",
            "1.0.post1",
            "1.0+local",
            "1.0rc1.dev2",
            "1.0x",
            "x",
        ] {
            assert_eq!(pep440_to_semver(python), None, "{python}");
        }
        for plugin in ["1.0.0+build", "1.0.0-x.1", "1.0.0-rc", "1.0.0-rc.1.2"] {
            let plugin = Version::parse(plugin).unwrap();
            assert_eq!(semver_to_pep440(&plugin), None, "{plugin}");
        }
    }
}
