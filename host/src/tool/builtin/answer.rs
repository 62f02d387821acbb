//! Result of a command for the model: its output, its exit status, and the limit that it hit.
//!
//! A command that hits a resource limit usually fails with a message of some library. This module
//! recognizes such messages and adds the name of the setting to change. Start from [`ToolAnswer`].

use super::super::ToolOutput;
use super::super::process::confine::Limits;
use super::super::process::{Ending, Finished};

/// Signal that ends a program which exceeds the file size limit, on every Linux.
const SIGXFSZ: i32 = 25;

/// Offset that shells add to the signal number in an exit code.
const SIGNALED: i32 = 128;

/// Size of the tail of the output that is searched for messages about a limit, in bytes. Programs
/// print the cause last.
const LAST_BYTES: usize = 4096;

/// Minimum number of removed bytes that is worth a note. Below it, the model misses nothing.
const SAID_BYTES: u64 = 1024;

/// A resource limit, recognized by the error messages that programs print when they hit it.
struct LimitHit {
    /// All outer lists must match; of each inner list, one text must occur. Case-insensitive.
    words: &'static [&'static [&'static str]],
    /// Describes the limit and its setting.
    said: fn(&Limits) -> String,
}

const HITS: &[LimitHit] = &[
    LimitHit {
        words: &[&[
            "file size limit exceeded",
            "file too large",
            "filesize limit exceeded",
        ]],
        said: |limits| said_file(Some(limits)),
    },
    LimitHit {
        words: &[
            &["resource temporarily unavailable", "os error 11", "eagain"],
            &["fork", "thread", "spawn", "clone"],
        ],
        said: |limits| {
            format!(
                "a command may have {} processes and threads (`processes` in [sandbox] of config.toml)",
                limits.processes
            )
        },
    },
    LimitHit {
        words: &[&["no space left on device"]],
        said: |limits| {
            format!(
                "where the full folder is $TMPDIR or /tmp, it may hold {} MiB (`temporary_mb` in [sandbox] of config.toml)",
                limits.temporary_bytes >> 20
            )
        },
    },
];

fn said_file(limits: Option<&Limits>) -> String {
    match limits {
        Some(limits) => format!(
            "a file of a command may have {} MiB (`file_mb` in [sandbox] of config.toml), or less where the shell that started \
             rind has a lower `ulimit -f`",
            limits.file_bytes >> 20
        ),
        None => "a file reached the limit of the shell that started rind (`ulimit -f`)".to_owned(),
    }
}

pub(super) struct ToolAnswer<'a> {
    pub(super) finished: &'a Finished,
    /// Deadline of the call, in seconds.
    pub(super) seconds: u64,
    /// Lines about files that the command left and that were refused.
    pub(super) refused: &'a [String],
    /// Limits of the command, if it had any.
    pub(super) limits: Option<&'a Limits>,
    /// Names and values of secrets in the command's environment.
    pub(super) secrets: Vec<(String, String)>,
}

impl ToolAnswer<'_> {
    pub(super) fn output(&self) -> ToolOutput {
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
        let ending = ending_words(finished.ending, self.seconds, "the call was cancelled");
        let background = if finished.stopped_background {
            "; processes left in the background were stopped"
        } else {
            ""
        };
        let hit = self.hit_limit(&content);
        let mut content = with_notes(content, self.refused);
        let cleaned = finished.stdout.cleaned_bytes();
        if cleaned >= SAID_BYTES {
            content.push_str(&format!(
                "[{cleaned} bytes of terminal control and of lines that were overwritten are left out]\n"
            ));
        }
        if let Some(hit) = hit {
            content.push_str(&format!("[limit: {hit}]\n"));
        }
        content.push_str(&format!("[{ending}{background}]"));
        ToolOutput {
            content: content.into(),
            is_error: finished.ending != Ending::Exited(0) || !self.refused.is_empty(),
            ..ToolOutput::default()
        }
    }

    /// Returns the limit that a failed command probably hit.
    fn hit_limit(&self, content: &str) -> Option<String> {
        match self.finished.ending {
            Ending::Signaled(SIGXFSZ) => return Some(said_file(self.limits)),
            Ending::Exited(code) if code == SIGNALED + SIGXFSZ => {
                return Some(said_file(self.limits));
            }
            Ending::Exited(0) | Ending::Deadline | Ending::Cancelled | Ending::Exceeded(_) => {
                return None;
            }
            Ending::Exited(_) | Ending::Signaled(_) => {}
        }
        let start = content.len().saturating_sub(LAST_BYTES);
        let last = content[content.ceil_char_boundary(start)..].to_lowercase();
        let is_hit = |hit: &&LimitHit| {
            let mut words = hit.words.iter();
            words.all(|any| any.iter().any(|word| last.contains(word)))
        };
        let limits = self.limits?;
        HITS.iter().find(is_hit).map(|hit| (hit.said)(limits))
    }
}

/// Describes the end of a command with this deadline in seconds. `cancelled` is the reason why it was
/// cancelled, if it was.
pub(super) fn ending_words(ending: Ending, seconds: u64, cancelled: &str) -> String {
    match ending {
        Ending::Exited(code) => format!("exit code {code}"),
        Ending::Signaled(signal) => format!("ended by signal {signal}"),
        Ending::Deadline => format!("stopped: it ran longer than {seconds} s"),
        Ending::Cancelled => format!("stopped: {cancelled}"),
        Ending::Exceeded(limit) => format!("stopped: {limit}"),
    }
}

/// Appends a line for each refused file to the text.
pub(super) fn with_notes(mut text: String, refused: &[String]) -> String {
    for line in refused {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&format!("[refused: {line}]\n"));
    }
    text
}
