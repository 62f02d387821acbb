//! Removes holders that a killed process left unfinished. A holder is a subagent that keeps an
//! archived turn; the process wrote all or a part of the copy of the turn, but not the entry that
//! names the holder.
//!
//! The turn itself is still in the session and due to be archived, so the copy is not needed. A
//! holder of any other turn is kept even if no entry names it, because the line of that entry may
//! be damaged. Start from [`remove_unfinished_archived_turn_holders`].

use std::collections::BTreeSet;

use super::entry::Body;
use super::live::Session;
use super::storage::FramePosition;

/// Prefix of the ids of holders, the subagents that keep archived turns.
const ARCHIVED_TURN_HOLDER_ID_PREFIX: &str = "held-";

/// Whether a subagent that no entry names is an unfinished holder. `due` contains the numbers of
/// the turns that are due to be archived, and `turns` those of the turns in the subagent's session.
pub(super) fn is_unfinished_archived_turn_holder(
    agent: &str,
    due: &BTreeSet<u32>,
    turns: &BTreeSet<u32>,
) -> bool {
    agent.starts_with(ARCHIVED_TURN_HOLDER_ID_PREFIX) && !due.is_empty() && turns.is_subset(due)
}

/// Returns the number of the turn if the entry is the start of a turn; `None` for any other entry.
pub(super) fn turn_number_if_turn_start(body: &Body) -> Option<u32> {
    match body {
        Body::TurnStart { turn, .. } => Some(*turn),
        _ => None,
    }
}

/// Removes the sessions that were created to hold an archived turn, but whose archival did not
/// finish. Only the writer of the session may call this, and not while it is creating such a
/// session.
pub(crate) fn remove_unfinished_archived_turn_holders(session: &Session) {
    let due: BTreeSet<u32> = session
        .turns_due_for_archival()
        .iter()
        .map(|due| due.turn)
        .collect();
    let children = session.subagents();
    let stored = session
        .session_backend()
        .children(session.storage_address());
    for agent in stored.unwrap_or_default() {
        if children.iter().any(|child| child.agent == agent) {
            continue;
        }
        let Ok(place) = session.session_location().subagent_location(&agent) else {
            continue;
        };
        let entries = place
            .read_entries_since(FramePosition::START)
            .unwrap_or_default();
        let turns = entries
            .iter()
            .filter_map(|entry| turn_number_if_turn_start(&entry.body));
        if is_unfinished_archived_turn_holder(&agent, &due, &turns.collect()) {
            session.remove_archive_holder_session(&agent);
        }
    }
}
