//! Tests of the hook on the SDK's in-memory host.

use crate::loop_detection::__rind_hook_pre_tool as pre_tool;
use rind_sdk::prelude::*;
use rind_sdk::serde_json::{Value, json};
use rind_sdk::testing::{self, Caller};

fn start(changes: Value) {
    testing::reset();
    let mut settings = json!({
        "edits": 5, "repeats": 3, "scope": "session", "tools": ["edit_file", "write_file"],
    });
    for (key, value) in changes.as_object().into_iter().flatten() {
        settings[key] = value.clone();
    }
    testing::set_config(settings);
}

fn call_in_turn(turn: u32, tool: &str, arguments: Value) -> CallOutcome {
    testing::set_caller(Caller {
        turn,
        ..Caller::default()
    });
    pre_tool(testing::proposed_call(tool, arguments)).unwrap()
}

fn edit(path: &str, number: u32) -> CallOutcome {
    call_in_turn(1, "edit_file", json!({"path": path, "new": number}))
}

#[test]
fn the_fifth_edit_of_a_file_and_every_later_one_is_warned_of() {
    start(json!({}));
    for number in 1..=4 {
        assert_eq!(
            edit("src/main.rs", number),
            CallOutcome::pass(),
            "edit {number}"
        );
    }
    for number in 5..=6 {
        let outcome = edit("src/main.rs", number);
        assert_eq!(outcome.verdict, CallVerdict::Pass);
        let note = outcome.note.unwrap();
        assert!(
            note.contains(&format!("`src/main.rs` was edited {number} times")),
            "{note}"
        );
        assert!(
            matches!(&outcome.effects[..], [Effect::Notify(line)] if line.level == Level::Warn)
        );
    }
}

#[test]
fn files_are_counted_apart_and_ways_to_write_a_path_together() {
    start(json!({"edits": 3}));
    assert!(edit("a.rs", 1).note.is_none());
    assert!(edit("b.rs", 2).note.is_none());
    assert!(edit("./a.rs", 3).note.is_none());
    assert!(edit("b.rs", 4).note.is_none());
    assert!(edit("src/..//a.rs", 5).note.is_some());
    let written = call_in_turn(1, "write_file", json!({"path": "b.rs", "content": ""}));
    assert!(written.note.is_some());
}

#[test]
fn edits_are_counted_over_turns_only_if_the_scope_says_so() {
    for (scope, warned) in [("session", true), ("turn", false)] {
        start(json!({"edits": 2, "scope": scope}));
        call_in_turn(1, "edit_file", json!({"path": "a", "new": 1}));
        let outcome = call_in_turn(2, "edit_file", json!({"path": "a", "new": 2}));
        assert_eq!(outcome.note.is_some(), warned, "{scope}");
    }
}

#[test]
fn the_third_identical_call_in_a_row_gets_a_note() {
    start(json!({}));
    let read = |text: &str| call_in_turn(1, "grep", rind_sdk::serde_json::from_str(text).unwrap());
    assert!(read(r#"{"pattern": "x", "path": "a"}"#).note.is_none());
    assert!(read(r#"{"path": "a", "pattern": "x"}"#).note.is_none());
    let note = read(r#"{"pattern":"x","path":"a"}"#).note.unwrap();
    assert!(
        note.contains("`grep` with the same arguments was called in a row 3 times"),
        "{note}"
    );
    assert!(
        read(r#"{"pattern": "y", "path": "a"}"#).note.is_none(),
        "another call starts anew"
    );
    assert!(read(r#"{"pattern": "x", "path": "a"}"#).note.is_none());
}

#[test]
fn calls_in_a_row_are_told_apart_by_agent_and_turn() {
    start(json!({"repeats": 2}));
    let call = |agent: &str, turn| {
        testing::set_caller(Caller {
            agent: agent.to_owned(),
            turn,
            ..Caller::default()
        });
        pre_tool(testing::proposed_call("grep", json!({})))
            .unwrap()
            .note
            .is_some()
    };
    assert!(!call("main", 1));
    assert!(!call("sub-1", 1));
    assert!(!call("main", 2));
    assert!(call("main", 2));
}

#[test]
fn what_was_done_too_often_is_refused_if_the_operator_wants_that() {
    start(json!({"edits": 2, "block_after": 3}));
    for number in 1..=3 {
        assert_eq!(edit("a.rs", number).verdict, CallVerdict::Pass);
    }
    let refused = edit("a.rs", 4);
    assert!(
        matches!(&refused.verdict, CallVerdict::Block(why) if why.contains("edited 3 times already"))
    );
    assert_eq!(refused.effects.len(), 1);
}

#[test]
fn calls_without_a_path_are_left_alone() {
    start(json!({"edits": 1}));
    assert!(
        call_in_turn(1, "edit_file", json!({"file": "a"}))
            .note
            .is_none()
    );
    assert!(
        call_in_turn(1, "read_file", json!({"path": "a"}))
            .note
            .is_none()
    );
}
