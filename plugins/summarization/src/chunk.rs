//! Formats a conversation as text, in chunks that each fit into one question to the model.

use rind_sdk::prelude::*;

/// Formats messages as text, split between messages into chunks of at most `chunk_bytes`. Of a
/// message that is longer, only the beginning and the end are kept.
pub(crate) fn split_messages_into_chunks(
    messages: &[Message],
    chunk_bytes: usize,
    result_bytes: usize,
) -> Vec<String> {
    let mut chunks: Vec<String> = Vec::new();
    for message in messages {
        let text = shorten_text(
            &format_message_for_summary(message, result_bytes),
            chunk_bytes,
        );
        match chunks.last_mut() {
            Some(chunk) if chunk.len() + text.len() <= chunk_bytes => chunk.push_str(&text),
            _ => chunks.push(text),
        }
    }
    chunks
}

/// Formats a message as text. Reasoning is omitted: its conclusions are in the text and the calls.
fn format_message_for_summary(message: &Message, result_bytes: usize) -> String {
    let who = match message.role {
        Role::User => "user",
        Role::Assistant => "agent",
        Role::Tool => "tool",
    };
    let mut lines = String::new();
    for part in &message.content {
        let line = match part {
            Content::Text(text) if !text.trim().is_empty() => format!("{who}: {text}\n"),
            Content::ToolCall(call) => {
                let arguments = shorten_text(&call.arguments, result_bytes);
                format!("{who} calls {}: {arguments}\n", call.name)
            }
            Content::ToolResult(result) => {
                let failed = if result.is_error { " (failed)" } else { "" };
                let content = shorten_text(&result.text(), result_bytes);
                format!("result of {}{failed}: {content}\n", result.name)
            }
            _ => continue,
        };
        lines.push_str(&line);
    }
    lines
}

/// Shortens a text that is longer than `limit` bytes to its beginning and its end.
fn shorten_text(text: &str, limit: usize) -> String {
    const OMITTED_TEXT_MARKER: &str = "\n[…]\n";
    if text.len() <= limit {
        return text.to_owned();
    }
    let room = limit.saturating_sub(OMITTED_TEXT_MARKER.len()) / 2;
    let head = text.floor_char_boundary(room);
    let tail = text.ceil_char_boundary(text.len() - room);
    format!("{}{OMITTED_TEXT_MARKER}{}", &text[..head], &text[tail..])
}
