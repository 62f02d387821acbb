//! Appends lines to the end of a log, and records at this point if lines were cut off or are
//! missing.

use serde::Serialize;
use serde_json::Value;

use super::{Head, hash};

/// Position of an event: time, turn and agent.
#[derive(Clone, Copy, Debug)]
pub struct EventPosition<'a> {
    /// Milliseconds since 1970.
    pub time: u64,
    /// Number of the turn.
    pub turn: u32,
    /// Name of the agent.
    pub agent: &'a str,
}

/// [`Line`](super::Line) as it is written.
#[derive(Serialize)]
struct LineRef<'a, E> {
    agent: &'a str,
    event: &'a E,
    n: u64,
    prev: &'a str,
    session: &'a str,
    time: u64,
    turn: u32,
}

/// Faults that the format itself records as a line.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
enum Fault {
    /// A line before was cut off.
    Torn { bytes: usize },
    /// The session counts more lines than the file contains.
    Gap {
        missing: u64,
        expected_n: u64,
        expected: String,
    },
}

/// Writes lines after a head.
#[derive(Debug)]
pub struct Writer {
    /// The line that was written last.
    pub head: Head,
    /// The lines, each with its line break.
    pub text: String,
}

impl Writer {
    /// Creates a writer that continues after `head`.
    #[must_use]
    pub fn new(head: Head) -> Self {
        let text = String::new();
        Self { head, text }
    }

    /// Adds a line.
    ///
    /// # Errors
    /// The event cannot be written as JSON.
    pub fn add<E: Serialize>(
        &mut self,
        place: EventPosition<'_>,
        event: &E,
    ) -> Result<(), serde_json::Error> {
        let line = serde_json::to_string(&LineRef {
            agent: place.agent,
            event,
            n: self.head.n + 1,
            prev: &self.head.hash,
            session: &self.head.session,
            time: place.time,
            turn: place.turn,
        })?;
        self.head.n += 1;
        self.head.hash = hash(line.as_bytes());
        self.text.push_str(&line);
        self.text.push('\n');
        Ok(())
    }
}

/// End of a segment, the file that was written last.
#[derive(Debug)]
pub struct LogEnd {
    /// Bytes after the last line break.
    pub torn: usize,
    /// Number and hash of the last whole line that can be read.
    pub last: Option<(u64, String)>,
}

/// Reads the end of a segment, or of its tail: the first line of a tail may be cut off and is then
/// no valid line.
#[must_use]
pub fn read_end(segment: &[u8]) -> LogEnd {
    let at = segment.iter().rposition(|byte| *byte == b'\n');
    let (whole, torn) = segment.split_at(at.map_or(0, |at| at + 1));
    let last = whole.rsplit(|byte| *byte == b'\n').find_map(|line| {
        let value: Value = serde_json::from_slice(line).ok()?;
        Some((value.get("n")?.as_u64()?, hash(line)))
    });
    LogEnd {
        torn: torn.len(),
        last,
    }
}

/// Creates a writer that continues after `end`. `kept` is the head that the session remembers: if
/// the lines end before it, the next line records that some are missing, so that appending cannot
/// hide the gap.
///
/// # Errors
/// As [`Writer::add`].
pub fn continue_log(
    session: &str,
    end: &LogEnd,
    kept: Option<Head>,
    place: EventPosition<'_>,
) -> Result<Writer, serde_json::Error> {
    let kept = kept.filter(|head| head.session == session);
    let mut head = Head::of(session);
    if let Some((n, hash)) = &end.last {
        (head.n, head.hash) = (*n, hash.clone());
    }
    let missing = kept
        .as_ref()
        .map_or(0, |kept| kept.n.saturating_sub(head.n));
    let is_other = kept
        .as_ref()
        .is_some_and(|kept| kept.n == head.n && kept.hash != head.hash);
    let mut writer = Writer::new(head);
    if end.torn > 0 {
        writer.add(place, &Fault::Torn { bytes: end.torn })?;
    }
    if let Some(kept) = kept.filter(|_| missing > 0 || is_other) {
        let gap = Fault::Gap {
            missing,
            expected_n: kept.n,
            expected: kept.hash,
        };
        writer.add(place, &gap)?;
    }
    Ok(writer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root;
    use serde_json::json;

    const PLACE: EventPosition<'_> = EventPosition {
        time: 1,
        turn: 2,
        agent: "main",
    };

    fn two_lines() -> Writer {
        let mut writer = Writer::new(Head::of("s"));
        writer.add(PLACE, &json!({"type": "a"})).unwrap();
        writer.add(PLACE, &json!({"type": "b"})).unwrap();
        writer
    }

    /// The events of the lines that were added first when `segment` is gone on with.
    fn events(segment: &str, kept: Option<Head>) -> (u64, Vec<Value>) {
        let writer = continue_log("s", &read_end(segment.as_bytes()), kept, PLACE).unwrap();
        let lines = writer.text.lines().map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            line["event"].clone()
        });
        (writer.head.n, lines.collect())
    }

    #[test]
    fn each_line_holds_the_hash_of_the_one_before() {
        let writer = two_lines();
        let lines: Vec<Value> = writer
            .text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines[0]["prev"], root("s"));
        let first = writer.text.lines().next().unwrap();
        assert_eq!(lines[1]["prev"], hash(first.as_bytes()));
        assert_eq!(
            read_end(writer.text.as_bytes()).last,
            Some((2, writer.head.hash))
        );
    }

    #[test]
    fn what_is_whole_is_gone_on_with_in_silence() {
        let Writer { text, head } = two_lines();
        assert_eq!(events(&text, Some(head.clone())), (2, vec![]));
        assert_eq!(events(&text, None), (2, vec![]));
        assert_eq!(events("", None), (0, vec![]));
        // The session was cut off before it kept the head.
        let older = Head {
            n: 1,
            ..head.clone()
        };
        assert_eq!(events(&text, Some(older)), (2, vec![]));
        let of_other = Head {
            session: "t".to_owned(),
            n: 9,
            ..head
        };
        assert_eq!(events(&text, Some(of_other)), (2, vec![]));
    }

    #[test]
    fn a_torn_line_and_a_missing_one_are_told_of() {
        let Writer { text, head } = two_lines();
        let (n, found) = events(&format!("{text}{{\"n\":3,"), Some(head.clone()));
        assert_eq!(
            (n, &found[..]),
            (3, &[json!({"bytes": 7, "type": "torn"})][..])
        );

        let first = text.split_inclusive('\n').next().unwrap();
        let (n, found) = events(first, Some(head.clone()));
        assert_eq!((n, found.len()), (2, 1));
        assert!(
            found[0]["missing"] == 1 && found[0]["type"] == "gap",
            "{found:?}"
        );

        let (_, found) = events(&text[..text.len() - 1], Some(head.clone()));
        assert!(
            found[0]["type"] == "torn" && found[1]["missing"] == 1,
            "{found:?}"
        );

        let other = Head {
            hash: root("x"),
            ..head
        };
        let (_, found) = events(&text, Some(other));
        assert!(found[0]["missing"] == 0, "{found:?}");
    }
}
