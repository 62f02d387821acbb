//! The tool `stop_subagent`: stops a running subagent.

use std::time::Duration;

use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::report::{find_own_child, outcome_text, subagent_state};
use crate::agent::scope::ActiveTurns;
use crate::message::{EffectClass, ToolSpec};
use crate::tool::builtin::{build_tool_spec, run_until_cancelled};
use crate::tool::{Tool, ToolCtx, ToolOutput};

/// Maximum time to wait for the subagent to end; slightly longer than the time that the tools of
/// the subagent have to stop.
const SUBAGENT_STOP_TIMEOUT: Duration = Duration::from_secs(8);

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct StopSubagentArguments {
    /// Id of the subagent to stop, or the first characters of the id.
    id: String,
}

pub(super) struct StopSubagentTool {
    spec: ToolSpec,
    active_turns: ActiveTurns,
}

impl StopSubagentTool {
    /// Creates the tool. It finds the calling agent's turn in `active_turns`.
    pub(super) fn new(active_turns: ActiveTurns) -> Self {
        Self {
            spec: build_tool_spec::<StopSubagentArguments>(
                "stop_subagent",
                "Stops a subagent that runs. What it did so far stays, and it can be continued.",
                EffectClass::Read,
            ),
            active_turns,
        }
    }

    async fn handle_stop_call(&self, asked: StopSubagentArguments, ctx: &ToolCtx) -> ToolOutput {
        let Some(scope) = self
            .active_turns
            .find_active_turn(&ctx.caller.context.agent)
        else {
            return ToolOutput::from_error_content("no turn is running");
        };
        let child = match find_own_child(&scope, &asked.id) {
            Ok(child) => child,
            Err(why) => return ToolOutput::from_error_content(why),
        };
        let id = &child.agent;
        let live = scope.family.subagents.find_live_subagent(id);
        let Some(live) = live.filter(|live| live.is_running()) else {
            let live = scope.family.subagents.find_live_subagent(id);
            let state = subagent_state(&child, live.as_deref());
            return ToolOutput::ok(format!("the subagent {id} is not running: {state}"));
        };
        live.stop("its parent stopped it");
        match tokio::time::timeout(SUBAGENT_STOP_TIMEOUT, live.wait_for_end()).await {
            Ok(outcome) => {
                live.mark_end_as_reported();
                ToolOutput::ok(outcome_text(id, &outcome))
            }
            Err(_) => ToolOutput::from_error_content(format!(
                "{id} was told to stop and still runs; `list_subagents` shows when it has ended"
            )),
        }
    }
}

impl Tool for StopSubagentTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn run<'a>(&'a self, value: Value, ctx: &'a ToolCtx) -> BoxFuture<'a, ToolOutput> {
        run_until_cancelled(value, ctx, |asked| self.handle_stop_call(asked, ctx))
    }
}
