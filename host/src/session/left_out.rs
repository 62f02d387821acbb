//! Finds messages that compaction removed from the conversation and that no holder (a subagent with
//! an archived turn) keeps.
//!
//! Their entries stay in the session file, so the messages can be found again. Messages of a turn
//! that the user undid are not included. Start from [`find_compacted_turns`].

use std::collections::{BTreeMap, HashMap, HashSet};

use super::entry::{Body, Entry};
use super::interrupted::REPEATED_CALL_REASON;
use super::undo;
use crate::message::Message;

/// A turn, and those of its messages that compaction removed from the conversation and that no
/// holder keeps.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CompactedTurn {
    /// Number of the turn.
    pub(crate) turn: u32,
    /// Removed messages of the turn, in order.
    pub(crate) messages: Vec<Message>,
}

/// Returns the turns from which compaction removed messages, each with the removed messages, oldest
/// turn first. `entries` are all entries of the file. `is_here` returns whether the message with
/// this id is still in the conversation.
pub(crate) fn find_compacted_turns(
    entries: Vec<Entry>,
    is_here: impl Fn(&str) -> bool,
) -> Vec<CompactedTurn> {
    let mut turns: BTreeMap<u32, Vec<Message>> = BTreeMap::new();
    let mut turn_of: HashMap<String, u32> = HashMap::new();
    let (mut undone, mut held) = (HashSet::new(), HashSet::new());
    let mut now = 0;
    for entry in entries {
        match entry.body {
            Body::TurnStart { turn, .. } => now = turn,
            Body::Message { message } => {
                turn_of.insert(message.id.clone(), now);
                turns.entry(now).or_default().push(message);
            }
            Body::Replaced {
                removed,
                holder: Some(_),
                ..
            } => held.extend(removed.iter().filter_map(|id| turn_of.get(id).copied())),
            Body::Replaced {
                reason, removed, ..
            } if reason == undo::UNDONE_TURN_REASON => undone.extend(removed),
            // A call was repeated: its result replaces the message "the call may have run".
            Body::Replaced {
                reason,
                removed,
                messages,
                ..
            } if reason == REPEATED_CALL_REASON => {
                let turn = removed.iter().find_map(|id| turn_of.get(id).copied());
                let turn = turn.unwrap_or(now);
                for message in &messages {
                    turn_of.insert(message.id.clone(), turn);
                }
                turns.entry(turn).or_default().extend(messages);
                undone.extend(removed);
            }
            _ => {}
        }
    }
    let mut left = Vec::new();
    for (turn, mut messages) in turns {
        messages.retain(|message| !undone.contains(&message.id) && !is_here(&message.id));
        if !held.contains(&turn) && !messages.is_empty() {
            left.push(CompactedTurn { turn, messages });
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Role;
    use crate::point::payload::Source;
    use crate::session::Holder;

    fn replaced(reason: &str, removed: &[&str], is_held: bool) -> Body {
        Body::Replaced {
            reason: reason.to_owned(),
            removed: removed.iter().map(|id| (*id).to_owned()).collect(),
            messages: Vec::new(),
            holder: is_held.then(|| Holder {
                agent: "held-1".to_owned(),
                task: "t".to_owned(),
            }),
        }
    }

    #[test]
    fn a_turn_is_left_out_unless_it_is_here_held_or_taken_back() {
        let start = |turn| Body::TurnStart {
            turn,
            input: String::new(),
            source: Source::Terminal,
            command: None,
            input_id: None,
            continues: None,
            attached: Vec::new(),
            plugins: None,
        };
        let said = |id: &str| Body::Message {
            message: Message {
                id: id.to_owned(),
                ..Message::text(Role::User, id)
            },
        };
        let bodies = vec![
            start(1),
            said("a"),
            said("b"),
            start(2),
            said("c"),
            start(3),
            said("d"),
            said("e"),
            start(4),
            said("f"),
            replaced("token-threshold", &["a", "b", "c"], false),
            // The holder keeps the complete turn, including the message that compaction had
            // removed before the turn was archived.
            replaced("tool-calls", &["d"], true),
            replaced("undone", &["f"], false),
        ];
        let entries = bodies.into_iter().map(|body| Entry {
            id: crate::clock::new_uuid_v7(),
            parent: None,
            time: 0,
            body,
        });
        let left = find_compacted_turns(entries.collect(), |id| id == "b");
        let found: Vec<(u32, Vec<String>)> = left
            .iter()
            .map(|own| {
                (
                    own.turn,
                    own.messages.iter().map(|m| m.id.clone()).collect(),
                )
            })
            .collect();
        assert_eq!(
            found,
            [(1, vec!["a".to_owned()]), (2, vec!["c".to_owned()])]
        );
    }
}
