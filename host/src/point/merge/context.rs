//! Edits of the messages of one request. If a hook drops a tool call or its result, both are
//! dropped.

use std::collections::HashSet;
use std::sync::Arc;

use super::{
    MAX_INJECTIONS, MergeEnv, MergeIntoPayload, MergedOutcome, check_count, check_text_limit,
};
use crate::message::{Content, Message, Role};
use crate::point::outcome as o;

/// Returns the ids of the tool calls that a message makes or answers.
fn message_call_ids(message: &Message) -> impl Iterator<Item = &str> {
    message
        .tool_calls()
        .map(|call| call.id.as_str())
        .chain(message.tool_results().map(|result| result.call_id.as_str()))
}

/// Drops a message, and every message that contains a result of its calls or a call of its results,
/// so that no result is without its call and no call without its result. For example, dropping one
/// of two results drops the message that made both calls, and with it the other result.
fn remove_message_with_call_pairs(messages: &mut Vec<Message>, id: &str) -> Result<(), String> {
    let at = find_message_index(messages, id)?;
    let mut calls: HashSet<String> = message_call_ids(&messages[at]).map(str::to_owned).collect();
    let mut n_calls = 0;
    while n_calls < calls.len() {
        n_calls = calls.len();
        for message in messages.iter() {
            if message_call_ids(message).any(|call| calls.contains(call)) {
                calls.extend(message_call_ids(message).map(str::to_owned));
            }
        }
    }
    messages.retain(|message| {
        message.id != id && !message_call_ids(message).any(|call| calls.contains(call))
    });
    Ok(())
}

fn find_message_index(messages: &[Message], id: &str) -> Result<usize, String> {
    messages
        .iter()
        .position(|message| message.id == id)
        .ok_or_else(|| format!("the request has no message with the id `{id}`"))
}

impl MergeIntoPayload<Arc<Vec<Message>>> for o::ContextOutcome {
    const RIGHTS: &'static [&'static str] = &["messages"];

    fn merge(
        self,
        payload: &mut Arc<Vec<Message>>,
        merged: &mut MergedOutcome,
        env: &MergeEnv<'_>,
    ) -> Result<(), String> {
        merged.add_effects(self.effects)?;
        if self.edits.is_empty() {
            return Ok(());
        }
        // Allow one edit for every message, and [`MAX_INJECTIONS`] more for new messages.
        let most = payload.len() + MAX_INJECTIONS;
        check_count("edits of messages", self.edits.len(), most)?;
        let mut edited = Vec::clone(payload);
        for edit in self.edits {
            match edit {
                o::MessageEdit::Drop(id) => remove_message_with_call_pairs(&mut edited, &id)?,
                o::MessageEdit::Replace(o::Replacement { id, text }) => {
                    check_text_limit("a replaced message", &text)?;
                    let at = find_message_index(&edited, &id)?;
                    replace_message_text(&mut edited[at], text);
                }
                o::MessageEdit::Append(text) => {
                    check_text_limit("an appended message", &text)?;
                    edited.push(create_injected_message(env.plugin, &text));
                }
            }
        }
        *payload = Arc::new(edited);
        merged.changed.push("messages");
        Ok(())
    }
}

/// Replaces the text of a message. A tool message keeps its call ids and gets the new content in
/// its first result.
fn replace_message_text(message: &mut Message, text: String) {
    let first_result = message.content.iter_mut().find_map(|part| match part {
        Content::ToolResult(result) => Some(result),
        _ => None,
    });
    match first_result {
        Some(result) => result.content = text.into(),
        None => message.set_text(text),
    }
}

/// Builds the user message that carries a plugin's text to the model, labelled with the plugin's
/// name.
#[must_use]
pub fn create_injected_message(plugin: &str, text: &str) -> Message {
    let mut message = Message::text(Role::User, format!("[plugin {plugin}] {text}"));
    message.plugin = Some(plugin.to_owned());
    message
}
