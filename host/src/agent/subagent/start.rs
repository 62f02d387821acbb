//! Starts a subagent on a task, or continues one that has ended.
//!
//! Owns the checks before the start: nesting depth, tools, and the limits on the number of
//! subagents. The subagent then runs in its own task (see `run`), whether or not its parent waits
//! for it. Start from [`start_subagent`].

use std::sync::Arc;

use super::grant::require_available_tools;
use super::preset::SubagentPreset;
use super::registry::{LiveSubagent, SubagentOutcome};
use super::run::{RunningSubagent, record_subagent_end};
use crate::agent::budget::LimitedHostCallKind;
use crate::agent::host_calls::{
    PluginHostCallExecutor, check_question_or_task_length, turn_interrupted_error,
};
use crate::agent::scope::SharedTurnState;
use crate::agent::skill::ready::PreparedSkillInvocation;
use crate::point::caller::Caller;
use crate::point::handle::HostFunctionError;
use crate::point::payload::SubagentInfo;
use crate::session::{self, Body, Session, SessionSpec};
use crate::tool::registry::ToolRegistry;

/// Maximum number of subagents that the models of one turn start or continue, at all nesting levels
/// together. The limit stops a turn that delegates the same task again and again.
const MAX_SUBAGENTS_STARTED_PER_TURN: u32 = 16;

/// Request to start a subagent or to continue an earlier one.
pub(in crate::agent) struct SubagentStartRequest {
    /// Id of the subagent to start or to continue.
    pub(in crate::agent) id: Arc<str>,
    /// Plugin that requests the start; `None` if the model does.
    pub(in crate::agent) plugin: Option<Arc<str>>,
    /// Task of the subagent, or a further message to a continued subagent.
    pub(in crate::agent) task: String,
    /// Names of the tools that the subagent gets.
    pub(in crate::agent) tools: Vec<String>,
    /// Maximum number of steps of the subagent, as requested by its caller.
    pub(in crate::agent) max_steps: u32,
    pub(in crate::agent) preset: Option<Arc<SubagentPreset>>,
    /// Skill with which the subagent begins; `None` without one.
    pub(in crate::agent) skill: Option<PreparedSkillInvocation>,
    /// Whether the subagent already has a session, which it continues.
    pub(in crate::agent) is_continued: bool,
}

/// Starts a subagent and returns without waiting for its end. The end of the turn of `scope` stops
/// the subagent.
///
/// # Errors
/// The subagent may not start: a tool is not available, a limit is reached, or its session cannot
/// be written.
pub(in crate::agent) async fn start_subagent(
    scope: &Arc<SharedTurnState>,
    order: SubagentStartRequest,
    mut caller: Caller,
) -> Result<Arc<LiveSubagent>, HostFunctionError> {
    check_question_or_task_length("the prompt", &order.task)?;
    check_subagent_depth(scope)?;
    let of_skill = order.skill.as_ref().map(|ready| &*ready.skill);
    // Read the presets together with the tools, before the first await, because the next step of
    // this turn may have other presets.
    let at_start = scope.skills.presets.current_presets();
    let tools = require_available_tools(scope, &order.tools, of_skill)?;
    count_subagent_against_limits(scope, &order, &mut caller)?;
    let cancel = scope.agents.child_token();
    let live = Arc::new(LiveSubagent::new(
        order.id.clone(),
        scope.spec.name.clone(),
        order.plugin.clone(),
        order.task.clone(),
        order.preset.as_ref().map(|preset| preset.name.clone()),
        cancel,
    ));
    let max_running = scope.spec.config.subagents.max_running;
    let mark = scope
        .family
        .subagents
        .register_subagent(&live, max_running)?;
    let session = begin_subagent_session(scope, &order, &tools).await?;
    let run = RunningSubagent {
        scope: scope.clone(),
        live: live.clone(),
        caller,
        info: SubagentInfo {
            id: order.id.to_string(),
            task: order.task,
            answer: String::new(),
            is_error: false,
        },
        preset: order.preset,
        at_start,
        is_continued: order.is_continued,
    };
    let mut agent = run.build_agent(tools, order.max_steps, Arc::new(session));
    if let Some(ready) = order.skill {
        agent.set_skill_for_first_turn(ready);
    }
    // Spawn a task, so that the subagent ends cleanly even if the future of its caller is dropped.
    let task = tokio::spawn(async move {
        run.run_to_end(agent).await;
        drop(mark);
    });
    scope.track_subagent(live.clone(), task);
    Ok(live)
}

/// Starts a subagent and waits for its end. If the returned future is dropped, the subagent is
/// asked to stop and ends by itself.
///
/// # Errors
/// The subagent cannot be started, or it ended without an answer.
pub(in crate::agent) async fn run_subagent(
    scope: &Arc<SharedTurnState>,
    order: SubagentStartRequest,
    caller: Caller,
) -> Result<String, HostFunctionError> {
    let live = start_subagent(scope, order, caller).await?;
    wait_for_subagent(&live).await.result.clone()
}

/// Waits for the end of a subagent. If the returned future is dropped, the subagent is asked to
/// stop.
pub(in crate::agent) async fn wait_for_subagent(live: &Arc<LiveSubagent>) -> Arc<SubagentOutcome> {
    let guard = SubagentStopGuard(live.clone());
    guard.0.wait_for_end().await
}

/// Guard that stops a subagent if the future that waits for it is dropped.
struct SubagentStopGuard(Arc<LiveSubagent>);

impl Drop for SubagentStopGuard {
    fn drop(&mut self) {
        self.0.cancel.cancel();
    }
}

fn check_subagent_depth(scope: &SharedTurnState) -> Result<(), HostFunctionError> {
    let trigger = &scope.spec.config.archival.trigger;
    if scope.spec.depth < trigger.max_subagent_depth() {
        return Ok(());
    }
    Err(HostFunctionError::Limit(format!(
        "subagents are nested at most {} deep (archival.trigger.depth_cap = {})",
        trigger.max_subagent_depth(),
        trigger.depth_cap
    )))
}

/// Counts the subagent against the limits: a plugin's subagent against the limit of the plugin, a
/// model's subagent against the limits of the turn and the session.
fn count_subagent_against_limits(
    scope: &Arc<SharedTurnState>,
    order: &SubagentStartRequest,
    caller: &mut Caller,
) -> Result<(), HostFunctionError> {
    if let Some(plugin) = &order.plugin {
        return PluginHostCallExecutor::new(scope, plugin)
            .admit_call(LimitedHostCallKind::Agent, caller);
    }
    if scope.cancel.is_cancelled() {
        return Err(turn_interrupted_error());
    }
    if !scope
        .budget
        .count_spawned_subagent(MAX_SUBAGENTS_STARTED_PER_TURN)
    {
        return Err(HostFunctionError::Limit(format!(
            "the limit of {MAX_SUBAGENTS_STARTED_PER_TURN} subagents in this turn is reached"
        )));
    }
    let most = scope.spec.config.subagents.max_in_session;
    if !order.is_continued && !scope.family.subagents.count_model_started_subagent(most) {
        return Err(HostFunctionError::Limit(format!(
            "the limit of {most} subagents in this session is reached (subagents.max_in_session); continue an existing subagent instead"
        )));
    }
    scope.refresh_caller_context(caller);
    Ok(())
}

/// Records in the session of the parent that the subagent starts, and only then creates or opens
/// the session of the subagent: if the program is killed in between, every session file of a
/// subagent is still recorded by its parent.
async fn begin_subagent_session(
    scope: &Arc<SharedTurnState>,
    order: &SubagentStartRequest,
    tools: &ToolRegistry,
) -> Result<Session, HostFunctionError> {
    let above = &scope.spec.session;
    let tools = tools.specs().into_iter();
    let written = above.append(Body::SubagentStart {
        agent: order.id.to_string(),
        plugin: order.plugin.as_ref().map(ToString::to_string),
        task: order.task.clone(),
        tools: tools.map(|spec| spec.name.clone()).collect(),
        preset: order.preset.as_ref().map(|preset| preset.name.clone()),
        is_continued: order.is_continued,
    });
    let synced = match written {
        Ok(()) => above.sync_on_blocking_thread().await,
        Err(error) => Err(error),
    };
    synced.map_err(|error| {
        let what = "the start of the subagent cannot be written to the session";
        tracing::error!(%error, "{what}");
        HostFunctionError::Failed(what.to_owned())
    })?;
    let opened = create_or_open_subagent_session(scope, order).await;
    if let Err(error) = &opened {
        let outcome = SubagentOutcome::from_error(error.clone());
        record_subagent_end(above, &order.id, &outcome);
    }
    opened
}

/// Creates the session of a subagent, or opens its existing session.
async fn create_or_open_subagent_session(
    scope: &Arc<SharedTurnState>,
    order: &SubagentStartRequest,
) -> Result<Session, HostFunctionError> {
    let spec = SessionSpec {
        workspace: scope.spec.workspace.clone(),
        provider: scope.spec.provider.name().to_owned(),
        model: scope.spec.model.clone(),
    };
    let (parent, id) = (scope.spec.session.session_location(), order.id.clone());
    let is_continued = order.is_continued;
    let opened = tokio::task::spawn_blocking(move || match is_continued {
        true => parent.open_subagent_session(&id, &spec),
        false => parent.create_subagent_session(&id, &spec),
    });
    let what = match is_continued {
        true => "the session of the subagent cannot be opened",
        false => "the session of the subagent cannot be made",
    };
    let opened = opened
        .await
        .map_err(|error| HostFunctionError::Failed(format!("{what}: {error}")))?;
    opened.map_err(|error| {
        tracing::error!(%error, "{what}");
        let why = match error {
            session::Error::Unknown { .. } if is_continued => {
                "the subagent has no session: the program was killed before it began, or its files \
                 were removed; start a new one with its task"
            }
            _ => what,
        };
        HostFunctionError::Failed(why.to_owned())
    })
}
