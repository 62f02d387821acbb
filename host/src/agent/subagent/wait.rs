//! The tool `wait_subagents`: waits for concurrent subagents, and returns their answers.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all, select_all};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::registry::LiveSubagent;
use super::report::{
    check_subagent_id_count, find_own_child, outcome_text, read_last_output, subagent_state,
};
use crate::agent::scope::{ActiveTurns, SharedTurnState};
use crate::message::{EffectClass, ToolSpec};
use crate::tool::builtin::{build_tool_spec, run_until_cancelled};
use crate::tool::{Tool, ToolCtx, ToolOutput};

/// Part of the deadline of a call that is reserved for composing its result.
const RESULT_COMPOSITION_TIME_RESERVE: Duration = Duration::from_secs(5);

/// Separator between the answers of two subagents.
const SUBAGENT_ANSWER_SEPARATOR: &str = "\n\n---\n\n";

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Ids of the subagents, or their beginnings. Default: all whose answers you have not read.
    #[serde(default)]
    ids: Option<Vec<String>>,
    /// Whether to return as soon as one of them has ended. Default: false.
    #[serde(default)]
    any: Option<bool>,
    /// Longest time to wait, in seconds. Subagents that still run after that time continue.
    /// Default: as long as a call may take.
    #[serde(default)]
    timeout_seconds: Option<u64>,
}

pub(super) struct WaitSubagentsTool {
    spec: ToolSpec,
    active_turns: ActiveTurns,
}

impl WaitSubagentsTool {
    /// Creates the tool. It finds the calling agent's turn in `active_turns`.
    pub(super) fn new(active_turns: ActiveTurns) -> Self {
        Self {
            spec: build_tool_spec::<Arguments>(
                "wait_subagents",
                "Waits until subagents have ended, and returns the state and the answer of each.",
                EffectClass::Read,
            ),
            active_turns,
        }
    }

    async fn handle_wait_call(&self, asked: Arguments, ctx: &ToolCtx) -> ToolOutput {
        let Some(scope) = self
            .active_turns
            .find_active_turn(&ctx.caller.context.agent)
        else {
            return ToolOutput::from_error_content("no turn is running");
        };
        let awaited = match asked.ids {
            None => unreported_subagents(&scope),
            Some(ids) => match find_awaited_subagents(&scope, &ids) {
                Ok(awaited) => awaited,
                Err(why) => return ToolOutput::from_error_content(why),
            },
        };
        if awaited.is_empty() {
            return ToolOutput::ok("no subagent runs, and you have read the answers of all");
        }
        let most = scope
            .spec
            .config
            .tool_timeout()
            .saturating_sub(RESULT_COMPOSITION_TIME_RESERVE);
        let limit = asked.timeout_seconds.map_or(most, Duration::from_secs);
        let running = awaited.iter().filter_map(|one| match one {
            AwaitedSubagent::Live(live) => Some(live),
            AwaitedSubagent::Earlier(..) => None,
        });
        let mut ends: Vec<_> = running.map(|live| Box::pin(live.wait_for_end())).collect();
        let is_any = asked.any == Some(true);
        // If the list contains a subagent of an earlier process, that subagent has already ended,
        // so a call with `any` need not wait.
        let has_ended = is_any && ends.len() < awaited.len();
        if !ends.is_empty() && !has_ended {
            let ended = async {
                match is_any {
                    true => drop(select_all(&mut ends).await),
                    false => drop(join_all(&mut ends).await),
                }
            };
            // A timeout is not a failure: the answer lists the subagents that still run.
            let _ = tokio::time::timeout(limit.min(most), ended).await;
        }
        let mut told = Vec::with_capacity(awaited.len());
        for one in &awaited {
            told.push(one.describe_end(&scope).await);
        }
        ToolOutput::ok(told.join(SUBAGENT_ANSWER_SEPARATOR))
    }
}

/// Subagent whose end the call waits for.
enum AwaitedSubagent {
    Live(Arc<LiveSubagent>),
    /// A subagent of an earlier process, which has ended: its id and its state as text.
    Earlier(String, String),
}

impl AwaitedSubagent {
    async fn describe_end(&self, scope: &SharedTurnState) -> String {
        match self {
            Self::Live(live) => match live.outcome() {
                Some(outcome) => {
                    live.mark_end_as_reported();
                    outcome_text(&live.id, &outcome)
                }
                None => format!("subagent_id: {}\nstate: running", live.id),
            },
            Self::Earlier(id, state) => {
                let output = read_last_output(scope, id).await;
                let output = output.unwrap_or_else(|why| why);
                format!("subagent_id: {id}\nstate: {state}\n\n{output}")
            }
        }
    }
}

/// Returns the subagents of this agent whose end was not yet reported to the agent's model.
fn unreported_subagents(scope: &SharedTurnState) -> Vec<AwaitedSubagent> {
    let own = scope
        .family
        .subagents
        .unreported_subagents(&scope.spec.name);
    own.into_iter().map(AwaitedSubagent::Live).collect()
}

/// Returns the subagents that these ids denote, without duplicates.
fn find_awaited_subagents(
    scope: &SharedTurnState,
    ids: &[String],
) -> Result<Vec<AwaitedSubagent>, String> {
    check_subagent_id_count(ids)?;
    let mut seen = Vec::new();
    let mut awaited = Vec::new();
    for text in ids {
        let child = find_own_child(scope, text)?;
        if seen.contains(&child.agent) {
            continue;
        }
        seen.push(child.agent.clone());
        awaited.push(
            match scope.family.subagents.find_live_subagent(&child.agent) {
                Some(live) => AwaitedSubagent::Live(live),
                None => {
                    let state = subagent_state(&child, None).to_string();
                    AwaitedSubagent::Earlier(child.agent, state)
                }
            },
        );
    }
    Ok(awaited)
}

impl Tool for WaitSubagentsTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn run<'a>(&'a self, value: Value, ctx: &'a ToolCtx) -> BoxFuture<'a, ToolOutput> {
        // Cancelling this call stops no subagent; only the end of the turn does.
        run_until_cancelled(value, ctx, |asked| self.handle_wait_call(asked, ctx))
    }
}
