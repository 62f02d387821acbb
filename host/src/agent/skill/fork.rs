//! Skills that run in a subagent.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::ready::{PreparedSkillInvocation, SkillInvoker};
use crate::agent::scope::SharedTurnState;
use crate::agent::spec::new_agent_id;
use crate::agent::subagent::start::{SubagentStartRequest, run_subagent};
use crate::point::caller::Caller;
use crate::point::handle::HostFunctionError;

/// Runs a skill in a subagent, which has only the tools that the skill permits. The future is boxed
/// because the turn of the subagent is a turn as well, and so the type would be recursive.
pub(in crate::agent) fn run_skill_in_subagent<'a>(
    scope: &'a Arc<SharedTurnState>,
    caller: Caller,
    ready: PreparedSkillInvocation,
    rest: &str,
) -> BoxFuture<'a, Result<String, HostFunctionError>> {
    let task = match rest {
        "" => ready.text.to_string(),
        rest => format!("{}\n\n{rest}", ready.text),
    };
    let plugin = match &ready.by {
        SkillInvoker::Plugin(name) => Some(name.clone()),
        SkillInvoker::User | SkillInvoker::Model => None,
    };
    let order = SubagentStartRequest {
        id: new_agent_id("skill"),
        plugin,
        task,
        tools: scope.skills.tools_permitted_by_skill(&ready.skill),
        max_steps: u32::MAX,
        preset: None,
        skill: Some(ready),
        is_continued: false,
    };
    Box::pin(async move { run_subagent(scope, order, caller).await })
}
