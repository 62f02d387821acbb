//! Tells the model about background commands that ended by themselves since its last turn, and
//! about commands of an earlier run of the program, which ended with the program.
//!
//! This module must not depend on how commands run; see `tool::background`. Start from
//! [`take_ended_background_command_notes`].

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::lifecycle::LiveAgent;
use super::spec::AgentSpec;
use crate::message::{Content, Message, Role, ToolCall, ToolResult};
use crate::tool::background::{BackgroundCommand, parse_command_number};

/// Prefix of the note about commands of an earlier run of the program. A command that such a note
/// names is not reported again.
const ENDED_BACKGROUND_COMMANDS_NOTE_PREFIX: &str =
    "[commands in the background ended with the program that ran them: ";

/// Maximum number of ids of background commands that a note for the model names.
const MAX_COMMAND_IDS_IN_NOTE: usize = 16;

/// Returns a note for the model at the beginning of a turn, if background commands have ended of
/// whose end the model was not yet informed.
pub(super) fn take_ended_background_command_notes(agent: &mut LiveAgent) -> Option<String> {
    let mut notes = Vec::new();
    if !std::mem::replace(&mut agent.is_background_told, true) {
        notes.extend(format_lost_commands_note(&agent.spec));
    }
    notes.extend(ended_commands_note(&agent.spec));
    (!notes.is_empty()).then(|| notes.join("\n"))
}

/// Returns a note on the agent's background commands that have ended since the last note.
fn ended_commands_note(spec: &AgentSpec) -> Option<String> {
    let own = spec.background.commands_of_agent(&spec.name);
    let line = |command: &Arc<BackgroundCommand>| {
        let end = command.outcome()?;
        let seconds = end.after.as_secs();
        let is_new = !command.mark_end_reported();
        is_new.then(|| format!("{} ended after {seconds} s: {}", command.id(), end.words))
    };
    let lines: Vec<String> = own.iter().filter_map(line).collect();
    (!lines.is_empty()).then(|| {
        format!(
            "[commands in the background have ended; `background` answers with their output: {}]",
            lines.join("; ")
        )
    })
}

/// Returns a note on background commands that are still running according to the conversation, but
/// have ended with an earlier run of the program.
fn format_lost_commands_note(spec: &AgentSpec) -> Option<String> {
    if !spec.session.is_resumed() {
        return None;
    }
    let named = spec.session.inspect_all_messages(running_command_ids);
    let last = named.iter().filter_map(|id| parse_command_number(id)).max();
    spec.background.reserve_command_numbers(last.unwrap_or(0));
    let own = spec.background.commands_of_agent(&spec.name);
    let is_gone = |id: &String| own.iter().all(|one| one.id() != id);
    let gone: Vec<String> = named.into_iter().filter(is_gone).collect();
    (!gone.is_empty()).then(|| {
        let ids = gone
            .get(..MAX_COMMAND_IDS_IN_NOTE)
            .unwrap_or(&gone)
            .join(", ");
        format!("{ENDED_BACKGROUND_COMMANDS_NOTE_PREFIX}{ids}; start again what is still needed]")
    })
}

/// Returns the ids of the background commands that are still running according to the conversation.
fn running_command_ids(messages: &[Message]) -> BTreeSet<String> {
    let mut running = BTreeSet::new();
    let mut starts = BTreeSet::new();
    for content in messages.iter().flat_map(|message| &message.content) {
        match content {
            Content::ToolCall(call) if is_background_command_start(call) => {
                starts.insert(call.id.clone());
            }
            Content::ToolResult(result) => {
                update_running_command_ids(result, &starts, &mut running)
            }
            _ => {}
        }
    }
    let of_user = messages.iter().filter(|message| message.role == Role::User);
    let texts = of_user.map(Message::joined_text);
    // Ids are never reused in a conversation, so a reported id means the same command.
    for told in texts.filter(|text| text.starts_with(ENDED_BACKGROUND_COMMANDS_NOTE_PREFIX)) {
        let is_untold =
            |id: &String| !told.contains(&format!(" {id},")) && !told.contains(&format!(" {id};"));
        running.retain(is_untold);
    }
    running
}

/// Whether a tool call starts a command in the background.
fn is_background_command_start(call: &ToolCall) -> bool {
    call.name == "bash" && call.arguments.get("background") == Some(&Value::Bool(true))
}

/// Updates the ids of the running commands from the last line of a tool result: `[started in the
/// background as bg-1; …]`, or `[bg-1 ended …]`.
fn update_running_command_ids(
    result: &ToolResult,
    starts: &BTreeSet<String>,
    running: &mut BTreeSet<String>,
) {
    let text = result.content.text();
    let last = text.lines().next_back().unwrap_or_default();
    let words: Vec<&str> = last.split([' ', ';', '[', ']']).collect();
    let Some(id) = words
        .iter()
        .find(|word| parse_command_number(word).is_some())
    else {
        return;
    };
    if words.contains(&"ended") {
        running.remove(*id);
    } else if starts.contains(&result.call_id) && !result.is_error {
        running.insert((*id).to_owned());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn start(n: u32) -> [Message; 2] {
        let call = ToolCall::new(n.to_string(), "bash", json!({"background": true}));
        let text =
            format!("ready\n[started in the background as bg-{n}; it ends with the session]");
        let mut asked = Message::text(Role::Assistant, "");
        let result = Message::from_tool_result(call.create_result(text, false));
        asked.content.push(Content::ToolCall(call));
        [asked, result]
    }

    #[test]
    fn commands_that_were_started_and_not_ended_are_gone_with_the_program_and_told_once() {
        let mut messages: Vec<Message> = (1..=3).flat_map(start).collect();
        let read = ToolCall::new("r", "background", json!({"id": "bg-2"}));
        let text = "bg-1 is no end\n[bg-2 ended after 3 s: exit code 0]";
        messages.push(Message::from_tool_result(read.create_result(text, false)));
        let found: Vec<String> = running_command_ids(&messages).into_iter().collect();
        assert_eq!(found, ["bg-1", "bg-3"]);
        let note = format!(
            "{ENDED_BACKGROUND_COMMANDS_NOTE_PREFIX}bg-1, bg-3; start again what is still needed]"
        );
        messages.push(Message::text(Role::User, note));
        assert!(running_command_ids(&messages).is_empty());
        messages.extend(start(4));
        assert_eq!(running_command_ids(&messages).len(), 1);
        let note = format!(
            "{ENDED_BACKGROUND_COMMANDS_NOTE_PREFIX}bg-4; start again what is still needed]"
        );
        messages.push(Message::text(Role::User, note));
        assert!(running_command_ids(&messages).is_empty());
    }
}
