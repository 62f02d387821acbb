//! Keeps the latest output of tools while they run, for the user who watches.
//!
//! A tool adds its output as it arrives, and the last lines can be read at any time. This text is
//! not the result of the call: hooks check the result after the call has ended, and this text has
//! only passed the masking of secrets. So it belongs on the user's own screen or page, and must not
//! reach models, events or files. Start from [`RunningToolCallOutputs`].

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, Weak};

use schemars::JsonSchema;
use serde::Serialize;

use super::process::CapturedOutput;
use crate::lock::lock_ignoring_poison;
use crate::secret::SecretScanner;
use crate::text::escape_and_truncate_line;

/// Maximum number of bytes of a call's output that are kept in memory. A complete PEM key fits, so
/// that its first line, by which the masking recognizes the key, is not dropped before its last
/// line is shown.
const MAX_KEPT_OUTPUT_BYTES: usize = 16 << 10;

/// Maximum length of a returned line, in bytes; a longer one is cut.
const MAX_RETURNED_LINE_BYTES: usize = 400;

/// Minimum number of characters of a secret's beginning that are recognized, and removed, at the
/// end of an output. A shorter beginning stays.
const MIN_SECRET_PREFIX_CHARS: usize = 3;

/// Outputs of the calls that run in a session. Cheap to clone.
#[derive(Clone, Default)]
pub struct RunningToolCallOutputs(
    Arc<Mutex<HashMap<AgentAndToolCallId, Weak<RunningToolCallOutput>>>>,
);

/// Last lines of the output of a running call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RunningOutput {
    /// Agent that makes the call; `main` is the session's own.
    pub agent: String,
    /// Id of the running tool call.
    pub call: String,
    /// Last lines of the output, with secrets masked and without control characters.
    pub lines: Vec<String>,
}

/// Name of an agent and id of its call.
type AgentAndToolCallId = (String, String);

impl_partial_debug!(
    RunningToolCallOutputs,
    self,
    n_calls = lock_ignoring_poison(&self.0).len()
);

impl RunningToolCallOutputs {
    /// Registers the output of a running call. Others can read it until the last clone of the
    /// returned handle is dropped.
    #[must_use]
    pub fn open_call_output(&self, agent: &str, call: &str) -> Arc<RunningToolCallOutput> {
        let output = Arc::new(RunningToolCallOutput::default());
        let mut outputs = lock_ignoring_poison(&self.0);
        outputs.retain(|_, output| output.strong_count() > 0);
        let key = (agent.to_owned(), call.to_owned());
        outputs.insert(key, Arc::downgrade(&output));
        output
    }

    /// Returns the last lines of the output of a running call, at most `n_lines`, with secrets
    /// masked and without control characters. Empty if no such call runs or it has no output.
    #[must_use]
    pub fn last_lines(&self, agent: &str, call: &str, n_lines: usize) -> Vec<String> {
        let key = (agent.to_owned(), call.to_owned());
        let output = lock_ignoring_poison(&self.0)
            .get(&key)
            .and_then(Weak::upgrade);
        output.map_or_else(Vec::new, |output| output.last_lines(n_lines))
    }

    /// Returns the last lines of the outputs of all running calls, at most `n_lines` of each, by
    /// agent and call. Calls without output yet are left out.
    #[must_use]
    pub fn running_outputs(&self, n_lines: usize) -> Vec<RunningOutput> {
        let running: BTreeMap<AgentAndToolCallId, Arc<RunningToolCallOutput>> = {
            let outputs = lock_ignoring_poison(&self.0);
            let running = outputs.iter();
            running
                .filter_map(|(key, output)| Some((key.clone(), output.upgrade()?)))
                .collect()
        };
        let outputs = running.into_iter().map(|((agent, call), output)| {
            let lines = output.last_lines(n_lines);
            RunningOutput { agent, call, lines }
        });
        outputs.filter(|output| !output.lines.is_empty()).collect()
    }
}

/// Output of one running tool call, of which only the end is kept.
#[derive(Default)]
pub struct RunningToolCallOutput(Mutex<ToolCallOutputTail>);

impl_partial_debug!(
    RunningToolCallOutput,
    self,
    n_bytes = lock_ignoring_poison(&self.0).bytes.len()
);

#[derive(Default)]
struct ToolCallOutputTail {
    bytes: VecDeque<u8>,
    /// Names and values of secrets in the environment of the tool.
    secrets: Vec<(String, String)>,
    /// Lines that a terminal would show for the bytes. Cached until the next piece of output, so
    /// that redrawing the screen does not compute them again.
    shown: Option<Vec<String>>,
}

impl RunningToolCallOutput {
    /// Sets the names and values of secrets to mask, in addition to the secrets that the scanner
    /// finds by their form. Replaces the secrets that were set before.
    pub fn set_secrets_to_mask(&self, secrets: Vec<(String, String)>) {
        let mut end = lock_ignoring_poison(&self.0);
        end.secrets = secrets;
        end.shown = None;
    }

    /// Adds a piece of output of the running call.
    pub fn push(&self, bytes: &[u8]) {
        let mut end = lock_ignoring_poison(&self.0);
        end.shown = None;
        end.bytes.extend(bytes);
        let excess = end.bytes.len().saturating_sub(MAX_KEPT_OUTPUT_BYTES);
        if excess > 0 {
            // Also drop the rest of the line at which the kept bytes begin: it may begin in the
            // middle of a secret.
            let rest = end.bytes.iter().skip(excess);
            let cut = rest
                .take_while(|byte| !matches!(byte, b'\n' | b'\r'))
                .count();
            let n_dropped = end.bytes.len().min(excess + cut + 1);
            end.bytes.drain(..n_dropped);
        }
    }

    /// Returns the last lines, at most `n_lines`, with secrets masked and without control
    /// characters.
    pub(in crate::tool) fn last_lines(&self, n_lines: usize) -> Vec<String> {
        let mut end = lock_ignoring_poison(&self.0);
        let shown = match end.shown.take() {
            Some(shown) => shown,
            None => end.visible_lines(),
        };
        let last = shown.iter().skip(shown.len().saturating_sub(n_lines));
        let last = last.cloned().collect();
        end.shown = Some(shown);
        last
    }
}

impl ToolCallOutputTail {
    /// Returns the lines that a terminal would show, without the text at their end that may be the
    /// beginning of a secret.
    fn visible_lines(&self) -> Vec<String> {
        let bytes: Vec<u8> = self.bytes.iter().copied().collect();
        let mut shown = CapturedOutput::with_terminal_emulation(2 * MAX_KEPT_OUTPUT_BYTES);
        shown.push(&bytes);
        shown.flush_terminal_screen();
        let mut text = shown.text();
        for (name, value) in &self.secrets {
            text = text.replace(value.as_str(), &format!("[secret masked: {name}]"));
            text.truncate(length_before_partial_secret(&text, value));
        }
        if let Some(masked) = SecretScanner::shared().mask_secrets(&text) {
            text = masked.text;
        }
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        let clean = |line: &str| escape_and_truncate_line(line.trim_end(), MAX_RETURNED_LINE_BYTES);
        lines.map(clean).collect()
    }
}

/// Returns the length of a text, in bytes, without the beginning of `secret` at its end, because
/// the rest of the secret may follow.
pub(in crate::tool) fn length_before_partial_secret(text: &str, secret: &str) -> usize {
    let longest = secret
        .char_indices()
        .map(|(at, _)| at)
        .skip(MIN_SECRET_PREFIX_CHARS)
        .filter(|at| secret.get(..*at).is_some_and(|begun| text.ends_with(begun)))
        .last();
    text.len() - longest.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_what_a_terminal_would_show() {
        let outputs = RunningToolCallOutputs::default();
        assert!(outputs.last_lines("main", "c1", 3).is_empty());
        let output = outputs.open_call_output("main", "c1");
        output.push(b"one\ntwo\n\n\x1b[31mthree\x1b[0m\n10 %\r5");
        output.push(b"0 %");
        assert_eq!(outputs.last_lines("main", "c1", 2), ["three", "50 %"]);
        assert!(outputs.last_lines("sub-1", "c1", 2).is_empty());
        let silent = outputs.open_call_output("main", "c0");
        let running = outputs.running_outputs(1);
        let expected = RunningOutput {
            agent: "main".to_owned(),
            call: "c1".to_owned(),
            lines: vec!["50 %".to_owned()],
        };
        assert_eq!(running, [expected]);
        drop(silent);
        drop(output);
        assert!(
            outputs.last_lines("main", "c1", 2).is_empty(),
            "the call has ended"
        );
    }

    #[test]
    fn secrets_are_masked_also_where_they_come_in_pieces_or_are_cut() {
        let outputs = RunningToolCallOutputs::default();
        let output = outputs.open_call_output("main", "c1");
        output.set_secrets_to_mask(vec![("TOKEN".to_owned(), "hunter2hunter2".to_owned())]);
        output.push(b"key hunter2h");
        assert_eq!(outputs.last_lines("main", "c1", 9), ["key"], "begun");
        output.push(format!("unter2\nAKIA{}\n", "IOSFODNN7EXAMPLF").as_bytes());
        let lines = outputs.last_lines("main", "c1", 9).join("\n");
        assert!(lines.contains("key [secret masked: TOKEN]"), "{lines}");
        assert!(!lines.contains("IOSFODNN"), "{lines}");
        output.push(&b"hunter2".repeat(MAX_KEPT_OUTPUT_BYTES));
        assert!(
            outputs.last_lines("main", "c1", 9).is_empty(),
            "a cut line is left out"
        );
        output.push(b"\nlast\n");
        assert_eq!(outputs.last_lines("main", "c1", 9), ["last"]);
        // A progress bar writes its line again and again.
        output.push(&b"50 %\r".repeat(MAX_KEPT_OUTPUT_BYTES));
        assert_eq!(outputs.last_lines("main", "c1", 9), ["50 %"]);
    }
}
