//! Tests when the plugin runs a turn, and its quiet hours. The clock and the file `HEARTBEAT.md`
//! are simulated.

use std::cell::RefCell;
use std::rc::Rc;

use rind_sdk::serde_json::json;
use rind_sdk::testing;
use rind_sdk::turns::TurnReport;
use rind_sdk::types::Error;
use rind_sdk::waiting::{LoopMessage, Wakeup};
use rind_sdk::{LoopOutcome, store};

use crate::heartbeat::run;
use crate::quiet::QuietHours;

/// Returns the time on 2026-01-15 at this hour and minute in UTC, in milliseconds since 1970.
fn unix_ms_at(hour: u64, minute: u64) -> u64 {
    1_768_435_200_000 + (hour * 60 + minute) * 60_000
}

/// Sets the plugin up with the text of its file, its quiet hours and the model's answer. Returns
/// the inputs of the turns that it runs.
fn set_up(file: &str, quiet: &str, answer: &str) -> Rc<RefCell<Vec<String>>> {
    testing::reset();
    testing::set_config(json!({
        "file": "HEARTBEAT.md", "interval_minutes": 30, "quiet": quiet, "timezone": "UTC",
        "session": "fresh", "preset": "", "model": "",
    }));
    testing::put_file("workspace/HEARTBEAT.md", file);
    let inputs = Rc::new(RefCell::new(Vec::new()));
    let (seen, answer) = (inputs.clone(), answer.to_owned());
    testing::answer_turns(move |order| {
        seen.borrow_mut().push(order.input);
        Ok(TurnReport {
            session: "loop.heartbeat.main".to_owned(),
            turn: 1,
            state: "done".to_owned(),
            answer: answer.clone(),
            steps: 1,
            tool_calls: 0,
            cost_usd: 0.0,
            unpriced_tokens: 0,
        })
    });
    testing::answer_waits(|_| Ok(Wakeup::Shutdown));
    inputs
}

fn reason_to_run_again() -> String {
    match run() {
        Ok(LoopOutcome::Again { reason, .. }) => reason,
        other => format!("{other:?}"),
    }
}

#[test]
fn quiet_hours_may_cross_midnight_and_use_the_time_zone() {
    let quiet = |text: &str, zone: &str, ms: u64| {
        let hours = QuietHours::parse(text, zone).unwrap();
        hours.is_quiet_at(ms).unwrap()
    };
    for (hour, minute, expected) in [(21, 59, false), (22, 0, true), (3, 0, true), (7, 0, false)] {
        let is_quiet = quiet("22:00-07:00", "UTC", unix_ms_at(hour, minute));
        assert_eq!(is_quiet, expected, "{hour}:{minute}");
    }
    assert!(quiet("12:00-13:00", "UTC", unix_ms_at(12, 30)));
    assert!(!quiet("12:00-13:00", "UTC", unix_ms_at(13, 0)));
    // 21:30 in London is 22:30 in Berlin.
    assert!(quiet("22:00-07:00", "Europe/Berlin", unix_ms_at(21, 30)));
    assert!(!quiet("", "UTC", unix_ms_at(3, 0)));
    for (text, zone) in [
        ("25:00-01:00", "UTC"),
        ("x-y", "UTC"),
        ("", "Atlantis/City"),
    ] {
        assert!(QuietHours::parse(text, zone).is_err(), "{text} {zone}");
    }
}

#[test]
fn a_turn_is_run_once_per_interval_with_the_text_of_the_file() {
    let inputs = set_up("# Work\n- answer the mail\n", "", "I answered it.\nMore.");
    assert_eq!(reason_to_run_again(), "I answered it.");
    assert_eq!(testing::status(), "I answered it.");
    assert!(inputs.borrow()[0].starts_with("# Work\n- answer the mail\n\nLook after"));
    // The next turn is not due yet.
    assert_eq!(reason_to_run_again(), "the host ends");
    assert_eq!(inputs.borrow().len(), 1);
    // A time in the future, from before the clock was set back, does not prevent the next turn.
    store::set_json("last", &u64::MAX).unwrap();
    assert_eq!(reason_to_run_again(), "I answered it.");
}

#[test]
fn no_open_work_runs_no_turn_and_a_turn_without_findings_shows_nothing() {
    let inputs = set_up("# Work\n\n", "", "x");
    assert_eq!(reason_to_run_again(), "no open work in HEARTBEAT.md");
    assert!(inputs.borrow().is_empty());
    set_up("look", "", "HEARTBEAT_OK");
    assert_eq!(reason_to_run_again(), "nothing needs attention");
    assert_eq!(testing::status(), "");
}

#[test]
fn a_message_begins_a_turn_at_once_also_in_quiet_hours() {
    let inputs = set_up("", "00:00-23:59", "done");
    testing::answer_waits(|until| {
        assert!(until.messages);
        Ok(Wakeup::Message(LoopMessage {
            sender: "http".to_owned(),
            text: "the build is red".to_owned(),
        }))
    });
    assert_eq!(reason_to_run_again(), "done");
    assert!(inputs.borrow()[0].starts_with("Message: the build is red"));
}

#[test]
fn a_refused_turn_is_not_retried_immediately() {
    set_up("look", "", "x");
    testing::answer_turns(|_| Err(Error::Failed("the session is open elsewhere".to_owned())));
    assert!(run().is_err());
    assert_eq!(reason_to_run_again(), "the host ends");
}
