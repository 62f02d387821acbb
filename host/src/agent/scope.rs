//! State of a turn that is shared with the host functions of plugins.
//!
//! While a hook or a tool runs, the future that waits for it borrows the turn mutably. The data
//! that a host function needs meanwhile (the parts of the agent, the number of the turn, its
//! cancellation token) is therefore here, in an `Arc`. The scope has three parts with their own
//! state: [`TurnBudget`], [`TurnEventEmitter`] and [`TurnSkillState`].
//!
//! [`ActiveTurns`] leads from a plugin's handle to the running turn. Hooks hold the handle and a
//! scope holds the hooks, so the reference to the scope is weak: a strong one would be a cycle that
//! is never freed.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::budget::TurnBudget;
use super::clients::ClientCallApproverRegistry;
use super::emitter::TurnEventEmitter;
use super::halt::AgentHaltReason;
use super::progress::TurnProgress;
use super::skill::active::ActiveSkills;
use super::skill::memory::SessionSkillMemory;
use super::skill::presets::ParentAgentPresets;
use super::skill::scope::TurnSkillState;
use super::spec::AgentSpec;
use super::subagent::registry::{LiveSubagent, SubagentRegistry};
use crate::checkpoint::SessionCheckpoints;
use crate::event::Event;
use crate::lock::lock_ignoring_poison;
use crate::point::caller::{Caller, PluginCallContext};
use crate::point::outcome::Level;
use crate::session::Session;
use crate::tool::approval::SessionApprovals;

/// Time that subagents have to end after they were asked to stop. Their tools may use 5 s of it;
/// the rest allows for a busy machine and a slow disk, because the session of a subagent that is
/// killed later contains a turn without an end.
const SUBAGENTS_STOP_TIMEOUT: Duration = Duration::from_secs(20);

/// The running turns of a session, by name of the agent. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct ActiveTurns(Arc<Mutex<HashMap<Arc<str>, Weak<SharedTurnState>>>>);

impl ActiveTurns {
    /// Returns the running turn of an agent, or else its last turn if that still exists.
    pub(super) fn find_active_turn(&self, agent: &str) -> Option<Arc<SharedTurnState>> {
        lock_ignoring_poison(&self.0).get(agent)?.upgrade()
    }

    pub(super) fn enter_turn(&self, scope: &Arc<SharedTurnState>) {
        lock_ignoring_poison(&self.0).insert(scope.spec.name.clone(), Arc::downgrade(scope));
    }

    pub(super) fn leave_turn(&self, agent: &str) {
        lock_ignoring_poison(&self.0).remove(agent);
    }
}

/// State that an agent shares with its parent agents and its subagents, and the turn that started
/// the agent.
#[derive(Clone)]
pub(super) struct SharedAgentTreeState {
    /// Id of the main agent's session, which is the only session id that plugins see.
    pub(super) session: Arc<str>,
    pub(super) active_turns: ActiveTurns,
    /// Reason for which the turns of all agents of the session stop at once; none while they may
    /// run.
    pub(super) halt: Arc<AgentHaltReason>,
    /// Session of the main agent.
    pub(super) root: Arc<Session>,
    /// Turn that started this agent; `None` for the main agent.
    pub(super) parent: Option<Arc<SharedTurnState>>,
    /// Presets that applied in the step that started this agent.
    pub(super) presets: ParentAgentPresets,
    /// Skills that the main agent and its subagents have used in the session.
    pub(super) skills: Arc<SessionSkillMemory>,
    /// Checkpoints: copies of files from before the tool calls of the session changed them.
    pub(super) checkpoints: Arc<SessionCheckpoints>,
    /// Subagents of the session that this process has in memory.
    pub(super) subagents: Arc<SubagentRegistry>,
}

/// State of one turn that hooks, tools and host functions share.
pub(super) struct SharedTurnState {
    pub(super) spec: Arc<AgentSpec>,
    pub(super) emitter: TurnEventEmitter,
    pub(super) budget: Arc<TurnBudget>,
    pub(super) skills: Arc<TurnSkillState>,
    pub(super) approvals: Arc<SessionApprovals>,
    pub(super) family: SharedAgentTreeState,
    pub(super) number: u32,
    /// Token that is cancelled when the turn is interrupted.
    pub(super) cancel: CancellationToken,
    /// Token that is cancelled when the turn is interrupted or dropped, to end its subagents.
    pub(super) agents: CancellationToken,
    pub(super) progress: TurnProgress,
    /// Users of the clients whose calls run in this turn.
    pub(super) clients: ClientCallApproverRegistry,
    /// Ids of the messages that contain the input of the turn; compaction keeps these messages.
    pub(super) input_ids: Mutex<HashSet<String>>,
    /// Whether the turn has ended. This state remains available to hooks that run later, in the
    /// background or at the end of the session.
    is_over: AtomicBool,
    /// Subagents of this turn, with the tasks in which they run.
    running: Mutex<Vec<(Arc<LiveSubagent>, JoinHandle<()>)>>,
}

impl SharedTurnState {
    pub(super) fn new(
        spec: Arc<AgentSpec>,
        emitter: TurnEventEmitter,
        approvals: Arc<SessionApprovals>,
        skills: Arc<ActiveSkills>,
        family: SharedAgentTreeState,
        cancel: CancellationToken,
    ) -> Arc<Self> {
        let number = spec.session.last_turn_number() + 1;
        let parent = family.parent.as_ref();
        let memory = family.skills.clone();
        let of_parent = parent.map(|parent| parent.skills.clone());
        let above = (of_parent, family.presets.clone());
        let skills = TurnSkillState::new(spec.clone(), number, skills, memory, above);
        let scope = Arc::new(Self {
            emitter,
            budget: Arc::new(TurnBudget::new(parent.map(|parent| parent.budget.clone()))),
            skills: Arc::new(skills),
            spec,
            approvals,
            family,
            number,
            agents: cancel.child_token(),
            cancel,
            progress: TurnProgress::default(),
            clients: ClientCallApproverRegistry::default(),
            input_ids: Mutex::default(),
            is_over: AtomicBool::new(false),
            running: Mutex::default(),
        });
        scope.family.active_turns.enter_turn(&scope);
        scope
    }

    /// Marks the turn as ended. From now on plugins cannot ask the user questions through this
    /// scope.
    pub(super) fn mark_turn_ended(&self) {
        self.is_over.store(true, Ordering::Release);
    }

    pub(super) fn has_turn_ended(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Returns the caller for hooks and tools of this turn that no plugin called.
    pub(super) fn caller_info_for_step(&self, step: u32) -> Caller {
        let mut caller = Caller {
            context: PluginCallContext {
                turn: self.number,
                step,
                ..self.spec.plugin_call_context(self.family.session.clone())
            },
            call_chain: self.spec.call_chain.clone(),
            ..Caller::default()
        };
        self.refresh_caller_context(&mut caller);
        caller
    }

    /// Updates a caller with the usage of the turn so far and the id of the skill that was
    /// activated last.
    pub(super) fn refresh_caller_context(&self, caller: &mut Caller) {
        self.budget.fill_caller_usage_fields(caller);
        caller.context.skill = self.skills.latest_skill_id();
    }

    /// Registers a subagent that was started in this turn, so that the turn can stop it when it
    /// ends.
    pub(super) fn track_subagent(&self, agent: Arc<LiveSubagent>, task: JoinHandle<()>) {
        let mut running = lock_ignoring_poison(&self.running);
        running.retain(|(_, task)| !task.is_finished());
        running.push((agent, task));
    }

    /// Returns the running subagents that the model started in this turn.
    pub(super) fn running_model_started_subagents(&self) -> Vec<Arc<LiveSubagent>> {
        let running = lock_ignoring_poison(&self.running);
        let agents = running.iter().map(|(agent, _)| agent);
        let of_model = agents.filter(|agent| agent.plugin.is_none() && agent.is_running());
        of_model.cloned().collect()
    }

    /// Stops the subagents that still run, and waits for them to end, because their usage counts in
    /// this turn and their sessions must be complete.
    pub(super) async fn stop_running_subagents(&self) {
        let running = std::mem::take(&mut *lock_ignoring_poison(&self.running));
        let mut ids = Vec::new();
        for (agent, _) in &running {
            if agent.is_running() && !agent.cancel.is_cancelled() {
                ids.push(agent.id.to_string());
                agent.stop("the turn of its parent ended");
            }
        }
        if !ids.is_empty() {
            let text = format!(
                "the turn ended while subagents ran, so they were stopped and can be continued: {}",
                ids.join(", ")
            );
            self.spec
                .events
                .emit(Event::create_host_notice(Level::Warn, text));
        }
        let ended = futures_util::future::join_all(running.into_iter().map(|(_, task)| task));
        if tokio::time::timeout(SUBAGENTS_STOP_TIMEOUT, ended)
            .await
            .is_err()
        {
            let text = "a subagent did not stop and was abandoned";
            self.spec
                .events
                .emit(Event::create_host_notice(Level::Warn, text));
        }
    }
}
