//! The tool `stop_subagent`: stops a running subagent.

use std::time::Duration;

use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::report::{find_own, outcome_text, state_of};
use crate::agent::scope::ActiveTurns;
use crate::message::{EffectClass, ToolSpec};
use crate::tool::builtin::{spec_of, until_cancelled};
use crate::tool::{Tool, ToolCtx, ToolOutput};

/// Time to wait for the subagent to end; slightly longer than the time that its tools have to stop.
const PATIENCE: Duration = Duration::from_secs(8);

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Id of the subagent, or its beginning.
    id: String,
}

pub(super) struct StopSubagent {
    spec: ToolSpec,
    active_turns: ActiveTurns,
}

impl StopSubagent {
    /// Creates the tool. It finds the calling agent's turn in `active_turns`.
    pub(super) fn new(active_turns: ActiveTurns) -> Self {
        Self {
            spec: spec_of::<Arguments>(
                "stop_subagent",
                "Stops a subagent that runs. What it did so far stays, and it can be continued.",
                EffectClass::Read,
            ),
            active_turns,
        }
    }

    async fn answer_stop(&self, asked: Arguments, ctx: &ToolCtx) -> ToolOutput {
        let Some(scope) = self.active_turns.turn_of(&ctx.caller.context.agent) else {
            return ToolOutput::error("no turn is running");
        };
        let child = match find_own(&scope, &asked.id) {
            Ok(child) => child,
            Err(why) => return ToolOutput::error(why),
        };
        let id = &child.agent;
        let live = scope.family.subagents.find_live(id);
        let Some(live) = live.filter(|live| live.is_running()) else {
            let live = scope.family.subagents.find_live(id);
            let state = state_of(&child, live.as_deref());
            return ToolOutput::ok(format!("{id} does not run: {state}"));
        };
        live.stop("its parent stopped it");
        match tokio::time::timeout(PATIENCE, live.wait_ended()).await {
            Ok(outcome) => {
                live.set_reported();
                ToolOutput::ok(outcome_text(id, &outcome))
            }
            Err(_) => ToolOutput::error(format!(
                "{id} was told to stop and still runs; `list_subagents` shows when it has ended"
            )),
        }
    }
}

impl Tool for StopSubagent {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn run<'a>(&'a self, value: Value, ctx: &'a ToolCtx) -> BoxFuture<'a, ToolOutput> {
        until_cancelled(value, ctx, |asked| self.answer_stop(asked, ctx))
    }
}
