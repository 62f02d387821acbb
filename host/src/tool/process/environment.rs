//! What a started process is told of this process's environment: a short list, so that no key leaks by being forgotten.

use std::ffi::OsString;

/// Variables that every process gets. Nothing here carries a secret.
const PASSED: &[&str] = &["PATH", "HOME", "LANG", "TERM", "USER", "TMPDIR"];

/// The variables of `PASSED` and all `LC_*`, as far as they are set.
#[must_use]
pub fn base_environment() -> Vec<(OsString, OsString)> {
    environment_with(&[], &[])
}

/// [`base_environment`] with the variables of these names, and those whose names begin with one of these prefixes.
#[must_use]
pub fn environment_with(names: &[&str], prefixes: &[&str]) -> Vec<(OsString, OsString)> {
    std::env::vars_os()
        .filter(|(name, _)| {
            name.to_str()
                .is_some_and(|name| is_passed(name, names, prefixes))
        })
        .collect()
}

fn is_passed(name: &str, names: &[&str], prefixes: &[&str]) -> bool {
    PASSED.contains(&name)
        || names.contains(&name)
        || name.starts_with("LC_")
        || prefixes.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_names_and_prefixes_are_passed_on() {
        let passed = |name| is_passed(name, &["CARGO_HOME"], &["CARGO_NET_"]);
        for name in ["PATH", "HOME", "LC_ALL", "CARGO_HOME", "CARGO_NET_OFFLINE"] {
            assert!(passed(name), "{name}");
        }
        for name in [
            "ANTHROPIC_API_KEY",
            "BASH_ENV",
            "LD_PRELOAD",
            "CARGO_REGISTRY_TOKEN",
        ] {
            assert!(!passed(name), "{name}");
        }
    }
}
