//! The events of a session that is open, numbered, for readers that come and go.
//!
//! Owns the numbers and a bounded number of the last events. Writing never waits for a reader: a
//! reader that is slower than the session loses the oldest events, gets a notice about the gap, and
//! can read the conversation from the session itself. Numbers increase and have no other meaning.
//! Numbers keep increasing when the session is reopened, also by another process, because they start
//! from the clock.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use rind_lib::lock::lock;
use tokio::sync::watch;

/// Maximum number of events that are kept.
const MAX_EVENTS: usize = 10_000;

/// Maximum size of the events that are kept, in bytes.
const MAX_BYTES: usize = 4 << 20;

/// Numbers per millisecond of the clock: a log starts at its start time in milliseconds times this
/// number.
const NUMBERS_PER_MS: u64 = 1000;

/// An event with its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumberedEvent {
    /// Number of the event; later events have higher ones.
    pub number: u64,
    /// Type of the event, in kebab case.
    pub kind: Arc<str>,
    /// Event as one line of JSON, in the format of `rind run --json`.
    pub json: Arc<str>,
}

/// Answer to a reader who asks for the events after a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewEvents {
    /// Events in order; none if there is nothing new yet.
    Events(Vec<NumberedEvent>),
    /// The next events are no longer in the log. The number is that of the last lost event.
    Gap(u64),
    /// The session is closed, and every event was read.
    Closed,
}

/// The last events of an open session.
pub struct EventLog {
    kept: Mutex<KeptEvents>,
    last: watch::Sender<u64>,
}

struct KeptEvents {
    events: VecDeque<NumberedEvent>,
    bytes: usize,
    /// Number of the last event that is no longer kept, or the start of the log.
    dropped: u64,
    last: u64,
    last_added: Instant,
    is_closed: bool,
}

impl EventLog {
    /// Creates an empty log at this time, in milliseconds since 1970.
    #[must_use]
    pub fn new(now_ms: i64) -> Self {
        let start = u64::try_from(now_ms).unwrap_or(0) * NUMBERS_PER_MS;
        Self {
            kept: Mutex::new(KeptEvents {
                events: VecDeque::new(),
                bytes: 0,
                dropped: start,
                last: start,
                last_added: Instant::now(),
                is_closed: false,
            }),
            last: watch::Sender::new(start),
        }
    }

    /// Adds an event.
    pub fn push_event(&self, kind: &str, json: String) {
        let mut kept = lock(&self.kept);
        kept.last += 1;
        kept.last_added = Instant::now();
        kept.bytes += json.len();
        let number = kept.last;
        kept.events.push_back(NumberedEvent {
            number,
            kind: kind.into(),
            json: json.into(),
        });
        while kept.events.len() > MAX_EVENTS || (kept.bytes > MAX_BYTES && kept.events.len() > 1) {
            if let Some(oldest) = kept.events.pop_front() {
                kept.bytes -= oldest.json.len();
                kept.dropped = oldest.number;
            }
        }
        drop(kept);
        self.last.send_replace(number);
    }

    /// Ends the log. Readers still get the events in it.
    pub fn close_log(&self) {
        lock(&self.kept).is_closed = true;
        self.last.send_modify(|_| ());
    }

    /// Returns the number of the last event.
    #[must_use]
    pub fn last_number(&self) -> u64 {
        lock(&self.kept).last
    }

    /// Returns the milliseconds since the last event was added.
    #[must_use]
    pub fn quiet_ms(&self) -> u64 {
        let quiet = lock(&self.kept).last_added.elapsed();
        u64::try_from(quiet.as_millis()).unwrap_or(u64::MAX)
    }

    /// Returns the number before the first event that is kept.
    #[must_use]
    pub fn start_number(&self) -> u64 {
        lock(&self.kept).dropped
    }

    /// Returns at most `limit` events after this number. An unknown number, for example from an
    /// earlier opening of the session, counts as the start of the log.
    #[must_use]
    pub fn events_after(&self, after: u64, limit: usize) -> NewEvents {
        let kept = lock(&self.kept);
        // The clock of another machine may have been ahead.
        let after = if after > kept.last {
            kept.dropped
        } else {
            after
        };
        if after < kept.dropped {
            return NewEvents::Gap(kept.dropped);
        }
        let from = kept.events.partition_point(|event| event.number <= after);
        let events: Vec<NumberedEvent> =
            kept.events.iter().skip(from).take(limit).cloned().collect();
        if events.is_empty() && kept.is_closed {
            return NewEvents::Closed;
        }
        NewEvents::Events(events)
    }

    /// Returns a receiver that changes with every event and when the log is closed.
    #[must_use]
    pub fn watch_numbers(&self) -> watch::Receiver<u64> {
        self.last.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(log: &EventLog, after: u64) -> Vec<u64> {
        match log.events_after(after, 100) {
            NewEvents::Events(events) => events.iter().map(|event| event.number).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_reader_goes_on_after_the_last_number_that_it_has() {
        let log = EventLog::new(5);
        for text in ["a", "b", "c"] {
            log.push_event("text-delta", text.to_owned());
        }
        assert_eq!(numbers(&log, 5000), [5001, 5002, 5003]);
        assert_eq!(numbers(&log, 5002), [5003]);
        assert!(numbers(&log, 5003).is_empty());
        log.close_log();
        assert_eq!(numbers(&log, 5002), [5003]);
        assert_eq!(log.events_after(5003, 1), NewEvents::Closed);
    }

    #[test]
    fn a_reader_that_is_too_slow_is_told_of_the_gap() {
        let log = EventLog::new(0);
        let large = "x".repeat(MAX_BYTES / 4);
        for _ in 0..6 {
            log.push_event("tool-end", large.clone());
        }
        let NewEvents::Gap(at) = log.events_after(0, 100) else {
            panic!("no gap");
        };
        assert_eq!(at, 2);
        assert_eq!(numbers(&log, at), [3, 4, 5, 6]);
        // An event that is larger than everything that is kept is still told.
        log.push_event("tool-end", "x".repeat(2 * MAX_BYTES));
        assert_eq!(numbers(&log, 6), [7]);
    }

    #[test]
    fn numbers_of_a_session_that_is_opened_again_go_on_growing() {
        let first = EventLog::new(1);
        first.push_event("turn-start", String::new());
        let second = EventLog::new(2);
        assert_eq!(
            second.events_after(first.last_number(), 10),
            NewEvents::Gap(2000)
        );
    }
}
