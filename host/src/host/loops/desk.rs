//! Serves the loop of one plugin: passes messages to it, starts and limits its turns, and notifies
//! it when the host ends.
//!
//! A [`PluginLoopHostService`] outlives the single runs of its loop, so that messages wait for the
//! next run and the turns of a minute are counted over all runs. Turns end with the run that
//! started them. The module must not know how a turn is run, which the [`LoopTurnRunner`] decides.
//! Start from [`PluginLoopHostService`].

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::names::LoopSessionIdGenerator;
use super::order::{check_loop_may_use_session, check_turn_request};
use super::spending::{LoopTurnCosts, TurnCostReservation};
use super::turn::{LoopTurnRunner, PluginLoopTurnRequest, SessionOpeningTurnRunner};
use crate::agent::TurnOutcome;
use crate::event::Stamped;
use crate::host::{Host, Session};
use crate::lock::lock_ignoring_poison;
use crate::point::handle::HostFunctionError;
use crate::point::loop_handle::{
    IncomingLoopMessage, LoopHostFunctions, LoopTurnReport, LoopTurnRequest,
    MAX_QUEUED_LOOP_MESSAGES, MAX_RUNNING_TURNS, MAX_TURNS_PER_MINUTE, TurnSessionSelector,
};
use crate::point::payload::StopReason;
use crate::session;
use crate::text::escape_and_truncate_line;

/// Period in which the turns that a loop starts are counted.
const TURN_COUNT_PERIOD: Duration = Duration::from_secs(60);

/// Grace period for the turns that a run of a loop has started, after the run itself has ended.
pub(crate) const LOOP_TURN_COMPLETION_GRACE_PERIOD: Duration = Duration::from_secs(2);

/// Maximum length of an id in an error, in bytes.
const MAX_QUOTED_ID_BYTES: usize = 96;

/// Parts of a [`PluginLoopHostService`] that the caller of a loop may choose.
pub(crate) struct LoopServiceOptions {
    /// Runs the turns that the loop requests. If `None`, each turn runs in a session that is opened
    /// for it.
    pub(crate) runner: Option<Arc<dyn LoopTurnRunner>>,
    /// Receiver of the events of the turns that the loop requests, if there is one.
    pub(crate) watcher: Option<mpsc::Sender<Stamped>>,
    /// Maximum size of the session file of the loop itself, in bytes.
    pub(crate) max_session_bytes: u64,
    /// Token that is cancelled when the host ends, which stops the loop.
    pub(crate) shutdown: CancellationToken,
}

/// Service for one loop: its messages, its turns and their limits.
pub(crate) struct PluginLoopHostService {
    plugin: String,
    host: Host,
    names: LoopSessionIdGenerator,
    /// Whether the loop may run turns in the sessions in which users have their conversations.
    uses_conversations: bool,
    /// Session in which the loop itself runs; its turns may run in other sessions.
    session: Arc<session::Session>,
    runner: Arc<dyn LoopTurnRunner>,
    parts: LoopServiceOptions,
    messages: tokio::sync::Mutex<mpsc::Receiver<IncomingLoopMessage>>,
    /// Whether the current run has asked for the token `shutdown`, so that it is notified when the
    /// host ends.
    is_told: AtomicBool,
    turns: Mutex<LoopTurnRegistry>,
    spending: LoopTurnCosts,
}

/// Turns that a loop has started.
#[derive(Default)]
struct LoopTurnRegistry {
    /// Times within the last minute at which turns were started.
    started: VecDeque<Instant>,
    /// Turns that run, or whose reports the loop has not collected yet, by session id.
    running: BTreeMap<String, Arc<RunningLoopTurn>>,
}

/// Turn that a loop has started and that may have ended.
struct RunningLoopTurn {
    cancel: CancellationToken,
    report: Mutex<Option<Result<LoopTurnReport, HostFunctionError>>>,
    /// Token that is cancelled when the turn has ended and `report` is set.
    has_ended: CancellationToken,
}

/// Guard of a running turn. Dropping it marks the turn as ended, even if the turn's task panics.
struct LoopTurnEndGuard(Arc<RunningLoopTurn>);

impl LoopTurnEndGuard {
    fn end_turn(self, report: Result<LoopTurnReport, HostFunctionError>) {
        *lock_ignoring_poison(&self.0.report) = Some(report);
    }
}

impl Drop for LoopTurnEndGuard {
    fn drop(&mut self) {
        lock_ignoring_poison(&self.0.report).get_or_insert_with(|| {
            Err(HostFunctionError::Failed(
                "an internal error of the host ended the turn".to_owned(),
            ))
        });
        self.0.has_ended.cancel();
    }
}

impl PluginLoopHostService {
    /// Creates the service for a loop in its session, and the channel for messages to the loop.
    /// Returns `None` if the plugin has no loop.
    pub(crate) fn new(
        session: &Session,
        plugin: &str,
        parts: LoopServiceOptions,
    ) -> Option<(Arc<Self>, mpsc::Sender<IncomingLoopMessage>)> {
        let loops = session.loops();
        let own = loops.iter().find(|own| own.plugin_name() == plugin)?;
        let host = session.host().clone();
        let (sender, messages) = mpsc::channel(MAX_QUEUED_LOOP_MESSAGES);
        let runner = parts.runner.clone();
        let spending = LoopTurnCosts::new(host.0.config.max_loop_cost_usd);
        let desk = Self {
            plugin: plugin.to_owned(),
            names: LoopSessionIdGenerator::new(plugin, own.plugin_state_key(), host.workspace()),
            uses_conversations: own.may_read_conversations(),
            session: session.stored(),
            runner: runner.unwrap_or_else(|| Arc::new(SessionOpeningTurnRunner::new(host.clone()))),
            host,
            parts,
            messages: tokio::sync::Mutex::new(messages),
            is_told: AtomicBool::new(false),
            turns: Mutex::default(),
            spending,
        };
        Some((Arc::new(desk), sender))
    }

    /// Prepares for a new run: the run is not yet notified when the host ends.
    pub(super) fn begin_loop_run(&self) {
        self.is_told.store(false, Ordering::Release);
    }

    /// Whether the current run is notified when the host ends, so that it needs time to finish.
    pub(super) fn is_notified_of_shutdown(&self) -> bool {
        self.is_told.load(Ordering::Acquire)
    }

    /// Interrupts the turns of the run, and waits up to [`LOOP_TURN_COMPLETION_GRACE_PERIOD`] for
    /// them to end.
    pub(super) async fn end_loop_run(&self) {
        let running = std::mem::take(&mut lock_ignoring_poison(&self.turns).running);
        running.values().for_each(|turn| turn.cancel.cancel());
        let ended = running.values().map(|turn| turn.has_ended.cancelled());
        let ended = futures_util::future::join_all(ended);
        if tokio::time::timeout(LOOP_TURN_COMPLETION_GRACE_PERIOD, ended)
            .await
            .is_err()
        {
            tracing::warn!(
                plugin = self.plugin,
                "turns of a loop did not end in time; they can be resumed"
            );
        }
    }

    /// Returns the id of the session in which a turn is to run.
    async fn session_id_for_turn(
        &self,
        wanted: &TurnSessionSelector,
    ) -> Result<String, HostFunctionError> {
        match wanted {
            TurnSessionSelector::Fresh => Ok(self.names.create_unnamed_session_id()),
            TurnSessionSelector::Named(name) => self.names.session_id_for_name(name),
            TurnSessionSelector::Existing(id) => {
                let (host, id, own) = (self.host.clone(), id.clone(), self.names.clone());
                let (plugin, uses_others) = (self.plugin.clone(), self.uses_conversations);
                let checked = tokio::task::spawn_blocking(move || {
                    let is_own = own.is_loop_session_id(&id);
                    if !is_own && !uses_others {
                        return Err(HostFunctionError::Denied(format!(
                            "`{}` is not a session that the loop of plugin `{plugin}` began in this workspace; conversations of people need \
                             `session` in `side_effects`",
                            escape_and_truncate_line(&id, MAX_QUOTED_ID_BYTES)
                        )));
                    }
                    check_loop_may_use_session(&host, &id, is_own).map(|()| id)
                });
                let failed =
                    |_| HostFunctionError::Failed("the session cannot be looked up".to_owned());
                checked.await.map_err(failed)?
            }
        }
    }

    /// Checks that a turn may start in a session, counts it, and reserves its cost.
    fn reserve_turn_slot_and_cost(
        &self,
        session: &str,
        max_cost_usd: Option<f64>,
    ) -> Result<(Arc<RunningLoopTurn>, TurnCostReservation), HostFunctionError> {
        let now = Instant::now();
        let mut turns = lock_ignoring_poison(&self.turns);
        if turns.running.contains_key(session) {
            return Err(HostFunctionError::Limit(format!(
                "a turn of this loop runs in session {session}, or it has ended and its report was not collected; collect the report before you start another turn there"
            )));
        }
        let n_running = u32::try_from(turns.running.len()).unwrap_or(u32::MAX);
        if n_running >= MAX_RUNNING_TURNS {
            return Err(HostFunctionError::Limit(format!(
                "{MAX_RUNNING_TURNS} turns of this loop are running, or their reports were not collected; `finish` one first"
            )));
        }
        let is_over = |started: &&Instant| now.duration_since(**started) >= TURN_COUNT_PERIOD;
        while turns.started.front().filter(is_over).is_some() {
            turns.started.pop_front();
        }
        let n_started = u32::try_from(turns.started.len()).unwrap_or(u32::MAX);
        if n_started >= MAX_TURNS_PER_MINUTE {
            let first = turns.started.front().copied().unwrap_or(now);
            let left = TURN_COUNT_PERIOD.saturating_sub(now.duration_since(first));
            return Err(HostFunctionError::Limit(format!(
                "the loop of plugin `{}` has started its {MAX_TURNS_PER_MINUTE} turns of this minute; the next may start in {} s",
                self.plugin,
                left.as_secs() + 1
            )));
        }
        let spending = &self.spending;
        let reserved = spending.reserve_cost(&self.plugin, max_cost_usd, now)?;
        turns.started.push_back(now);
        let turn = Arc::new(RunningLoopTurn {
            cancel: self.parts.shutdown.child_token(),
            report: Mutex::default(),
            has_ended: CancellationToken::new(),
        });
        turns.running.insert(session.to_owned(), turn.clone());
        Ok((turn, reserved))
    }

    async fn start_requested_turn(
        &self,
        order: LoopTurnRequest,
    ) -> Result<String, HostFunctionError> {
        if self.shutdown_token().is_cancelled() {
            return Err(HostFunctionError::Failed(
                "the host is ending; no further turns can start".to_owned(),
            ));
        }
        check_turn_request(&self.host, &order)?;
        let session = self.session_id_for_turn(&order.session).await?;
        let (running, mut reserved) =
            self.reserve_turn_slot_and_cost(&session, order.max_cost_usd)?;
        let turn = PluginLoopTurnRequest {
            plugin: self.plugin.clone(),
            session: session.clone(),
            input: order.input,
            model: order.model,
            preset: order.preset,
            input_id: order.input_id,
            max_cost_usd: reserved.max_cost_usd(),
            cancel: running.cancel.clone(),
            watcher: self.parts.watcher.clone(),
            has_begun: reserved.turn_begun_flag(),
        };
        let guard = LoopTurnEndGuard(running);
        let (work, id) = (self.runner.run_turn(turn), session.clone());
        tokio::spawn(async move {
            let ended = work.await;
            if let Ok(outcome) = &ended {
                reserved.record_turn_cost(outcome.summary.cost_usd);
            }
            drop(reserved);
            let report = ended.map(|outcome| turn_outcome_to_loop_report(id, outcome));
            guard.end_turn(report.map_err(HostFunctionError::Failed));
        });
        Ok(session)
    }

    fn find_running_turn(&self, session: &str) -> Option<Arc<RunningLoopTurn>> {
        lock_ignoring_poison(&self.turns)
            .running
            .get(session)
            .cloned()
    }

    fn unknown_turn_error(&self, session: &str) -> HostFunctionError {
        HostFunctionError::NotFound(format!(
            "no turn of the loop of plugin `{}` runs in session `{}`",
            self.plugin,
            escape_and_truncate_line(session, MAX_QUOTED_ID_BYTES)
        ))
    }

    async fn wait_for_turn_end(
        &self,
        session: &str,
        limit: Option<Duration>,
    ) -> Result<Option<LoopTurnReport>, HostFunctionError> {
        let unknown = || self.unknown_turn_error(session);
        let turn = self.find_running_turn(session).ok_or_else(unknown)?;
        let ended = turn.has_ended.cancelled();
        match limit {
            None => ended.await,
            Some(limit) => {
                if tokio::time::timeout(limit, ended).await.is_err() {
                    return Ok(None);
                }
            }
        }
        lock_ignoring_poison(&self.turns).running.remove(session);
        let report = lock_ignoring_poison(&turn.report).take();
        report.ok_or_else(unknown)?.map(Some)
    }
}

impl Drop for PluginLoopHostService {
    /// Interrupts the turns of a run whose future was dropped.
    fn drop(&mut self) {
        let turns = lock_ignoring_poison(&self.turns);
        turns.running.values().for_each(|turn| turn.cancel.cancel());
    }
}

impl LoopHostFunctions for PluginLoopHostService {
    fn shutdown_token(&self) -> CancellationToken {
        self.is_told.store(true, Ordering::Release);
        self.parts.shutdown.clone()
    }

    fn check_session_limit(&self) -> Result<(), HostFunctionError> {
        let (bytes, most) = (
            self.session.total_entry_bytes(),
            self.parts.max_session_bytes,
        );
        if bytes > most {
            return Err(HostFunctionError::Limit(format!(
                "the session of the loop has {bytes} bytes, more than the maximum of {most}"
            )));
        }
        Ok(())
    }

    fn receive_message(&self) -> BoxFuture<'_, IncomingLoopMessage> {
        Box::pin(async {
            let message = self.messages.lock().await.recv().await;
            match message {
                Some(message) => message,
                // The sender was dropped, so no message can arrive any more.
                None => std::future::pending().await,
            }
        })
    }

    fn start_turn(
        &self,
        order: LoopTurnRequest,
    ) -> BoxFuture<'_, Result<String, HostFunctionError>> {
        Box::pin(self.start_requested_turn(order))
    }

    fn finish_turn<'a>(
        &'a self,
        session: &'a str,
        limit: Option<Duration>,
    ) -> BoxFuture<'a, Result<Option<LoopTurnReport>, HostFunctionError>> {
        Box::pin(self.wait_for_turn_end(session, limit))
    }

    fn steer_turn<'a>(
        &'a self,
        session: &'a str,
        text: String,
    ) -> BoxFuture<'a, Result<(), HostFunctionError>> {
        Box::pin(async move {
            let turn = self.find_running_turn(session);
            let is_running = turn.is_some_and(|turn| !turn.has_ended.is_cancelled());
            if text.trim().is_empty() {
                return Err(HostFunctionError::InvalidInput(
                    "the text is empty".to_owned(),
                ));
            }
            if is_running && self.runner.steer_turn(session, text).await {
                return Ok(());
            }
            Err(self.unknown_turn_error(session))
        })
    }

    fn stop_turn(&self, session: &str) -> bool {
        let turn = self.find_running_turn(session);
        let running = turn.filter(|turn| !turn.has_ended.is_cancelled());
        running.inspect(|turn| turn.cancel.cancel()).is_some()
    }

    fn running_turns(&self) -> Vec<String> {
        lock_ignoring_poison(&self.turns)
            .running
            .keys()
            .cloned()
            .collect()
    }
}

fn turn_outcome_to_loop_report(session: String, outcome: TurnOutcome) -> LoopTurnReport {
    let TurnOutcome {
        turn,
        output,
        summary,
    } = outcome;
    LoopTurnReport {
        session,
        turn,
        state: match summary.stop {
            StopReason::Done => "done",
            StopReason::MaxSteps => "max-steps",
            StopReason::Blocked => "blocked",
            StopReason::Cancelled => "cancelled",
            StopReason::Failed => "failed",
        },
        answer: output,
        steps: summary.steps,
        tool_calls: summary.tool_calls,
        cost_usd: summary.cost_usd,
        unpriced_tokens: summary.unpriced_tokens,
    }
}
