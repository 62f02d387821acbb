//! Compares the messages of a session with their hashes in the session's audit log.
//!
//! For each line of the log about a message, the session must contain the message, because the
//! session stores a message before the log does. A message without a line proves nothing, because
//! messages that the host adds have no line.

use std::collections::BTreeMap;

use rind_audit::{Line, hash};

use super::MAIN_AGENT;
use rind_lib::message::{Content, Message, Part, Role};
use rind_lib::session::{Body, Entry};

/// Text of a session for which the log may have a line.
struct SessionTextToMatchWithAuditLog<'a> {
    turn: u32,
    message: &'a str,
    key: TextKindAndCallId,
    hash: String,
    is_found: bool,
}

/// Kind of a text (`input`, `reply`, `call` or `result`), with the call's id for a call or result.
type TextKindAndCallId = (&'static str, Option<String>);

/// Maximum length of a call id in the log, in characters. The plugin audit-log truncates longer
/// ids.
const MAX_LOGGED_CALL_ID_CHARS: usize = 64;

/// Returns a report line for each line of the log whose hash matches no text of the session.
pub(super) fn describe_hash_mismatches(entries: &[Entry], lines: &[Line]) -> Vec<String> {
    let mut texts = list_hashed_session_texts(entries);
    let mut by_hash: BTreeMap<(TextKindAndCallId, String), Vec<usize>> = BTreeMap::new();
    for (index, text) in texts.iter().enumerate().rev() {
        let key = (text.key.clone(), text.hash.clone());
        by_hash.entry(key).or_default().push(index);
    }
    let mut missing = Vec::new();
    for line in lines.iter().filter(|line| line.agent == MAIN_AGENT) {
        let Some((key, hash)) = parse_text_hash_line(line) else {
            continue;
        };
        let found = by_hash.get_mut(&(key.clone(), hash)).and_then(Vec::pop);
        match found {
            Some(index) => texts[index].is_found = true,
            None => missing.push((line, key)),
        }
    }
    let mut changed = Vec::new();
    for (line, key) in missing {
        let (n, turn, kind) = (line.n, line.turn, key.0);
        let mut others = texts.iter_mut();
        let other = others.find(|text| !text.is_found && text.turn == turn && text.key == key);
        changed.push(match other {
            Some(text) => {
                text.is_found = true;
                format!(
                    "turn {turn}: the {kind} in message {} of the session does not match the hash in line {n} of the log",
                    text.message
                )
            }
            None => format!(
                "turn {turn}: no {kind} of the session matches the hash in line {n} of the log"
            ),
        });
    }
    changed
}

/// Returns the kind, the call id and the hash of an audit line about a message or a call; `None`
/// for other lines.
fn parse_text_hash_line(line: &Line) -> Option<(TextKindAndCallId, String)> {
    let text = |field: &str| line.event[field].as_str().map(str::to_owned);
    let kinds = ["input", "reply", "call", "result"];
    let kind = kinds.into_iter().find(|kind| *kind == line.kind())?;
    let hash = text(if kind == "call" { "arguments" } else { "hash" })?;
    Some(((kind, text("id")), hash))
}

fn list_hashed_session_texts(entries: &[Entry]) -> Vec<SessionTextToMatchWithAuditLog<'_>> {
    let mut turn = 0;
    let mut all = Vec::new();
    for entry in entries {
        match &entry.body {
            Body::TurnStart { turn: started, .. } => turn = *started,
            Body::Message { message } => {
                all.extend(
                    message_texts_to_hash(message)
                        .into_iter()
                        .map(|(key, text)| SessionTextToMatchWithAuditLog {
                            turn,
                            message: &message.id,
                            key,
                            hash: hash(text.as_bytes()),
                            is_found: false,
                        }),
                );
            }
            _ => {}
        }
    }
    all
}

/// Returns the texts of a message in the form in which the plugin audit-log hashes them.
fn message_texts_to_hash(message: &Message) -> Vec<(TextKindAndCallId, String)> {
    let id = |id: &str| Some(id.chars().take(MAX_LOGGED_CALL_ID_CHARS).collect());
    let mut texts = Vec::new();
    match message.role {
        Role::User => texts.push((("input", None), message.joined_text())),
        Role::Assistant => texts.push((("reply", None), message.joined_text())),
        Role::Tool => {}
    }
    texts.extend(message.content.iter().filter_map(|part| match part {
        Content::ToolCall(call) => Some((("call", id(&call.id)), call.arguments.to_string())),
        Content::ToolResult(result) => {
            let parts: Vec<String> = result
                .content
                .iter()
                .map(format_result_part_for_hash)
                .collect();
            Some((("result", id(&result.call_id)), parts.join("\n")))
        }
        _ => None,
    }));
    texts
}

/// Formats a part of a tool result as the plugin audit-log formats it before hashing the result.
fn format_result_part_for_hash(part: &Part) -> String {
    match part {
        Part::Text { text } => text.clone(),
        Part::Json { value } => value.to_string(),
        Part::Blob(blob) => format!("[{}, {} bytes]", blob.media_type, blob.size),
    }
}
