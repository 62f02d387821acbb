//! Recognizes in the output of a failed command that its confinement or a limit was the cause, and
//! names the setting to change.
//!
//! Reads only the output and the confinement, never the disk: a hint must not reveal whether a file
//! exists that commands cannot see. Start from [`find_failure_cause`].

use std::path::Path;

use super::super::process::confine::{ConfinementPermissions, Limits};
use crate::text::escape_and_truncate_line;

/// Size of the end of the output that is searched, in bytes. Programs print the cause last.
const FAILURE_CAUSE_SEARCH_BYTES: usize = 4096;

/// Maximum length of a path that a hint quotes, in bytes.
const MAX_QUOTED_PATH_BYTES: usize = 200;

/// Directories of which each command gets a private instance. No setting makes the machine's files
/// in these directories visible to commands.
const FOLDERS_PRIVATE_TO_EACH_COMMAND: &[&str] = &["/dev", "/proc", "/run", "/tmp", "/var/tmp"];

/// Messages, in lower case, of name lookups and connections that fail without a network.
const MISSING_NETWORK_ERROR_PHRASES: &[&str] = &[
    "could not resolve host",
    "could not resolve proxy",
    "couldn't resolve host",
    "temporary failure in name resolution",
    "name or service not known",
    "no address associated with hostname",
    "nodename nor servname provided",
    "failed to lookup address",
    "network is unreachable",
    "enetunreach",
    "enotfound",
    "eai_again",
];

/// Messages, in lower case, of a refused connection. Without a network, commands cannot reach
/// servers on this machine either.
const CONNECTION_REFUSED_ERROR_PHRASES: &[&str] = &[
    "connection refused",
    "couldn't connect to server",
    "could not connect to server",
    "econnrefused",
];

/// Phrases, in lower case, by which a command's error output shows a denied access.
const ACCESS_DENIED_ERROR_PHRASES: &[&str] = &[
    "permission denied",
    "operation not permitted",
    "eacces",
    "eperm",
];

/// Messages, in lower case, of a write to a read-only file system.
const READ_ONLY_FILE_SYSTEM_ERROR_PHRASES: &[&str] = &["read-only file system", "erofs"];

/// Fragments, in lower case, of error messages about a file that does not exist or that the
/// confinement hides from commands.
const FILE_NOT_FOUND_ERROR_PHRASES: &[&str] = &["no such file or directory", "enoent"];

const WRITABLE_FOLDERS_HINT: &str = "commands may change only the workspace, without the settings and hooks of its repository, and $TMPDIR; `write` in \
     [sandbox] of config.toml adds folders";

/// Returns a line in brackets that names the likely cause of a failure, if the confinement explains
/// it.
pub(super) fn find_failure_cause(
    content: &str,
    confinement: &ConfinementPermissions,
) -> Option<String> {
    let start = content.len().saturating_sub(FAILURE_CAUSE_SEARCH_BYTES);
    let last = &content[content.ceil_char_boundary(start)..];
    let lower = last.to_lowercase();
    if let Some(limit) = describe_reached_limit(&lower, &confinement.limits) {
        return Some(format!("[limit: {limit}]"));
    }
    if !confinement.network && contains_any_word(&lower, MISSING_NETWORK_ERROR_PHRASES) {
        return Some(
            "[sandbox: commands have no network; `network = true` in [sandbox] of config.toml allows it]"
                .to_owned(),
        );
    }
    if !confinement.network && contains_any_word(&lower, CONNECTION_REFUSED_ERROR_PHRASES) {
        return Some(
            "[sandbox: commands have no network and do not reach 127.0.0.1 of this machine; `network = true` in [sandbox] of \
             config.toml allows it]"
                .to_owned(),
        );
    }
    // Search the lines from the last one: the last message about a file most likely ended the
    // command.
    let hint = last
        .lines()
        .rev()
        .find_map(|line| explain_blocked_path(line, confinement))?;
    Some(format!("[sandbox: {hint}]"))
}

fn contains_any_word(text: &str, words: &[&str]) -> bool {
    words.iter().any(|word| text.contains(word))
}

/// Describes the limit on the size of a file that a command writes.
pub(super) fn describe_file_size_limit(limits: Option<&Limits>) -> String {
    match limits {
        Some(limits) => format!(
            "a file of a command may have {} MiB (`file_mb` in [sandbox] of config.toml), or less where the shell that started \
             rind has a lower `ulimit -f`",
            limits.file_bytes >> 20
        ),
        None => "a file reached the limit of the shell that started rind (`ulimit -f`)".to_owned(),
    }
}

/// Describes the limit that the output says was reached; `None` if it names none. `lower` is the
/// output in lower case.
fn describe_reached_limit(lower: &str, limits: &Limits) -> Option<String> {
    let is_file = [
        "file size limit exceeded",
        "file too large",
        "filesize limit exceeded",
    ];
    let is_full = ["resource temporarily unavailable", "os error 11", "eagain"];
    if contains_any_word(lower, &is_file) {
        return Some(describe_file_size_limit(Some(limits)));
    }
    if contains_any_word(lower, &is_full)
        && contains_any_word(lower, &["fork", "thread", "spawn", "clone"])
    {
        return Some(format!(
            "a command may have {} processes and threads (`processes` in [sandbox] of config.toml)",
            limits.processes
        ));
    }
    lower.contains("no space left on device").then(|| {
        format!(
            "if the full folder is $TMPDIR or /tmp: it may hold {} MiB (`temporary_mb` in [sandbox] of config.toml)",
            limits.temporary_bytes >> 20
        )
    })
}

/// Explains a message about a file that commands cannot read or change; `None` for any other
/// message.
fn explain_blocked_path(line: &str, confinement: &ConfinementPermissions) -> Option<String> {
    let lower = line.to_lowercase();
    let is_read_only = contains_any_word(&lower, READ_ONLY_FILE_SYSTEM_ERROR_PHRASES);
    let is_refused = contains_any_word(&lower, ACCESS_DENIED_ERROR_PHRASES);
    if !is_read_only && !is_refused && !contains_any_word(&lower, FILE_NOT_FOUND_ERROR_PHRASES) {
        return None;
    }
    let is_in = |paths: &[std::path::PathBuf], path: &Path| {
        paths.iter().any(|allowed| path.starts_with(allowed))
    };
    let outside = find_absolute_paths(line)
        .find(|path| !is_in(&confinement.write, path) && !is_in_command_private_folder(path));
    match outside {
        Some(path) if !is_in(&confinement.read, path) && !is_read_only => {
            let path = escape_and_truncate_line(&path.to_string_lossy(), MAX_QUOTED_PATH_BYTES);
            Some(format!(
                "commands do not see {path}, whether it exists or not; `read` in [sandbox] of config.toml shows them folders"
            ))
        }
        Some(_) if is_read_only || is_refused => Some(WRITABLE_FOLDERS_HINT.to_owned()),
        None if is_read_only => Some(WRITABLE_FOLDERS_HINT.to_owned()),
        _ => None,
    }
}

fn is_in_command_private_folder(path: &Path) -> bool {
    FOLDERS_PRIVATE_TO_EACH_COMMAND
        .iter()
        .any(|own| path.starts_with(own))
}

/// Returns the absolute paths in a message, without the quotes and colons around them.
fn find_absolute_paths(line: &str) -> impl Iterator<Item = &Path> {
    let ends = |c: char| c.is_whitespace() || "'\"`‘’“”:;,()[]<>=".contains(c);
    line.split(ends)
        .filter(|word| word.len() > 1 && word.starts_with('/'))
        .map(Path::new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::process::confine::ConfinementMechanism;

    fn confinement(network: bool) -> ConfinementPermissions {
        ConfinementPermissions {
            helper: "rind".into(),
            mechanism: ConfinementMechanism::Namespaces,
            write: vec!["/srv/ada/code".into()],
            read: vec!["/usr".into(), "/etc".into()],
            hidden: Vec::new(),
            network,
            limits: Limits::default(),
            git_settings: String::new(),
            records: None,
        }
    }

    #[test]
    fn a_failure_that_the_confinement_explains_names_its_setting() {
        let rows = [
            ("curl: (6) Could not resolve host: example.com", "`network"),
            (
                "npm error code EAI_AGAIN\nnpm error errno EAI_AGAIN",
                "`network",
            ),
            (
                "connect: Network is unreachable\nmake: *** [x] Error 1",
                "`network",
            ),
            (
                "curl: (7) Failed to connect to 127.0.0.1 port 8080 after 0 ms: Couldn't connect to server",
                "127.0.0.1 of this machine; `network",
            ),
            (
                "Error: connect ECONNREFUSED 127.0.0.1:5432",
                "127.0.0.1 of this machine; `network",
            ),
            (
                "touch: cannot touch '/opt/x': Read-only file system",
                "`write`",
            ),
            (
                "error: could not lock config file .git/config: Read-only file system",
                "`write`",
            ),
            ("bash: line 1: /usr/x: Permission denied", "`write`"),
            (
                "cat: /srv/ada/.ssh/config: No such file or directory",
                "`read`",
            ),
            (
                "Error: ENOENT: no such file or directory, open '/mnt/data.csv'",
                "`read`",
            ),
            (
                "cp: cannot create regular file '/srv/ada/out': Permission denied",
                "`read`",
            ),
            ("write: No space left on device", "`temporary_mb`"),
            ("fork: Resource temporarily unavailable", "`processes`"),
        ];
        for (output, setting) in rows {
            let cause = find_failure_cause(output, &confinement(false));
            let cause = cause.unwrap_or_else(|| panic!("nothing for {output:?}"));
            assert!(cause.contains(setting), "{output:?} gives {cause:?}");
        }
    }

    #[test]
    fn a_failure_of_the_command_itself_gets_no_cause() {
        let rows = [
            "assertion failed",
            "✘ [ERROR] Could not resolve \"./page\"",
            "cat: notes.txt: No such file or directory",
            "cat: /srv/ada/code/notes.txt: No such file or directory",
            "./run.sh: Permission denied",
            "ls: cannot access '/usr/lib/none': No such file or directory",
            "cat: /tmp/a: No such file or directory",
        ];
        for output in rows {
            assert_eq!(
                find_failure_cause(output, &confinement(false)),
                None,
                "{output}"
            );
        }
        for failed in [
            "curl: (6) Could not resolve host: example.com",
            "Error: connect ECONNREFUSED 127.0.0.1:5432",
        ] {
            assert_eq!(find_failure_cause(failed, &confinement(true)), None);
        }
    }
}
