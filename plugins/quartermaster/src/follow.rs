//! Counts which tool follows which, and suggests the next tool from the counts. A *sequence* is the
//! last one or two tools that were called.

use std::collections::BTreeMap;

use rind_sdk::data;

/// Sum of the counts of the tools that followed a sequence, at which all these counts are halved,
/// so that recent calls count more than old ones.
const NEXT_TOOL_COUNT_HALVING_THRESHOLD: u32 = 200;

/// Maximum number of different tools that are counted after the same sequence. The most frequent
/// ones are kept.
const MAX_NEXT_TOOLS_PER_SEQUENCE: usize = 12;

/// Settings of the plugin: when it suggests the next tool.
#[data]
pub(crate) struct NextToolSuggestionSettings {
    /// Minimum share, from 0 to 1, of the cases after a sequence in which the tool came next, for
    /// suggesting the tool.
    pub(crate) confidence: f64,
    /// Minimum number of cases that were counted after a sequence, for a suggestion.
    pub(crate) observations: u32,
    /// Whether the plugin suggests the next tool.
    pub(crate) suggest: bool,
}

/// Number of times that each tool came next after a sequence of tools.
///
/// For example:
///
/// ```json
/// {"bash": 3, "edit_file": 12}
/// ```
#[data]
#[derive(Default)]
#[serde(transparent)]
pub(crate) struct NextToolCounts(BTreeMap<String, u32>);

/// Tool that came next most often after a sequence of tools.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MostFrequentNextTool {
    /// Name of the tool that came next most often.
    pub(crate) tool: String,
    /// Number of times that this tool came directly after the preceding tools.
    pub(crate) times: u32,
    /// Number of times that any tool came next.
    pub(crate) total: u32,
}

impl NextToolCounts {
    /// Returns the number of times that any tool came next.
    pub(crate) fn total_count(&self) -> u32 {
        self.0
            .values()
            .fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Adds one to the count of the tool that came next.
    pub(crate) fn increment_tool_count(&mut self, tool: &str) {
        self.add_to_tool_count(tool, 1);
    }

    /// Adds the counts of `others`.
    pub(crate) fn merge_counts(&mut self, others: &Self) {
        for (tool, times) in &others.0 {
            self.add_to_tool_count(tool, *times);
        }
    }

    /// Adds `times` to the count of a tool. Halves all counts as often as if one had been added
    /// `times` times.
    fn add_to_tool_count(&mut self, tool: &str, mut times: u32) {
        while times > 0 {
            if !self.0.contains_key(tool) && self.0.len() >= MAX_NEXT_TOOLS_PER_SEQUENCE {
                let rarest = self.0.iter().min_by_key(|(_, count)| **count);
                let rarest = rarest.map(|(name, _)| name.clone());
                rarest.and_then(|name| self.0.remove(&name));
            }
            let room = NEXT_TOOL_COUNT_HALVING_THRESHOLD
                .saturating_sub(self.total_count())
                .max(1);
            let added = times.min(room);
            let count = self.0.entry(tool.to_owned()).or_default();
            *count = count.saturating_add(added);
            times -= added;
            if added == room {
                self.0.retain(|_, count| {
                    *count /= 2;
                    *count > 0
                });
            }
        }
    }

    /// Returns the tool that was called most often directly after this sequence of tools.
    pub(crate) fn most_frequent_tool(&self) -> Option<MostFrequentNextTool> {
        // Among tools with equal counts, return the first one by name.
        let (tool, times) = self.0.iter().rev().max_by_key(|(_, count)| **count)?;
        Some(MostFrequentNextTool {
            tool: tool.clone(),
            times: *times,
            total: self.total_count(),
        })
    }
}

/// Returns the sequences at the end of `before`: the last two tools, then the last tool alone.
pub(crate) fn trailing_tool_sequences(before: &[String]) -> impl Iterator<Item = &[String]> {
    let n = before.len();
    [2, 1]
        .into_iter()
        .filter(move |length| *length <= n)
        .map(move |length| &before[n - length..])
}

/// Returns the suggestion for the model, if the counts support one. It is based on the longest
/// sequence of tools that was counted often enough.
pub(crate) fn suggest_next_tool(
    before: &[String],
    settings: &NextToolSuggestionSettings,
    followers: impl Fn(&[String]) -> Option<NextToolCounts>,
) -> Option<String> {
    let seen = trailing_tool_sequences(before).find_map(|place| {
        let favourite = followers(place)?.most_frequent_tool()?;
        (favourite.total >= settings.observations).then_some((place, favourite))
    });
    let (place, MostFrequentNextTool { tool, times, total }) = seen?;
    let is_sure = f64::from(times) / f64::from(total) >= settings.confidence;
    // Do not suggest the tool that was called last: the model calls a tool several times in a row
    // without a suggestion.
    if !is_sure || place.last() == Some(&tool) {
        return None;
    }
    let place: Vec<String> = place.iter().map(|tool| format!("`{tool}`")).collect();
    let percent = (u64::from(times) * 100 + u64::from(total) / 2) / u64::from(total);
    Some(format!(
        "after {} the next tool has mostly been `{tool}` ({percent} % of {total} times). That is a habit of earlier work and \
         no order.",
        place.join(" and ")
    ))
}
