//! Undo of the last turn: selects the messages to remove from the conversation.
//!
//! The entries of the turn stay in the file; the session appends a [`Body::Replaced`] entry that
//! removes its messages.

use std::collections::HashSet;

use super::Error;
use super::entry::{Body, Entry};
use super::interrupted::REPEATED_CALL_REASON;
use crate::message::Message;

/// Reason in the [`Body::Replaced`] entry of an undone turn.
pub(crate) const UNDONE_TURN_REASON: &str = "undone";

/// A turn that was removed from the conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UndoneTurn {
    /// Number of the undone turn.
    pub turn: u32,
    /// Input of the undone turn, as it arrived.
    pub input: String,
    /// Number of removed messages.
    pub n_messages: usize,
}

/// Last turn of the conversation, which an undo removes, with the ids of its messages.
pub(super) struct UndoableLastTurn {
    pub(super) turn: u32,
    pub(super) messages: Vec<String>,
    pub(super) undone: UndoneTurn,
}

/// Finds the last turn that still has messages in the conversation.
///
/// # Errors
/// A summary replaced a part of the turn: without the rest of the turn, the summary would lack its
/// context.
pub(super) fn find_last_turn(
    entries: &[Entry],
    conversation: &[Message],
) -> Result<Option<UndoableLastTurn>, Error> {
    let mut turns: Vec<(u32, &str, Vec<&str>)> = Vec::new();
    let mut summarized = HashSet::new();
    for entry in entries {
        match &entry.body {
            Body::TurnStart { turn, input, .. } => turns.push((*turn, input, Vec::new())),
            Body::Message { message } => {
                if let Some((_, _, messages)) = turns.last_mut() {
                    messages.push(&message.id);
                }
            }
            // The result of a repeated call belongs to the turn of the original call.
            Body::Replaced {
                reason,
                removed,
                messages,
                ..
            } if reason == REPEATED_CALL_REASON => {
                let has_told = |own: &&mut (u32, &str, Vec<&str>)| {
                    removed.iter().any(|id| own.2.contains(&id.as_str()))
                };
                if let Some((_, _, own)) = turns.iter_mut().rev().find(has_told) {
                    own.extend(messages.iter().map(|message| message.id.as_str()));
                }
            }
            Body::Replaced {
                removed, messages, ..
            } if !messages.is_empty() => summarized.extend(removed.iter().map(String::as_str)),
            _ => {}
        }
    }
    let here: HashSet<&str> = conversation.iter().map(|m| m.id.as_str()).collect();
    for (turn, input, messages) in turns.into_iter().rev() {
        if messages.iter().any(|id| summarized.contains(id)) {
            return Err(Error::Summarized { turn });
        }
        let left = messages.into_iter().filter(|id| here.contains(id));
        let left: Vec<String> = left.map(str::to_owned).collect();
        if left.is_empty() {
            continue;
        }
        let undone = UndoneTurn {
            turn,
            input: input.to_owned(),
            n_messages: left.len(),
        };
        return Ok(Some(UndoableLastTurn {
            turn,
            messages: left,
            undone,
        }));
    }
    Ok(None)
}
