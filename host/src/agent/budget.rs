//! Counts the usage of a turn against the limits of plugins and models.
//!
//! Owns the counts and their limits. The module must not know what a counted call does. Start from
//! [`TurnBudget`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::lock::lock_ignoring_poison;
use crate::message::Usage;
use crate::point::caller::Caller;
use crate::point::handle::{
    HostFunctionError, MAX_PLUGIN_MODEL_REQUESTS_PER_TURN, MAX_PLUGIN_SUBAGENTS_PER_TURN,
    MAX_PLUGIN_TOOL_CALLS_PER_TURN, MAX_USER_QUESTIONS_PER_TURN,
};
use crate::price::Cost;

/// Kind of call from a plugin to the host that is counted and limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum LimitedHostCallKind {
    Model,
    Tool,
    Agent,
    Person,
}

impl LimitedHostCallKind {
    /// Returns the maximum number of calls of this kind that one plugin may make in one turn, and a
    /// plural noun for the calls, for messages.
    fn max_calls_per_plugin(self) -> (u32, &'static str) {
        match self {
            Self::Model => (MAX_PLUGIN_MODEL_REQUESTS_PER_TURN, "questions to the model"),
            Self::Tool => (MAX_PLUGIN_TOOL_CALLS_PER_TURN, "tool calls"),
            Self::Agent => (MAX_PLUGIN_SUBAGENTS_PER_TURN, "subagents"),
            Self::Person => (MAX_USER_QUESTIONS_PER_TURN, "questions to the person"),
        }
    }
}

/// Number of calls to the host that each plugin made, by kind of call.
#[derive(Clone, Default)]
struct PluginHostCallCounts(HashMap<(Arc<str>, LimitedHostCallKind), u32>);

impl PluginHostCallCounts {
    /// Counts a call of the plugin, unless the maximum is reached. `within` is the name of the
    /// period for which the maximum applies, for the error.
    fn count_host_call(
        &mut self,
        plugin: &Arc<str>,
        host_call: LimitedHostCallKind,
        within: &str,
    ) -> Result<(), HostFunctionError> {
        let spent = self.0.entry((plugin.clone(), host_call)).or_default();
        let (most, uses) = host_call.max_calls_per_plugin();
        if *spent >= most {
            return Err(HostFunctionError::Limit(format!(
                "plugin `{plugin}` has used its {most} {uses} of this {within}"
            )));
        }
        *spent += 1;
        Ok(())
    }
}

/// Calls that were counted against the limits of a turn.
#[derive(Clone, Default)]
pub(crate) struct LimitedCallCounts {
    host_calls: PluginHostCallCounts,
    /// Number of subagents that models started.
    n_spawned: u32,
    /// Number of questions that models asked about archived turns.
    n_questions: u32,
    /// Name of the period of the limits, for messages; empty for a turn.
    within: &'static str,
}

impl LimitedCallCounts {
    /// Creates empty counts for a period other than a turn, such as `minute`.
    pub(crate) fn new_for_period(time: &'static str) -> Self {
        Self {
            within: time,
            ..Self::default()
        }
    }

    fn count_host_call(
        &mut self,
        plugin: &Arc<str>,
        host_call: LimitedHostCallKind,
    ) -> Result<(), HostFunctionError> {
        let within = match self.within {
            "" => "turn",
            time => time,
        };
        self.host_calls.count_host_call(plugin, host_call, within)
    }
}

/// Usage of one turn, and its limits. The tokens of a subagent's turn are also added to the turn of
/// its parent. Its calls count against the limits of the main agent's turn, because otherwise every
/// subagent would get a new budget.
#[derive(Default)]
pub(super) struct TurnBudget {
    parent: Option<Arc<TurnBudget>>,
    tally: Mutex<TurnUsageTotals>,
}

#[derive(Default)]
struct TurnUsageTotals {
    usage: Usage,
    cost: Cost,
    n_calls: u32,
    n_requests: u32,
    spent: LimitedCallCounts,
    /// Maximum cost of the turn in US dollars; `None` for no maximum.
    max_cost_usd: Option<f64>,
}

impl TurnBudget {
    /// Creates the budget of a turn. `parent` is the budget of the parent's turn; `None` for the
    /// main agent.
    pub(super) fn new(parent: Option<Arc<Self>>) -> Self {
        Self {
            parent,
            tally: Mutex::default(),
        }
    }

    /// Writes the usage so far into `caller`, the value that a hook or tool gets.
    pub(super) fn fill_caller_usage_fields(&self, caller: &mut Caller) {
        let tally = lock_ignoring_poison(&self.tally);
        caller.context.usage = tally.usage;
        caller.context.cost_usd = tally.cost.usd;
        caller.context.unpriced_tokens = tally.cost.unpriced_tokens;
        caller.context.tool_calls = tally.n_calls;
    }

    /// Returns the tokens used in this turn, by the loop, by plugins and by subagents.
    pub(super) fn usage(&self) -> Usage {
        lock_ignoring_poison(&self.tally).usage
    }

    pub(super) fn cost_so_far(&self) -> Cost {
        lock_ignoring_poison(&self.tally).cost
    }

    /// Sets the maximum cost of the turn in US dollars, including the cost of subagents and
    /// plugins.
    pub(super) fn set_max_turn_cost(&self, max_usd: Option<f64>) {
        lock_ignoring_poison(&self.tally).max_cost_usd = max_usd;
    }

    /// Returns the cost limit of the main agent's turn, and the cost of that turn so far. Returns
    /// `None` if there is no limit.
    pub(super) fn cost_limit(&self) -> Option<(f64, Cost)> {
        if let Some(parent) = &self.parent {
            return parent.cost_limit();
        }
        let tally = lock_ignoring_poison(&self.tally);
        tally.max_cost_usd.map(|limit| (limit, tally.cost))
    }

    /// Adds tokens and their cost to this turn and to the turns of the parents.
    pub(super) fn add_usage(&self, usage: Usage, cost: Cost) {
        let mut tally = lock_ignoring_poison(&self.tally);
        tally.usage += usage;
        tally.cost += cost;
        drop(tally);
        if let Some(parent) = &self.parent {
            parent.add_usage(usage, cost);
        }
    }

    /// Returns the number of tool calls in this turn, by the model and by plugins.
    pub(super) fn n_tool_calls_made(&self) -> u32 {
        lock_ignoring_poison(&self.tally).n_calls
    }

    /// Counts a request to the model. Returns the number of the request in the turn, counted from
    /// 1.
    pub(super) fn count_model_request(&self) -> u32 {
        let mut tally = lock_ignoring_poison(&self.tally);
        tally.n_requests += 1;
        tally.n_requests
    }

    pub(super) fn count_tool_call(&self) {
        lock_ignoring_poison(&self.tally).n_calls += 1;
    }

    /// Counts a call of the host function `host_call` by a plugin towards the plugin's limit in the
    /// main agent's turn.
    pub(super) fn count_host_call(
        &self,
        plugin: &Arc<str>,
        host_call: LimitedHostCallKind,
    ) -> Result<(), HostFunctionError> {
        match &self.parent {
            Some(parent) => parent.count_host_call(plugin, host_call),
            None => lock_ignoring_poison(&self.tally)
                .spent
                .count_host_call(plugin, host_call),
        }
    }

    /// Counts a subagent that a model starts, in the turn of the main agent. Returns whether the
    /// count is within the limit `most`.
    pub(super) fn count_spawned_subagent(&self, most: u32) -> bool {
        self.increment_and_check_limit(|spent| &mut spent.n_spawned, most)
    }

    /// Counts a question of a model about a subagent's transcript, in the turn of the main agent.
    /// Returns whether the count is within the limit `most`.
    pub(super) fn count_subagent_question(&self, most: u32) -> bool {
        self.increment_and_check_limit(|spent| &mut spent.n_questions, most)
    }

    /// Sets the numbers of calls that were made before, so that several calls of a plugin count
    /// towards the limits of one turn.
    pub(super) fn set_call_counts(&self, spent: LimitedCallCounts) {
        lock_ignoring_poison(&self.tally).spent = spent;
    }

    /// Returns the numbers of calls that were counted so far, and resets them to 0.
    pub(super) fn take_call_counts(&self) -> LimitedCallCounts {
        std::mem::take(&mut lock_ignoring_poison(&self.tally).spent)
    }

    fn increment_and_check_limit(
        &self,
        counter: fn(&mut LimitedCallCounts) -> &mut u32,
        most: u32,
    ) -> bool {
        if let Some(parent) = &self.parent {
            return parent.increment_and_check_limit(counter, most);
        }
        let mut tally = lock_ignoring_poison(&self.tally);
        let n = counter(&mut tally.spent);
        *n = n.saturating_add(1);
        *n <= most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_plugin_has_a_budget_of_its_own_for_each_power() {
        let mut spent = PluginHostCallCounts::default();
        let (one, other): (Arc<str>, Arc<str>) = ("one".into(), "other".into());
        for _ in 0..4 {
            spent
                .count_host_call(&one, LimitedHostCallKind::Agent, "turn")
                .unwrap();
        }
        let error = spent
            .count_host_call(&one, LimitedHostCallKind::Agent, "turn")
            .unwrap_err();
        assert_eq!(
            error,
            HostFunctionError::Limit(
                "plugin `one` has used its 4 subagents of this turn".to_owned()
            )
        );
        spent
            .count_host_call(&one, LimitedHostCallKind::Model, "turn")
            .unwrap();
        spent
            .count_host_call(&other, LimitedHostCallKind::Agent, "turn")
            .unwrap();
    }
}
