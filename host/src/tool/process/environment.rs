//! Environment of started processes: a short list, so that no key leaks by being forgotten.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Variables that every process gets. Nothing here carries a secret.
const PASSED: &[&str] = &["PATH", "HOME", "LANG", "TERM", "USER", "TMPDIR"];

/// Returns the variables of `PASSED` and all `LC_*` that are set.
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

/// Whether a program of this name would be found with this environment's `PATH`. One with `/` in it is looked for where it
/// says, from the folder that it is to run in, which is not known here: it counts as found.
pub(super) fn is_found(program: &OsStr, env: &[(OsString, OsString)]) -> bool {
    if program.as_encoded_bytes().contains(&b'/') {
        return true;
    }
    let path = env.iter().find(|(name, _)| name == "PATH");
    path.is_some_and(|(_, path)| {
        std::env::split_paths(path).any(|folder| Path::new(&folder).join(program).is_file())
    })
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
