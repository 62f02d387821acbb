//! A plugin or the model runs a subagent: an agent of its own, with a session of its own, that has
//! no more than its parent.

use std::sync::Arc;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{PluginCalls, check_text, interrupted_error};
use crate::agent::archive::query::add_tool_of_subagent;
use crate::agent::budget::HostCall;
use crate::agent::config::AgentConfig;
use crate::agent::lifecycle::LiveAgent;
use crate::agent::outcome::{Error, TurnOutcome};
use crate::agent::scope::{AgentFamily, TurnScope};
use crate::agent::skill::ready::ReadySkill;
use crate::agent::spec::{AgentSpec, agent_id};
use crate::event::Event;
use crate::message::Usage;
use crate::point::caller::Caller;
use crate::point::catalog as at;
use crate::point::handle::{AgentTask, HandleError};
use crate::point::payload::{Source, StopReason, SubagentInfo, Tier};
use crate::prompt::host_part;
use crate::session::{Body, Session, SessionSpec};
use crate::skill::Skill;
use crate::text::clean_line;
use crate::tool::approval::DenyAll;
use crate::tool::registry::ToolRegistry;

/// Most subagents that the models of one turn run, all levels together. A turn that needs more is
/// several, and one that hands out the same task again and again is stopped.
const MAX_SPAWNED: u32 = 16;

/// System prompt that tells a subagent its role.
const PLACE: &str = "You are a subagent: a program gave you one task and reads your last answer. Nobody can be asked, so \
 decide \
     what you can and say what you could not do. Answer with what was asked for and nothing else.";

impl PluginCalls<'_> {
    /// Runs a subagent for a plugin to its end and returns its answer.
    pub(in crate::agent) async fn run_agent(
        &self,
        task: AgentTask,
        caller: Caller,
    ) -> Result<String, HandleError> {
        let id = agent_id("sub");
        let access = self.begin_access(&caller, &format!("agent {id}"));
        access
            .end_access(run_subagent(self.scope, &id, Some(self.plugin), task, caller, None).await)
    }
}

/// Runs a subagent of this id for a plugin, or for the model, to its end and returns its answer. It
/// begins with `skill`.
pub(in crate::agent) async fn run_subagent(
    scope: &Arc<TurnScope>,
    id: &Arc<str>,
    plugin: Option<&Arc<str>>,
    task: AgentTask,
    mut caller: Caller,
    skill: Option<ReadySkill>,
) -> Result<String, HandleError> {
    check_text("the prompt", &task.prompt)?;
    let trigger = &scope.spec.config.archival.trigger;
    if scope.spec.depth >= trigger.deepest() {
        return Err(HandleError::Limit(format!(
            "subagents are nested at most {} deep (archival.trigger.depth_cap = {})",
            trigger.deepest(),
            trigger.depth_cap
        )));
    }
    let of_skill = skill.as_ref().map(|ready| &*ready.skill);
    let tools = tools_of(scope, &task.tools, of_skill)?;
    match plugin {
        Some(plugin) => PluginCalls::new(scope, plugin).admit_call(HostCall::Agent, &mut caller)?,
        None if scope.cancel.is_cancelled() => return Err(interrupted_error()),
        None if !scope.budget.count_spawned(MAX_SPAWNED) => {
            return Err(HandleError::Limit(format!(
                "the limit of {MAX_SPAWNED} subagents in this turn is reached"
            )));
        }
        None => scope.update_caller(&mut caller),
    }
    let session = SessionSpec {
        workspace: scope.spec.workspace.clone(),
        provider: scope.spec.provider.name().to_owned(),
        model: scope.spec.model.clone(),
    };
    let (parent, child) = (scope.spec.session.place(), id.clone());
    let made = tokio::task::spawn_blocking(move || parent.create_child(&child, &session));
    let made = made.await.map_err(|error| {
        HandleError::Failed(format!(
            "the session of the subagent cannot be made: {error}"
        ))
    })?;
    let session = made.map_err(|error| {
        tracing::error!(%error, "cannot make the session of a subagent");
        HandleError::Failed("the session of the subagent cannot be made".to_owned())
    })?;
    let run = SubagentRun {
        scope: scope.clone(),
        plugin: plugin.cloned(),
        caller,
        info: SubagentInfo {
            id: id.to_string(),
            task: task.prompt,
            answer: String::new(),
            is_error: false,
        },
    };
    let cancel = scope.cancel.child_token();
    let mut agent = run.build_agent(id, tools, task.max_steps, Arc::new(session));
    if let Some(ready) = skill {
        agent.begin_with(ready);
    }
    let (answered, answer) = tokio::sync::oneshot::channel();
    // In a task of its own: when the plugin is stopped, the subagent still ends in good order.
    let token = cancel.clone();
    let task = tokio::spawn(async move {
        let _ = answered.send(run.until_end(agent, &token).await);
    });
    let mut running = RunningSubagent {
        scope,
        cancel,
        task: Some(task),
    };
    let answer = answer.await;
    running.task = None;
    answer.unwrap_or_else(|_| Err(HandleError::Failed("the subagent broke off".to_owned())))
}

/// The tools of a task: all of them are available to this agent now, or come with the skill that
/// the subagent begins with.
fn tools_of(
    scope: &TurnScope,
    names: &[String],
    of: Option<&Skill>,
) -> Result<ToolRegistry, HandleError> {
    let active = scope.skills.active();
    let tools = scope.skills.tools();
    let forbidden = |name: &String| scope.skills.forbidden_by_skill(&tools.get(name)?.spec);
    if let Some((_, why)) = names.iter().find_map(forbidden) {
        return Err(HandleError::Denied(why));
    }
    let is_there = |name: &String| {
        active.contains(name) || of.is_some_and(|skill| scope.skills.comes_with(skill, name))
    };
    if let Some(missing) = names.iter().find(|name| !is_there(name)) {
        return Err(HandleError::NotFound(format!(
            "there is no tool `{}` to give to a subagent; the tools are: {}",
            clean_line(missing, 64),
            active.join(", ")
        )));
    }
    Ok(tools.only(names))
}

/// A subagent on its way, as its caller sees it. Dropped, it tells the subagent to stop and leaves
/// it to the turn.
struct RunningSubagent<'a> {
    scope: &'a TurnScope,
    cancel: CancellationToken,
    task: Option<JoinHandle<()>>,
}

impl Drop for RunningSubagent<'_> {
    fn drop(&mut self) {
        self.cancel.cancel();
        if let Some(task) = self.task.take() {
            self.scope.leave_over(task);
        }
    }
}

/// A subagent on its way, as it sees itself.
struct SubagentRun {
    scope: Arc<TurnScope>,
    /// The plugin that runs it; `None` is the model.
    plugin: Option<Arc<str>>,
    caller: Caller,
    info: SubagentInfo,
}

impl SubagentRun {
    fn build_agent(
        &self,
        id: &Arc<str>,
        tools: ToolRegistry,
        max_steps: u32,
        session: Arc<Session>,
    ) -> LiveAgent {
        let parent = &*self.scope.spec;
        let mut parts = parent.parts.clone();
        parts.retain(|part| part.key != "subagent");
        parts.push(host_part(Tier::Stable, "subagent", PLACE));
        let mut spec = AgentSpec {
            tools,
            approver: Arc::new(DenyAll("a subagent cannot ask for approval".to_owned())),
            session,
            events: parent.events.of_subagent(id),
            config: AgentConfig {
                max_steps: max_steps.clamp(1, parent.config.max_steps.max(1)),
                ..parent.config.clone()
            },
            parts,
            name: id.clone(),
            depth: parent.depth + 1,
            call_chain: self.caller.call_chain.clone(),
            known: Arc::default(),
            told: Arc::default(),
            ..parent.clone()
        };
        add_tool_of_subagent(&mut spec, &self.scope.family.active_turns);
        let family = AgentFamily {
            parent: Some(self.scope.clone()),
            ..self.scope.family.clone()
        };
        LiveAgent::of_family(spec, family)
    }

    /// Runs the subagent, emitting start and end events.
    async fn until_end(
        mut self,
        mut agent: LiveAgent,
        cancel: &CancellationToken,
    ) -> Result<String, HandleError> {
        let scope = self.scope.clone();
        let tools = agent.spec().tools.specs();
        let tools: Vec<String> = tools.into_iter().map(|spec| spec.name.clone()).collect();
        let (id, task) = (self.info.id.clone(), self.info.task.clone());
        let plugin = self.plugin.as_ref().map(ToString::to_string);
        scope.spec.session.append_or_defer(Body::SubagentStart {
            agent: id.clone(),
            plugin: plugin.clone(),
            task: task.clone(),
            tools: tools.clone(),
        });
        let shown = scope
            .emitter
            .call_text_for_watchers(&self.caller, task.clone())
            .await;
        scope.spec.events.emit(Event::SubagentStart {
            subagent: id.clone(),
            plugin,
            task: shown,
            tools,
            call_id: self.caller.call.as_deref().map(str::to_owned),
        });
        scope
            .emitter
            .dispatch_hooks::<at::SubagentStart>(&self.caller, self.info.clone())
            .await;
        let outcome = agent
            .run_turn(&task, Source::Agent, None, Vec::new(), cancel)
            .await;
        agent.close_archival().await;
        let synced = agent.spec().session.synced().await;
        scope.family.active_turns.leave_turn(&id);
        if let Err(error) = synced {
            tracing::error!(%error, "cannot write the session of a subagent");
        }
        let usage = outcome
            .as_ref()
            .map_or_else(|_| Usage::default(), |outcome| outcome.summary.usage);
        let answer = answer_of(outcome);
        self.info.answer = match &answer {
            Ok(text) => text.clone(),
            Err(error) => error.to_string(),
        };
        self.info.is_error = answer.is_err();
        self.tell_end(usage).await;
        answer
    }

    async fn tell_end(mut self, usage: Usage) {
        let scope = &self.scope;
        let SubagentInfo {
            id,
            answer,
            is_error,
            ..
        } = self.info.clone();
        scope.spec.session.append_or_defer(Body::SubagentEnd {
            agent: id.clone(),
            answer: answer.clone(),
            is_error,
            usage,
        });
        scope.spec.events.emit(Event::SubagentEnd {
            subagent: id,
            answer,
            is_error,
            usage,
        });
        scope.update_caller(&mut self.caller);
        scope
            .emitter
            .dispatch_hooks::<at::SubagentEnd>(&self.caller, self.info)
            .await;
    }
}

/// Converts the end of the subagent's turn into an answer for the plugin.
fn answer_of(outcome: Result<TurnOutcome, Error>) -> Result<String, HandleError> {
    let outcome = outcome.map_err(|error| {
        tracing::error!(%error, "a subagent failed");
        HandleError::Failed("the session of the subagent cannot be written".to_owned())
    })?;
    match outcome.summary.stop {
        StopReason::Done | StopReason::MaxSteps => Ok(outcome.output),
        StopReason::Blocked => Err(HandleError::Denied(outcome.output)),
        StopReason::Cancelled => Err(interrupted_error()),
        StopReason::Failed => Err(HandleError::Failed(outcome.output)),
    }
}
