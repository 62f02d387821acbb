//! The tool `list_subagents`: lists the subagents of an agent with their states, and the running
//! ones of other agents.

use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::registry::LiveSubagent;
use super::report::subagent_state;
use crate::agent::scope::{ActiveTurns, SharedTurnState};
use crate::event::SubagentState;
use crate::message::{EffectClass, ToolSpec};
use crate::text::escape_and_truncate_line;
use crate::tool::builtin::{build_tool_spec, run_until_cancelled};
use crate::tool::{Tool, ToolCtx, ToolOutput};

/// Maximum number of subagents that the model is shown; the oldest are omitted.
const MAX_LISTED_SUBAGENTS: usize = 50;

/// Maximum length of a subagent's task in a line of the list, in bytes.
const MAX_LISTED_TASK_BYTES: usize = 100;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {}

pub(super) struct ListSubagentsTool {
    spec: ToolSpec,
    active_turns: ActiveTurns,
}

impl ListSubagentsTool {
    /// Creates the tool `list_subagents`, which finds the calling agent's turn in `active_turns`.
    pub(super) fn new(active_turns: ActiveTurns) -> Self {
        Self {
            spec: build_tool_spec::<Arguments>(
                "list_subagents",
                "Lists the subagents of this conversation: id, state, preset, step, last tool, cost, task.",
                EffectClass::Read,
            ),
            active_turns,
        }
    }

    fn handle_list_call(&self, ctx: &ToolCtx) -> ToolOutput {
        let Some(scope) = self
            .active_turns
            .find_active_turn(&ctx.caller.context.agent)
        else {
            return ToolOutput::from_error_content("no turn is running");
        };
        let registry = &scope.family.subagents;
        let mut children = scope.spec.session.subagents();
        children.retain(|child| !child.is_holder);
        let n_older = children.len().saturating_sub(MAX_LISTED_SUBAGENTS);
        let mut rows = Vec::new();
        if n_older > 0 {
            rows.push(format!("({n_older} older ones are not listed)"));
        }
        for child in children.iter().skip(n_older) {
            let live = registry.find_live_subagent(&child.agent);
            let row = SubagentListRow {
                id: &child.agent,
                state: subagent_state(child, live.as_deref()),
                preset: child.preset.as_deref(),
                task: &child.task,
                live: live.as_deref(),
            };
            rows.push(row.format_row(&self.active_turns));
        }
        let others = registry.running_subagents().into_iter();
        let others = others.filter(|live| live.parent != scope.spec.name);
        let others: Vec<_> = others.take(MAX_LISTED_SUBAGENTS).collect();
        if !others.is_empty() {
            rows.push(format_other_agents_heading(&scope));
        }
        for live in &others {
            let row = SubagentListRow {
                id: &live.id,
                state: SubagentState::Running,
                preset: live.preset.as_deref(),
                task: &live.task,
                live: Some(live),
            };
            rows.push(row.format_row(&self.active_turns));
        }
        match rows.is_empty() {
            true => ToolOutput::ok("there are no subagents"),
            false => ToolOutput::ok(rows.join("\n")),
        }
    }
}

/// Returns the heading of the list of other agents' subagents.
fn format_other_agents_heading(scope: &SharedTurnState) -> String {
    format!("Of other agents than {}:", scope.spec.name)
}

/// Row of the list of subagents for the model.
struct SubagentListRow<'a> {
    id: &'a str,
    state: SubagentState,
    preset: Option<&'a str>,
    task: &'a str,
    live: Option<&'a LiveSubagent>,
}

impl SubagentListRow<'_> {
    /// Formats the line.
    ///
    /// For example:
    ///
    /// ```text
    /// - sub-4961a0c2 | running | investigate | step 3 | read_file | $0.0120 | task: Find the login
    /// ```
    fn format_row(&self, active_turns: &ActiveTurns) -> String {
        let mut words = vec![format!("- {}", self.id), self.state.to_string()];
        words.extend(self.preset.map(str::to_owned));
        let (mut steps, mut cost_usd) = (0, 0.0);
        match self.live.map(|live| (live, live.outcome())) {
            Some((_, Some(outcome))) => (steps, cost_usd) = (outcome.steps, outcome.cost_usd),
            Some((live, None)) => {
                if let Some(turn) = active_turns.find_active_turn(&live.id) {
                    (steps, cost_usd) =
                        (turn.progress.current_step(), turn.budget.cost_so_far().usd);
                    words.push(format!("step {steps}"));
                    words.extend(turn.progress.last_tool());
                    steps = 0;
                }
            }
            None => {}
        }
        if steps > 0 {
            words.push(format!("{steps} steps"));
        }
        if cost_usd > 0.0 {
            words.push(format!("${cost_usd:.4}"));
        }
        words.push(format!(
            "task: {}",
            escape_and_truncate_line(self.task, MAX_LISTED_TASK_BYTES)
        ));
        words.join(" | ")
    }
}

impl Tool for ListSubagentsTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn run<'a>(&'a self, value: Value, ctx: &'a ToolCtx) -> BoxFuture<'a, ToolOutput> {
        run_until_cancelled(value, ctx, |_: Arguments| {
            std::future::ready(self.handle_list_call(ctx))
        })
    }
}
