//! Lines that hold one another: each carries the hash of the one before it.

use rind_sdk::prelude::{Error, data};
use rind_sdk::serde::Serialize;
use rind_sdk::serde_json::{self, Value};
use sha2::{Digest, Sha256};

use crate::event::Event;

/// SHA-256 as small hexadecimal digits.
pub(crate) fn hash(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |byte: u8| char::from(DIGITS[usize::from(byte)]);
    let mut text = String::with_capacity(64);
    for byte in Sha256::digest(bytes) {
        text.extend([digit(byte >> 4), digit(byte & 15)]);
    }
    text
}

/// Returns the value that the first line of a session holds in place of a previous hash.
pub(crate) fn root(session: &str) -> String {
    hash(format!("rind audit {session}").as_bytes())
}

/// The last line of a chain.
#[data]
#[derive(PartialEq)]
pub(crate) struct Head {
    /// The session that the chain is of: a fork begins with the state of another.
    pub(crate) session: String,
    /// Number of the line, from 1; 0 before the first.
    pub(crate) n: u64,
    /// Hash of the line.
    pub(crate) hash: String,
}

impl Head {
    /// The head of a chain without lines.
    pub(crate) fn of(session: &str) -> Self {
        Self {
            session: session.to_owned(),
            n: 0,
            hash: root(session),
        }
    }
}

/// Position of an event: time, turn and agent.
#[derive(Clone, Copy)]
pub(crate) struct EventPosition<'a> {
    /// Milliseconds since 1970.
    pub(crate) time: u64,
    pub(crate) turn: u32,
    pub(crate) agent: &'a str,
}

#[derive(Serialize)]
#[serde(crate = "rind_sdk::serde")]
struct Line<'a> {
    agent: &'a str,
    event: &'a Event,
    n: u64,
    prev: &'a str,
    session: &'a str,
    time: u64,
    turn: u32,
}

/// Writes lines behind a head.
pub(crate) struct Writer {
    pub(crate) head: Head,
    /// The lines, each with its line break.
    pub(crate) text: String,
}

impl Writer {
    pub(crate) fn new(head: Head) -> Self {
        let text = String::new();
        Self { head, text }
    }

    /// Adds a line.
    pub(crate) fn add(&mut self, place: EventPosition<'_>, event: &Event) -> Result<(), Error> {
        let line = serde_json::to_string(&Line {
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
pub(crate) struct End {
    /// Bytes behind the last line break.
    pub(crate) torn: usize,
    /// Number and hash of the last whole line that can be read.
    pub(crate) last: Option<(u64, String)>,
}

/// Reads the end of a segment, or of its tail: what the first line of a tail lost makes it no line.
pub(crate) fn end(segment: &[u8]) -> End {
    let at = segment.iter().rposition(|byte| *byte == b'\n');
    let (whole, torn) = segment.split_at(at.map_or(0, |at| at + 1));
    let last = whole.rsplit(|byte| *byte == b'\n').find_map(|line| {
        let value: Value = serde_json::from_slice(line).ok()?;
        Some((value.get("n")?.as_u64()?, hash(line)))
    });
    End {
        torn: torn.len(),
        last,
    }
}

/// A writer that goes on behind `end`. `kept` is the head that the session remembers: where the lines end before it, the next
/// line says that some are missing, and nobody can hide that by going on.
pub(crate) fn go_on(
    session: &str,
    end: &End,
    kept: Option<Head>,
    place: EventPosition<'_>,
) -> Result<Writer, Error> {
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
        writer.add(place, &Event::Torn { bytes: end.torn })?;
    }
    if let Some(kept) = kept.filter(|_| missing > 0 || is_other) {
        let gap = Event::Gap {
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
    use crate::event;

    const PLACE: EventPosition<'_> = EventPosition {
        time: 1,
        turn: 2,
        agent: "main",
    };

    fn two_lines() -> Writer {
        let mut writer = Writer::new(Head::of("s"));
        writer.add(PLACE, &event::output("a")).unwrap();
        writer.add(PLACE, &event::output("b")).unwrap();
        writer
    }

    /// The events of the lines that were added first when `segment` is gone on with.
    fn events(segment: &str, kept: Option<Head>) -> (u64, Vec<String>) {
        let writer = go_on("s", &end(segment.as_bytes()), kept, PLACE).unwrap();
        let lines = writer.text.lines().map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            line["event"].to_string()
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
            end(writer.text.as_bytes()).last,
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
            (3, &[r#"{"bytes":7,"type":"torn"}"#.to_owned()][..])
        );

        let first = text.split_inclusive('\n').next().unwrap();
        let (n, found) = events(first, Some(head.clone()));
        assert_eq!((n, found.len()), (2, 1));
        assert!(
            found[0].contains("\"missing\":1") && found[0].contains("\"gap\""),
            "{found:?}"
        );

        let (_, found) = events(&text[..text.len() - 1], Some(head.clone()));
        assert!(
            found[0].contains("torn") && found[1].contains("\"missing\":1"),
            "{found:?}"
        );

        let other = Head {
            hash: root("x"),
            ..head
        };
        let (_, found) = events(&text, Some(other));
        assert!(found[0].contains("\"missing\":0"), "{found:?}");
    }
}
