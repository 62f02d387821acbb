//! The last tools of one agent in one turn. Kept in the session's state.

use std::collections::BTreeMap;

use rind_sdk::prelude::{Error, caller, data, state};

use crate::follow::{ToolFollowers, trail_places};
use crate::ledger::key_of;

/// Trail of an agent.
#[data]
#[derive(Default)]
pub(crate) struct AgentTrail {
    /// The turn. A new one starts with no tool before it.
    turn: u32,
    /// Step and id of the last call. A hook that is dropped halfway is called again about its call.
    last: (u32, String),
    /// The last tools, oldest first: at most two.
    tools: Vec<String>,
    /// The step of the last suggestion.
    suggested_in: u32,
    /// Suggestions in this turn.
    suggested: Vec<String>,
    /// Learnt counts that are not in the store yet, by the keys of places.
    #[serde(default)]
    learnt: BTreeMap<String, ToolFollowers>,
}

thread_local! {
    static TRAIL: state::Cached<AgentTrail> = const { state::Cached::new() };
}

impl AgentTrail {
    /// Changes the agent's trail in a turn, and stores it in the session's state.
    pub(crate) fn change_trail<R>(
        turn: u32,
        change: impl FnOnce(&mut Self) -> R,
    ) -> Result<R, Error> {
        let change = |trail: &mut Self| {
            trail.enter_turn(turn);
            change(trail)
        };
        TRAIL.with(|cached| cached.change(&trail_key(), change))
    }

    /// Shows the agent's trail, which may be of an earlier turn.
    pub(crate) fn view_trail<R>(view: impl FnOnce(&Self) -> R) -> Result<R, Error> {
        TRAIL.with(|cached| cached.view(&trail_key(), view))
    }

    /// Starts anew in a turn that is not the trail's. A turn that broke off has learnt as well.
    fn enter_turn(&mut self, turn: u32) {
        if self.turn != turn {
            *self = Self {
                turn,
                learnt: std::mem::take(&mut self.learnt),
                ..Self::default()
            };
        }
    }

    /// Whether the last call that was learnt is this one of a step.
    pub(crate) fn is_at(&self, step: u32, call: &str) -> bool {
        self.last.0 == step && self.last.1 == call
    }

    /// Records that a tool was called.
    pub(crate) fn learn_tool(&mut self, tool: &str) {
        for place in trail_places(&self.tools) {
            self.learnt.entry(key_of(place)).or_default().add_tool(tool);
        }
    }

    /// Returns the counts that are not in the store yet.
    pub(crate) fn learnt(&self) -> &BTreeMap<String, ToolFollowers> {
        &self.learnt
    }

    /// Forgets the counts that are in the store now.
    pub(crate) fn forget_learnt(&mut self) {
        self.learnt.clear();
    }

    /// The tools so far, oldest first.
    pub(crate) fn tools(&self) -> &[String] {
        &self.tools
    }

    /// Goes on to a call of a step.
    pub(crate) fn go_to(&mut self, step: u32, call: &str, tool: &str) {
        self.last = (step, call.to_owned());
        self.tools.push(tool.to_owned());
        let old = self.tools.len().saturating_sub(2);
        self.tools.drain(..old);
    }

    /// Whether there is room for a suggestion in a step: one a step, and each once a turn.
    pub(crate) fn has_room_for(&self, step: u32, text: &str) -> bool {
        self.suggested_in != step && self.suggested.iter().all(|said| said != text)
    }

    /// Remembers that a suggestion was made in a step.
    pub(crate) fn suggest_text(&mut self, step: u32, text: &str) {
        self.suggested_in = step;
        self.suggested.push(text.to_owned());
    }
}

fn trail_key() -> String {
    format!("trail/{}", caller::agent())
}
