//! The tool `wait_subagents`: waits for concurrent subagents, and returns their answers.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all, select_all};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::registry::LiveSubagent;
use super::report::{check_awaited, find_own, outcome_text, read_output, state_of};
use crate::agent::scope::{ActiveTurns, TurnScope};
use crate::message::{EffectClass, ToolSpec};
use crate::tool::builtin::{spec_of, until_cancelled};
use crate::tool::{Tool, ToolCtx, ToolOutput};

/// Part of the call's deadline that is reserved for composing the result.
const MARGIN: Duration = Duration::from_secs(5);

/// Separator between the answers of two subagents.
const BETWEEN: &str = "\n\n---\n\n";

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

pub(super) struct WaitSubagents {
    spec: ToolSpec,
    active_turns: ActiveTurns,
}

impl WaitSubagents {
    /// Creates the tool. It finds the calling agent's turn in `active_turns`.
    pub(super) fn new(active_turns: ActiveTurns) -> Self {
        Self {
            spec: spec_of::<Arguments>(
                "wait_subagents",
                "Waits until subagents have ended, and returns the state and the answer of each.",
                EffectClass::Read,
            ),
            active_turns,
        }
    }

    async fn answer_wait(&self, asked: Arguments, ctx: &ToolCtx) -> ToolOutput {
        let Some(scope) = self.active_turns.turn_of(&ctx.caller.context.agent) else {
            return ToolOutput::error("no turn is running");
        };
        let awaited = match asked.ids {
            None => all_unread(&scope),
            Some(ids) => match named(&scope, &ids) {
                Ok(awaited) => awaited,
                Err(why) => return ToolOutput::error(why),
            },
        };
        if awaited.is_empty() {
            return ToolOutput::ok("no subagent runs, and you have read the answers of all");
        }
        let most = scope.spec.config.tool_timeout().saturating_sub(MARGIN);
        let limit = asked.timeout_seconds.map_or(most, Duration::from_secs);
        let running = awaited.iter().filter_map(|one| match one {
            Awaited::Live(live) => Some(live),
            Awaited::Earlier(..) => None,
        });
        let mut ends: Vec<_> = running.map(|live| Box::pin(live.wait_ended())).collect();
        let is_any = asked.any == Some(true);
        // Subagents of an earlier process have ended already.
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
            told.push(one.tell(&scope).await);
        }
        ToolOutput::ok(told.join(BETWEEN))
    }
}

/// A subagent to wait for.
enum Awaited {
    Live(Arc<LiveSubagent>),
    /// A subagent of an earlier process, which has ended: its id and its state as text.
    Earlier(String, String),
}

impl Awaited {
    async fn tell(&self, scope: &TurnScope) -> String {
        match self {
            Self::Live(live) => match live.outcome() {
                Some(outcome) => {
                    live.set_reported();
                    outcome_text(&live.id, &outcome)
                }
                None => format!("subagent_id: {}\nstate: running", live.id),
            },
            Self::Earlier(id, state) => {
                let output = read_output(scope, id).await;
                let output = output.unwrap_or_else(|why| why);
                format!("subagent_id: {id}\nstate: {state}\n\n{output}")
            }
        }
    }
}

/// Returns the subagents of this agent whose end was not yet reported to its model.
fn all_unread(scope: &TurnScope) -> Vec<Awaited> {
    let own = scope.family.subagents.unread_of(&scope.spec.name);
    own.into_iter().map(Awaited::Live).collect()
}

/// Returns the subagents with these ids, without duplicates.
fn named(scope: &TurnScope, ids: &[String]) -> Result<Vec<Awaited>, String> {
    check_awaited(ids)?;
    let mut seen = Vec::new();
    let mut awaited = Vec::new();
    for text in ids {
        let child = find_own(scope, text)?;
        if seen.contains(&child.agent) {
            continue;
        }
        seen.push(child.agent.clone());
        awaited.push(match scope.family.subagents.find_live(&child.agent) {
            Some(live) => Awaited::Live(live),
            None => {
                let state = state_of(&child, None).to_string();
                Awaited::Earlier(child.agent, state)
            }
        });
    }
    Ok(awaited)
}

impl Tool for WaitSubagents {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn run<'a>(&'a self, value: Value, ctx: &'a ToolCtx) -> BoxFuture<'a, ToolOutput> {
        // Cancelling this call stops no subagent; only the end of the turn does.
        until_cancelled(value, ctx, |asked| self.answer_wait(asked, ctx))
    }
}
