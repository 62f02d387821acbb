//! The tool `continue_subagent`: sends a further message to a subagent that has ended. The subagent
//! keeps its complete conversation, and may be from an earlier turn or an earlier run of the
//! program.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::grant::choose_subagent_tools;
use super::report::{ended_subagent_output, find_own_child, started_subagent_output};
use super::start::{SubagentStartRequest, start_subagent, wait_for_subagent};
use crate::agent::scope::{ActiveTurns, SharedTurnState};
use crate::message::{EffectClass, ToolSpec};
use crate::session::SubagentSession;
use crate::tool::builtin::{build_tool_spec, run_until_cancelled};
use crate::tool::{Tool, ToolCtx, ToolOutput};

/// Prefix of the ids of subagents that run a skill.
const SKILL_SUBAGENT_ID_PREFIX: &str = "skill-";

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Id of the subagent to continue, or the first characters of the id.
    id: String,
    /// Further task or answer for it. It remembers all of its earlier work.
    message: String,
    /// Whether to wait for the answer and return it. Default: false.
    #[serde(default)]
    wait: Option<bool>,
}

pub(super) struct ContinueSubagentTool {
    spec: ToolSpec,
    active_turns: ActiveTurns,
}

impl ContinueSubagentTool {
    /// Creates the tool. It finds the calling agent's turn in `active_turns`.
    pub(super) fn new(active_turns: ActiveTurns) -> Self {
        Self {
            spec: build_tool_spec::<Arguments>(
                "continue_subagent",
                "Gives a subagent that has ended a further message; also one that was stopped or reported that it is blocked. It \
                 has the tools that it had, as far as you have them now.",
                EffectClass::Read,
            ),
            active_turns,
        }
    }

    async fn handle_continue_call(&self, asked: Arguments, ctx: &ToolCtx) -> ToolOutput {
        let Some(scope) = self
            .active_turns
            .find_active_turn(&ctx.caller.context.agent)
        else {
            return ToolOutput::from_error_content("no turn is running");
        };
        let order = find_own_child(&scope, &asked.id)
            .and_then(|child| build_subagent_continue_request(&scope, child, asked.message, None));
        let order = match order {
            Ok(order) => order,
            Err(why) => return ToolOutput::from_error_content(why),
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

/// Returns the order to continue a subagent, with the current version of its preset and with those
/// of its earlier tools that its parent may still call. `by` is the plugin that continues the
/// subagent; `None` stands for the model.
pub(in crate::agent) fn build_subagent_continue_request(
    scope: &SharedTurnState,
    child: SubagentSession,
    message: String,
    by: Option<&Arc<str>>,
) -> Result<SubagentStartRequest, String> {
    let id = &child.agent;
    if child.plugin.as_deref() != by.map(|by| &**by) {
        let whose = child.plugin.as_deref();
        let whose = whose.map_or_else(|| "the model".to_owned(), |name| format!("plugin {name}"));
        return Err(format!(
            "{id} is a subagent of {whose}; only {whose} can continue it"
        ));
    }
    if id.starts_with(SKILL_SUBAGENT_ID_PREFIX) {
        return Err(format!(
            "{id} was started by a skill and cannot be continued; invoke the skill again"
        ));
    }
    let preset = child.preset.as_deref();
    let preset = preset.map(|name| scope.spec.presets.find_preset(name));
    let preset = preset
        .transpose()
        .map_err(|why| format!("{id} cannot be continued: {why}"))?;
    // The preset or the parent may have fewer tools now than when the subagent was started.
    let left = match &preset {
        Some(preset) => {
            choose_subagent_tools(scope, Some(preset), None).map_err(|why| why.to_string())?
        }
        None => scope.skills.callable_tool_names().to_vec(),
    };
    let mut tools = child.tools;
    tools.retain(|name| left.contains(name));
    Ok(SubagentStartRequest {
        id: child.agent.as_str().into(),
        plugin: by.cloned(),
        task: message,
        tools,
        max_steps: u32::MAX,
        preset,
        skill: None,
        is_continued: true,
    })
}

impl Tool for ContinueSubagentTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn run<'a>(&'a self, value: Value, ctx: &'a ToolCtx) -> BoxFuture<'a, ToolOutput> {
        run_until_cancelled(value, ctx, |asked| self.handle_continue_call(asked, ctx))
    }
}
