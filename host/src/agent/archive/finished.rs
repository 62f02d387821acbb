//! A turn that has ended, as its session keeps it. Start from [`FinishedTurn::read_turn`].

use std::collections::HashSet;

use crate::message::Message;
use crate::session::{self, Body, Entry, Position, Session, SessionPlace};

pub(super) struct FinishedTurn {
    /// Content of the holder.
    pub(super) entries: Vec<Entry>,
    /// All messages of the turn, including those that compaction removed from the conversation.
    pub(super) messages: Vec<Message>,
    /// Whether there is nothing left to archive: a holder has the turn already, or the person took
    /// it back.
    pub(super) is_settled: bool,
    /// Ids of the turn's entries and messages that the conversation may hold.
    own: HashSet<String>,
}

impl FinishedTurn {
    /// Reads the turn of this number from the session's file, from the position `from` on. The file may
    /// be long: for a thread that may wait for the disk.
    pub(super) fn read_turn(
        place: &SessionPlace,
        turn: u32,
        from: Position,
    ) -> Result<Self, session::Error> {
        let all = place.entries_since(from)?;
        let settled = settled_messages(&all);
        let mut entries = of_turn(all, turn);
        let (mut own, mut messages) = (HashSet::new(), Vec::new());
        for entry in &entries {
            match &entry.body {
                Body::Message { message } => {
                    own.insert(message.id.clone());
                    messages.push(message.clone());
                }
                // A compaction summary that covers only messages of this turn is removed with them.
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
        entries.retain(|entry| is_of_holder(&entry.body));
        Ok(Self {
            entries,
            is_settled: messages.iter().any(|message| settled.contains(&message.id)),
            messages,
            own,
        })
    }

    /// The messages of it that are in the conversation now.
    pub(super) fn build_slice(&self, session: &Session) -> Vec<Message> {
        let mut slice = session.messages();
        slice.retain(|message| self.own.contains(&message.id));
        slice
    }

    /// The message that the turn began with; it stays in the conversation.
    pub(super) fn asked(&self) -> Option<&Message> {
        self.messages.iter().find(|message| message.is_input())
    }
}

/// Ids of the messages that a holder has, or that the person took back.
fn settled_messages(entries: &[Entry]) -> HashSet<String> {
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

/// The entries of a turn, from its start to its end or the start of another one.
fn of_turn(entries: Vec<Entry>, number: u32) -> Vec<Entry> {
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

/// Whether an entry is part of a holder's session, which gets every message, call and result of the
/// turn. Entries that plugins keep for themselves and the records of their hooks stay with the
/// session; the messages that compaction replaced are already in the holder's copy.
fn is_of_holder(body: &Body) -> bool {
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
