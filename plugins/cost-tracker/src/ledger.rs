//! Sums of usage and cost in one session: by turn, model, plugin and tool.

use std::collections::BTreeMap;

use rind_sdk::data;
use rind_sdk::prelude::{Purpose, Usage};

/// Maximum number of models, plugins, tools or skills that are counted separately. Further ones are
/// counted together as [`OTHERS_ENTRY_NAME`].
const MAX_SEPARATELY_COUNTED_NAMES: usize = 200;

/// Name under which models, plugins, tools or skills over [`MAX_SEPARATELY_COUNTED_NAMES`] are
/// counted together.
const OTHERS_ENTRY_NAME: &str = "(others)";

/// Name under which requests of the host itself are counted.
const HOST_MODEL_REQUESTS_ENTRY_NAME: &str = "(host)";

/// Name under which requests without an answer are counted in the list of models.
const UNANSWERED_MODEL_REQUESTS_ENTRY_NAME: &str = "(no answer)";

/// Minimum difference between two sums, in dollars, that is not ignored as a rounding error.
const COST_ROUNDING_TOLERANCE_USD: f64 = 1e-9;

/// Number of bytes of a tool result that are estimated as one token.
const BYTES_PER_TOKEN: u64 = 4;

/// Sums over requests: their number, tokens and cost.
#[data]
#[derive(Default, PartialEq)]
#[serde(default)]
pub(crate) struct UsageSum {
    pub(crate) requests: u64,
    pub(crate) input: u64,
    pub(crate) output: u64,
    #[serde(skip_serializing_if = "is_nothing")]
    pub(crate) cache_read: u64,
    #[serde(skip_serializing_if = "is_nothing")]
    pub(crate) cache_write: u64,
    /// Known part of the cost, in dollars.
    #[serde(skip_serializing_if = "is_nothing")]
    pub(crate) usd: f64,
    /// Number of tokens of models without a price. If it is not 0, `usd` is a lower bound of the
    /// cost.
    #[serde(skip_serializing_if = "is_nothing")]
    pub(crate) unpriced: u64,
    /// Whether some of the usage was estimated, because no provider reported it.
    #[serde(skip_serializing_if = "is_nothing")]
    pub(crate) estimated: bool,
}

/// Whether a value is the default, so that it is left out of the stored ledger. Most values are 0,
/// and the ledger is stored at every step.
fn is_nothing<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl UsageSum {
    fn add_request(&mut self, usage: &Usage, cost: Option<f64>) {
        let mut one = Self {
            requests: 1,
            input: usage.input_tokens,
            output: usage.output_tokens,
            cache_read: usage.cache_read_tokens,
            cache_write: usage.cache_write_tokens,
            ..Self::default()
        };
        match cost {
            Some(usd) => one.usd = usd,
            None => one.unpriced = one.total_tokens(),
        }
        one.estimated = usage.estimated;
        self.add_sum(&one);
    }

    /// Adds the numbers of another sum to this one.
    pub(crate) fn add_sum(&mut self, other: &Self) {
        self.requests = self.requests.saturating_add(other.requests);
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
        self.usd += other.usd;
        self.unpriced = self.unpriced.saturating_add(other.unpriced);
        self.estimated |= other.estimated;
    }

    /// Returns the sum of input and output tokens.
    pub(crate) fn total_tokens(&self) -> u64 {
        self.input.saturating_add(self.output)
    }
}

/// Sums over the calls of one tool.
#[data]
#[derive(Default, PartialEq)]
pub(crate) struct ToolUsageSum {
    /// Plugin of the tool; `None` for a built-in tool.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub(crate) plugin: Option<String>,
    pub(crate) calls: u64,
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub(crate) errors: u64,
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub(crate) millis: u64,
    /// Number of tokens of the tool's results, estimated from their bytes.
    pub(crate) tokens: u64,
    /// Estimated cost, in dollars, of sending these tokens once as input.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub(crate) usd: f64,
}

/// Usage and cost of a session, in total and by model, plugin, tool and skill.
#[data]
#[derive(Default)]
#[serde(default)]
pub(crate) struct CostLedger {
    /// Number of the main agent's turn whose requests are in `this_turn`.
    pub(crate) turn: u32,
    pub(crate) this_turn: UsageSum,
    pub(crate) session: UsageSum,
    pub(crate) models: BTreeMap<String, UsageSum>,
    /// Requests outside of the conversation, by the plugin that made them; those of the host are in
    /// `(host)`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) plugins: BTreeMap<String, UsageSum>,
    pub(crate) tools: BTreeMap<String, ToolUsageSum>,
    /// Requests that were made while a skill was active, by the id of the skill. If several skills
    /// are active, a request is counted for the last one.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) skills: BTreeMap<String, UsageSum>,
    /// Average price of an input or output token in the last answer, in dollars. Used to estimate
    /// the cost of tool results.
    pub(crate) usd_per_token: f64,
}

/// Position of a hook call: its turn, and the depth of the agent that makes it.
pub(crate) struct HookCallPosition {
    /// Depth of the agent; 0 for the main agent.
    pub(crate) depth: u32,
    pub(crate) turn: u32,
}

impl CostLedger {
    /// Resets the sums of the turn if the main agent has begun a new turn. Requests of subagents
    /// count toward the main agent's turn.
    pub(crate) fn reset_turn_if_new(&mut self, at: &HookCallPosition) {
        if at.depth == 0 && at.turn != self.turn {
            self.turn = at.turn;
            self.this_turn = UsageSum::default();
        }
    }

    /// Adds usage of the turn that the host counted but this ledger did not: that of requests that
    /// cost money but had no answer. `tokens` and `usd` are the host's totals of the turn.
    pub(crate) fn add_unanswered_requests(&mut self, at: &HookCallPosition, tokens: u64, usd: f64) {
        if at.depth > 0 {
            return;
        }
        let missed = UsageSum {
            input: tokens.saturating_sub(self.this_turn.total_tokens()),
            usd: (usd - self.this_turn.usd).max(0.0),
            estimated: true,
            ..UsageSum::default()
        };
        // Ignore a tiny difference: the host adds the same costs in another order, which changes
        // the last digits of the sum.
        if missed.input > 0 || missed.usd > COST_ROUNDING_TOLERANCE_USD {
            self.this_turn.add_sum(&missed);
            self.session.add_sum(&missed);
            named_or_fallback_entry(&mut self.models, UNANSWERED_MODEL_REQUESTS_ENTRY_NAME)
                .add_sum(&missed);
        }
    }

    /// Counts the tokens and the cost of a model's answer: in a step of an agent, or to a question
    /// that a plugin or the host asked outside of the conversation.
    pub(crate) fn record_answer_cost(
        &mut self,
        purpose: &Purpose,
        model: &str,
        usage: &Usage,
        cost: Option<f64>,
    ) {
        let n_tokens = usage.input_tokens.saturating_add(usage.output_tokens);
        self.usd_per_token = cost
            .filter(|_| n_tokens > 0)
            .map_or(0.0, |usd| usd / n_tokens as f64);
        self.this_turn.add_request(usage, cost);
        self.session.add_request(usage, cost);
        named_or_fallback_entry(&mut self.models, model).add_request(usage, cost);
        let by = match purpose {
            Purpose::Step => return,
            Purpose::Plugin(name) => name,
            Purpose::Host(_) => HOST_MODEL_REQUESTS_ENTRY_NAME,
        };
        named_or_fallback_entry(&mut self.plugins, by).add_request(usage, cost);
    }

    /// Counts an answer that arrived while a skill was active.
    pub(crate) fn record_answer_cost_for_skill(
        &mut self,
        skill: &str,
        usage: &Usage,
        cost: Option<f64>,
    ) {
        named_or_fallback_entry(&mut self.skills, skill).add_request(usage, cost);
    }

    /// Counts a call of a tool, which has run or was refused.
    pub(crate) fn count_tool_call(&mut self, tool: &str, ran: ToolCallMeasurements) {
        let sum = named_or_fallback_entry(&mut self.tools, tool);
        sum.plugin = ran.plugin.or(sum.plugin.take());
        sum.calls += 1;
        sum.errors += u64::from(ran.is_error);
        sum.millis = sum.millis.saturating_add(ran.millis);
        let tokens = (ran.bytes as u64).div_ceil(BYTES_PER_TOKEN);
        sum.tokens = sum.tokens.saturating_add(tokens);
        sum.usd += tokens as f64 * self.usd_per_token;
    }
}

/// Size of the result and duration of a finished call, and the plugin of its tool.
pub(crate) struct ToolCallMeasurements {
    pub(crate) plugin: Option<String>,
    pub(crate) bytes: usize,
    pub(crate) millis: u64,
    pub(crate) is_error: bool,
}

fn named_or_fallback_entry<'a, T: Default>(
    map: &'a mut BTreeMap<String, T>,
    name: &str,
) -> &'a mut T {
    let name = if map.len() < MAX_SEPARATELY_COUNTED_NAMES || map.contains_key(name) {
        name
    } else {
        OTHERS_ENTRY_NAME
    };
    map.entry(name.to_owned()).or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(depth: u32, turn: u32) -> HookCallPosition {
        HookCallPosition { depth, turn }
    }

    fn usage(input: u64, output: u64) -> Usage {
        Usage {
            input_tokens: input,
            output_tokens: output,
            cache_read_tokens: 0,
            cache_write_tokens: 0,
            estimated: false,
        }
    }

    #[test]
    fn a_subagents_answers_count_in_the_turn_of_the_main_agent() {
        let mut ledger = CostLedger::default();
        for (at, input) in [(at(0, 2), 10), (at(1, 1), 100), (at(0, 2), 1)] {
            ledger.reset_turn_if_new(&at);
            ledger.record_answer_cost(&Purpose::Step, "m", &usage(input, 0), None);
        }
        assert_eq!(ledger.this_turn.total_tokens(), 111);
        ledger.reset_turn_if_new(&at(0, 3));
        assert_eq!(ledger.this_turn, UsageSum::default());
        assert_eq!(
            (ledger.session.total_tokens(), ledger.session.unpriced),
            (111, 111)
        );
    }

    #[test]
    fn an_answer_outside_of_the_conversation_counts_for_the_one_that_asked() {
        let mut ledger = CostLedger::default();
        for (purpose, input) in [
            (Purpose::Step, 1),
            (Purpose::Plugin("search".to_owned()), 2),
            (Purpose::Host("reflect".to_owned()), 4),
        ] {
            ledger.record_answer_cost(&purpose, "m", &usage(input, 0), None);
        }
        let of = |name: &str| ledger.plugins[name].total_tokens();
        assert_eq!((of("search"), of(HOST_MODEL_REQUESTS_ENTRY_NAME)), (2, 4));
        assert_eq!(ledger.session.total_tokens(), 7);
    }

    #[test]
    fn further_names_are_counted_together() {
        let mut ledger = CostLedger::default();
        for number in 0..1000 {
            let name = format!("tool-{number}");
            let ran = ToolCallMeasurements {
                plugin: None,
                bytes: 9,
                millis: 1,
                is_error: number == 0,
            };
            ledger.count_tool_call(&name, ran);
        }
        assert_eq!(ledger.tools.len(), MAX_SEPARATELY_COUNTED_NAMES + 1);
        assert_eq!(ledger.tools[OTHERS_ENTRY_NAME].calls, 800);
        let first = &ledger.tools["tool-0"];
        assert_eq!((first.errors, first.tokens), (1, 3));
    }
}
