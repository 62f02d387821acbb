//! Numbers the events of an open session, and keeps the last events for readers that connect and
//! disconnect.
//!
//! The number of kept events is limited. Adding an event never waits for a reader: a reader that is
//! slower than the session misses the oldest events, receives a notice about the gap, and can read
//! the conversation from the session itself. Event numbers increase and have no other meaning. The
//! first number of a log depends on the clock, so numbers also increase if the session is reopened,
//! even by another process.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use rind_lib::lock::lock_ignoring_poison;
use tokio::sync::watch;

/// Maximum number of events that are kept for each open session.
const MAX_KEPT_EVENTS: usize = 10_000;

/// Maximum total size of the events that are kept for each open session, in bytes.
const MAX_KEPT_EVENT_BYTES: usize = 4 << 20;

/// Factor between the clock and event numbers: a log starts at its start time in milliseconds times
/// this factor.
const INITIAL_EVENT_NUMBER_PER_MS: u64 = 1000;

/// Event of a session, with its number in the session's event log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumberedSessionEvent {
    /// Number of the event in the session's event log; later events have higher numbers.
    pub number: u64,
    /// Type of the event, in kebab case.
    pub kind: Arc<str>,
    /// Event as one line of JSON, in the format of `rind run --json`.
    pub json: Arc<str>,
}

/// Result of reading the events that follow a given number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventLogReadResult {
    /// Events in order; empty if there are no new events yet.
    Events(Vec<NumberedSessionEvent>),
    /// The next events are no longer kept. Contains the number of the last lost event.
    Gap(u64),
    /// The session is closed, and the reader has read every event.
    Closed,
}

/// Log of the most recent events of an open session, from which clients follow it.
pub struct SessionEventLog {
    kept: Mutex<SessionEventLogContent>,
    last: watch::Sender<u64>,
}

struct SessionEventLogContent {
    events: VecDeque<NumberedSessionEvent>,
    bytes: usize,
    /// Number of the last event that is no longer kept; initially the start number of the log.
    dropped: u64,
    last: u64,
    last_added: Instant,
    is_closed: bool,
}

impl SessionEventLog {
    /// Creates an empty log that starts at `now_ms`, in milliseconds since the Unix epoch.
    #[must_use]
    pub fn new(now_ms: i64) -> Self {
        let start = u64::try_from(now_ms).unwrap_or(0) * INITIAL_EVENT_NUMBER_PER_MS;
        Self {
            kept: Mutex::new(SessionEventLogContent {
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

    /// Adds an event to the log, and drops the oldest events if there are too many.
    pub fn push_event(&self, kind: &str, json: String) {
        let mut kept = lock_ignoring_poison(&self.kept);
        kept.last += 1;
        kept.last_added = Instant::now();
        kept.bytes += json.len();
        let number = kept.last;
        kept.events.push_back(NumberedSessionEvent {
            number,
            kind: kind.into(),
            json: json.into(),
        });
        while kept.events.len() > MAX_KEPT_EVENTS
            || (kept.bytes > MAX_KEPT_EVENT_BYTES && kept.events.len() > 1)
        {
            if let Some(oldest) = kept.events.pop_front() {
                kept.bytes -= oldest.json.len();
                kept.dropped = oldest.number;
            }
        }
        drop(kept);
        self.last.send_replace(number);
    }

    /// Marks the event log as complete. Readers can still read the events in it, and then reach its
    /// end instead of waiting for further events.
    pub fn close_log(&self) {
        lock_ignoring_poison(&self.kept).is_closed = true;
        self.last.send_modify(|_| ());
    }

    /// Returns the number of the last event that was added to the log.
    #[must_use]
    pub fn last_event_number(&self) -> u64 {
        lock_ignoring_poison(&self.kept).last
    }

    /// Returns the milliseconds since the last event was added.
    #[must_use]
    pub fn ms_since_last_event(&self) -> u64 {
        let quiet = lock_ignoring_poison(&self.kept).last_added.elapsed();
        u64::try_from(quiet.as_millis()).unwrap_or(u64::MAX)
    }

    /// Returns the number that precedes that of the oldest event in the log.
    #[must_use]
    pub fn event_number_before_first_kept(&self) -> u64 {
        lock_ignoring_poison(&self.kept).dropped
    }

    /// Returns at most `limit` events with numbers after `after`. If `after` is higher than every
    /// number in the log, returns the events from the start of the log.
    #[must_use]
    pub fn list_events_after(&self, after: u64, limit: usize) -> EventLogReadResult {
        let kept = lock_ignoring_poison(&self.kept);
        // The number comes from another log of the session, written on a machine whose clock was
        // ahead.
        let after = if after > kept.last {
            kept.dropped
        } else {
            after
        };
        if after < kept.dropped {
            return EventLogReadResult::Gap(kept.dropped);
        }
        let from = kept.events.partition_point(|event| event.number <= after);
        let events: Vec<NumberedSessionEvent> =
            kept.events.iter().skip(from).take(limit).cloned().collect();
        if events.is_empty() && kept.is_closed {
            return EventLogReadResult::Closed;
        }
        EventLogReadResult::Events(events)
    }

    /// Returns a receiver of the number of the last event. It is notified of every event, and when
    /// the log is closed.
    #[must_use]
    pub fn watch_last_event_number(&self) -> watch::Receiver<u64> {
        self.last.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(log: &SessionEventLog, after: u64) -> Vec<u64> {
        match log.list_events_after(after, 100) {
            EventLogReadResult::Events(events) => events.iter().map(|event| event.number).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_reader_goes_on_after_the_last_number_that_it_has() {
        let log = SessionEventLog::new(5);
        for text in ["a", "b", "c"] {
            log.push_event("text-delta", text.to_owned());
        }
        assert_eq!(numbers(&log, 5000), [5001, 5002, 5003]);
        assert_eq!(numbers(&log, 5002), [5003]);
        assert!(numbers(&log, 5003).is_empty());
        log.close_log();
        assert_eq!(numbers(&log, 5002), [5003]);
        assert_eq!(log.list_events_after(5003, 1), EventLogReadResult::Closed);
    }

    #[test]
    fn a_reader_that_is_too_slow_is_told_of_the_gap() {
        let log = SessionEventLog::new(0);
        let large = "x".repeat(MAX_KEPT_EVENT_BYTES / 4);
        for _ in 0..6 {
            log.push_event("tool-end", large.clone());
        }
        let EventLogReadResult::Gap(at) = log.list_events_after(0, 100) else {
            panic!("no gap");
        };
        assert_eq!(at, 2);
        assert_eq!(numbers(&log, at), [3, 4, 5, 6]);
        // An event that exceeds the size limit by itself is still kept.
        log.push_event("tool-end", "x".repeat(2 * MAX_KEPT_EVENT_BYTES));
        assert_eq!(numbers(&log, 6), [7]);
    }

    #[test]
    fn numbers_of_a_session_that_is_opened_again_go_on_growing() {
        let first = SessionEventLog::new(1);
        first.push_event("turn-start", String::new());
        let second = SessionEventLog::new(2);
        assert_eq!(
            second.list_events_after(first.last_event_number(), 10),
            EventLogReadResult::Gap(2000)
        );
    }
}
