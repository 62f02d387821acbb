//! Selects the environment of started processes by an allowlist, because a denylist would leak
//! every key that it does not list.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Variables that every process receives. None of them contains a secret.
const BASE_ENVIRONMENT_VARIABLES: &[&str] = &["PATH", "HOME", "LANG", "TERM", "USER", "TMPDIR"];

/// Variables that keep programs from waiting for a user. Commands and scripts have no terminal and
/// an empty standard input, so an editor, a pager or a prompt would hang until the timeout.
///
/// With `true` as the editor, git keeps its proposed message (`commit --amend`,
/// `rebase --continue`), and `git commit` without a message fails with an error.
const NON_INTERACTIVE_VARIABLES: &[(&str, &str)] = &[
    ("EDITOR", "true"),
    ("GIT_EDITOR", "true"),
    ("GIT_SEQUENCE_EDITOR", "true"),
    ("VISUAL", "true"),
    // Vim with an empty standard input reads keys from its output and waits forever. This command
    // makes Vim exit with an error. `vim -c wq` still works, because Vim runs the commands of `-c`
    // first and exits before.
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

/// Returns those variables of this process that are in [`BASE_ENVIRONMENT_VARIABLES`] or begin with
/// `LC_`.
#[must_use]
pub fn base_environment() -> Vec<(OsString, OsString)> {
    base_environment_with_variables(&[], &[])
}

/// Returns [`base_environment`] together with the variables that have one of these names or
/// prefixes.
#[must_use]
pub fn base_environment_with_variables(
    names: &[&str],
    prefixes: &[&str],
) -> Vec<(OsString, OsString)> {
    std::env::vars_os()
        .filter(|(name, _)| {
            name.to_str()
                .is_some_and(|name| is_variable_name_selected(name, names, prefixes))
        })
        .collect()
}

/// Returns all environment variables of this process, from which callers select some.
pub(super) fn variables_of_this_process() -> impl Iterator<Item = (OsString, OsString)> {
    std::env::vars_os()
}

/// Splits a list of paths that are separated by `:`.
pub(super) fn split_path_list(list: &OsStr) -> impl Iterator<Item = PathBuf> {
    std::env::split_paths(list)
}

/// Returns the variables that keep programs from waiting for a user.
pub(super) fn noninteractive_env_variables() -> impl Iterator<Item = (OsString, OsString)> {
    NON_INTERACTIVE_VARIABLES
        .iter()
        .map(|(name, value)| (name.into(), value.into()))
}

/// Adds an environment variable, or replaces its value.
pub(super) fn set_environment_variable(
    env: &mut Vec<(OsString, OsString)>,
    name: impl Into<OsString>,
    value: impl Into<OsString>,
) {
    let name = name.into();
    env.retain(|(other, _)| *other != name);
    env.push((name, value.into()));
}

/// Whether a directory in `PATH` of the environment `env` contains the program. A path with `/`
/// counts as found: it may be relative to the working directory of the program, which this function
/// does not know.
pub(super) fn is_program_in_path(program: &OsStr, env: &[(OsString, OsString)]) -> bool {
    if program.as_encoded_bytes().contains(&b'/') {
        return true;
    }
    let path = env.iter().find(|(name, _)| name == "PATH");
    path.is_some_and(|(_, path)| {
        split_path_list(path).any(|folder| Path::new(&folder).join(program).is_file())
    })
}

fn is_variable_name_selected(name: &str, names: &[&str], prefixes: &[&str]) -> bool {
    BASE_ENVIRONMENT_VARIABLES.contains(&name)
        || names.contains(&name)
        || name.starts_with("LC_")
        || prefixes.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_names_and_prefixes_are_passed_on() {
        let passed = |name| is_variable_name_selected(name, &["CARGO_HOME"], &["CARGO_NET_"]);
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
