//! Detects from the log of a session whether turns may have changed files after the last snapshot.
//! Start from [`detect_lost_files`].

use serde::Deserialize;

use crate::replay::StoredSessionBytes;

/// Report that changes of files may be missing, because a worker died or could not store a
/// snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostFileChangesReport {
    /// Id of the input whose turn was interrupted and will be continued.
    pub interrupted: Option<String>,
}

impl LostFileChangesReport {
    /// Returns the message that tells the model that changes of files were lost.
    #[must_use]
    pub fn text(&self) -> &'static str {
        "Not all changes of files in this session were stored: its worker may have ended in a turn. The files are \
         now as they were when they were stored last; changes since then are missing. Check the files before you \
         rely on them."
    }
}

/// Fields of a log entry that mark the beginning or end of a turn or of a tool call.
#[derive(Deserialize)]
struct TurnLogEntry {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    input_id: Option<String>,
}

impl TurnLogEntry {
    fn may_change_files(&self) -> bool {
        ["turn-start", "tool-start"].contains(&self.kind.as_str())
    }
}

/// Detects changes of files that may be lost. `None` if no turn and no tool call began after the
/// last snapshot.
pub(super) fn detect_lost_files(read: &StoredSessionBytes) -> Option<LostFileChangesReport> {
    let stored = read.snapshot.as_ref().map_or(0, |(_, offset)| *offset);
    let (mut offset, mut is_lost, mut interrupted) = (read.start, false, None);
    for line in read.bytes.split_inclusive(|byte| *byte == b'\n') {
        if let Ok(line) = serde_json::from_slice::<TurnLogEntry>(line) {
            is_lost |= line.may_change_files() && offset >= stored;
            match line.kind.as_str() {
                "turn-start" => interrupted = line.input_id,
                "turn-end" => interrupted = None,
                _ => {}
            }
        }
        offset += line.len() as u64;
    }
    is_lost.then_some(LostFileChangesReport { interrupted })
}

/// Returns the number of turns and tool calls in the log, each of which may have changed files.
pub(super) fn count_turns_and_calls(read: &StoredSessionBytes) -> usize {
    let lines = read.bytes.split(|byte| *byte == b'\n');
    let lines = lines.filter_map(|line| serde_json::from_slice::<TurnLogEntry>(line).ok());
    lines.filter(TurnLogEntry::may_change_files).count()
}

/// Whether the log contains the beginning and the end of the turn for an input.
pub(super) fn has_input_turn_ended(read: &StoredSessionBytes, input: &str) -> bool {
    let mut of_turn = None;
    for line in read.bytes.split(|byte| *byte == b'\n') {
        let Ok(line) = serde_json::from_slice::<TurnLogEntry>(line) else {
            continue;
        };
        match line.kind.as_str() {
            "turn-start" => of_turn = line.input_id,
            "turn-end" if of_turn.take().as_deref() == Some(input) => return true,
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(lines: &[&str], n_stored: usize) -> Option<LostFileChangesReport> {
        let length = |lines: &[&str]| lines.iter().map(|line| line.len() as u64 + 1).sum();
        detect_lost_files(&StoredSessionBytes {
            bytes: format!("{}\n", lines.join("\n")).into_bytes(),
            snapshot: (n_stored > 0).then(|| ("x".to_owned(), length(&lines[..n_stored]))),
            ..StoredSessionBytes::default()
        })
    }

    #[test]
    fn turns_and_calls_after_the_last_snapshot_are_lost_and_others_are_not() {
        const BEGIN: &str = "{\"type\":\"turn-start\",\"input_id\":\"i\"}";
        const CALL: &str = "{\"type\":\"tool-start\"}";
        const END: &str = "{\"type\":\"turn-end\"}";
        const OTHER: &str = "{\"type\":\"message\"}";
        let of = |interrupted: Option<&str>| {
            let interrupted = interrupted.map(str::to_owned);
            Some(LostFileChangesReport { interrupted })
        };
        assert_eq!(lost(&[BEGIN, CALL, END], 3), None);
        assert_eq!(lost(&[BEGIN, CALL, END, OTHER], 3), None);
        assert_eq!(lost(&[BEGIN, CALL, OTHER], 2), None);
        assert_eq!(lost(&[BEGIN, CALL, END], 0), of(None));
        assert_eq!(lost(&[BEGIN, CALL, END, BEGIN], 3), of(Some("i")));
        assert_eq!(lost(&[BEGIN, CALL, END, BEGIN, END], 3), of(None));
        assert_eq!(lost(&[BEGIN, CALL, CALL], 2), of(Some("i")));
        assert_eq!(lost(&[OTHER], 0), None);
    }
}
