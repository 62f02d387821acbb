//! Tests of a session with an entry of every type: its lines match the schema, and a copy that ends
//! at any entry is valid.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use rind::message::Blob;
use rind::provider::scripted::Reply;
use rind::session::{Body, Entry, Session, SessionBlobs, SessionStore, examine_session};
use serde_json::{Value, json};

use crate::harness::{Setup, check_pairs, session_spec};
use crate::image::DOT;

/// Parses the content of an entry, whose type must be known.
fn body(value: Value) -> Body {
    let body: Body = serde_json::from_value(value.clone()).unwrap();
    assert!(!matches!(body, Body::Unknown { .. }), "{value}");
    body
}

fn write(session: &Session, bodies: Vec<Value>) {
    for value in bodies {
        session.append(body(value)).unwrap();
    }
}

fn usage() -> Value {
    json!({"input_tokens": 10, "output_tokens": 5, "cache_read_tokens": 1, "cache_write_tokens": 2})
}

fn summary() -> Value {
    json!({"stop": "done", "steps": 1, "tool_calls": 2, "usage": usage(), "cost_usd": 0.5, "unpriced_tokens": 3, "duration_ms": 7})
}

fn user(id: &str, content: Value) -> Value {
    json!({"type": "message", "message": {"id": id, "role": "user", "content": content}})
}

fn said(id: &str, text: &str) -> Value {
    let content = json!([{"type": "text", "text": text}]);
    json!({"type": "message", "message": {"id": id, "role": "assistant", "content": content}})
}

fn calls(id: &str, ids: &[&str]) -> Value {
    let call = |id: &&str| json!({"type": "tool_call", "id": id, "name": "bash", "arguments": {"command": "make"}});
    let content: Vec<Value> = ids.iter().map(call).collect();
    json!({"type": "message", "message": {"id": id, "role": "assistant", "content": content}})
}

fn result(id: &str, call: &str) -> Value {
    let result = json!({"type": "tool_result", "call_id": call, "name": "bash", "content": "ok", "is_error": false});
    json!({"type": "message", "message": {"id": id, "role": "tool", "content": [result]}})
}

fn text(text: &str) -> Value {
    json!([{"type": "text", "text": text}])
}

/// Writes the first turn, with every type of entry about a request and its calls.
fn first_turn(session: &Session) {
    let blob = Blob::from_bytes(DOT, "");
    session.blobs().put(&blob, DOT).unwrap();
    let image = serde_json::to_value(&blob).unwrap();
    let prompt = "You are an agent.";
    session.blobs().put_text(prompt).unwrap();
    let sent = SessionBlobs::text_blob_id(prompt);
    let mut shown = image.clone();
    shown["type"] = "blob".into();
    write(
        session,
        vec![
            json!({"type": "title", "title": "every entry"}),
            json!({"type": "aside", "by": "mcp serve"}),
            json!({"type": "turn-start", "turn": 1, "input": "look", "source": "terminal", "command": "/look of plugin hello",
                "input_id": "one", "attached": [image]}),
            json!({"type": "skill-activated", "skill": "careful", "trust": "user", "hash": "1f", "by": "user",
                "is_conversational": true, "allow": ["bash"], "deny": ["write_file"]}),
            json!({"type": "skill-remembered", "skill": "careful", "trust": "user", "hash": "1f", "is_confirmed": true}),
            user("m1", json!([{"type": "text", "text": "look"}, shown])),
            json!({"type": "prompt", "parts": [{"tier": "stable", "key": "00", "source": "host", "bytes": 17, "tokens": 4, "hash": "1f"}],
                "lost": ["context"], "sent": [sent], "sent_bytes": [prompt.len()]}),
            json!({"type": "injected", "plugin": "hello", "text": "by the way", "keep": false}),
            json!({"type": "trace", "record": {"point": "pre-reason", "plugin": "hello", "outcome": "pass", "micros": 1.5, "turn": 1, "step": 1}}),
            json!({"type": "access", "record": {"plugin": "hello", "reached": "files", "target": "read a.txt", "outcome": "done", "agent": "main",
                "turn": 1, "step": 1}}),
            json!({"type": "audit-gap", "agent": "main", "turn": 1, "step": 1, "point": "pre-reason", "reason": "it trapped"}),
            json!({"type": "unanswered", "turn": 1, "step": 1, "model": "m", "usage": usage(), "cost_usd": 0.1, "reason": "busy"}),
            json!({"type": "step", "turn": 1, "step": 1, "model": "m", "usage": usage(), "cost_usd": 0.1, "latency_ms": 3, "tools": "1f",
                "tool_names": ["bash"], "aside": "hello"}),
            json!({"type": "asked", "plugin": "hello", "turn": 1, "step": 1, "model": "m", "usage": usage(), "cost_usd": 0.1, "latency_ms": 3}),
            json!({"type": "host-asked", "about": "reflect", "agent": "sub-0000000a", "turn": 1, "step": 1, "model": "m", "usage": usage(),
                "cost_usd": 0.1, "latency_ms": 3, "text": "Is it whole?"}),
            calls("m2", &["c1", "c2"]),
            json!({"type": "allowed", "tool": "bash", "covers": "make"}),
            json!({"type": "tool-start", "call": "c1", "name": "bash", "effect_class": "execute", "arguments": {"command": "make -k"}}),
            json!({"type": "tool-start", "call": "p1", "name": "read_file", "effect_class": "read", "arguments": {"path": "a.txt"}, "by": "hello"}),
            json!({"type": "tool-end", "call": "p1", "duration_ms": 1,
                "result": {"call_id": "p1", "name": "read_file", "content": [shown_part(&blob)], "is_error": false}}),
            json!({"type": "tool-end", "call": "c1", "duration_ms": 1}),
            result("m3", "c1"),
            json!({"type": "tool-end", "call": "c2", "duration_ms": 0, "refused_by": "policy"}),
            result("m4", "c2"),
        ],
    );
    session.state_set("hello", "small", Some("1")).unwrap();
    for letter in ["a", "b"] {
        // The blob of the first value is removed when the second value replaces it.
        session
            .state_set("hello", "large", Some(&letter.repeat(100_000)))
            .unwrap();
    }
    session.state_set("hello", "small", None).unwrap();
    let child = session
        .session_location()
        .create_subagent_session("sub-0000000a", &session_spec(Path::new("/w")))
        .unwrap();
    write(
        &child,
        vec![user("s1", json!([shown_part(&blob)])), said("s2", "seen")],
    );
    drop(child);
    write(
        session,
        vec![
            json!({"type": "subagent-start", "agent": "sub-0000000a", "plugin": "hello", "task": "look", "tools": ["read_file"],
                "preset": "investigate", "is_continued": true}),
            json!({"type": "subagent-end", "agent": "sub-0000000a", "answer": "seen", "is_error": true, "usage": usage(), "state": "failed",
                "steps": 1, "cost_usd": 0.1}),
            json!({"type": "custom", "plugin": "hello", "name": "note", "value": {"a": [1]}}),
            json!({"type": "status", "plugin": "hello", "text": "1 of 2"}),
            json!({"type": "corrected", "shown": "al", "text": "all"}),
            said("m5", "It is made."),
            json!({"type": "skill-ended", "skill": "careful", "reason": "done"}),
            json!({"type": "turn-end", "turn": 1, "summary": summary(), "output": "It is made."}),
            json!({"type": "archival", "turn": 1, "reason": "tool-calls", "tries": 0, "is_over": false}),
        ],
    );
}

fn shown_part(blob: &Blob) -> Value {
    let mut part = serde_json::to_value(blob).unwrap();
    part["type"] = "blob".into();
    part
}

/// Writes later turns: an archived one, commands, one that is cut off, one that continues it, and
/// one that is undone.
fn later_turns(store: &SessionStore, session: Session) -> Session {
    let spec = session_spec(Path::new("/w"));
    let id = session.id().to_string();
    let (entries, _) = store.read_entries(&id).unwrap();
    let is_of_turn = |entry: &&Entry| !matches!(entry.body, Body::Session { .. });
    let held = entries.iter().filter(is_of_turn).cloned().collect();
    session
        .create_archive_holder_session("held-0000000b", &spec, held)
        .unwrap();
    write(
        &session,
        vec![
            json!({"type": "replaced", "reason": "archived", "removed": ["m1", "m2", "m3", "m4", "m5"],
                "messages": [{"id": "m6", "role": "user", "content": text("[archived: held-0000000b]")}],
                "holder": {"agent": "held-0000000b", "task": "look"}}),
            json!({"type": "archival", "turn": 1, "reason": "tool-calls", "tries": 1, "is_over": true}),
            json!({"type": "command", "plugin": "hello", "command": "look", "outcome": "failed", "reason": "it is closed", "duration_ms": 1,
                "usage": usage(), "cost_usd": 0.1, "unpriced_tokens": 0}),
            json!({"type": "loop-run", "plugin": "hello", "outcome": "again", "after_ms": 5, "reason": "later", "duration_ms": 1,
                "usage": usage(), "cost_usd": 0.1, "unpriced_tokens": 0}),
            json!({"type": "turn-start", "turn": 2, "input": "go on", "source": "terminal"}),
            user("m7", text("go on")),
            calls("m8", &["c3"]),
            json!({"type": "tool-start", "call": "c3", "name": "bash", "effect_class": "execute"}),
        ],
    );
    drop(session);
    // Resuming ends the open turn as cut off.
    let session = store.resume(&id, &spec).unwrap();
    write(
        &session,
        vec![
            json!({"type": "turn-start", "turn": 3, "input": "go on", "source": "terminal", "command": "/continue", "continues": 2}),
            said("m9", "Here it is."),
            json!({"type": "turn-end", "turn": 3, "summary": summary(), "output": "Here it is."}),
            json!({"type": "turn-start", "turn": 4, "input": "no", "source": "terminal"}),
            user("m10", text("no")),
            said("m11", "Yes."),
            json!({"type": "turn-end", "turn": 4, "summary": summary(), "output": "Yes."}),
        ],
    );
    let (entries, _) = store.read_entries(&id).unwrap();
    assert!(session.undo_last_turn(&entries).unwrap().is_some());
    session.sync().unwrap();
    session
}

/// Creates a session with entries of every type in the store of a setup. Returns the store and the
/// id of a copy of the session.
fn every(setup: &Setup) -> (SessionStore, String) {
    let store = setup.store();
    let spec = session_spec(&setup.workspace());
    let session = store.create(&spec).unwrap();
    first_turn(&session);
    let session = later_turns(&store, session);
    let copy = store.fork(session.id(), None, &spec).unwrap();
    (store, copy.id().to_string())
}

/// Checks each line of a session file against the schema, and returns the types of its entries.
pub(crate) fn types_of_lines(check: &jsonschema::Validator, text: &str) -> BTreeSet<String> {
    let types = text.lines().map(|line| {
        let entry: Value = serde_json::from_str(line).unwrap();
        let faults: Vec<String> = check
            .iter_errors(&entry)
            .map(|error| error.to_string())
            .collect();
        assert!(faults.is_empty(), "{line}\n{faults:?}");
        entry["type"].as_str().unwrap().to_owned()
    });
    types.collect()
}

#[test]
fn an_entry_of_every_type_as_it_is_written_today_matches_the_schema() {
    let setup = Setup::new(Vec::new());
    let (store, id) = every(&setup);
    let schema = serde_json::to_value(rind::session::entry_json_schema()).unwrap();
    let check = jsonschema::validator_for(&schema).unwrap();
    let file = store.session_folder(&id).unwrap().join("session.jsonl");
    let seen = types_of_lines(&check, &fs::read_to_string(file).unwrap());
    let variants = schema["oneOf"].as_array().or(schema["anyOf"].as_array());
    let types: BTreeSet<String> = variants
        .unwrap()
        .iter()
        .map(|one| {
            one["properties"]["type"]["const"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    assert_eq!(seen, types);
    assert!(types.len() >= 34, "{types:?}");
}

#[tokio::test]
async fn a_copy_up_to_any_entry_has_no_fault_and_goes_on() {
    let first = Setup::new(Vec::new());
    let (store, id) = every(&first);
    let (entries, notices) = store.read_entries(&id).unwrap();
    assert_eq!(notices, Vec::<String>::new());
    let mut folder = first.folder;
    for entry in &entries {
        let name = serde_json::to_string(entry).unwrap();
        let mut setup = Setup::new(vec![Reply::text("on")]);
        setup.folder = folder;
        let spec = session_spec(&setup.workspace());
        let copy = store.fork(&id, Some(&entry.id), &spec).unwrap();
        let copied = copy.id().to_string();
        drop(copy);
        let quiet = |when: &str| {
            let found = examine_session(&store, &copied).unwrap();
            assert!(found.faults.is_empty(), "{when} {name}: {:?}", found.faults);
        };
        quiet("copied");
        let session = store.resume(&copied, &spec).unwrap();
        assert_eq!(session.notices(), Vec::<String>::new(), "{name}");
        // A large value whose blob was removed is missing, and not an error.
        session.state_get("hello", "large").unwrap();
        let mut running = setup.build_on(session);
        assert_eq!(running.turn("next").await.output, "on", "{name}");
        check_pairs(&running.session.messages());
        folder = running.folder;
        drop((running.agent, running.session));
        quiet("resumed");
        store.remove(&copied).unwrap();
    }
}
