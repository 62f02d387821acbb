//! Runs the task of an open session. The task runs one turn at a time, in the order of the inputs,
//! and closes the session after some time without a turn.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use rind_lib::Session;
use rind_lib::agent::{AgentSteeringHandle, AnswerSchema, TurnOutcome};
use rind_lib::host::PluginLoopTurnRequest;
use rind_lib::message::PromptImageAttachment;
use rind_lib::point::payload::Source;
use rind_lib::session;
use rind_lib::text::format_error_chain;
use rind_lib::tool::live::RunningToolCallOutputs;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use crate::error::ApiError;
use crate::event_log::SessionEventLog;
use crate::gate::{TurnAdmissionController, TurnStartRefusal};

/// Time without a turn after which a session is closed. A later request opens it again.
const SESSION_IDLE_TIMEOUT: Duration = Duration::from_secs(600);

/// Maximum number of inputs that wait for the running turn.
pub(crate) const MAX_QUEUED_INPUTS: usize = 16;

/// Request for a turn, with its input.
#[derive(Default)]
pub(crate) struct SessionTurnRequest {
    pub(crate) text: String,
    pub(crate) images: Vec<PromptImageAttachment>,
    pub(crate) input_id: Option<String>,
    pub(crate) answer_schema: Option<AnswerSchema>,
    pub(crate) max_cost_usd: Option<f64>,
    /// Whether the turn's outcome is sent only after the store has written the end of the turn.
    pub(crate) is_stored_first: bool,
}

/// Work that a client or a loop requests from a session.
pub(crate) enum AnyTurnRequest {
    /// Runs a new turn with this input.
    Turn(Box<SessionTurnRequest>),
    /// Continues the interrupted turn of the session.
    Continue,
    /// Runs a turn that a plugin's loop requested.
    Loop(Box<PluginLoopTurnRequest>),
}

/// Requested work of a session, with the channel for its outcome.
pub(crate) struct SessionWorkRequest {
    pub(crate) work: AnyTurnRequest,
    /// Token that interrupts the turn. The turn then stops at once and stores its end.
    pub(crate) cancel: CancellationToken,
    pub(crate) reply: TurnOutcomeSender,
}

/// Outcome of a turn, or the error because of which there is none.
pub(crate) type TurnEndResult = Result<TurnOutcome, TurnWithoutOutcomeError>;

/// Error because of which a turn has no outcome.
#[derive(Debug)]
pub(crate) struct TurnWithoutOutcomeError {
    /// Description of the error with its chain of causes.
    pub(crate) text: String,
    /// Whether the cause is that another program has continued the session.
    pub(crate) is_fenced: bool,
    /// Refusal by the gate before the turn began, if the gate refused it.
    pub(crate) refusal: Option<TurnStartRefusal>,
}

impl TurnWithoutOutcomeError {
    fn new(error: &(dyn std::error::Error + 'static)) -> Self {
        let of_session = rind_lib::host::Error::find_session_error_in_chain(error);
        Self {
            text: format_error_chain(error),
            is_fenced: matches!(of_session, Some(session::Error::Fenced { .. })),
            refusal: None,
        }
    }
}

impl From<String> for TurnWithoutOutcomeError {
    fn from(text: String) -> Self {
        Self {
            text,
            is_fenced: false,
            refusal: None,
        }
    }
}

impl From<TurnStartRefusal> for TurnWithoutOutcomeError {
    fn from(refusal: TurnStartRefusal) -> Self {
        Self {
            text: refusal.text.clone(),
            is_fenced: false,
            refusal: Some(refusal),
        }
    }
}

/// Sender for the outcome of a turn. The receiver may be dropped before the outcome is sent.
pub(crate) type TurnOutcomeSender = oneshot::Sender<TurnEndResult>;

/// Cancellation tokens of the requested turns that have not ended. The token of the running turn
/// comes first.
#[derive(Debug, Default)]
pub(crate) struct TurnCancellationTokens(watch::Sender<VecDeque<CancellationToken>>);

impl TurnCancellationTokens {
    /// Adds a turn and requests it from the session's task by calling `send`. The lock is held
    /// during `send`, so that two concurrent requests cannot both find the session idle.
    pub(crate) fn add_turn(
        &self,
        may_wait: bool,
        cancel: CancellationToken,
        send: impl FnOnce() -> Result<(), ApiError>,
    ) -> Result<(), ApiError> {
        let mut added = Ok(());
        self.0.send_if_modified(|turns| {
            added = match may_wait || turns.is_empty() {
                true => send().map(|()| turns.push_back(cancel)),
                false => Err(ApiError::conflict(
                    "busy",
                    "a turn of the session runs: steer it, interrupt it, or pass `queue` to wait for its end",
                )),
            };
            added.is_ok()
        });
        added
    }

    fn end_turn(&self) {
        self.0.send_modify(|turns| {
            turns.pop_front();
        });
    }

    /// Whether a turn of the session runs or is about to run.
    pub(crate) fn has_running_turn(&self) -> bool {
        !self.0.borrow().is_empty()
    }

    /// Waits until a turn runs or is about to run (`is_running`), or until no turn does
    /// (`!is_running`).
    pub(crate) async fn wait_until_is_running_equals(&self, is_running: bool) {
        let mut turns = self.0.subscribe();
        // An error would mean that the sender was dropped, which is impossible while `self` borrows
        // it.
        let _ = turns.wait_for(|turns| turns.is_empty() != is_running).await;
    }

    /// Makes the running turn stop at once, and store that it ended. Returns whether a turn was
    /// running.
    pub(crate) fn interrupt_turn(&self) -> bool {
        let turns = self.0.borrow();
        turns.front().inspect(|cancel| cancel.cancel()).is_some()
    }
}

/// Parts of an open session that are shared by the session's task and the handlers of API requests.
#[derive(Clone)]
pub(crate) struct SessionTaskSharedState {
    pub(crate) turns: Arc<TurnCancellationTokens>,
    pub(crate) events: Arc<SessionEventLog>,
    pub(crate) steering: AgentSteeringHandle,
    /// Outputs so far of the tool calls that are running.
    pub(crate) outputs: RunningToolCallOutputs,
    /// Cancelled when the session closes. The running turn is then interrupted, and no other turn
    /// begins.
    pub(crate) ending: CancellationToken,
    /// Cancelled when the running turn is to be dropped, so that another program can continue it.
    pub(crate) release: CancellationToken,
    /// Gate that must permit each turn before the turn begins.
    pub(crate) gate: Option<Arc<dyn TurnAdmissionController>>,
}

/// Does the work that is requested from a session, until the session is closed or has had no turn
/// for [`SESSION_IDLE_TIMEOUT`].
pub(crate) async fn run_session_task(
    mut session: Session,
    mut orders: mpsc::Receiver<SessionWorkRequest>,
    shared: SessionTaskSharedState,
) {
    loop {
        let order = tokio::select! {
            biased;
            () = shared.ending.cancelled() => break,
            order = tokio::time::timeout(SESSION_IDLE_TIMEOUT, orders.recv()) => order,
        };
        match order {
            Ok(Some(order)) => tokio::select! {
                biased;
                // Drop the turn instead of interrupting it: the next program that opens the session
                // continues the turn and writes its end.
                () = shared.release.cancelled() => break,
                () = run_requested_turns(&mut session, order, &shared) => {}
            },
            Ok(None) => break,
            // The session is idle. Accept no further requests for work, but carry out those that
            // were already sent.
            Err(_) => orders.close(),
        }
    }
    let id = session.id().clone();
    if let Err(error) = session.close().await {
        tracing::warn!(
            session = &*id,
            error = format_error_chain(&error),
            "a session did not close cleanly"
        );
    }
    shared.events.close_log();
}

/// Runs the requested turn, and then further turns for steering texts that arrived too late for the
/// turn before.
async fn run_requested_turns(
    session: &mut Session,
    order: SessionWorkRequest,
    shared: &SessionTaskSharedState,
) {
    let SessionWorkRequest {
        work,
        cancel,
        reply,
    } = order;
    // A turn that has already ended only returns its stored outcome, so it runs without asking the
    // turn gate.
    let is_known = matches!(&work, AnyTurnRequest::Turn(order) if has_turn_ended(session, order));
    let turn = async {
        match work {
            AnyTurnRequest::Turn(order) => run_turn(session, *order, &cancel).await,
            AnyTurnRequest::Continue => continue_turn(session, &cancel).await,
            AnyTurnRequest::Loop(turn) => run_loop_turn(session, *turn, &cancel).await,
        }
    };
    let outcome = match is_known {
        true => turn.await,
        false => run_turn_if_admitted(shared, turn).await,
    };
    // An error of `send` means that the caller no longer waits for the outcome.
    let _ = reply.send(outcome);
    while let Some(text) = take_late_steering_text(shared, &cancel) {
        let order = SessionTurnRequest {
            text,
            ..SessionTurnRequest::default()
        };
        let turn = run_turn(session, order, &cancel);
        if let Err(error) = run_turn_if_admitted(shared, turn).await {
            tracing::warn!(error = error.text, "a turn started by late texts failed");
        }
    }
    shared.turns.end_turn();
}

/// Whether the session has already run the turn of the input in `order` to its end.
fn has_turn_ended(session: &Session, order: &SessionTurnRequest) -> bool {
    let id = order.input_id.as_deref();
    let taken = id.and_then(|id| session.stored().find_turn_for_input_id(id));
    taken.is_some_and(|taken| taken.ended.is_some())
}

/// Runs a turn if the gate allows it, and then reports the turn's tokens and cost to the gate.
async fn run_turn_if_admitted(
    shared: &SessionTaskSharedState,
    turn: impl Future<Output = TurnEndResult>,
) -> TurnEndResult {
    let Some(gate) = &shared.gate else {
        return turn.await;
    };
    if let Err(refusal) = gate.admit_and_count_turn().await {
        let event = serde_json::json!({"type": "turn-refused", "reason": refusal.text});
        shared.events.push_event("turn-refused", event.to_string());
        return Err(refusal.into());
    }
    let outcome = turn.await;
    if let Ok(outcome) = &outcome {
        gate.record_finished_turn(&outcome.summary).await;
    }
    outcome
}

/// Takes the texts that arrived too late for the ended turn, joined into one input. After an
/// interruption, the texts are dropped, with an event for each, because the user who interrupted
/// the turn decides what happens next.
fn take_late_steering_text(
    shared: &SessionTaskSharedState,
    cancel: &CancellationToken,
) -> Option<String> {
    let waiting = shared.steering.waiting_texts().into_iter();
    let taken: Vec<(u64, String)> = waiting
        .filter_map(|waiting| {
            let input = shared.steering.withdraw_queued_text(waiting.number)?;
            Some((waiting.number, input.text))
        })
        .collect();
    if cancel.is_cancelled() {
        for (number, _) in taken {
            let event = serde_json::json!({"type": "steering-dropped", "number": number});
            shared
                .events
                .push_event("steering-dropped", event.to_string());
        }
        return None;
    }
    let texts: Vec<String> = taken.into_iter().map(|(_, text)| text).collect();
    (!texts.is_empty()).then(|| texts.join("\n\n"))
}

async fn run_turn(
    session: &mut Session,
    order: SessionTurnRequest,
    cancel: &CancellationToken,
) -> TurnEndResult {
    let mut turn = session
        .turn(order.text)
        .source(Source::Http)
        .attach(order.images)
        .until(cancel);
    if let Some(id) = order.input_id {
        turn = turn.input_id(id);
    }
    if let Some(schema) = order.answer_schema {
        turn = turn.answer_schema(schema);
    }
    if let Some(usd) = order.max_cost_usd {
        turn = turn.max_cost_usd(usd);
    }
    let outcome = turn
        .await
        .map_err(|error| TurnWithoutOutcomeError::new(&error))?;
    if order.is_stored_first {
        let stored = session.stored().sync_on_blocking_thread().await;
        stored.map_err(|error| TurnWithoutOutcomeError::new(&error))?;
    }
    Ok(outcome)
}

/// Runs the turn of a loop. The loop and clients of the API can interrupt the turn.
async fn run_loop_turn(
    session: &mut Session,
    turn: PluginLoopTurnRequest,
    cancel: &CancellationToken,
) -> TurnEndResult {
    let by_loop = turn.cancellation_token().clone();
    let pass_on = async {
        by_loop.cancelled().await;
        cancel.cancel();
        std::future::pending::<Infallible>().await
    };
    tokio::select! {
        outcome = turn.run_in_session(session, cancel) => outcome.map_err(TurnWithoutOutcomeError::from),
        never = pass_on => match never {},
    }
}

async fn continue_turn(session: &mut Session, cancel: &CancellationToken) -> TurnEndResult {
    match session.continue_turn() {
        Some(turn) => turn
            .until(cancel)
            .await
            .map_err(|error| TurnWithoutOutcomeError::new(&error)),
        None => Err("no turn of the session was interrupted".to_owned().into()),
    }
}
