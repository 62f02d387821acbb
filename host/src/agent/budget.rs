//! Counts the usage of a turn against the limits of plugins and models.
//!
//! Owns the counts and their limits. It must not know the effect of a counted call. Start from
//! [`TurnBudget`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::lock::lock;
use crate::message::Usage;
use crate::point::caller::Caller;
use crate::point::handle::{
    HandleError, MAX_PERSON_QUESTIONS, MAX_QUESTIONS, MAX_SUBAGENTS, MAX_TOOL_CALLS,
};
use crate::price::Cost;

/// Kind of call from a plugin to the host that is counted and limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum HostCall {
    Model,
    Tool,
    Agent,
    Person,
}

impl HostCall {
    /// Returns the maximum number of such calls by one plugin in one turn, and their plural for
    /// messages.
    fn call_limit(self) -> (u32, &'static str) {
        match self {
            Self::Model => (MAX_QUESTIONS, "questions to the model"),
            Self::Tool => (MAX_TOOL_CALLS, "tool calls"),
            Self::Agent => (MAX_SUBAGENTS, "subagents"),
            Self::Person => (MAX_PERSON_QUESTIONS, "questions to the person"),
        }
    }
}

/// Number of calls that each plugin made, by kind.
#[derive(Clone, Default)]
struct HostCallCounts(HashMap<(Arc<str>, HostCall), u32>);

impl HostCallCounts {
    /// Counts a call if the plugin has one left. `within` names the period of the limit, for the
    /// error.
    fn spend_call(
        &mut self,
        plugin: &Arc<str>,
        host_call: HostCall,
        within: &str,
    ) -> Result<(), HandleError> {
        let spent = self.0.entry((plugin.clone(), host_call)).or_default();
        let (most, uses) = host_call.call_limit();
        if *spent >= most {
            return Err(HandleError::Limit(format!(
                "plugin `{plugin}` has used its {most} {uses} of this {within}"
            )));
        }
        *spent += 1;
        Ok(())
    }
}

/// Calls that count against the limits of a turn.
#[derive(Clone, Default)]
pub(crate) struct SpentUses {
    host_calls: HostCallCounts,
    /// Number of subagents that models started.
    n_spawned: u32,
    /// Number of questions of models about archived turns.
    n_questions: u32,
    /// Name of the period of the limits, for messages; empty for a turn.
    within: &'static str,
}

impl SpentUses {
    /// Creates empty counts for a period other than a turn, such as `minute`.
    pub(crate) fn within_time(time: &'static str) -> Self {
        Self {
            within: time,
            ..Self::default()
        }
    }

    fn spend_call(&mut self, plugin: &Arc<str>, host_call: HostCall) -> Result<(), HandleError> {
        let within = match self.within {
            "" => "turn",
            time => time,
        };
        self.host_calls.spend_call(plugin, host_call, within)
    }
}

/// Usage of one turn, and its limits. The turn of a subagent adds its tokens to the turn of its
/// parent as well, and its calls count against the limits of the main agent's turn: otherwise every
/// subagent would add a new budget.
#[derive(Default)]
pub(super) struct TurnBudget {
    parent: Option<Arc<TurnBudget>>,
    tally: Mutex<TurnTally>,
}

#[derive(Default)]
struct TurnTally {
    usage: Usage,
    cost: Cost,
    n_calls: u32,
    n_requests: u32,
    spent: SpentUses,
    /// Maximum cost of the turn in US dollars.
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

    /// Writes the usage so far into the caller that is passed to a hook or tool.
    pub(super) fn update_caller(&self, caller: &mut Caller) {
        let tally = lock(&self.tally);
        caller.context.usage = tally.usage;
        caller.context.cost_usd = tally.cost.usd;
        caller.context.unpriced_tokens = tally.cost.unpriced_tokens;
        caller.context.tool_calls = tally.n_calls;
    }

    /// Returns the tokens used in this turn, by the loop, by plugins and by subagents.
    pub(super) fn usage(&self) -> Usage {
        lock(&self.tally).usage
    }

    pub(super) fn cost(&self) -> Cost {
        lock(&self.tally).cost
    }

    /// Sets the maximum cost of the turn in US dollars, subagents and plugins included.
    pub(super) fn limit_cost(&self, max_usd: Option<f64>) {
        lock(&self.tally).max_cost_usd = max_usd;
    }

    /// Returns the cost limit of the main agent's turn, and the cost of that turn so far; `None`
    /// without a limit.
    pub(super) fn cost_limit(&self) -> Option<(f64, Cost)> {
        if let Some(parent) = &self.parent {
            return parent.cost_limit();
        }
        let tally = lock(&self.tally);
        tally.max_cost_usd.map(|limit| (limit, tally.cost))
    }

    /// Adds tokens and their cost to this turn and to the turns of the parents.
    pub(super) fn add_used(&self, usage: Usage, cost: Cost) {
        let mut tally = lock(&self.tally);
        tally.usage += usage;
        tally.cost += cost;
        drop(tally);
        if let Some(parent) = &self.parent {
            parent.add_used(usage, cost);
        }
    }

    /// Returns the number of tool calls in this turn, by the model and by plugins.
    pub(super) fn n_calls(&self) -> u32 {
        lock(&self.tally).n_calls
    }

    /// Counts a request to the model. Returns its number, counted from 1.
    pub(super) fn count_request(&self) -> u32 {
        let mut tally = lock(&self.tally);
        tally.n_requests += 1;
        tally.n_requests
    }

    pub(super) fn count_call(&self) {
        lock(&self.tally).n_calls += 1;
    }

    /// Counts a plugin's call of this kind against its limit in the main agent's turn.
    pub(super) fn spend_call(
        &self,
        plugin: &Arc<str>,
        host_call: HostCall,
    ) -> Result<(), HandleError> {
        match &self.parent {
            Some(parent) => parent.spend_call(plugin, host_call),
            None => lock(&self.tally).spent.spend_call(plugin, host_call),
        }
    }

    /// Counts a subagent that the model runs, in the turn of the main agent. Returns whether the
    /// count is within the limit `most`.
    pub(super) fn count_spawned(&self, most: u32) -> bool {
        self.count_use(|spent| &mut spent.n_spawned, most)
    }

    /// Counts a question of the model about a subagent's transcript, in the turn of the main agent.
    /// Returns whether the count is within the limit `most`.
    pub(super) fn count_question(&self, most: u32) -> bool {
        self.count_use(|spent| &mut spent.n_questions, most)
    }

    /// Sets the calls that were counted before, so that several calls of a plugin can share the
    /// limits of one turn.
    pub(super) fn set_spent(&self, spent: SpentUses) {
        lock(&self.tally).spent = spent;
    }

    /// Takes the calls that were counted so far.
    pub(super) fn take_spent(&self) -> SpentUses {
        std::mem::take(&mut lock(&self.tally).spent)
    }

    fn count_use(&self, counter: fn(&mut SpentUses) -> &mut u32, most: u32) -> bool {
        if let Some(parent) = &self.parent {
            return parent.count_use(counter, most);
        }
        let mut tally = lock(&self.tally);
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
        let mut spent = HostCallCounts::default();
        let (one, other): (Arc<str>, Arc<str>) = ("one".into(), "other".into());
        for _ in 0..4 {
            spent.spend_call(&one, HostCall::Agent, "turn").unwrap();
        }
        let error = spent.spend_call(&one, HostCall::Agent, "turn").unwrap_err();
        assert_eq!(
            error,
            HandleError::Limit("plugin `one` has used its 4 subagents of this turn".to_owned())
        );
        spent.spend_call(&one, HostCall::Model, "turn").unwrap();
        spent.spend_call(&other, HostCall::Agent, "turn").unwrap();
    }
}
