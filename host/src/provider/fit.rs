//! Rewrites a conversation so that the server that receives it accepts it.
//!
//! A conversation may contain answers of several models over several wires, with tool names that a
//! model invented and call ids that a server numbers anew in each answer. Most APIs refuse such a
//! history, and then every later request of the session too. So before a wire writes a request,
//! this pass
//!
//! - drops reasoning, signatures and opaque data of another model or server, or that the server
//!   refused,
//! - limits names and ids of calls to the characters that all APIs accept, and makes ids unique
//!   within the conversation,
//! - pairs calls with results: it adds a result to a call without one and drops a result without a
//!   call,
//! - joins adjacent messages of one role, begins with a user message, and replaces an empty result
//!   with a placeholder.
//!
//! Owns the rules that all APIs share. It must not know how a wire writes a message. Start from
//! [`fit_conversation`].

use std::borrow::Cow;
use std::collections::HashSet;

use super::mend::{BETWEEN, Mends, has_reasoning};
use super::{Request, Wire};
use crate::message::{Content, Message, Role, ToolCall, ToolResult, Writer};

/// Maximum length of a tool name in characters, according to the documentation of OpenAI, Anthropic
/// and Gemini.
const MAX_NAME: usize = 64;

/// Maximum length of a call id in characters: chat completions at OpenAI accept 40, other APIs
/// more.
const MAX_ID: usize = 40;

/// Length in characters that Mistral requires of a call id.
const SHORT_ID: usize = 9;

/// Placeholder for a tool name without a single valid character. No tool has this name, so the
/// model gets the error that the tool does not exist.
const NO_NAME: &str = "unnamed_tool";

/// Placeholder result for a call without a result.
const NO_RESULT: &str = "[no result: the call did not end]";

/// Placeholder for an empty result: several servers refuse an empty message.
const NO_OUTPUT: &str = "[no output]";

/// Placeholder user message in front of a conversation that would otherwise begin with a message of
/// the model: every API requires a user message first.
const BEGINNING: &str = "[the beginning of the conversation was left out]";

/// The server that receives the conversation.
pub(super) struct FitTarget<'a> {
    pub(super) provider: &'a str,
    pub(super) wire: Wire,
    pub(super) mends: &'a Mends,
}

/// Returns the request with its conversation rewritten for the target. The result is borrowed if no
/// message had to change.
pub(super) fn fit_conversation<'a>(
    request: &'a Request,
    target: &FitTarget<'_>,
) -> Cow<'a, Request> {
    let reader = Writer {
        provider: target.provider.to_owned(),
        wire: target.wire.name().to_owned(),
        model: request.model.clone(),
    };
    let mut fitted = FittedConversation {
        reader,
        mends: target.mends,
        messages: Vec::with_capacity(request.messages.len()),
        ids: CallIds::default(),
    };
    for message in &request.messages {
        fitted.take_message(message);
    }
    fitted.close_calls();
    let is_same = fitted.messages.len() == request.messages.len()
        && fitted
            .messages
            .iter()
            .all(|message| matches!(message, Cow::Borrowed(_)));
    if is_same {
        return Cow::Borrowed(request);
    }
    Cow::Owned(Request {
        messages: fitted.messages.into_iter().map(Cow::into_owned).collect(),
        model: request.model.clone(),
        system: request.system.clone(),
        tools: request.tools.clone(),
        temperature: request.temperature,
        max_tokens: request.max_tokens,
        output: request.output.clone(),
    })
}

/// A conversation that is being rewritten.
struct FittedConversation<'a, 'm> {
    reader: Writer,
    mends: &'m Mends,
    messages: Vec<Cow<'a, Message>>,
    ids: CallIds,
}

/// Ids that the calls have in the rewritten conversation, and the calls that have no result yet.
#[derive(Default)]
struct CallIds {
    used: HashSet<String>,
    /// Calls that have no result yet, in the order in which the model made them.
    open: Vec<OpenCall>,
}

/// A call that has no result yet.
struct OpenCall {
    /// Id of the call in the session, to which the result refers. Several calls of one answer may
    /// have the same id.
    named: String,
    /// Unique id of the call in the rewritten conversation.
    sent: String,
    /// Name of the tool in the rewritten conversation.
    name: String,
}

impl<'a> FittedConversation<'a, '_> {
    fn take_message(&mut self, message: &'a Message) {
        let message = match message.role {
            Role::Tool => self.fit_results(message),
            Role::Assistant => {
                self.close_calls();
                self.fit_answer(message)
            }
            Role::User => {
                self.close_calls();
                Some(Cow::Borrowed(message))
            }
        };
        let Some(message) = message.filter(|message| !is_empty(message)) else {
            return;
        };
        let last = self.messages.last().map(|last| last.role);
        match (last, message.role) {
            (None, Role::Assistant) => self.put_text(Role::User, BEGINNING),
            (Some(Role::Tool), Role::User) if self.mends.alternates_roles => {
                self.put_text(Role::Assistant, BETWEEN);
            }
            _ => {}
        }
        let joins = match (last, message.role) {
            (Some(Role::User), Role::User) => true,
            (Some(Role::Assistant), Role::Assistant) => {
                let last = self.messages.last();
                last.is_some_and(|last| last.writer == message.writer && last.extra.is_none())
            }
            _ => false,
        };
        match self.messages.last_mut().filter(|_| joins) {
            Some(last) => {
                let last = last.to_mut();
                last.content.extend(message.content.iter().cloned());
                last.extra.clone_from(&message.extra);
            }
            None => self.messages.push(message),
        }
    }

    fn put_text(&mut self, role: Role, text: &str) {
        let mut message = Message::text(role, text);
        // The id is empty, because this message is created anew for each request: a fresh id would
        // make every request different.
        message.id = String::new();
        self.messages.push(Cow::Owned(message));
    }

    /// Rewrites a message of the model for the target.
    fn fit_answer(&mut self, message: &'a Message) -> Option<Cow<'a, Message>> {
        let mut fitted = Cow::Borrowed(message);
        let is_foreign = message.writer.as_ref() != Some(&self.reader);
        if has_reasoning(message) && (is_foreign || self.mends.drops_reasoning_of(message)) {
            let own = fitted.to_mut();
            own.drop_extra();
            own.content
                .retain(|part| !matches!(part, Content::Thinking { .. }));
        }
        let is_short = self.mends.has_short_ids;
        let named: Vec<(String, Cow<'_, str>)> = message
            .tool_calls()
            .map(|call| (self.ids.open_id(call, is_short), safe_name(&call.name)))
            .collect();
        let is_same = |(call, (id, name)): (&ToolCall, &(String, Cow<'_, str>))| {
            call.id == *id && call.name == *name
        };
        if !message.tool_calls().zip(&named).all(is_same) {
            let calls = fitted
                .to_mut()
                .content
                .iter_mut()
                .filter_map(|part| match part {
                    Content::ToolCall(call) => Some(call),
                    _ => None,
                });
            for (call, (id, name)) in calls.zip(named) {
                call.id = id;
                call.name = name.into_owned();
            }
        }
        Some(fitted)
    }

    /// Gives each result the id and the tool name that its call has in the rewritten conversation.
    /// Drops a result without an open call.
    fn fit_results(&mut self, message: &'a Message) -> Option<Cow<'a, Message>> {
        let mut kept = Vec::new();
        let mut is_changed = false;
        for part in &message.content {
            let Content::ToolResult(result) = part else {
                kept.push(part.clone());
                continue;
            };
            let Some((id, name)) = self.ids.close_id(&result.call_id) else {
                is_changed = true;
                continue;
            };
            let is_silent =
                result.content.blobs().next().is_none() && result.content.text().trim().is_empty();
            if id == result.call_id && name == result.name && !is_silent {
                kept.push(part.clone());
                continue;
            }
            is_changed = true;
            let content = match is_silent {
                true => NO_OUTPUT.into(),
                false => result.content.clone(),
            };
            kept.push(Content::ToolResult(ToolResult::new(
                id,
                name,
                content,
                result.is_error,
            )));
        }
        if !is_changed {
            return Some(Cow::Borrowed(message));
        }
        let message = Message {
            content: kept,
            ..message.clone()
        };
        Some(Cow::Owned(message))
    }

    /// Adds a placeholder result to each open call.
    fn close_calls(&mut self) {
        for call in std::mem::take(&mut self.ids.open) {
            let result = ToolResult::new(call.sent, call.name, NO_RESULT, true);
            let mut message = Message::result(result);
            message.id = String::new();
            self.messages.push(Cow::Owned(message));
        }
    }
}

impl CallIds {
    /// Registers a call as open and returns its id in the rewritten conversation.
    fn open_id(&mut self, call: &ToolCall, is_short: bool) -> String {
        let id = match is_short {
            true => short_id(&call.id),
            false => safe_id(&call.id),
        };
        let mut unique = id.clone();
        let mut number = 1_u32;
        while !self.used.insert(unique.clone()) {
            number += 1;
            unique = match is_short {
                true => short_id(&format!("{} {number}", call.id)),
                false => {
                    let suffix = format!("_{number}");
                    let room = MAX_ID - suffix.len();
                    format!("{}{suffix}", &id[..id.len().min(room)])
                }
            };
        }
        self.open.push(OpenCall {
            named: call.id.clone(),
            sent: unique.clone(),
            name: safe_name(&call.name).into_owned(),
        });
        unique
    }

    /// Closes the call with this original id, and returns its id and tool name in the rewritten
    /// conversation. Results of calls with the same id belong to these calls in order.
    fn close_id(&mut self, call_id: &str) -> Option<(String, String)> {
        let at = self.open.iter().position(|call| call.named == call_id)?;
        let call = self.open.remove(at);
        Some((call.sent, call.name))
    }
}

/// Returns a tool name that every API accepts: `[a-zA-Z0-9_-]`, beginning with a letter or `_`, at
/// most 64 characters. Some models append control tokens to a name
/// (`read_file<|channel|>commentary`); only the part before the token is kept.
fn safe_name(name: &str) -> Cow<'_, str> {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let begins = |name: &str| name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if begins(name) && name.len() <= MAX_NAME && name.chars().all(is_safe) {
        return Cow::Borrowed(name);
    }
    let name = name.split("<|").next().unwrap_or_default();
    let replaced = name.chars().map(|c| if is_safe(c) { c } else { '_' });
    let mut safe: String = replaced.take(MAX_NAME).collect();
    if !safe.contains(|c: char| c.is_ascii_alphanumeric()) {
        return Cow::Borrowed(NO_NAME);
    }
    if !begins(&safe) {
        safe.insert(0, '_');
        safe.truncate(MAX_NAME);
    }
    Cow::Owned(safe)
}

/// Returns a call id that every API except Mistral's accepts: `[a-zA-Z0-9_-]`, 1 to 40 characters.
fn safe_id(id: &str) -> String {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let safe: String = id
        .chars()
        .map(|c| if is_safe(c) { c } else { '_' })
        .collect();
    match safe.len() {
        0 => "call".to_owned(),
        1..=MAX_ID => safe,
        // Keep the end of a long id: the beginning is often the same for all ids.
        length => safe[length - MAX_ID..].to_owned(),
    }
}

/// Derives an id of nine letters and digits from an id.
fn short_id(id: &str) -> String {
    let is_short = id.len() == SHORT_ID && id.chars().all(|c| c.is_ascii_alphanumeric());
    if is_short {
        return id.to_owned();
    }
    let digest = blake3::hash(id.as_bytes()).to_hex();
    digest[..SHORT_ID].to_owned()
}

/// Whether a message has only blank texts and empty reasoning.
fn is_empty(message: &Message) -> bool {
    message.content.iter().all(|part| match part {
        Content::Text { text } => text.trim().is_empty(),
        Content::Thinking {
            text,
            signature,
            extra,
        } => text.is_empty() && signature.is_none() && extra.is_none(),
        Content::Blob(_) | Content::ToolCall(_) | Content::ToolResult(_) => false,
    })
}

#[cfg(test)]
mod tests;
