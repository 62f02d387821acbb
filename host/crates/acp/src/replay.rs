//! Converts the history of a session into updates for a client that loads the session.

use std::collections::HashMap;

use rind_lib::message::{Content, Message, Origin, Role};
use rind_lib::text::escape_prose_for_display;

use crate::calls::{DisplayedToolCall, result_content};
use crate::rpc::to_json_or_null;
use crate::view::{SessionEventConverter, text_chunk};
use crate::wire::{
    SessionUpdate, ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields, ToolKind, WireCall,
};

/// Converts messages into updates. The ids of tool calls are created by `view`, so that later turns
/// do not reuse them.
pub(crate) fn convert_messages_to_updates(
    messages: &[Message],
    view: &mut SessionEventConverter,
) -> Vec<SessionUpdate> {
    let mut updates = Vec::new();
    let mut open: HashMap<String, (String, bool)> = HashMap::new();
    for message in messages {
        match (message.role, &message.origin) {
            (Role::User, Some(Origin::Summary)) => {
                let text = format!(
                    "Summary of the earlier conversation: {}",
                    message.joined_text()
                );
                updates.push(SessionUpdate::AgentThoughtChunk(text_chunk(&text)));
                continue;
            }
            // Skip texts of plugins and notes of the host: the client never showed them as the
            // user's messages.
            (Role::User, _) if !message.is_written_by_user() => continue,
            _ => {}
        }
        for content in &message.content {
            match content {
                Content::Text { text } if text.trim().is_empty() => {}
                Content::Text { text } if message.role == Role::User => {
                    updates.push(SessionUpdate::UserMessageChunk(text_chunk(text)));
                }
                Content::Text { text } => {
                    updates.push(SessionUpdate::AgentMessageChunk(text_chunk(text)));
                }
                Content::Thinking { text, .. } if text.trim().is_empty() => {}
                Content::Thinking { text, .. } => {
                    updates.push(SessionUpdate::AgentThoughtChunk(text_chunk(text)));
                }
                Content::Blob(blob) => {
                    let shown = text_chunk(&blob.to_string());
                    updates.push(match message.role {
                        Role::User => SessionUpdate::UserMessageChunk(shown),
                        _ => SessionUpdate::AgentMessageChunk(shown),
                    });
                }
                Content::ToolCall(call) => {
                    let (class, plugin) = view.tool_effect_and_plugin(&call.name);
                    let shape = DisplayedToolCall::from_call(
                        call,
                        class,
                        plugin.as_deref(),
                        view.workspace_folder(),
                    );
                    let id = view.next_call_id(&call.id);
                    let is_command = shape.kind == ToolKind::Execute;
                    open.insert(call.id.clone(), (id.clone(), is_command));
                    let told = WireCall::new(id, shape.title)
                        .kind(shape.kind)
                        .status(ToolCallStatus::Pending)
                        .content(shape.content)
                        .locations(shape.locations)
                        .raw_input(call.arguments.clone());
                    updates.push(SessionUpdate::ToolCall(told));
                }
                Content::ToolResult(result) => {
                    let Some((id, is_command)) = open.remove(&result.call_id) else {
                        continue;
                    };
                    let status = match result.is_error {
                        true => ToolCallStatus::Failed,
                        false => ToolCallStatus::Completed,
                    };
                    let mut fields = ToolCallUpdateFields::new()
                        .status(status)
                        .raw_output(to_json_or_null(&result.content));
                    let is_change = matches!(result.name.as_str(), "edit_file" | "write_file");
                    if result.is_error || !is_change {
                        fields = fields.content(result_content(&result.content, is_command));
                    }
                    let update = ToolCallUpdate::new(id, fields);
                    updates.push(SessionUpdate::ToolCallUpdate(update));
                }
            }
        }
    }
    let cut = open.into_values().map(|(id, _)| {
        let fields = ToolCallUpdateFields::new().status(ToolCallStatus::Failed);
        SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(id, fields))
    });
    updates.extend(cut);
    updates
}

/// Derives the title of a session from its first input.
pub(crate) fn session_title_from_input(text: &str) -> String {
    const MAX_SESSION_TITLE_BYTES: usize = 100;
    rind_lib::text::escape_and_truncate_line(
        &escape_prose_for_display(text),
        MAX_SESSION_TITLE_BYTES,
    )
}
