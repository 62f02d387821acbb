//! Runs a subagent: an agent with its own session and with no more tools or permissions than its
//! parent, from its start to the entries and events of its end.
//!
//! Start from [`RunningSubagent`].

use std::sync::Arc;

use super::preset::SubagentPreset;
use super::registry::{LiveSubagent, SubagentOutcome};
use crate::agent::archive::query::add_query_tool_to_subagent;
use crate::agent::call::SUBAGENT_APPROVAL_REFUSAL_REASON;
use crate::agent::config::AgentConfig;
use crate::agent::host_calls::turn_interrupted_error;
use crate::agent::lifecycle::LiveAgent;
use crate::agent::outcome::{Error, TurnOutcome};
use crate::agent::scope::{SharedAgentTreeState, SharedTurnState};
use crate::agent::skill::presets::ParentAgentPresets;
use crate::agent::spec::{AgentSpec, TurnSpec};
use crate::event::{Event, SubagentState};
use crate::point::caller::Caller;
use crate::point::catalog as at;
use crate::point::handle::HostFunctionError;
use crate::point::payload::{Source, StopReason, SubagentInfo, Tier};
use crate::prompt::host_prompt_part;
use crate::session::{Body, Session};
use crate::tool::approval::DenyAllApprover;
use crate::tool::registry::ToolRegistry;

/// Part of the system prompt that tells a subagent about its role.
const SUBAGENT_ROLE_PROMPT: &str = "You are a subagent: a program gave you one task and reads your last answer. Nobody can be asked, so \
 decide \
     what you can and say what you could not do. When a call is refused as blocked, do not try to reach the same end in another \
     way: do what is left of the task, and say in your answer what you are blocked by. Answer with what was asked for and \
     nothing else.";

/// Keys of the parts of the system prompt that only subagents have. If the parent is a subagent
/// too, these parts replace the parent's parts with the same keys.
const SUBAGENT_SYSTEM_PROMPT_PART_KEYS: [&str; 2] = ["subagent", "subagent-preset"];

/// Subagent that was started, with all that its run needs.
pub(in crate::agent) struct RunningSubagent {
    /// Turn of the agent that started the subagent.
    pub(in crate::agent) scope: Arc<SharedTurnState>,
    pub(in crate::agent) live: Arc<LiveSubagent>,
    pub(in crate::agent) caller: Caller,
    pub(in crate::agent) info: SubagentInfo,
    pub(in crate::agent) preset: Option<Arc<SubagentPreset>>,
    /// Presets of the parent in the step that starts this subagent.
    pub(in crate::agent) at_start: ParentAgentPresets,
    pub(in crate::agent) is_continued: bool,
}

impl RunningSubagent {
    /// Builds the agent. Its limits do not exceed those of its parent.
    pub(in crate::agent) fn build_agent(
        &self,
        tools: ToolRegistry,
        max_steps: u32,
        session: Arc<Session>,
    ) -> LiveAgent {
        let parent = &*self.scope.spec;
        let id = &self.live.id;
        let mut parts = parent.parts.clone();
        parts.retain(|part| !SUBAGENT_SYSTEM_PROMPT_PART_KEYS.contains(&&*part.key));
        parts.push(host_prompt_part(
            Tier::Stable,
            SUBAGENT_SYSTEM_PROMPT_PART_KEYS[0],
            SUBAGENT_ROLE_PROMPT,
        ));
        let preset = self.preset.as_deref();
        let prompt = preset.map_or("", |preset| &preset.prompt);
        if !prompt.is_empty() {
            parts.push(host_prompt_part(
                Tier::Stable,
                SUBAGENT_SYSTEM_PROMPT_PART_KEYS[1],
                prompt,
            ));
        }
        let model = preset.and_then(|preset| preset.model.clone());
        let limits = &parent.config.subagents;
        let most = parent.config.max_steps.min(limits.max_steps).max(1);
        let left = parent
            .config
            .max_cost_usd
            .map(|most| most - self.scope.budget.cost_so_far().usd);
        let mut spec = AgentSpec {
            model: model.unwrap_or_else(|| parent.model.clone()),
            tools,
            approver: Arc::new(DenyAllApprover(SUBAGENT_APPROVAL_REFUSAL_REASON.to_owned())),
            session,
            events: parent.events.sender_for_subagent(id),
            config: AgentConfig {
                max_steps: max_steps.clamp(1, most),
                max_cost_usd: Some(left.unwrap_or(f64::INFINITY).min(limits.max_cost_usd)),
                ..parent.config.clone()
            },
            parts,
            name: id.clone(),
            depth: parent.depth + 1,
            call_chain: self.caller.call_chain.clone(),
            // The loop of a plugin runs only the turns of the main agent.
            agent_loop: None,
            known: Arc::default(),
            told: Arc::default(),
            ..parent.clone()
        };
        add_query_tool_to_subagent(&mut spec, &self.scope.family.active_turns);
        let family = SharedAgentTreeState {
            parent: Some(self.scope.clone()),
            presets: self.at_start.clone(),
            ..self.scope.family.clone()
        };
        LiveAgent::new_with_shared_state(spec, family)
    }

    /// Runs the subagent, emits its start and end events, and records its outcome.
    pub(in crate::agent) async fn run_to_end(mut self, mut agent: LiveAgent) {
        let tools = tool_names_of_agent(&agent);
        self.emit_subagent_start(tools).await;
        let task = self.info.task.clone();
        let ended = self.run_turn(&mut agent, &task).await;
        let background = agent.spec().background.clone();
        background
            .stop_agent_commands(&self.live.id, "its subagent ended")
            .await;
        agent.archive_ready_turns_on_close().await;
        let synced = agent.spec().session.sync_on_blocking_thread().await;
        self.scope.family.active_turns.leave_turn(&self.live.id);
        if let Err(error) = synced {
            tracing::error!(%error, "cannot write the session of a subagent");
        }
        let scope = agent.scope.as_ref();
        let blocked = scope
            .map(|scope| scope.progress.describe_blocked_calls())
            .unwrap_or_default();
        // Release the session first, because a caller that sees the outcome may continue the
        // subagent at once.
        drop(agent);
        let outcome = to_subagent_outcome(ended, self.live.stop_reason(), &blocked);
        self.info.answer = outcome.text();
        self.info.is_error = outcome.result.is_err();
        let live = self.live.clone();
        self.report_end(&outcome).await;
        live.record_outcome(outcome);
    }

    /// Runs the turn of the subagent, within the configured time limit.
    async fn run_turn(&self, agent: &mut LiveAgent, task: &str) -> Result<TurnOutcome, Error> {
        let limit = self.scope.spec.config.subagents.max_task_duration();
        let cancel = self.live.cancel.clone();
        let turn = agent.run_turn(TurnSpec::new(task, Source::Agent), &cancel);
        let mut turn = std::pin::pin!(turn);
        tokio::select! {
            biased;
            ended = &mut turn => ended,
            () = tokio::time::sleep(limit) => {
                self.live.stop(format!(
                    "it worked for {} s, the maximum for one task (subagents.max_seconds)",
                    limit.as_secs()
                ));
                turn.await
            }
        }
    }

    async fn emit_subagent_start(&self, tools: Vec<String>) {
        let scope = &self.scope;
        let (id, task) = (self.info.id.clone(), self.info.task.clone());
        let plugin = self.live.plugin.as_ref().map(ToString::to_string);
        let preset = self.live.preset.clone();
        let shown = scope
            .emitter
            .argument_text_for_observers(&self.caller, task)
            .await;
        scope.spec.events.emit(Event::SubagentStart {
            subagent: id,
            plugin,
            task: shown,
            tools,
            preset,
            is_continued: self.is_continued,
            call_id: self.caller.call.as_deref().map(str::to_owned),
        });
        scope
            .emitter
            .dispatch_hooks::<at::SubagentStart>(&self.caller, self.info.clone())
            .await;
    }

    async fn report_end(mut self, outcome: &SubagentOutcome) {
        let scope = &self.scope;
        let SubagentInfo {
            id,
            answer,
            is_error,
            ..
        } = self.info.clone();
        let SubagentOutcome {
            state,
            usage,
            steps,
            cost_usd,
            ..
        } = *outcome;
        record_subagent_end(&scope.spec.session, &id, outcome);
        scope.spec.events.emit(Event::SubagentEnd {
            subagent: id,
            answer,
            is_error,
            usage,
            state,
            steps,
            cost_usd,
        });
        scope.refresh_caller_context(&mut self.caller);
        scope
            .emitter
            .dispatch_hooks::<at::SubagentEnd>(&self.caller, self.info)
            .await;
    }
}

/// Records in the session of the parent that a subagent has ended.
pub(super) fn record_subagent_end(above: &Session, agent: &str, outcome: &SubagentOutcome) {
    above.append_or_defer_error(Body::SubagentEnd {
        agent: agent.to_owned(),
        answer: outcome.text(),
        is_error: outcome.result.is_err(),
        usage: outcome.usage,
        state: Some(outcome.state),
        steps: outcome.steps,
        cost_usd: outcome.cost_usd,
    });
}

/// Returns the names of the tools that an agent can call.
fn tool_names_of_agent(agent: &LiveAgent) -> Vec<String> {
    let tools = agent.spec().tools.specs().into_iter();
    tools.map(|spec| spec.name.clone()).collect()
}

/// Converts the end of the subagent's turn into an outcome for its parent.
fn to_subagent_outcome(
    ended: Result<TurnOutcome, Error>,
    stopped: Option<String>,
    blocked: &[String],
) -> SubagentOutcome {
    let ended = match ended {
        Ok(ended) => ended,
        Err(error) => {
            tracing::error!(%error, "a subagent failed");
            let why = "the session of the subagent cannot be written".to_owned();
            return SubagentOutcome::from_error(HostFunctionError::Failed(why));
        }
    };
    let summary = ended.summary;
    let (state, result) = match summary.stop {
        StopReason::Done | StopReason::MaxSteps if !blocked.is_empty() => {
            let text = append_blocked_call_list(&ended.output, blocked);
            (SubagentState::Blocked, Ok(text))
        }
        StopReason::Done => (SubagentState::Answered, Ok(ended.output)),
        StopReason::MaxSteps => (SubagentState::Limited, Ok(ended.output)),
        StopReason::Blocked => (
            SubagentState::Failed,
            Err(HostFunctionError::Denied(ended.output)),
        ),
        StopReason::Failed => (
            SubagentState::Failed,
            Err(HostFunctionError::Failed(ended.output)),
        ),
        StopReason::Cancelled => {
            let why = stopped.map_or_else(turn_interrupted_error, |why| {
                HostFunctionError::Failed(format!("the subagent was stopped: {why}"))
            });
            (SubagentState::Stopped, Err(why))
        }
    };
    SubagentOutcome {
        state,
        result,
        usage: summary.usage,
        steps: summary.steps,
        cost_usd: summary.cost_usd,
    }
}

/// Appends to a subagent's answer the list of its calls that were not run, because the model of the
/// subagent may not have mentioned them.
fn append_blocked_call_list(answer: &str, blocked: &[String]) -> String {
    format!(
        "{answer}\n\n[blocked: a subagent cannot ask for approval, so these calls were not run: {}]",
        blocked.join("; ")
    )
}
