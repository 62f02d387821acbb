//! Reads a turn that has ended from its session. Start from [`FinishedTurnTranscript::read_turn`].

use std::collections::HashSet;

use crate::message::Message;
use crate::session::{self, Body, Entry, FramePosition, Session, SessionAddressAndStore};

pub(super) struct FinishedTurnTranscript {
    /// Entries that are copied to the holder, the subagent that will contain the archived turn.
    pub(super) entries: Vec<Entry>,
    /// All messages of the turn, including those that compaction removed from the conversation.
    pub(super) messages: Vec<Message>,
    /// Whether the turn must not be archived, because it is already archived or the user has taken
    /// it back.
    pub(super) is_settled: bool,
    /// Ids by which the turn is recognized in the conversation: those of its messages, and those of
    /// summaries that replaced messages of this turn only.
    own: HashSet<String>,
}

impl FinishedTurnTranscript {
    /// Reads a turn from the session's file, starting at the position `from`. Blocks, and the file
    /// may be long.
    pub(super) fn read_turn(
        place: &SessionAddressAndStore,
        turn: u32,
        from: FramePosition,
    ) -> Result<Self, session::Error> {
        let all = place.read_entries_since(from)?;
        let settled = collect_removed_message_ids(&all);
        let mut entries = entries_of_turn(all, turn);
        let (mut own, mut messages) = (HashSet::new(), Vec::new());
        for entry in &entries {
            match &entry.body {
                Body::Message { message } => {
                    own.insert(message.id.clone());
                    messages.push(message.clone());
                }
                // A compaction summary that covers only messages of this turn belongs to the turn.
                Body::Replaced {
                    removed,
                    messages: summary,
                    ..
                } if removed.iter().all(|id| own.contains(id)) => {
                    own.extend(summary.iter().map(|message| message.id.clone()));
                }
                _ => {}
            }
        }
        entries.retain(|entry| is_entry_copied_to_archive(&entry.body));
        Ok(Self {
            entries,
            is_settled: messages.iter().any(|message| settled.contains(&message.id)),
            messages,
            own,
        })
    }

    /// Returns the messages of the turn that are still in the conversation.
    pub(super) fn messages_still_in_conversation(&self, session: &Session) -> Vec<Message> {
        let mut slice = session.messages();
        slice.retain(|message| self.own.contains(&message.id));
        slice
    }

    /// Returns the input that began the turn. Archiving the turn keeps this input in the
    /// conversation.
    pub(super) fn first_input(&self) -> Option<&Message> {
        self.messages
            .iter()
            .find(|message| message.is_user_or_parent_input())
    }
}

/// Returns the ids of the messages that were moved to a holder or that the user has taken back.
fn collect_removed_message_ids(entries: &[Entry]) -> HashSet<String> {
    let removed = entries.iter().filter_map(|entry| match &entry.body {
        Body::Replaced {
            reason,
            removed,
            holder,
            ..
        } if holder.is_some() || reason == session::UNDONE => Some(removed),
        _ => None,
    });
    removed.flatten().cloned().collect()
}

/// Returns the entries of a turn, from its start to its end or to the start of the next turn.
fn entries_of_turn(entries: Vec<Entry>, number: u32) -> Vec<Entry> {
    let mut is_within = false;
    let mut kept = Vec::new();
    for entry in entries {
        let is_last = matches!(&entry.body, Body::TurnEnd { turn, .. } | Body::Cut { turn, .. } if *turn == number);
        if let Body::TurnStart { turn, .. } = &entry.body {
            is_within = *turn == number;
        }
        if is_within {
            kept.push(entry);
        }
        is_within &= !is_last;
    }
    kept
}

/// Whether an entry is copied to the holder. The holder gets every message, call and result of the
/// turn. Data of plugins and records of their hooks stay in the agent's session; entries of
/// compaction are not copied, because the holder has the messages that they replaced.
fn is_entry_copied_to_archive(body: &Body) -> bool {
    !matches!(
        body,
        Body::Session { .. }
            | Body::Resumed { .. }
            | Body::Forked { .. }
            | Body::Aside { .. }
            | Body::State { .. }
            | Body::Custom { .. }
            | Body::Trace { .. }
            | Body::Access { .. }
            | Body::Archival { .. }
            | Body::Replaced { .. }
    )
}
