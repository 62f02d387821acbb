//! Holds an agent between its turns: its tools, model and policy, and the data that persists from
//! one turn to the next.
//!
//! Owns the beginning and the end of the session. The module `turn` runs a turn; `opening` creates
//! the agent of a session and adds the host's own tools to it.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::archive::join::{TurnsToArchiveQueue, warn_unsuitable_summary_style};
use super::compact::AgentRequestSizes;
use super::emitter::TurnEventEmitter;
use super::outcome::Error;
use super::replace::SharedPluginReplacementQueue;
use super::scope::{SharedAgentTreeState, SharedTurnState};
use super::sink::{AgentDispatchReportSink, HookEffectExecutor};
use super::skill::active::ActiveSkills;
use super::skill::ready::SkillToRunInSubagent;
use super::spec::AgentSpec;
use super::steering::AgentSteeringHandle;
use crate::checkpoint::SessionCheckpoints;
use crate::event::{self, Event};
use crate::point::caller::{Caller, PluginCallContext};
use crate::point::catalog::{Error as ErrorPoint, SessionEnd, SessionStart};
use crate::point::dispatch::HookDispatcher;
use crate::point::outcome::Level;
use crate::point::payload::{PromptPart, SessionInfo};
use crate::session::{self, Body, Entry, UndoneTurn};
use crate::tool::approval::{SessionApprovals, SessionWideToolApproval};
use crate::tool::background::BackgroundCommandsStopGuard;

/// Lower bound for the wait for background hooks when the session ends. This is wall-clock time: it
/// includes waits during which the deadlines of the hooks are suspended.
const MIN_BACKGROUND_HOOKS_WAIT: Duration = Duration::from_secs(15);

/// Upper bound for the wait for background hooks when the session ends, regardless of their
/// deadlines.
const MAX_BACKGROUND_HOOKS_WAIT: Duration = Duration::from_secs(60);

pub(crate) struct LiveAgent {
    pub(super) spec: Arc<AgentSpec>,
    pub(super) dispatcher: Arc<HookDispatcher>,
    pub(super) sink: Arc<AgentDispatchReportSink>,
    pub(super) steering: AgentSteeringHandle,
    pub(super) replacements: SharedPluginReplacementQueue,
    pub(super) approvals: Arc<SessionApprovals>,
    /// Active skills: those of the running turn, and those that stay active across turns.
    pub(super) skills: Arc<ActiveSkills>,
    /// Skill that the user invoked for the next turn.
    pub(super) invoked: Option<SkillToRunInSubagent>,
    pub(super) family: SharedAgentTreeState,
    /// Scope of the running turn, or of the last one, which is kept because background hooks may
    /// outlive their turn.
    pub(super) scope: Option<Arc<SharedTurnState>>,
    pub(super) compaction: AgentRequestSizes,
    /// The stable parts of the system prompt, as built in the first turn; later turns reuse them.
    pub(super) frozen: Option<Vec<PromptPart>>,
    /// Last entry in the session file that lists the parts of the system prompt.
    pub(super) ledger: Option<Body>,
    pub(super) is_announced: bool,
    /// Events to emit right after the event which reports that the session is open.
    pub(super) opening: Vec<Event>,
    pub(super) is_started: bool,
    /// Earlier turns whose archival is due or in progress.
    pub(super) archival: TurnsToArchiveQueue,
    /// Whether the model was already notified of the background commands of an earlier run of the
    /// program.
    pub(super) is_background_told: bool,
    /// Ends the background commands when the agent is dropped; `None` for a subagent.
    pub(super) background_guard: Option<BackgroundCommandsStopGuard>,
}

impl LiveAgent {
    /// Creates an agent with the state `family`, which the main agent shares with all subagents.
    pub(super) fn new_with_shared_state(spec: AgentSpec, family: SharedAgentTreeState) -> Self {
        let outlet = HookEffectExecutor {
            session: spec.session.clone(),
            events: spec.events.clone(),
            keep: spec.keep_in_store.clone(),
        };
        let sink = AgentDispatchReportSink::new(
            outlet,
            spec.name.clone(),
            family.halt.clone(),
            family.root.clone(),
        );
        let sink = Arc::new(sink);
        let approvals = SessionApprovals::for_session(spec.session.id());
        if spec.config.keeps_approvals && family.parent.is_none() {
            let kept = spec.session.session_approvals().into_iter();
            approvals.restore_recorded_answers(kept.map(|(tool, part)| {
                let approved = SessionWideToolApproval {
                    tool,
                    covers: part.covers,
                    plugin: part.plugin,
                    by: part.by,
                };
                (part.key, approved)
            }));
        }
        Self {
            dispatcher: Arc::new(match &family.parent {
                None => HookDispatcher::new(spec.hooks.clone(), sink.clone()),
                Some(parent) => parent.emitter.dispatcher.for_subagent(sink.clone()),
            }),
            sink,
            steering: AgentSteeringHandle::default(),
            replacements: SharedPluginReplacementQueue::default(),
            approvals: Arc::new(approvals),
            skills: Arc::new(ActiveSkills::restore_for_session(
                &spec.session,
                &spec.skills,
            )),
            invoked: None,
            family,
            scope: None,
            compaction: AgentRequestSizes::default(),
            frozen: None,
            ledger: None,
            is_announced: false,
            opening: Vec::new(),
            is_started: false,
            archival: TurnsToArchiveQueue::default(),
            is_background_told: false,
            background_guard: None,
            spec: Arc::new(spec),
        }
    }

    #[must_use]
    pub(crate) fn spec(&self) -> &AgentSpec {
        &self.spec
    }

    /// Returns the parts of the agent (such as the model, the policy and the tools), to change them
    /// between turns.
    pub(crate) fn spec_mut(&mut self) -> &mut AgentSpec {
        Arc::make_mut(&mut self.spec)
    }

    /// Emits an event that is not part of a turn.
    pub(crate) fn emit_event_to_observers(&mut self, event: Event) {
        self.emit_session_opened();
        self.spec.events.emit(event);
    }

    /// Returns the handle for sending messages to a running turn.
    #[must_use]
    pub(crate) fn steer_handle(&self) -> AgentSteeringHandle {
        self.steering.clone()
    }

    /// Returns the user's approvals that apply for the rest of the session.
    #[must_use]
    pub(crate) fn session_approvals(&self) -> Arc<SessionApprovals> {
        self.approvals.clone()
    }

    /// Queues events to be emitted right after the event that the session is open.
    pub(crate) fn queue_opening_events(&mut self, events: impl IntoIterator<Item = Event>) {
        self.opening.extend(events);
    }

    /// Removes the last turn from the conversation; its lines stay in the session file. Returns
    /// `None` if there is no turn.
    ///
    /// # Errors
    /// The turn cannot be removed, or the session cannot be written.
    pub(crate) async fn undo_turn(
        &mut self,
        entries: &[Entry],
    ) -> Result<Option<UndoneTurn>, session::Error> {
        // Stop the archiving first, because the turn to undo may be the one that is being archived.
        self.archival.cancel_archival_preparation().await;
        let undone = self.spec.session.undo_last_turn(entries)?;
        self.compaction.reset_compaction_backoffs();
        self.spec.session.sync_on_blocking_thread().await?;
        Ok(undone)
    }

    /// Removes a turn and all later ones from the conversation.
    ///
    /// # Errors
    /// A turn cannot be removed, or the session cannot be written.
    pub(crate) async fn rewind_turns(
        &mut self,
        entries: &[Entry],
        turn: u32,
    ) -> Result<Vec<UndoneTurn>, session::Error> {
        self.archival.cancel_archival_preparation().await;
        let undone = self.spec.session.undo_turns_since(entries, turn)?;
        self.compaction.reset_compaction_backoffs();
        self.spec.session.sync_on_blocking_thread().await?;
        Ok(undone)
    }

    /// Returns the checkpoints: copies of files from before the tool calls of the session changed
    /// them.
    pub(crate) fn checkpoints(&self) -> Arc<SessionCheckpoints> {
        self.family.checkpoints.clone()
    }

    /// Creates the scope of a turn: the state that the turn shares with hooks and tools.
    pub(super) fn create_shared_turn_state(
        &mut self,
        cancel: CancellationToken,
    ) -> Arc<SharedTurnState> {
        let scope = SharedTurnState::new(
            self.spec.clone(),
            TurnEventEmitter::new(
                self.spec.clone(),
                self.dispatcher.clone(),
                self.sink.clone(),
            ),
            self.approvals.clone(),
            self.skills.clone(),
            self.family.clone(),
            cancel,
        );
        self.scope = Some(scope.clone());
        scope
    }

    /// Whether this is the main agent. Only the main agent's session has a start and an end; a
    /// subagent has `subagent-start` and `subagent-end` instead.
    pub(super) fn is_main(&self) -> bool {
        self.family.parent.is_none()
    }

    /// Ends the session: calls the hooks of `session-end`, waits for background hooks, and syncs
    /// the session to disk.
    ///
    /// # Errors
    /// The session cannot be written, or a hook with `on_failure = "block"` has failed since the
    /// last turn.
    pub(crate) async fn close_agent(mut self) -> Result<(), Error> {
        if self.is_main() {
            self.close_background_commands().await;
        }
        self.archive_ready_turns_on_close().await;
        if self.is_started {
            let info = self.session_info();
            let caller = self.caller_info_outside_turn();
            self.dispatcher.dispatch::<SessionEnd>(&caller, info).await;
        }
        let have_ended = self.wait_for_background_hooks().await;
        // Report failures since the last turn, including those of background hooks. The hooks of
        // `error` may themselves run in the background.
        self.report_hook_failures().await;
        if have_ended {
            self.wait_for_background_hooks().await;
        }
        self.spec.session.record_changed_plugin_statuses();
        self.spec.session.sync_on_blocking_thread().await?;
        if self.is_main() {
            let checkpoints = self.checkpoints();
            // Ignore a failure to clean up the checkpoints: it only wastes disk space.
            let _ = tokio::task::spawn_blocking(move || checkpoints.remove_unreferenced_contents())
                .await;
        }
        match self.family.halt.take_reason() {
            Some(why) if self.is_main() => Err(Error::Guard(why)),
            _ => Ok(()),
        }
    }

    /// Ends the commands in the background, and reports those that were running.
    async fn close_background_commands(&self) {
        let ended = self.spec.background.stop_all_and_close().await;
        if !ended.is_empty() {
            let text = format!(
                "background commands ended with the session: {}",
                ended.join(", ")
            );
            self.emit_notice(Level::Info, text);
        }
    }

    /// Archives the turns whose summaries are ready. Call this only at a safe point: between two
    /// steps of the turn of `scope`, or after that turn.
    pub(super) async fn archive_summarized_turns(&mut self, scope: &Arc<SharedTurnState>) {
        self.archival
            .archive_prepared_turns(&self.spec, scope, &mut self.compaction)
            .await;
    }

    /// Archives the turns that are due, and waits until this is done. An embedder with idle time
    /// can call this; otherwise the turns are archived during the next turn.
    pub(crate) async fn archive_due_turns_and_wait(&mut self) {
        let Some(scope) = self.scope.clone() else {
            return;
        };
        self.archive_summarized_turns(&scope).await;
        self.archival.begin_preparing_due_turns(&self.spec, &scope);
        self.archival.wait_for_preparation().await;
        self.archive_summarized_turns(&scope).await;
    }

    /// Waits briefly for the summaries that are being prepared, and archives the turns whose
    /// summaries are ready. Called when the session is closed; all other turns remain to be
    /// archived.
    pub(super) async fn archive_ready_turns_on_close(&mut self) {
        let Some(scope) = self.scope.clone() else {
            return;
        };
        if self
            .archival
            .wait_for_archival_preparation_before_close(&scope)
            .await
        {
            self.archive_summarized_turns(&scope).await;
            self.archival.cancel_archival_preparation().await;
        }
    }

    /// Replaces plugins with new versions that are queued; `scope` is the scope of the running
    /// turn.
    pub(super) fn apply_plugin_replacements(&mut self, scope: Option<&SharedTurnState>) {
        self.replacements
            .apply_queued_replacements(&mut self.spec, &self.dispatcher, scope);
    }

    /// Returns the queue of plugin versions that replace loaded ones between two steps.
    pub(crate) fn plugin_replacement_queue(&self) -> SharedPluginReplacementQueue {
        self.replacements.clone()
    }

    /// Waits for background hooks for at most the longest of their deadlines (within
    /// `MIN_BACKGROUND_HOOKS_WAIT` and `MAX_BACKGROUND_HOOKS_WAIT`), and reports those that still
    /// run. Returns whether all of them have ended.
    pub(super) async fn wait_for_background_hooks(&self) -> bool {
        let longest = self
            .dispatcher
            .longest_background_deadline()
            .unwrap_or_default();
        let limit = longest.clamp(MIN_BACKGROUND_HOOKS_WAIT, MAX_BACKGROUND_HOOKS_WAIT);
        let running = self.dispatcher.wait_for_background_hooks(limit).await;
        if !running.is_empty() {
            self.spec.events.emit(Event::create_host_notice(Level::Warn, format!(
                "hooks still run in the background after {} s, and are stopped when the program ends: {}",
                limit.as_secs(),
                running.join(", ")
            )));
        }
        running.is_empty()
    }

    /// Emits the event that the session is open, once, before the first turn.
    pub(crate) fn emit_session_opened(&mut self) {
        if !self.is_main() || std::mem::replace(&mut self.is_announced, true) {
            return;
        }
        let info = self.session_info();
        self.spec.events.emit(Event::SessionOpened {
            version: event::EVENT_STREAM_VERSION,
            id: info.id,
            resumed: info.resumed,
            messages: info.messages,
            provider: info.provider,
            model: info.model,
        });
        for event in std::mem::take(&mut self.opening) {
            self.spec.events.emit(event);
        }
        for notice in self.spec.session.notices() {
            self.emit_notice(Level::Warn, notice.clone());
        }
        warn_unsuitable_summary_style(&self.spec);
    }

    /// Calls the hooks of `session-start`, once. The first turn does this, so that the user can
    /// interrupt the hooks.
    pub(super) async fn run_session_start_hooks(&mut self) {
        if !self.is_main() || std::mem::replace(&mut self.is_started, true) {
            return;
        }
        let info = self.session_info();
        let caller = self.caller_info_outside_turn();
        self.dispatcher
            .dispatch::<SessionStart>(&caller, info)
            .await;
        self.report_hook_failures().await;
    }

    /// Reports hooks that failed outside a turn to the hooks of `error`.
    pub(super) async fn report_hook_failures(&self) {
        let caller = self.caller_info_outside_turn();
        for report in self.sink.take_failures(0) {
            self.dispatcher
                .dispatch::<ErrorPoint>(&caller, report)
                .await;
        }
    }

    pub(super) fn session_info(&self) -> SessionInfo {
        SessionInfo {
            id: self.spec.session.id().to_string(),
            resumed: self.spec.session.is_resumed(),
            messages: u32::try_from(self.spec.session.n_messages()).unwrap_or(u32::MAX),
            provider: self.spec.provider.name().to_owned(),
            model: self.spec.model.clone(),
        }
    }

    /// Returns the caller that hooks outside of a turn are told about.
    pub(super) fn caller_info_outside_turn(&self) -> Caller {
        Caller {
            context: PluginCallContext {
                skill: self.skills.last_skill_id(),
                ..self
                    .spec
                    .plugin_call_context(self.spec.session.id().clone())
            },
            call_chain: self.spec.call_chain.clone(),
            ..Caller::default()
        }
    }

    pub(super) fn emit_notice(&self, level: Level, text: impl Into<String>) {
        self.spec
            .events
            .emit(Event::create_host_notice(level, text));
    }
}

impl_partial_debug!(
    LiveAgent,
    self,
    name = self.spec.name,
    session = self.spec.session
);
