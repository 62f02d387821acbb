//! Rewrites a conversation so that the server that receives it accepts it.
//!
//! A conversation may contain answers of several models in several wire formats, with tool names
//! that a model invented and call ids that a server numbers anew in each answer. Most APIs refuse
//! such a history, and then every later request of the session too. So before a request is written
//! in a wire format, this pass
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
//! Owns the rules that all APIs share. It must not know how a wire format represents a message.
//! Start from [`rewrite_conversation`].

use std::borrow::Cow;
use std::collections::HashSet;

use super::mend::{ASSISTANT_MESSAGE_PLACEHOLDER, RequestCorrections, has_reasoning};
use super::{ModelApiFormat, Request};
use crate::message::{Content, Message, Role, ToolCall, ToolResult, Writer};

/// Maximum length of a tool name in characters, according to the documentation of OpenAI, Anthropic
/// and Gemini.
const MAX_TOOL_NAME_CHARS: usize = 64;

/// Maximum length of a call id in characters: chat completions at OpenAI accept 40, other APIs
/// more.
const MAX_CALL_ID_CHARS: usize = 40;

/// Length in characters that Mistral requires of a call id.
const MISTRAL_CALL_ID_LENGTH_CHARS: usize = 9;

/// Placeholder for a tool name without a single valid character. No tool has this name, so the
/// model gets the error that the tool does not exist.
const INVALID_TOOL_NAME_PLACEHOLDER: &str = "unnamed_tool";

/// Placeholder that is sent as the result of a tool call without one.
const MISSING_RESULT_PLACEHOLDER: &str = "[no result: the call did not end]";

/// Placeholder for an empty result: several servers refuse an empty message.
const EMPTY_RESULT_PLACEHOLDER: &str = "[no output]";

/// Placeholder user message in front of a conversation that would otherwise begin with a message of
/// the model: every API requires a user message first.
const FIRST_USER_MESSAGE_PLACEHOLDER: &str = "[the beginning of the conversation was left out]";

/// Model server that will receive the conversation, and the corrections that it requires.
pub(super) struct RecipientModelServer<'a> {
    pub(super) provider: &'a str,
    pub(super) wire: ModelApiFormat,
    pub(super) mends: &'a RequestCorrections,
}

/// Returns the request with its conversation rewritten for the target. The result is borrowed if no
/// message had to change.
pub(super) fn rewrite_conversation<'a>(
    request: &'a Request,
    target: &RecipientModelServer<'_>,
) -> Cow<'a, Request> {
    let reader = Writer {
        provider: target.provider.to_owned(),
        wire: target.wire.name().to_owned(),
        model: request.model.clone(),
    };
    let mut fitted = ConversationRewriter {
        reader,
        mends: target.mends,
        messages: Vec::with_capacity(request.messages.len()),
        ids: RewrittenToolCallIds::default(),
    };
    for message in &request.messages {
        fitted.rewrite_message(message);
    }
    fitted.add_missing_tool_results();
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

/// State of the rewriting of one conversation: the messages that are already rewritten.
struct ConversationRewriter<'a, 'm> {
    reader: Writer,
    mends: &'m RequestCorrections,
    messages: Vec<Cow<'a, Message>>,
    ids: RewrittenToolCallIds,
}

/// Ids of tool calls that are used in the rewritten conversation, and the calls that have no result
/// yet.
#[derive(Default)]
struct RewrittenToolCallIds {
    used: HashSet<String>,
    /// Tool calls of the rewritten conversation that have no result yet, in the order in which the
    /// model made them.
    open: Vec<ToolCallAwaitingResult>,
}

/// Tool call that has no result yet.
struct ToolCallAwaitingResult {
    /// Call id in the session, by which the result refers to its call. Several calls of one answer
    /// may have the same id.
    named: String,
    /// Unique id of the call in the rewritten conversation.
    sent: String,
    /// Name of the tool in the rewritten conversation.
    name: String,
}

impl<'a> ConversationRewriter<'a, '_> {
    fn rewrite_message(&mut self, message: &'a Message) {
        let message = match message.role {
            Role::Tool => self.match_results_to_calls(message),
            Role::Assistant => {
                self.add_missing_tool_results();
                self.rewrite_assistant_message(message)
            }
            Role::User => {
                self.add_missing_tool_results();
                Some(Cow::Borrowed(message))
            }
        };
        let Some(message) = message.filter(|message| !has_no_content(message)) else {
            return;
        };
        let last = self.messages.last().map(|last| last.role);
        match (last, message.role) {
            (None, Role::Assistant) => self.push_text(Role::User, FIRST_USER_MESSAGE_PLACEHOLDER),
            (Some(Role::Tool), Role::User) if self.mends.alternates_roles => {
                self.push_text(Role::Assistant, ASSISTANT_MESSAGE_PLACEHOLDER);
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

    fn push_text(&mut self, role: Role, text: &str) {
        let mut message = Message::text(role, text);
        // The id is empty, because this message is created anew for each request: a fresh id would
        // make every request different.
        message.id = String::new();
        self.messages.push(Cow::Owned(message));
    }

    /// Rewrites an assistant message so that the target server accepts it.
    fn rewrite_assistant_message(&mut self, message: &'a Message) -> Option<Cow<'a, Message>> {
        let mut fitted = Cow::Borrowed(message);
        let is_foreign = message.writer.as_ref() != Some(&self.reader);
        if has_reasoning(message) && (is_foreign || self.mends.should_drop_reasoning(message)) {
            let own = fitted.to_mut();
            own.remove_provider_opaque_data();
            own.content
                .retain(|part| !matches!(part, Content::Thinking { .. }));
        }
        let is_short = self.mends.has_short_ids;
        let named: Vec<(String, Cow<'_, str>)> = message
            .tool_calls()
            .map(|call| {
                (
                    self.ids.register_open_call(call, is_short),
                    to_safe_tool_name(&call.name),
                )
            })
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

    /// Rewrites a message with tool results: each result gets the id and the tool name that its
    /// call has in the rewritten conversation. A result is dropped if it has no call, or if its
    /// call already has a result.
    fn match_results_to_calls(&mut self, message: &'a Message) -> Option<Cow<'a, Message>> {
        let mut kept = Vec::new();
        let mut is_changed = false;
        for part in &message.content {
            let Content::ToolResult(result) = part else {
                kept.push(part.clone());
                continue;
            };
            let Some((id, name)) = self.ids.take_call_awaiting_result(&result.call_id) else {
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
                true => EMPTY_RESULT_PLACEHOLDER.into(),
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

    /// Adds a message with a placeholder result for each tool call that has no result yet.
    fn add_missing_tool_results(&mut self) {
        for call in std::mem::take(&mut self.ids.open) {
            let result = ToolResult::new(call.sent, call.name, MISSING_RESULT_PLACEHOLDER, true);
            let mut message = Message::from_tool_result(result);
            message.id = String::new();
            self.messages.push(Cow::Owned(message));
        }
    }
}

impl RewrittenToolCallIds {
    /// Adds a call to those that have no result yet, and returns the call's id in the rewritten
    /// conversation.
    fn register_open_call(&mut self, call: &ToolCall, is_short: bool) -> String {
        let id = match is_short {
            true => to_short_call_id(&call.id),
            false => to_safe_call_id(&call.id),
        };
        let mut unique = id.clone();
        let mut number = 1_u32;
        while !self.used.insert(unique.clone()) {
            number += 1;
            unique = match is_short {
                true => to_short_call_id(&format!("{} {number}", call.id)),
                false => {
                    let suffix = format!("_{number}");
                    let room = MAX_CALL_ID_CHARS - suffix.len();
                    format!("{}{suffix}", &id[..id.len().min(room)])
                }
            };
        }
        self.open.push(ToolCallAwaitingResult {
            named: call.id.clone(),
            sent: unique.clone(),
            name: to_safe_tool_name(&call.name).into_owned(),
        });
        unique
    }

    /// Removes the call with this original id from the calls without a result, and returns its id
    /// and tool name in the rewritten conversation. If several calls have the id, the first of them
    /// gets the result.
    fn take_call_awaiting_result(&mut self, call_id: &str) -> Option<(String, String)> {
        let at = self.open.iter().position(|call| call.named == call_id)?;
        let call = self.open.remove(at);
        Some((call.sent, call.name))
    }
}

/// Returns a tool name that every API accepts: `[a-zA-Z0-9_-]`, beginning with a letter or `_`, at
/// most 64 characters. Some models append control tokens to a name
/// (`read_file<|channel|>commentary`); only the part before the token is kept.
fn to_safe_tool_name(name: &str) -> Cow<'_, str> {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let begins = |name: &str| name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if begins(name) && name.len() <= MAX_TOOL_NAME_CHARS && name.chars().all(is_safe) {
        return Cow::Borrowed(name);
    }
    let name = name.split("<|").next().unwrap_or_default();
    let replaced = name.chars().map(|c| if is_safe(c) { c } else { '_' });
    let mut safe: String = replaced.take(MAX_TOOL_NAME_CHARS).collect();
    if !safe.contains(|c: char| c.is_ascii_alphanumeric()) {
        return Cow::Borrowed(INVALID_TOOL_NAME_PLACEHOLDER);
    }
    if !begins(&safe) {
        safe.insert(0, '_');
        safe.truncate(MAX_TOOL_NAME_CHARS);
    }
    Cow::Owned(safe)
}

/// Converts a call id to one that every API except Mistral's accepts: `[a-zA-Z0-9_-]`, 1 to 40
/// characters.
fn to_safe_call_id(id: &str) -> String {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let safe: String = id
        .chars()
        .map(|c| if is_safe(c) { c } else { '_' })
        .collect();
    match safe.len() {
        0 => "call".to_owned(),
        1..=MAX_CALL_ID_CHARS => safe,
        // Keep the end of a long id: the beginning is often the same for all ids.
        length => safe[length - MAX_CALL_ID_CHARS..].to_owned(),
    }
}

/// Derives a call id of nine letters and digits, as Mistral requires, from a call id.
fn to_short_call_id(id: &str) -> String {
    let is_short =
        id.len() == MISTRAL_CALL_ID_LENGTH_CHARS && id.chars().all(|c| c.is_ascii_alphanumeric());
    if is_short {
        return id.to_owned();
    }
    let digest = blake3::hash(id.as_bytes()).to_hex();
    digest[..MISTRAL_CALL_ID_LENGTH_CHARS].to_owned()
}

/// Whether a message has only blank texts and empty reasoning.
fn has_no_content(message: &Message) -> bool {
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
