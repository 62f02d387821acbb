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
//! [`fit`].

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::mend::{BETWEEN, Mends, has_reasoning};
use super::{Request, Wire};
use crate::message::{Content, Message, Role, ToolCall, ToolResult, Writer};

/// Longest tool name according to the documentation of OpenAI, Anthropic and Gemini.
const MAX_NAME: usize = 64;

/// Longest id of a call: chat completions at OpenAI accept 40 characters, other APIs more.
const MAX_ID: usize = 40;

/// Length of a call id at Mistral.
const SHORT_ID: usize = 9;

/// Placeholder for a tool name without a single valid character. No tool has this name, so the
/// model is told that the tool does not exist.
const NO_NAME: &str = "unnamed_tool";

/// Placeholder result for a call without a result.
const NO_RESULT: &str = "[no result: the call did not end]";

/// Placeholder for an empty result: several servers refuse an empty message.
const NO_OUTPUT: &str = "[no output]";

/// First message of a conversation that would otherwise begin with the model: every API requires a
/// user message first.
const BEGINNING: &str = "[the beginning of the conversation was left out]";

/// The server that receives the conversation.
pub(super) struct Target<'a> {
    pub(super) provider: &'a str,
    pub(super) wire: Wire,
    pub(super) mends: &'a Mends,
}

/// Returns the request with its conversation rewritten for the target; borrowed when nothing
/// changes.
pub(super) fn fit<'a>(request: &'a Request, target: &Target<'_>) -> Cow<'a, Request> {
    let reader = Writer {
        provider: target.provider.to_owned(),
        wire: target.wire.name().to_owned(),
        model: request.model.clone(),
    };
    let mut fitted = Fitted {
        reader,
        mends: target.mends,
        messages: Vec::with_capacity(request.messages.len()),
        ids: Ids::default(),
    };
    for message in &request.messages {
        fitted.take(message);
    }
    fitted.close();
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
    })
}

/// A conversation while it is rewritten.
struct Fitted<'a, 'm> {
    reader: Writer,
    mends: &'m Mends,
    messages: Vec<Cow<'a, Message>>,
    ids: Ids,
}

/// Ids of calls in the rewritten conversation, and the calls that wait for a result.
#[derive(Default)]
struct Ids {
    used: HashSet<String>,
    /// Calls without a result so far. Key: the id that the result refers to. Value: the id that is
    /// sent, and the name.
    open: HashMap<String, (String, String)>,
    /// Keys of `open` in the order of the calls.
    order: Vec<String>,
}

impl<'a> Fitted<'a, '_> {
    fn take(&mut self, message: &'a Message) {
        let message = match message.role {
            Role::Tool => self.results(message),
            Role::Assistant => {
                self.close();
                self.answer(message)
            }
            Role::User => {
                self.close();
                Some(Cow::Borrowed(message))
            }
        };
        let Some(message) = message.filter(|message| !is_empty(message)) else {
            return;
        };
        let last = self.messages.last().map(|last| last.role);
        match (last, message.role) {
            (None, Role::Assistant) => self.put(Role::User, BEGINNING),
            (Some(Role::Tool), Role::User) if self.mends.alternates_roles => {
                self.put(Role::Assistant, BETWEEN);
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

    fn put(&mut self, role: Role, text: &str) {
        let mut message = Message::text(role, text);
        // Empty, because this message is created for each request: a fresh id would differ every
        // time.
        message.id = String::new();
        self.messages.push(Cow::Owned(message));
    }

    /// Rewrites a message of the model for the target.
    fn answer(&mut self, message: &'a Message) -> Option<Cow<'a, Message>> {
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
            .map(|call| (self.ids.open(call, is_short), safe_name(&call.name)))
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

    /// Rewrites results with the ids under which their calls are sent. Drops a result whose call is
    /// not open.
    fn results(&mut self, message: &'a Message) -> Option<Cow<'a, Message>> {
        let mut kept = Vec::new();
        let mut is_changed = false;
        for part in &message.content {
            let Content::ToolResult(result) = part else {
                kept.push(part.clone());
                continue;
            };
            let Some((id, name)) = self.ids.close(&result.call_id) else {
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
    fn close(&mut self) {
        for named in std::mem::take(&mut self.ids.order) {
            let Some((id, name)) = self.ids.open.remove(&named) else {
                continue;
            };
            let mut message = Message::result(ToolResult::new(id, name, NO_RESULT, true));
            message.id = String::new();
            self.messages.push(Cow::Owned(message));
        }
    }
}

impl Ids {
    /// Registers a call as open and returns the id under which it is sent.
    fn open(&mut self, call: &ToolCall, is_short: bool) -> String {
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
        // Two calls of one answer may have the same id. Store the second one under its unique id,
        // so that it does not overwrite the first.
        let key = match self.open.contains_key(&call.id) {
            true => unique.clone(),
            false => call.id.clone(),
        };
        let name = safe_name(&call.name).into_owned();
        self.order.push(key.clone());
        self.open.insert(key, (unique.clone(), name));
        unique
    }

    /// Closes the call that a result answers, and returns its id as sent and its name.
    fn close(&mut self, call_id: &str) -> Option<(String, String)> {
        self.open.remove(call_id)
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

/// Whether no part of a message would be sent.
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
mod tests {
    use serde_json::json;

    use super::*;
    use crate::provider::mend::Mend;

    fn call(id: &str, name: &str) -> Content {
        Content::ToolCall(ToolCall::new(id, name, json!({})))
    }

    fn result(id: &str, text: &str) -> Message {
        Message::result(ToolResult::new(id, "look", text, false))
    }

    fn writer(model: &str) -> Writer {
        Writer {
            provider: "p".to_owned(),
            wire: Wire::OpenaiChat.name().to_owned(),
            model: model.to_owned(),
        }
    }

    fn by(model: &str, content: Vec<Content>) -> Message {
        Message {
            writer: Some(writer(model)),
            ..Message::new(Role::Assistant, content)
        }
    }

    fn user(text: &str) -> Message {
        Message::text(Role::User, text)
    }

    /// Returns one line per message: its role and its parts.
    fn shown(messages: Vec<Message>, mends: &Mends) -> Vec<String> {
        let request = Request {
            model: "m".to_owned(),
            messages,
            ..Request::default()
        };
        let target = Target {
            provider: "p",
            wire: Wire::OpenaiChat,
            mends,
        };
        let fitted = fit(&request, &target);
        // A conversation that fits is not changed.
        assert_eq!(*fit(&fitted, &target), *fitted);
        let part = |part: &Content| match part {
            Content::Text { text } => text.clone(),
            Content::Thinking { text, .. } => format!("({text})"),
            Content::Blob(_) => "blob".to_owned(),
            Content::ToolCall(call) => format!("{}:{}", call.id, call.name),
            Content::ToolResult(result) => format!("{}={}", result.call_id, result.content.text()),
        };
        let line = |message: &Message| {
            let parts: Vec<String> = message.content.iter().map(part).collect();
            format!("{:?} {}", message.role, parts.join(" "))
        };
        fitted.messages.iter().map(line).collect()
    }

    fn check(messages: Vec<Message>, expected: &[&str]) {
        assert_eq!(shown(messages, &Mends::default()), expected);
    }

    #[test]
    fn ids_are_unique_over_the_conversation_and_results_follow_them() {
        check(
            vec![
                user("go"),
                by("m", vec![call("call_0", "look")]),
                result("call_0", "a"),
                by(
                    "m",
                    vec![
                        call("call_0", "look"),
                        call("a.1", "look"),
                        call("a:1", "look"),
                    ],
                ),
                result("call_0", "b"),
                result("a:1", "d"),
                result("a.1", "c"),
            ],
            &[
                "User go",
                "Assistant call_0:look",
                "Tool call_0=a",
                "Assistant call_0_2:look a_1:look a_1_2:look",
                "Tool call_0_2=b",
                "Tool a_1_2=d",
                "Tool a_1=c",
            ],
        );
    }

    #[test]
    fn names_are_brought_into_the_alphabet() {
        let long = "x".repeat(80);
        for (name, expected) in [
            ("read_file", "read_file"),
            ("functions.read_file", "functions_read_file"),
            ("read_file<|channel|>commentary", "read_file"),
            ("", NO_NAME),
            ("<|x|>", NO_NAME),
            ("日本", NO_NAME),
            ("1st", "_1st"),
            (&long, &long[..64]),
        ] {
            assert_eq!(safe_name(name), expected, "{name}");
        }
        assert_eq!(safe_id(""), "call");
        assert_eq!(safe_id(&long).len(), MAX_ID);
        assert_eq!(short_id("abcdefgh1"), "abcdefgh1");
        assert!(
            short_id("call_1")
                .chars()
                .all(|c| c.is_ascii_alphanumeric())
        );
    }

    #[test]
    fn calls_and_results_are_paired() {
        check(
            vec![
                user("go"),
                by("m", vec![call("a", "look"), call("b", "look")]),
                result("b", " "),
                result("x", "of nobody"),
                user("stop"),
                result("a", "too late"),
            ],
            &[
                "User go",
                "Assistant a:look b:look",
                "Tool b=[no output]",
                "Tool a=[no result: the call did not end]",
                "User stop",
            ],
        );
    }

    #[test]
    fn neighbors_are_joined_and_the_user_begins() {
        check(
            vec![
                by("m", vec![Content::text("hi")]),
                user("one"),
                Message::new(Role::Assistant, vec![Content::text(" ")]),
                user("two"),
                by("m", vec![Content::text("a")]),
                by("m", vec![Content::text("b")]),
            ],
            &[
                "User [the beginning of the conversation was left out]",
                "Assistant hi",
                "User one two",
                "Assistant a b",
            ],
        );
    }

    #[test]
    fn reasoning_goes_to_its_writer_only() {
        let thought = |model: &str| by(model, vec![Content::thinking("hm"), call("a", "look")]);
        let mut extra = thought("other");
        extra.extra = Some(json!({"details": 1}));
        check(
            vec![user("go"), thought("m"), result("a", "x")],
            &["User go", "Assistant (hm) a:look", "Tool a=x"],
        );
        check(
            vec![user("go"), extra, result("a", "x")],
            &["User go", "Assistant a:look", "Tool a=x"],
        );
        let mut mends = Mends::default();
        let messages = vec![user("go"), thought("m"), result("a", "x")];
        mends.learn(&Mend::DropReasoning, &messages);
        assert_eq!(
            shown(messages, &mends),
            ["User go", "Assistant a:look", "Tool a=x"]
        );
    }

    #[test]
    fn roles_alternate_where_a_template_wants_it() {
        let messages = vec![
            user("go"),
            by("m", vec![call("a", "look")]),
            result("a", "x"),
            user("stop"),
        ];
        let mends = Mends::of(&[Mend::AlternateRoles, Mend::ShortIds]);
        let lines = shown(messages, &mends);
        assert_eq!(lines[3..], ["Assistant [the user goes on]", "User stop"]);
        assert!(lines[2].starts_with(&format!("Tool {}=", short_id("a"))));
    }

    #[test]
    fn a_conversation_that_fits_is_not_copied() {
        let request = Request {
            model: "m".to_owned(),
            messages: vec![
                user("go"),
                by("m", vec![call("a", "look")]),
                result("a", "x"),
            ],
            ..Request::default()
        };
        let mends = Mends::default();
        let target = Target {
            provider: "p",
            wire: Wire::OpenaiChat,
            mends: &mends,
        };
        assert!(matches!(fit(&request, &target), Cow::Borrowed(_)));
    }
}
