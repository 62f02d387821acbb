//! Tracks the last tools that an agent called in a turn, in the session's state.

use std::collections::BTreeMap;

use rind_sdk::prelude::{Error, caller, data, state};

use crate::follow::{NextToolCounts, trailing_tool_sequences};
use crate::ledger::tool_sequence_key;

/// Calls and suggestions of an agent in one turn.
#[data]
#[derive(Default)]
pub(crate) struct AgentTurnHistory {
    /// Number of the turn. Tools that were called in an earlier turn do not count as predecessors
    /// of a tool in this turn.
    turn: u32,
    /// Step and id of the last counted call. The host may call a hook again for the same call if it
    /// was interrupted.
    last: (u32, String),
    /// Tools that the agent called last in this turn: at most two, oldest first.
    tools: Vec<String>,
    /// Number of the step in which the last suggestion was made.
    suggested_in: u32,
    /// Texts of the suggestions that the plugin has made in this turn.
    suggested: Vec<String>,
    /// Counts of the tools that followed a sequence of tools, not yet in the plugin's store. The
    /// key is the store key of the sequence.
    #[serde(default)]
    learnt: BTreeMap<String, NextToolCounts>,
}

thread_local! {
    static CACHED_AGENT_TURN_HISTORY: state::Cached<AgentTurnHistory> = const { state::Cached::new() };
}

impl AgentTurnHistory {
    /// Changes the agent's trail, which is reset first if the turn is a new one, and stores it in
    /// the session's state.
    pub(crate) fn update_stored_history<R>(
        turn: u32,
        change: impl FnOnce(&mut Self) -> R,
    ) -> Result<R, Error> {
        let change = |trail: &mut Self| {
            trail.reset_for_new_turn(turn);
            change(trail)
        };
        CACHED_AGENT_TURN_HISTORY.with(|cached| cached.change(&format_agent_history_key(), change))
    }

    /// Passes the calling agent's record of calls and suggestions to `view`. The record may be from
    /// an earlier turn.
    pub(crate) fn inspect_stored_history<R>(view: impl FnOnce(&Self) -> R) -> Result<R, Error> {
        CACHED_AGENT_TURN_HISTORY.with(|cached| cached.view(&format_agent_history_key(), view))
    }

    /// Resets the trail if the turn is a new one. Keeps counts that are not stored yet: the earlier
    /// turn may have been interrupted.
    fn reset_for_new_turn(&mut self, turn: u32) {
        if self.turn != turn {
            *self = Self {
                turn,
                learnt: std::mem::take(&mut self.learnt),
                ..Self::default()
            };
        }
    }

    /// Whether this call of the step is the one that was counted last, and must not be counted
    /// again.
    pub(crate) fn is_last_recorded_call(&self, step: u32, call: &str) -> bool {
        self.last.0 == step && self.last.1 == call
    }

    /// Counts `tool` as the tool that followed each sequence of the agent's last tools.
    pub(crate) fn count_next_tool(&mut self, tool: &str) {
        for place in trailing_tool_sequences(&self.tools) {
            self.learnt
                .entry(tool_sequence_key(place))
                .or_default()
                .increment_tool_count(tool);
        }
    }

    /// Returns the counts that are not in the store yet.
    pub(crate) fn unstored_tool_counts(&self) -> &BTreeMap<String, NextToolCounts> {
        &self.learnt
    }

    /// Forgets the counts of tools after they were stored.
    pub(crate) fn clear_unstored_tool_counts(&mut self) {
        self.learnt.clear();
    }

    /// Returns the tools of the last calls, oldest first.
    pub(crate) fn last_tools(&self) -> &[String] {
        &self.tools
    }

    /// Records a call in the step `step` as the last counted call, and `tool` as the last called
    /// tool.
    pub(crate) fn record_call(&mut self, step: u32, call: &str, tool: &str) {
        self.last = (step, call.to_owned());
        self.tools.push(tool.to_owned());
        let old = self.tools.len().saturating_sub(2);
        self.tools.drain(..old);
    }

    /// Whether a suggestion may be made: at most one in a step, and the same text at most once in a
    /// turn.
    pub(crate) fn can_suggest_next_tool(&self, step: u32, text: &str) -> bool {
        self.suggested_in != step && self.suggested.iter().all(|said| said != text)
    }

    /// Records that the suggestion `text` was made in the step `step`.
    pub(crate) fn record_suggestion(&mut self, step: u32, text: &str) {
        self.suggested_in = step;
        self.suggested.push(text.to_owned());
    }
}

fn format_agent_history_key() -> String {
    format!("trail/{}", caller::agent())
}
