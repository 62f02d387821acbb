//! Formats the result of a command for the model: its output, its exit status, and the limit that
//! it hit.
//!
//! If the confinement was the likely cause of a failure, a line names the setting to change (see
//! `cause`). Start from [`FinishedCommandAnswer`].

use super::super::ToolOutput;
use super::super::process::confine::ConfinementPermissions;
use super::super::process::{FinishedProcess, ProcessEndReason};
use super::cause::{describe_file_size_limit, find_failure_cause};

/// Number of the signal (SIGXFSZ) that ends a program which exceeds the file size limit, on Linux.
const SIGXFSZ: i32 = 25;

/// Number that shells add to the signal number to form the exit code of a program that a signal
/// ended.
const SIGNAL_EXIT_CODE_OFFSET: i32 = 128;

/// Minimum number of removed bytes of output for which the answer says that bytes were removed.
const OUTPUT_REMOVAL_NOTE_THRESHOLD_BYTES: u64 = 1024;

pub(super) struct FinishedCommandAnswer<'a> {
    pub(super) finished: &'a FinishedProcess,
    /// Deadline of the call, in seconds.
    pub(super) seconds: u64,
    /// Notes about files that the command left and that were renamed, because git would run them.
    pub(super) refused: &'a [String],
    /// Confinement of the command, if it had one.
    pub(super) confine: Option<&'a ConfinementPermissions>,
    /// Names and values of secrets in the command's environment.
    pub(super) secrets: Vec<(String, String)>,
}

impl FinishedCommandAnswer<'_> {
    pub(super) fn format_output(&self) -> ToolOutput {
        let finished = self.finished;
        let mut content = finished.stdout.text();
        for (name, value) in &self.secrets {
            if content.contains(value.as_str()) {
                content = content.replace(value.as_str(), &format!("[secret masked: {name}]"));
            }
        }
        if !content.is_empty() && !content.ends_with('\n') {
            content.push('\n');
        }
        let ending =
            describe_process_ending(finished.ending, self.seconds, "the call was cancelled");
        let background = if finished.stopped_background {
            "; processes left in the background were stopped"
        } else {
            ""
        };
        let cause = self.describe_likely_cause(&content);
        let mut content = append_renamed_file_notes(content, self.refused);
        let cleaned = finished.stdout.n_removed_bytes();
        if cleaned >= OUTPUT_REMOVAL_NOTE_THRESHOLD_BYTES {
            content.push_str(&format!(
                "[left out: {cleaned} bytes of terminal control sequences and overwritten lines]\n"
            ));
        }
        if let Some(cause) = cause {
            content.push_str(&cause);
            content.push('\n');
        }
        content.push_str(&format!("[{ending}{background}]"));
        ToolOutput {
            content: content.into(),
            is_error: finished.ending != ProcessEndReason::Exited(0) || !self.refused.is_empty(),
            ..ToolOutput::default()
        }
    }

    /// Returns a line that names the likely cause of a failed command: a limit, such as that on
    /// file sizes, or the confinement. `None` if neither is likely.
    fn describe_likely_cause(&self, content: &str) -> Option<String> {
        match self.finished.ending {
            ProcessEndReason::Signaled(SIGXFSZ) => {}
            ProcessEndReason::Exited(code) if code == SIGNAL_EXIT_CODE_OFFSET + SIGXFSZ => {}
            ProcessEndReason::Exited(0)
            | ProcessEndReason::Deadline
            | ProcessEndReason::Cancelled
            | ProcessEndReason::Exceeded(_) => {
                return None;
            }
            ProcessEndReason::Exited(_) | ProcessEndReason::Signaled(_) => {
                return self
                    .confine
                    .and_then(|confinement| find_failure_cause(content, confinement));
            }
        }
        let limits = self.confine.map(|confinement| &confinement.limits);
        Some(format!("[limit: {}]", describe_file_size_limit(limits)))
    }
}

/// Describes how a command ended. `seconds` is its deadline. `cancelled` is the reason why it was
/// cancelled, if it was.
pub(super) fn describe_process_ending(
    ending: ProcessEndReason,
    seconds: u64,
    cancelled: &str,
) -> String {
    match ending {
        ProcessEndReason::Exited(code) => format!("exit code {code}"),
        ProcessEndReason::Signaled(signal) => format!("ended by signal {signal}"),
        ProcessEndReason::Deadline => format!("stopped: it ran longer than {seconds} s"),
        ProcessEndReason::Cancelled => format!("stopped: {cancelled}"),
        ProcessEndReason::Exceeded(limit) => format!("stopped: {limit}"),
    }
}

/// Appends the notes about renamed files to the text, one line for each.
pub(super) fn append_renamed_file_notes(mut text: String, refused: &[String]) -> String {
    for line in refused {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&format!("[refused: {line}]\n"));
    }
    text
}
