//! Environment of started processes: a short list, so that no key leaks by being forgotten.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Variables that every process gets. None of them carries a secret.
const BASE: &[&str] = &["PATH", "HOME", "LANG", "TERM", "USER", "TMPDIR"];

/// Variables that keep programs from waiting for a person: commands and scripts have no terminal
/// and an empty standard input, so that an editor, a pager or a question could only end at the
/// deadline.
///
/// `true` as an editor leaves the text as it is: git then keeps the message that it proposes
/// (`commit --amend`, `rebase
/// --continue`) and refuses an empty one (`commit`) in its own words.
const UNATTENDED: &[(&str, &str)] = &[
    ("EDITOR", "true"),
    ("GIT_EDITOR", "true"),
    ("GIT_SEQUENCE_EDITOR", "true"),
    ("VISUAL", "true"),
    // Vim reads keys from where it writes to when its input is empty, and waits. With commands to
    // carry out (`vim -c wq`) it ends before it comes to this.
    ("VIMINIT", "autocmd VimEnter * cquit"),
    ("AWS_PAGER", "cat"),
    ("BAT_PAGING", "never"),
    ("GH_PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("MANPAGER", "cat"),
    ("PAGER", "cat"),
    ("PSQL_PAGER", "cat"),
    ("SYSTEMD_PAGER", "cat"),
    ("APT_LISTCHANGES_FRONTEND", "none"),
    ("AWS_CLI_AUTO_PROMPT", "off"),
    ("COMPOSER_NO_INTERACTION", "1"),
    ("DEBIAN_FRONTEND", "noninteractive"),
    ("GCM_INTERACTIVE", "never"),
    ("GH_PROMPT_DISABLED", "1"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("NONINTERACTIVE", "1"),
    ("PIP_NO_INPUT", "1"),
    ("POETRY_NO_INTERACTION", "1"),
    ("SSH_ASKPASS_REQUIRE", "never"),
    ("TF_INPUT", "0"),
];

/// Returns the variables of [`BASE`] and all `LC_*` that are set.
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

/// Returns every variable of this process, for a caller that selects some.
pub(super) fn own_variables() -> impl Iterator<Item = (OsString, OsString)> {
    std::env::vars_os()
}

/// Splits a list of paths with `:` between them.
pub(super) fn paths_in(list: &OsStr) -> impl Iterator<Item = PathBuf> {
    std::env::split_paths(list)
}

/// Returns the variables that keep programs from waiting for a person.
pub(super) fn unattended() -> impl Iterator<Item = (OsString, OsString)> {
    UNATTENDED
        .iter()
        .map(|(name, value)| (name.into(), value.into()))
}

/// Sets a variable, whether it is there or not.
pub(super) fn set(
    env: &mut Vec<(OsString, OsString)>,
    name: impl Into<OsString>,
    value: impl Into<OsString>,
) {
    let name = name.into();
    env.retain(|(other, _)| *other != name);
    env.push((name, value.into()));
}

/// Whether a program of this name would be found with this environment's `PATH`. One with `/` in it is looked for where it
/// says, from the folder that it is to run in, which is not known here: it counts as found.
pub(super) fn is_found(program: &OsStr, env: &[(OsString, OsString)]) -> bool {
    if program.as_encoded_bytes().contains(&b'/') {
        return true;
    }
    let path = env.iter().find(|(name, _)| name == "PATH");
    path.is_some_and(|(_, path)| {
        paths_in(path).any(|folder| Path::new(&folder).join(program).is_file())
    })
}

fn is_passed(name: &str, names: &[&str], prefixes: &[&str]) -> bool {
    BASE.contains(&name)
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
