//! Stores the counts of all sequences of tools, across sessions. The sequences that end with the
//! same tool share one key of the store; a turn uses few tools, so it writes few keys.

use std::cell::RefCell;
use std::collections::BTreeMap;

use rind_sdk::data;
use rind_sdk::prelude::{Error, caller, store};

use crate::follow::NextToolCounts;

const TOOL_SEQUENCE_STORE_KEY_PREFIX: &str = "after/";

/// Maximum number of tools whose counts the store keeps.
const MAX_TOOLS_WITH_STORED_COUNTS: usize = 512;

/// Maximum number of tool sequences that end with the same tool.
const MAX_SEQUENCES_ENDING_WITH_TOOL: usize = 64;

/// Counts of the sequences that end with one tool, by the tool before it. The empty name stands for
/// the sequence that consists of this tool alone.
///
/// For example:
///
/// ```json
/// {"": {"bash": 9}, "grep": {"bash": 3, "edit_file": 1}}
/// ```
#[data]
#[derive(Default)]
#[serde(transparent)]
struct ToolSequences(BTreeMap<String, NextToolCounts>);

impl ToolSequences {
    /// Returns the sum of the counts of all sequences.
    fn total_count(&self) -> u32 {
        let totals = self.0.values().map(NextToolCounts::total_count);
        totals.fold(0, u32::saturating_add)
    }

    /// Adds `more` to the counts of one sequence. If there are too many sequences, the sequence
    /// with the smallest sum is dropped.
    fn merge_sequence_counts(&mut self, before: &str, more: &NextToolCounts) {
        if !self.0.contains_key(before) && self.0.len() >= MAX_SEQUENCES_ENDING_WITH_TOOL {
            let rarest = self.0.iter().min_by_key(|(_, counts)| counts.total_count());
            let rarest = rarest.map(|(name, _)| name.clone());
            rarest.and_then(|name| self.0.remove(&name));
        }
        let counts = self.0.entry(before.to_owned()).or_default();
        counts.merge_counts(more);
    }
}

/// Cache of the stored counts per tool during one turn.
#[derive(Default)]
struct ToolSequenceCountsCache {
    session: String,
    turn: u32,
    tools: BTreeMap<String, ToolSequences>,
}

thread_local! {
    /// Cache of the store, so that the store is not read after every call. Counts that other
    /// sessions add during a turn are read in the next turn.
    static CACHED_TOOL_SEQUENCE_COUNTS: RefCell<ToolSequenceCountsCache> = RefCell::default();
}

/// Adds the counts of a turn to the store, with one write for each tool.
pub(crate) fn store_tool_sequence_counts(
    learnt: BTreeMap<String, NextToolCounts>,
) -> Result<(), Error> {
    CACHED_TOOL_SEQUENCE_COUNTS.take();
    let mut by_tool: BTreeMap<String, Vec<(String, NextToolCounts)>> = BTreeMap::new();
    for (key, more) in learnt {
        let (before, tool) = split_sequence_key(&key);
        let places = by_tool.entry(tool.to_owned()).or_default();
        places.push((before.to_owned(), more));
    }
    for (tool, learnt) in by_tool {
        let key = tool_store_key(&tool);
        let kept = read_tool_sequences(&key)?;
        if kept.is_none() {
            remove_least_used_tools()?;
        }
        let mut places = kept.unwrap_or_default();
        for (before, more) in learnt {
            places.merge_sequence_counts(&before, &more);
        }
        store::set_json(&key, &places)?;
    }
    Ok(())
}

/// Returns the number of times that each tool came next after a sequence of tools: the counts in
/// the store, plus those that the turn has learnt but not stored yet.
pub(crate) fn find_next_tool_counts(
    place: &[String],
    learnt: &BTreeMap<String, NextToolCounts>,
) -> Result<Option<NextToolCounts>, Error> {
    let key = tool_sequence_key(place);
    let kept = read_stored_next_tool_counts(&key)?;
    let Some(more) = learnt.get(&key) else {
        return Ok(kept);
    };
    let mut followers = kept.unwrap_or_default();
    followers.merge_counts(more);
    Ok(Some(followers))
}

/// Empties the cache if its content is from another turn or session.
pub(crate) fn clear_outdated_count_cache(turn: u32) {
    let session = caller::session();
    CACHED_TOOL_SEQUENCE_COUNTS.with_borrow_mut(|seen| {
        if (&seen.session, seen.turn) != (&session, turn) {
            *seen = ToolSequenceCountsCache {
                session,
                turn,
                ..ToolSequenceCountsCache::default()
            };
        }
    });
}

/// Returns the stored counts of a sequence. The store is read at most once a turn for each tool.
fn read_stored_next_tool_counts(key: &str) -> Result<Option<NextToolCounts>, Error> {
    let (before, tool) = split_sequence_key(key);
    CACHED_TOOL_SEQUENCE_COUNTS.with_borrow_mut(|seen| {
        if !seen.tools.contains_key(tool) {
            let places = read_tool_sequences(&tool_store_key(tool))?.unwrap_or_default();
            seen.tools.insert(tool.to_owned(), places);
        }
        let places = seen.tools.get(tool);
        Ok(places.and_then(|places| places.0.get(before).cloned()))
    })
}

fn read_tool_sequences(key: &str) -> Result<Option<ToolSequences>, Error> {
    // Discard a corrupt value: losing old counts is better than an error in every call.
    let text = store::get(key)?;
    Ok(text.and_then(|text| rind_sdk::serde_json::from_str(&text).ok()))
}

/// If counts of too many tools are stored, removes those of the quarter of the tools with the
/// smallest counts. Removing so many at once makes this rare.
fn remove_least_used_tools() -> Result<(), Error> {
    let keys = store::keys(TOOL_SEQUENCE_STORE_KEY_PREFIX)?;
    if keys.len() < MAX_TOOLS_WITH_STORED_COUNTS {
        return Ok(());
    }
    let mut seen = Vec::with_capacity(keys.len());
    for key in keys {
        let places: ToolSequences = store::get_json(&key)
            .unwrap_or_default()
            .unwrap_or_default();
        seen.push((places.total_count(), key));
    }
    seen.sort_unstable();
    seen.iter()
        .take(MAX_TOOLS_WITH_STORED_COUNTS / 4)
        .try_for_each(|(_, key)| store::remove(key))
}

/// Returns the key of a sequence of tools. Tool names contain no `/`.
pub(crate) fn tool_sequence_key(place: &[String]) -> String {
    format!("{TOOL_SEQUENCE_STORE_KEY_PREFIX}{}", place.join("/"))
}

/// Splits the key of a sequence into the tool before the last tool (empty if there is none) and the
/// last tool.
fn split_sequence_key(key: &str) -> (&str, &str) {
    let names = key
        .strip_prefix(TOOL_SEQUENCE_STORE_KEY_PREFIX)
        .unwrap_or(key);
    names.rsplit_once('/').unwrap_or(("", names))
}

/// Returns the store key of the counts of a tool.
fn tool_store_key(tool: &str) -> String {
    format!("{TOOL_SEQUENCE_STORE_KEY_PREFIX}{tool}")
}
