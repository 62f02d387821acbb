//! Archival in a running agent: which turns are removed from the conversation, what replaces them,
//! which holder keeps the messages, and how the model queries the holder.

mod cli;
mod compacted;
mod flow;
mod holder;
mod killed;
mod long;
mod query;
mod spawn;
mod summary;

use rind::event::{Event, Stamped};
use rind::message::Message;
use rind::provider::scripted::{Reply, ReplyCondition};
use rind::session::{Body, SessionStore};
use serde_json::{Value, json};

use crate::harness::{Running, Setup, session_spec};

/// Summary that the model writes by default.
const SUMMARY: &str = r#"{"outcome":"read it","key_findings":["alpha"],"files_touched":["a.txt"],"tools_used":["read_file"],"open_questions":[]}"#;

/// Sets up an agent with archival and this script. The model answers every request for a summary.
pub(crate) fn archiving(script: Vec<Reply>) -> Setup {
    with_summary(script, Reply::text(SUMMARY))
}

/// Does the same as [`archiving`], with this answer to requests for a summary.
fn with_summary(mut script: Vec<Reply>, summary: Reply) -> Setup {
    script.push(Reply {
        when: Some(ReplyCondition {
            contains: Some("Sum up this turn.".to_owned()),
            ..ReplyCondition::default()
        }),
        times: Some(0),
        ..summary
    });
    let mut setup = Setup::new(script);
    setup.config.subagents.enabled = true;
    setup.config.archival.enabled = true;
    setup
}

fn read(path: &str) -> Reply {
    Reply::call("read_file", json!({"path": path}))
}

/// Script of a turn with `n` calls, one per step, and the answer `done`.
fn reads(n: usize) -> Vec<Reply> {
    let mut script: Vec<Reply> = (0..n).map(|_| read("a.txt")).collect();
    script.push(Reply::text("done"));
    script
}

/// Outcome of an archival: the holder's id, the summary, the refusal.
type End = (Option<String>, Option<String>, Option<String>);

fn ends(running: &Running) -> Vec<End> {
    let end = |event: &Event| match event.clone() {
        Event::ArchiveEnd {
            holder,
            summary,
            refused,
            ..
        } => Some((holder, summary, refused)),
        _ => None,
    };
    running.events.iter().filter_map(end).collect()
}

/// Returns the id of the only holder.
fn holder(running: &Running) -> String {
    let ends = ends(running);
    assert_eq!(ends.len(), 1, "{ends:?}");
    ends[0]
        .0
        .clone()
        .unwrap_or_else(|| panic!("not archived: {ends:?}"))
}

fn reasons(running: &Running) -> Vec<String> {
    let reason = |event: &Event| match event {
        Event::ArchiveStart { reason, .. } => Some(reason.clone()),
        _ => None,
    };
    running.events.iter().filter_map(reason).collect()
}

fn notices(running: &Running) -> Vec<String> {
    let text = |event: &Event| match event {
        Event::Notice { text, .. } => Some(text.clone()),
        _ => None,
    };
    running.events.iter().filter_map(text).collect()
}

fn store(running: &Running) -> SessionStore {
    SessionStore::new(running.folder.path().join("sessions"))
}

/// Returns the entries of a session; `below` is empty for the session itself or `/agents/ID` for an
/// agent below it.
fn entries(running: &Running, below: &str) -> Vec<Body> {
    let id = format!("{}{below}", running.session.id());
    let (entries, notices) = store(running).read_entries(&id).unwrap();
    assert_eq!(notices, Vec::<String>::new());
    entries.into_iter().map(|entry| entry.body).collect()
}

fn messages(entries: Vec<Body>) -> Vec<Message> {
    let message = |body| match body {
        Body::Message { message } => Some(message),
        _ => None,
    };
    entries.into_iter().filter_map(message).collect()
}

/// Returns the system prompt of request `n`.
fn system(running: &Running, n: usize) -> String {
    let bodies = running.provider.recorded_request_bodies();
    let blocks = bodies[n]["system"].as_array().unwrap().clone();
    let texts: Vec<&str> = blocks.iter().filter_map(Value::as_str).collect();
    texts.join("\n\n")
}

/// Returns the names of the tools in request `n`.
fn tools(running: &Running, n: usize) -> Vec<String> {
    let bodies = running.provider.recorded_request_bodies();
    let tools = bodies[n]["tools"].as_array().cloned().unwrap_or_default();
    let name = |tool: &Value| tool["name"].as_str().unwrap().to_owned();
    tools.iter().map(name).collect()
}

/// Returns the last tool result in the conversation.
fn last_result(running: &Running) -> String {
    let messages = running.session.messages();
    let results = messages.iter().flat_map(Message::tool_results);
    results.last().unwrap().content.to_string()
}

/// Resumes the session of a stopped agent with the settings and the model of `setup`.
fn again(running: Running, mut setup: Setup) -> Running {
    let (store, id) = (store(&running), running.session.id().to_string());
    setup.folder = running.folder;
    drop((running.agent, running.session));
    let session = store
        .resume(&id, &session_spec(&setup.folder.path().join("w")))
        .unwrap();
    assert_eq!(session.notices(), Vec::<String>::new());
    setup.build_on(session)
}
