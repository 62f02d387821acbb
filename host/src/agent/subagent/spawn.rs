//! The tool `spawn_subagent`: the model delegates a task to a subagent.

use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::grant::choose_subagent_tools;
use super::preset::SubagentPresets;
use super::report::{ended_subagent_output, started_subagent_output};
use super::start::{SubagentStartRequest, start_subagent, wait_for_subagent};
use crate::agent::scope::ActiveTurns;
use crate::agent::spec::new_agent_id;
use crate::message::{EffectClass, ToolSpec};
use crate::tool::builtin::{build_tool_spec, run_until_cancelled};
use crate::tool::{Tool, ToolCtx, ToolOutput};

/// Beginning of the tool's description, before the list of presets.
const SPAWN_TOOL_DESCRIPTION_INTRO: &str = "Starts a subagent on a task of its own and returns at once; several work side by side, and \
 `wait_subagents` \
     returns their answers. It cannot ask anybody: a call that needs an approval is refused, and it then reports that it is \
     blocked. Presets:";

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Task of the subagent, with everything it must know: it does not see this conversation.
    task: String,
    /// Name of a preset, which selects its tools and instructions. Default without `tools`: those
    /// of `investigate`.
    #[serde(default)]
    preset: Option<String>,
    /// Names of those of your tools that it gets. With a preset they must be among those of the
    /// preset.
    #[serde(default)]
    tools: Option<Vec<String>>,
    /// Maximum number of steps of the subagent.
    #[serde(default)]
    max_steps: Option<u32>,
    /// Whether to wait for the answer and return it. Default: false.
    #[serde(default)]
    wait: Option<bool>,
}

/// The tool `spawn_subagent`. Its effect class is `read`: starting a subagent has no effect, and
/// each call of the subagent is judged like any other, but without a user who could approve it.
pub(super) struct SpawnSubagentTool {
    spec: ToolSpec,
    active_turns: ActiveTurns,
}

impl SpawnSubagentTool {
    /// Creates the tool `spawn_subagent`, which finds the calling agent's turn in `active_turns`.
    pub(super) fn new(active_turns: ActiveTurns, presets: &SubagentPresets) -> Self {
        let about = format!("{SPAWN_TOOL_DESCRIPTION_INTRO}{}", presets.list_presets());
        Self {
            spec: build_tool_spec::<Arguments>("spawn_subagent", &about, EffectClass::Read),
            active_turns,
        }
    }

    async fn handle_spawn_call(&self, asked: Arguments, ctx: &ToolCtx) -> ToolOutput {
        let Some(scope) = self
            .active_turns
            .find_active_turn(&ctx.caller.context.agent)
        else {
            return ToolOutput::from_error_content("no turn is running");
        };
        let named = asked.preset.as_deref();
        let preset = match named.map(|name| scope.spec.presets.find_preset(name)) {
            None => None,
            Some(Ok(preset)) => Some(preset),
            Some(Err(why)) => return ToolOutput::from_error_content(why),
        };
        let tools = match choose_subagent_tools(&scope, preset.as_deref(), asked.tools) {
            Ok(tools) => tools,
            Err(error) => return ToolOutput::from_error_content(error.to_string()),
        };
        let order = SubagentStartRequest {
            id: new_agent_id("sub"),
            plugin: None,
            task: asked.task,
            tools,
            max_steps: asked.max_steps.unwrap_or(u32::MAX),
            preset,
            skill: None,
            is_continued: false,
        };
        match start_subagent(&scope, order, ctx.caller.clone()).await {
            Err(error) => ToolOutput::from_error_content(error.to_string()),
            Ok(live) if asked.wait != Some(true) => started_subagent_output(&live),
            Ok(live) => {
                let outcome = wait_for_subagent(&live).await;
                ended_subagent_output(&live, &outcome)
            }
        }
    }
}

impl Tool for SpawnSubagentTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn run<'a>(&'a self, value: Value, ctx: &'a ToolCtx) -> BoxFuture<'a, ToolOutput> {
        // If this future is dropped while it waits, the subagent is asked to stop and ends by
        // itself.
        run_until_cancelled(value, ctx, |asked| self.handle_spawn_call(asked, ctx))
    }
}
