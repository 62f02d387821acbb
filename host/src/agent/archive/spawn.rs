//! The tool `spawn_subagent`: the model hands out a task.

use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::agent::host_calls::subagent::run_subagent;
use crate::agent::scope::{ActiveTurns, TurnScope};
use crate::agent::spec::{BY_NAME_ONLY, agent_id};
use crate::message::{EffectClass, ToolSpec};
use crate::point::handle::AgentTask;
use crate::tool::builtin::{spec_of, until_cancelled};
use crate::tool::{Tool, ToolCtx, ToolOutput};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Task of the subagent, with everything it must know: it does not see this conversation.
    task: String,
    /// Names of those of your tools that it gets. Default: all that only read. Calls that would need approval are refused.
    #[serde(default)]
    tools: Option<Vec<String>>,
}

/// The tool. The effect class is `read`: by itself a subagent does nothing, and each of its calls
/// is judged like any other, with no approver.
pub(super) struct SpawnSubagent {
    spec: ToolSpec,
    active_turns: ActiveTurns,
}

impl SpawnSubagent {
    /// Runs subagents of the agents of `active_turns`.
    pub(super) fn new(active_turns: ActiveTurns) -> Self {
        Self {
            spec: spec_of::<Arguments>(
                "spawn_subagent",
                "Runs a subagent on a task of its own and returns its answer. Several in one step work side by side. It cannot \
                 ask anybody; when it lacks a tool it says so.",
                EffectClass::Read,
            ),
            active_turns,
        }
    }

    async fn answer_spawn(&self, asked: Arguments, ctx: &ToolCtx) -> ToolOutput {
        let Some(scope) = self.active_turns.turn_of(&ctx.caller.context.agent) else {
            return ToolOutput::error("no turn is running");
        };
        let task = AgentTask {
            prompt: asked.task,
            tools: asked.tools.unwrap_or_else(|| reading_tools(&scope)),
            max_steps: u32::MAX,
        };
        let id = agent_id("sub");
        let caller = ctx.caller.clone();
        match run_subagent(&scope, &id, None, task, caller, None).await {
            Ok(answer) => ToolOutput::ok(format!("subagent_id: {id}\n\n{answer}")),
            Err(error) => ToolOutput::error(error.to_string()),
        }
    }
}

impl Tool for SpawnSubagent {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn run<'a>(&'a self, value: Value, ctx: &'a ToolCtx) -> BoxFuture<'a, ToolOutput> {
        // If the future is dropped, the subagent is told to stop and ends by itself.
        until_cancelled(value, ctx, |asked| self.answer_spawn(asked, ctx))
    }
}

/// Names of the tools of this step that only read.
fn reading_tools(scope: &TurnScope) -> Vec<String> {
    let tools = scope.skills.tools();
    let is_reading = |name: &String| {
        let entry = tools.get(name);
        entry.is_some_and(|entry| entry.spec.effect_class == EffectClass::Read)
            && !BY_NAME_ONLY.contains(&name.as_str())
    };
    scope
        .skills
        .active()
        .iter()
        .filter(|n| is_reading(n))
        .cloned()
        .collect()
}
