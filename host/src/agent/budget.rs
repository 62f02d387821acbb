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

/// A metered call that a plugin makes into the turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum HostCall {
    Model,
    Tool,
    Agent,
    Person,
}

impl HostCall {
    /// Maximum number of calls by one plugin in one turn, and the plural for messages.
    fn call_limit(self) -> (u32, &'static str) {
        match self {
            Self::Model => (MAX_QUESTIONS, "questions to the model"),
            Self::Tool => (MAX_TOOL_CALLS, "tool calls"),
            Self::Agent => (MAX_SUBAGENTS, "subagents"),
            Self::Person => (MAX_PERSON_QUESTIONS, "questions to the person"),
        }
    }
}

/// Number of calls that plugins made in a turn.
#[derive(Clone, Default)]
struct HostCallCounts(HashMap<(Arc<str>, HostCall), u32>);

impl HostCallCounts {
    /// Takes one, if there is one left. `within` names the time in which they are counted.
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

/// Uses that count against the limits of a turn.
#[derive(Clone, Default)]
pub(crate) struct SpentUses {
    host_calls: HostCallCounts,
    /// Subagents that models ran.
    n_spawned: u32,
    /// Number of questions of models about archived turns.
    n_questions: u32,
    /// Time in which they are counted, for messages: a turn, when it is empty.
    within: &'static str,
}

impl SpentUses {
    /// Begins to count in a time, such as `minute`.
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

/// Usage of one turn, and its limits. The turn of a subagent counts its tokens for its parent as
/// well, and spends the limits of the main agent: otherwise each subagent would bring a budget of
/// its own.
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
    /// Maximum cost of the turn, in US dollars.
    max_cost_usd: Option<f64>,
}

impl TurnBudget {
    /// The budget of a turn of a subagent, or of the main agent, which has no parent.
    pub(super) fn new(parent: Option<Arc<Self>>) -> Self {
        Self {
            parent,
            tally: Mutex::default(),
        }
    }

    /// Puts the usage so far into the caller of a hook or tool.
    pub(super) fn update_caller(&self, caller: &mut Caller) {
        let tally = lock(&self.tally);
        caller.context.usage = tally.usage;
        caller.context.cost_usd = tally.cost.usd;
        caller.context.unpriced_tokens = tally.cost.unpriced_tokens;
        caller.context.tool_calls = tally.n_calls;
    }

    /// Tokens used in this turn, by the loop, by plugins and by subagents.
    pub(super) fn usage(&self) -> Usage {
        lock(&self.tally).usage
    }

    pub(super) fn cost(&self) -> Cost {
        lock(&self.tally).cost
    }

    /// Sets the most that the turn may cost, with all that is part of it, in US dollars.
    pub(super) fn limit_cost(&self, max_usd: Option<f64>) {
        lock(&self.tally).max_cost_usd = max_usd;
    }

    /// Returns the cost limit of the main agent's turn, and its cost so far.
    pub(super) fn cost_limit(&self) -> Option<(f64, Cost)> {
        if let Some(parent) = &self.parent {
            return parent.cost_limit();
        }
        let tally = lock(&self.tally);
        tally.max_cost_usd.map(|limit| (limit, tally.cost))
    }

    /// Counts tokens and their cost, also in the turns of the parents.
    pub(super) fn add_used(&self, usage: Usage, cost: Cost) {
        let mut tally = lock(&self.tally);
        tally.usage += usage;
        tally.cost += cost;
        drop(tally);
        if let Some(parent) = &self.parent {
            parent.add_used(usage, cost);
        }
    }

    /// Tool calls made in this turn, by the model and by plugins.
    pub(super) fn n_calls(&self) -> u32 {
        lock(&self.tally).n_calls
    }

    /// Counts a request to the model; its number, from 1.
    pub(super) fn count_request(&self) -> u32 {
        let mut tally = lock(&self.tally);
        tally.n_requests += 1;
        tally.n_requests
    }

    pub(super) fn count_call(&self) {
        lock(&self.tally).n_calls += 1;
    }

    /// Takes one from a plugin's allowance of such host calls in one turn.
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

    /// Counts a question of the model about a turn that a subagent holds, in the turn of the main
    /// agent. Returns whether the count is within the limit `most`.
    pub(super) fn count_question(&self, most: u32) -> bool {
        self.count_use(|spent| &mut spent.n_questions, most)
    }

    /// Sets the usage of earlier calls: a caller that calls a plugin often lets several calls share
    /// one turn's limits.
    pub(super) fn set_spent(&self, spent: SpentUses) {
        lock(&self.tally).spent = spent;
    }

    /// Takes the usage.
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
