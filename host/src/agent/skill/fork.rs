//! A skill whose work a subagent does.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::ready::{ReadySkill, SkillInvoker};
use crate::agent::host_calls::subagent::run_subagent;
use crate::agent::scope::TurnScope;
use crate::agent::spec::agent_id;
use crate::point::caller::Caller;
use crate::point::handle::{AgentTask, HandleError};

/// Runs a skill in a subagent, which has the tools that the skill leaves. Boxed: the turn of the
/// subagent is one as well.
pub(in crate::agent) fn fork_skill<'a>(
    scope: &'a Arc<TurnScope>,
    caller: Caller,
    ready: ReadySkill,
    rest: &str,
) -> BoxFuture<'a, Result<String, HandleError>> {
    let task = AgentTask {
        prompt: match rest {
            "" => ready.text.to_string(),
            rest => format!("{}\n\n{rest}", ready.text),
        },
        tools: scope.skills.tools_left_by(&ready.skill),
        max_steps: u32::MAX,
    };
    let plugin = match &ready.by {
        SkillInvoker::Plugin(name) => Some(name.clone()),
        SkillInvoker::User | SkillInvoker::Model => None,
    };
    Box::pin(async move {
        let id = agent_id("skill");
        run_subagent(scope, &id, plugin.as_ref(), task, caller, Some(ready)).await
    })
}
