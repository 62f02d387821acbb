//! An in-memory host for a plugin's own tests, which run natively with `cargo test`.
//!
//! All data belong to the thread of the test. State, store, config, log, files and the conversation
//! are empty at first. HTTP requests, questions to models, subagents, and calls of tools and points
//! are denied until the test answers them with a function such as [`answer_http`].
//! `rind run --plugin DIR --script FILE` runs the compiled component in the real host.

mod agent_turn;
mod answers;
mod caller;
mod files;
mod loops;
pub(crate) mod blobs {
    use super::{Error, with_host};

    pub(crate) fn read(id: &str, offset: u64, length: u64) -> Result<Vec<u8>, Error> {
        let bytes = with_host(|host| host.blobs.get(id).cloned());
        let bytes = bytes.ok_or_else(|| Error::Denied("no such blob was put".to_owned()))?;
        let at = |place: u64| {
            usize::try_from(place)
                .unwrap_or(usize::MAX)
                .min(bytes.len())
        };
        Ok(bytes[at(offset)..at(offset.saturating_add(length))].to_vec())
    }
}

pub(crate) mod handles;

pub(crate) use agent_turn::host as agent_turn_host;
pub use agent_turn::{answer_requests, asked_primitives, model_answer, resume_turn};
pub use answers::{
    Answered, Asked, answer_agents, answer_commands, answer_http, answer_model, answer_points,
    answer_questions, answer_tools,
};
pub(crate) use answers::{agents, ask, http, model, points, read_command, tools_host};
pub(crate) use caller::host as caller_host;
pub use caller::{Caller, set_caller};
pub(crate) use files::host as files_host;
pub use files::{file, put_file};
pub use loops::{SocketCall, answer_sockets, answer_turns, answer_waits};
pub(crate) use loops::{turns, waiting, websocket};

use crate::handles::{Conversation, FinishedCall, Slice, WireRequest, WireResponse};
use crate::payloads::{ModelRequest, ProposedCall, Purpose};
use crate::types::{
    Blob, Content, EffectClass, Error, Level, Message, Origin, Part, Role, ToolCall, Usage,
};
use serde::Serialize;
use std::cell::RefCell;
use std::collections::BTreeMap;

#[derive(Default)]
struct Host {
    state: BTreeMap<String, String>,
    store: BTreeMap<String, String>,
    config: serde_json::Map<String, serde_json::Value>,
    log: Vec<(Level, String)>,
    status: String,
    conversation: Vec<Message>,
    entries: Vec<(String, String)>,
    blobs: BTreeMap<String, Vec<u8>>,
}

thread_local! {
    static HOST: RefCell<Host> = RefCell::default();
}

fn with_host<T>(f: impl FnOnce(&mut Host) -> T) -> T {
    HOST.with(|host| f(&mut host.borrow_mut()))
}

/// Resets the in-memory host of this thread: removes everything that was set, stored and logged.
pub fn reset() {
    with_host(|host| *host = Host::default());
    agent_turn::reset();
    answers::reset();
    loops::reset();
    caller::reset();
    files::reset();
}

/// Sets the plugin's settings on this thread. The defaults of the manifest are not added.
///
/// # Panics
/// The value is not a JSON object.
#[expect(
    clippy::expect_used,
    reason = "a test that passes nonsense should stop"
)]
pub fn set_config<T: Serialize>(settings: T) {
    let value = serde_json::to_value(settings).expect("settings that can be written as JSON");
    let serde_json::Value::Object(map) = value else {
        panic!("settings must be an object, not {value}");
    };
    with_host(|host| host.config = map);
}

/// Sets the conversation that [`crate::session::messages`] reads on this thread.
pub fn set_conversation(messages: Vec<Message>) {
    with_host(|host| host.conversation = messages);
}

/// Adds a blob that [`crate::blobs`] reads on this thread, and returns the reference to it.
pub fn put_blob(media_type: &str, content: Vec<u8>) -> Blob {
    with_host(|host| {
        let id = format!("blob-{}", host.blobs.len() + 1);
        let size = content.len() as u64;
        host.blobs.insert(id.clone(), content);
        Blob {
            id,
            media_type: media_type.to_owned(),
            size,
        }
    })
}

/// Returns the entries that were appended with [`crate::session::append`] on this thread, with
/// their names.
#[must_use]
pub fn entries() -> Vec<(String, String)> {
    with_host(|host| host.entries.clone())
}

/// Returns the lines that were logged on this thread so far.
#[must_use]
pub fn logged() -> Vec<(Level, String)> {
    with_host(|host| host.log.clone())
}

/// Returns the plugin's status line on this thread.
#[must_use]
pub fn status() -> String {
    with_host(|host| host.status.clone())
}

/// Creates a message of the user, the model or the tools.
#[must_use]
pub fn message(id: impl Into<String>, role: Role, content: Vec<Content>) -> Message {
    let origin = match role {
        Role::User => Origin::User,
        Role::Assistant => Origin::Model,
        Role::Tool => Origin::Tools,
    };
    Message {
        id: id.into(),
        role,
        origin,
        content,
    }
}

/// Creates a proposed call of a built-in tool.
#[must_use]
pub fn proposed_call(name: &str, arguments: impl Into<serde_json::Value>) -> ProposedCall {
    let call = ToolCall {
        id: "call-1".to_owned(),
        name: name.to_owned(),
        arguments: arguments.into().to_string(),
    };
    ProposedCall {
        call,
        effect_class: EffectClass::Read,
        plugin: None,
    }
}

/// Creates a finished call of a built-in tool without arguments, and with this result.
#[must_use]
pub fn finished_call(name: &str, content: impl Into<String>) -> FinishedCall {
    let call = FinishedCall {
        call: proposed_call(name, serde_json::json!({})).call,
        plugin: None,
        is_error: false,
        is_refused: false,
        duration_ms: 1,
        parts: Vec::new(),
        content: String::new(),
    };
    call.with_parts(vec![Part::Text(content.into())])
}

/// Creates the messages of a request.
#[must_use]
pub fn conversation(messages: Vec<Message>) -> Conversation {
    Conversation { messages }
}

/// Creates the payload of hooks about compaction or archiving: messages that are compacted or
/// archived at the user's request.
#[must_use]
pub fn slice(messages: Vec<Message>) -> Slice {
    Slice {
        reason: "asked".to_owned(),
        summary: String::new(),
        messages,
    }
}

/// Creates a request to a provider whose body is this JSON text.
#[must_use]
pub fn wire_request(body: impl Into<String>) -> WireRequest {
    WireRequest {
        provider: "scripted".to_owned(),
        body: body.into(),
    }
}

/// Creates a provider's answer to a step, without a body and without a known price.
#[must_use]
pub fn wire_response(model: impl Into<String>, usage: Usage) -> WireResponse {
    WireResponse {
        purpose: Purpose::Step,
        provider: "scripted".to_owned(),
        status: 200,
        latency_ms: 1,
        model: model.into(),
        usage,
        cost_usd: None,
        body: String::new(),
    }
}

/// Creates the payload of `pre_reason` for a step.
#[must_use]
pub fn model_request() -> ModelRequest {
    ModelRequest {
        purpose: Purpose::Step,
        provider: "scripted".to_owned(),
        model: "scripted".to_owned(),
        temperature: None,
        max_tokens: None,
        tools: Vec::new(),
        messages: 0,
        usage: Usage::default(),
    }
}

/// Sets a key, with the limits of the real host.
fn insert(values: &mut BTreeMap<String, String>, key: &str, value: &str) -> Result<(), Error> {
    let others: usize = values
        .iter()
        .filter(|(other, _)| *other != key)
        .map(|(_, value)| value.len())
        .sum();
    if key.len() > 256 || value.len() > 16 << 20 || others + value.len() > 64 << 20 {
        return Err(Error::Limit(format!(
            "no room for {} bytes under {key:?}",
            value.len()
        )));
    }
    values.insert(key.to_owned(), value.to_owned());
    Ok(())
}

pub(crate) fn push_log(level: Level, text: String) {
    with_host(|host| host.log.push((level, text)));
}

pub(crate) fn set_status(text: &str) {
    with_host(|host| host.status = text.to_owned());
}

pub(crate) mod config {
    use super::with_host;

    pub(crate) fn all() -> String {
        with_host(|host| serde_json::Value::Object(host.config.clone()).to_string())
    }

    pub(crate) fn get(key: &str) -> Option<String> {
        with_host(|host| host.config.get(key).map(ToString::to_string))
    }
}

pub(crate) mod session {
    use super::with_host;
    use crate::types::{Error, Message};

    pub(crate) fn messages(last: u32) -> Vec<Message> {
        let last = usize::try_from(last).unwrap_or(usize::MAX).min(1000);
        with_host(|host| {
            let first = host.conversation.len().saturating_sub(last);
            host.conversation[first..].to_vec()
        })
    }

    pub(crate) fn messages_after(id: &str) -> Vec<Message> {
        let mut messages = messages(u32::MAX);
        if let Some(at) = messages.iter().rposition(|message| message.id == id) {
            messages.drain(..=at);
        }
        messages
    }

    pub(crate) fn append(name: &str, value: &str) -> Result<(), Error> {
        let _: serde_json::Value = serde_json::from_str(value)?;
        with_host(|host| host.entries.push((name.to_owned(), value.to_owned())));
        Ok(())
    }
}

pub(crate) mod state {
    use super::with_host;
    use crate::types::Error;

    pub(crate) fn get(key: &str) -> Option<String> {
        with_host(|host| host.state.get(key).cloned())
    }

    pub(crate) fn set(key: &str, value: &str) -> Result<(), Error> {
        with_host(|host| super::insert(&mut host.state, key, value))
    }

    pub(crate) fn remove(key: &str) -> Result<(), Error> {
        with_host(|host| host.state.remove(key));
        Ok(())
    }

    pub(crate) fn keys(prefix: &str) -> Vec<String> {
        with_host(|host| {
            host.state
                .keys()
                .filter(|key| key.starts_with(prefix))
                .cloned()
                .collect()
        })
    }
}

pub(crate) mod store {
    use super::with_host;
    use crate::types::Error;

    pub(crate) fn get(key: &str) -> Result<Option<String>, Error> {
        Ok(with_host(|host| host.store.get(key).cloned()))
    }

    pub(crate) fn set(key: &str, value: &str) -> Result<(), Error> {
        with_host(|host| super::insert(&mut host.store, key, value))
    }

    pub(crate) fn remove(key: &str) -> Result<(), Error> {
        with_host(|host| host.store.remove(key));
        Ok(())
    }

    pub(crate) fn keys(prefix: &str) -> Result<Vec<String>, Error> {
        Ok(with_host(|host| {
            host.store
                .keys()
                .filter(|key| key.starts_with(prefix))
                .cloned()
                .collect()
        }))
    }
}
