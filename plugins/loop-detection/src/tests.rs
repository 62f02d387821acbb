//! Tests of the hook on the SDK's in-memory host.

use crate::loop_detection::__rind_hook_pre_tool as pre_tool;
use rind_sdk::prelude::*;
use rind_sdk::serde_json::{Value, json};
use rind_sdk::testing::{self, Caller};

fn start_plugin(changes: Value) {
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

fn edit_file_call(path: &str, number: u32) -> CallOutcome {
    call_in_turn(1, "edit_file", json!({"path": path, "new": number}))
}

#[test]
fn fifth_and_later_edits_of_a_file_cause_a_warning() {
    start_plugin(json!({}));
    for number in 1..=4 {
        assert_eq!(
            edit_file_call("src/main.rs", number),
            CallOutcome::pass(),
            "edit {number}"
        );
    }
    for number in 5..=6 {
        let outcome = edit_file_call("src/main.rs", number);
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
fn each_file_has_one_count_however_its_path_is_written() {
    start_plugin(json!({"edits": 3}));
    assert!(edit_file_call("a.rs", 1).note.is_none());
    assert!(edit_file_call("b.rs", 2).note.is_none());
    assert!(edit_file_call("./a.rs", 3).note.is_none());
    assert!(edit_file_call("b.rs", 4).note.is_none());
    assert!(edit_file_call("src/..//a.rs", 5).note.is_some());
    let written = call_in_turn(1, "write_file", json!({"path": "b.rs", "content": ""}));
    assert!(written.note.is_some());
}

#[test]
fn edits_of_several_turns_are_added_up_only_with_the_session_scope() {
    for (scope, warned) in [("session", true), ("turn", false)] {
        start_plugin(json!({"edits": 2, "scope": scope}));
        call_in_turn(1, "edit_file", json!({"path": "a", "new": 1}));
        let outcome = call_in_turn(2, "edit_file", json!({"path": "a", "new": 2}));
        assert_eq!(outcome.note.is_some(), warned, "{scope}");
    }
}

#[test]
fn the_third_identical_call_in_a_row_gets_a_note() {
    start_plugin(json!({}));
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
fn consecutive_calls_are_counted_per_agent_and_turn() {
    start_plugin(json!({"repeats": 2}));
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
fn calls_repeated_too_often_are_refused_if_the_operator_configures_it() {
    start_plugin(json!({"edits": 2, "block_after": 3}));
    for number in 1..=3 {
        assert_eq!(edit_file_call("a.rs", number).verdict, CallVerdict::Pass);
    }
    let refused = edit_file_call("a.rs", 4);
    assert!(
        matches!(&refused.verdict, CallVerdict::Block(why) if why.contains("edited 3 times already"))
    );
    assert_eq!(refused.effects.len(), 1);
}

#[test]
fn calls_without_a_path_are_not_counted_as_edits() {
    start_plugin(json!({"edits": 1}));
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
