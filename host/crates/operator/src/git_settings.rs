//! Selects the git settings for confined commands. The user's settings may contain passwords and
//! commands, so confined commands get only harmless keys such as the commit author.

use std::path::PathBuf;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::environment::join_folders_to_path_variable;
use rind_lib::tool::process::confine::find_program_in_folders;
use rind_lib::tool::process::{ProcessEndReason, ProcessSpec, base_environment};

/// Git settings whose values contain neither a secret nor a program. `safe.directory` may occur
/// several times.
const SAFE_GIT_SETTING_NAMES: &[&str] = &[
    "core.autocrlf",
    "core.eol",
    "core.excludesfile",
    "core.quotepath",
    "diff.algorithm",
    "init.defaultbranch",
    "merge.conflictstyle",
    "pull.rebase",
    "push.default",
    "safe.directory",
    "user.email",
    "user.name",
];

const GIT_COMMAND_TIMEOUT: Duration = Duration::from_secs(5);

const MAX_GIT_OUTPUT_BYTES: usize = 256 * 1024;

/// Returns the user's git settings with the keys [`SAFE_GIT_SETTING_NAMES`], in the format of a git
/// configuration file; empty if there are no such settings, or no git in `folders`. Only runs git
/// from `folders`, because git runs unconfined and a command may have placed another git into a
/// folder of `PATH`.
pub(super) async fn read_user_git_settings(folders: &[PathBuf]) -> String {
    let Some(git) = find_program_in_folders("git", folders.iter().cloned()) else {
        return String::new();
    };
    let mut env = base_environment();
    let path = join_folders_to_path_variable(folders);
    env.retain(|(name, _)| name != "PATH");
    env.push(("PATH".into(), path));
    let process = ProcessSpec {
        args: ["config", "--global", "--includes", "--null", "--list"]
            .map(Into::into)
            .to_vec(),
        env,
        deadline: GIT_COMMAND_TIMEOUT,
        capture_bytes: MAX_GIT_OUTPUT_BYTES,
        // Run outside of any repository, so that the settings of a repository do not apply.
        ..ProcessSpec::new_unconfined(git, "/")
    };
    match process.run(&CancellationToken::new()).await {
        Ok(finished) if finished.ending == ProcessEndReason::Exited(0) => {
            format_safe_git_settings(&finished.stdout.text())
        }
        _ => String::new(),
    }
}

/// Converts those of the `key\nvalue\0` settings whose keys are in [`SAFE_GIT_SETTING_NAMES`] to
/// the format of a git configuration file.
fn format_safe_git_settings(list: &str) -> String {
    let mut text = String::new();
    for (key, value) in list.split('\0').filter_map(|entry| entry.split_once('\n')) {
        let Some((section, name)) = key
            .split_once('.')
            .filter(|_| SAFE_GIT_SETTING_NAMES.contains(&key))
        else {
            continue;
        };
        let value = value
            .replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\n', "\\n");
        text.push_str(&format!("[{section}]\n\t{name} = \"{value}\"\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_keys_are_passed_on_and_their_values_are_quoted() {
        let list = "user.name\nA \"B\" \\ C\0credential.helper\n!steal\0user.email\na@b\0url.https://token@x/.insteadof\ny\0\
                    alias.x\n!run\0core.fsmonitor\nrun\0safe.directory\n/a\0safe.directory\n/b\0";
        assert_eq!(
            format_safe_git_settings(list),
            "[user]\n\tname = \"A \\\"B\\\" \\\\ C\"\n[user]\n\temail = \"a@b\"\n[safe]\n\tdirectory = \
             \"/a\"\n[safe]\n\tdirectory = \"/b\"\n"
        );
    }
}
