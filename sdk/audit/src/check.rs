//! Checks a log: each line must hold the hash of the one before it, and the last must be the one
//! that the session remembers.

use serde::Serialize;

use super::{Head, Line, hash, root};

/// A log that was read.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Checked {
    /// The lines that could be read.
    pub lines: Vec<Line>,
    /// First break of the chain, as `FILE:LINE: why`; `None` if the chain is intact.
    pub broken: Option<String>,
    /// Events that the session records and the log lacks.
    pub gaps: Vec<String>,
    /// Remarks that break nothing.
    pub notes: Vec<String>,
}

impl Checked {
    /// Whether nothing was touched and nothing is missing.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.broken.is_none() && self.gaps.is_empty()
    }
}

/// Reads and checks the log of a session. `files` are its files in order, each with its name and
/// bytes; `head` is the head that the session remembers.
#[must_use]
pub fn check(session: &str, files: &[(String, Vec<u8>)], head: Option<&Head>) -> Checked {
    let mut checked = Checked::default();
    let mut last = (0, root(session));
    let mut at = "the log".to_owned();
    let head = head.filter(|head| head.session == session);
    for (name, bytes) in files {
        for (number, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
            at = format!("{name}:{}", number + 1);
            match follow(session, line, &mut last, head) {
                Ok(line) => {
                    if line.kind() == "torn" {
                        let note = "a line before this one was cut off and is ignored";
                        checked.notes.push(format!("{at}: {note}"));
                    }
                    checked.lines.push(line);
                }
                Err((why, line)) => {
                    checked.broken.get_or_insert(format!("{at}: {why}"));
                    checked.lines.extend(line.map(|line| *line));
                }
            }
        }
    }
    match head {
        Some(head) if head.n > last.0 => {
            let why = if checked.lines.is_empty() {
                format!("it is gone, and the session knows of {} lines", head.n)
            } else {
                format!(
                    "{at}: the log ends at line {}, and the session knows of {}",
                    last.0, head.n
                )
            };
            checked.broken.get_or_insert(why);
        }
        Some(_) => {}
        None => {
            let note = "the session has no record of the log's last line, so lines removed from the end cannot be detected";
            checked.notes.push(note.to_owned());
        }
    }
    checked
}

/// Reason why a line does not follow, and the line where it can be read.
type Broken = (String, Option<Box<Line>>);

/// Whether a line follows on `last`, number and hash of the one before it; it is the last one then.
/// The check continues from a line that does not follow as well, so that the lines after it are
/// judged by themselves.
fn follow(
    session: &str,
    bytes: &[u8],
    last: &mut (u64, String),
    head: Option<&Head>,
) -> Result<Line, Broken> {
    let Some(text) = bytes.strip_suffix(b"\n") else {
        return Err(("the line is cut off".to_owned(), None));
    };
    let line: Line = serde_json::from_slice(text)
        .map_err(|error| (format!("it cannot be read: {error}"), None))?;
    let before = std::mem::replace(last, (line.n, hash(text)));
    let why = if line.session != session {
        format!("it is of session {}", shown(&line.session))
    } else if line.n != before.0.saturating_add(1) {
        format!(
            "line {} of the log stands where {} should be",
            line.n,
            before.0.saturating_add(1)
        )
    } else if line.prev != before.1 {
        "it does not continue the previous line: one of the two was changed".to_owned()
    } else if line.kind() == "gap" {
        "earlier lines were missing or changed when this one was written".to_owned()
    } else if head.is_some_and(|head| head.n == line.n && head.hash != last.1) {
        "it is not the line that the session recorded".to_owned()
    } else {
        return Ok(line);
    };
    Err((why, Some(Box::new(line))))
}

/// The start of an id that may hold anything.
fn shown(session: &str) -> String {
    let start: String = session.chars().take(64).collect();
    start.escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EventPosition, Writer};

    /// A log of lines with these events, and its head.
    fn log(kinds: &[&str]) -> (Vec<String>, Head) {
        let mut writer = Writer::new(Head::of("s"));
        let position = EventPosition {
            time: 0,
            turn: 1,
            agent: "main",
        };
        for kind in kinds {
            writer
                .add(position, &serde_json::json!({"type": kind}))
                .unwrap();
        }
        let lines = writer.text.split_inclusive('\n').map(str::to_owned);
        (lines.collect(), writer.head)
    }

    fn files(parts: &[&[String]]) -> Vec<(String, Vec<u8>)> {
        let file = |(number, lines): (usize, &&[String])| {
            let name = format!("{}.jsonl", number + 1);
            (name, lines.concat().into_bytes())
        };
        parts.iter().enumerate().map(file).collect()
    }

    #[test]
    fn a_whole_log_is_whole_over_its_files_and_with_an_older_head() {
        let (lines, head) = log(&["a", "b", "c"]);
        let checked = check("s", &files(&[&lines[..2], &lines[2..]]), Some(&head));
        assert_eq!((checked.lines.len(), checked.broken), (3, None));
        assert_eq!(checked.notes, Vec::<String>::new());
        let (_, older) = log(&["a", "b"]);
        assert_eq!(check("s", &files(&[&lines]), Some(&older)).broken, None);
        let without = check("s", &files(&[&lines]), None);
        assert_eq!((without.broken, without.notes.len()), (None, 1));
    }

    #[test]
    fn whatever_is_done_to_the_lines_is_found_where_it_was_done() {
        let (lines, head) = log(&["a", "b", "c", "d"]);
        let pick = |which: &[usize]| -> Vec<String> {
            which.iter().map(|at| lines[*at].clone()).collect()
        };
        let mut tampered = lines.clone();
        tampered[1] = tampered[1].replace("\"b\"", "\"x\"");
        let mut last_tampered = lines.clone();
        last_tampered[3] = last_tampered[3].replace("\"d\"", "\"x\"");
        let mut cut = lines.clone();
        cut[3].truncate(20);
        let mut unreadable = lines.clone();
        unreadable[0] = "{}\n".to_owned();
        for (done, lines, expected) in [
            ("tampered", tampered, "1.jsonl:3: it does not continue"),
            (
                "last tampered",
                last_tampered,
                "1.jsonl:4: it is not the line that the session recorded",
            ),
            (
                "removed",
                pick(&[0, 2, 3]),
                "1.jsonl:2: line 3 of the log stands where 2 should be",
            ),
            (
                "first removed",
                pick(&[1, 2, 3]),
                "1.jsonl:1: line 2 of the log",
            ),
            (
                "reordered",
                pick(&[0, 2, 1, 3]),
                "1.jsonl:2: line 3 of the log",
            ),
            (
                "doubled",
                pick(&[0, 0, 1, 2, 3]),
                "1.jsonl:2: line 1 of the log",
            ),
            (
                "truncated",
                pick(&[0, 1]),
                "1.jsonl:2: the log ends at line 2, and the session knows of 4",
            ),
            (
                "all removed",
                pick(&[]),
                "it is gone, and the session knows of 4 lines",
            ),
            ("cut off", cut, "1.jsonl:4: the line is cut off"),
            ("unreadable", unreadable, "1.jsonl:1: it cannot be read"),
        ] {
            let broken = check("s", &files(&[&lines]), Some(&head)).broken.unwrap();
            assert!(broken.starts_with(expected), "{done}: {broken}");
        }
        let broken = check("t", &files(&[&lines]), None).broken.unwrap();
        assert!(broken.contains("it is of session s"), "{broken}");
    }

    #[test]
    fn a_gap_breaks_the_log_and_a_repaired_line_does_not() {
        let (lines, head) = log(&["a", "torn", "b"]);
        let checked = check("s", &files(&[&lines]), Some(&head));
        assert_eq!((checked.broken, checked.notes.len()), (None, 1));
        let (lines, head) = log(&["a", "gap", "b"]);
        let broken = check("s", &files(&[&lines]), Some(&head)).broken.unwrap();
        assert!(
            broken.starts_with("1.jsonl:2: earlier lines were missing"),
            "{broken}"
        );
    }
}
