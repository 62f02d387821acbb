//! Runs the task that owns an open session: it runs one turn at a time, in the order of the inputs,
//! and closes the session when it has been idle.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use rind_lib::Session;
use rind_lib::agent::{AnswerSchema, SteerHandle, TurnOutcome};
use rind_lib::host::LoopTurn;
use rind_lib::message::Attachment;
use rind_lib::point::payload::Source;
use rind_lib::session;
use rind_lib::text::error_chain;
use rind_lib::tool::live::LiveOutputs;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use crate::error::ApiError;
use crate::event_log::EventLog;
use crate::gate::{GateRefusal, TurnGate};

/// Time after which an idle session is closed. A later request opens it again.
const IDLE: Duration = Duration::from_secs(600);

/// Maximum number of inputs that wait for the running turn.
pub(crate) const MAX_WAITING: usize = 16;

/// An input for a session.
#[derive(Default)]
pub(crate) struct TurnOrder {
    pub(crate) text: String,
    pub(crate) images: Vec<Attachment>,
    pub(crate) input_id: Option<String>,
    pub(crate) answer_schema: Option<AnswerSchema>,
    pub(crate) max_cost_usd: Option<f64>,
    /// Whether the outcome is sent only after the store has written it.
    pub(crate) is_stored_first: bool,
}

/// Work that a client or a loop orders from a session.
pub(crate) enum SessionWork {
    /// Run a turn.
    Turn(Box<TurnOrder>),
    /// Continue the interrupted turn.
    Continue,
    /// Run a turn that a loop ordered.
    Loop(Box<LoopTurn>),
}

/// Order of work, with the channel for its outcome.
pub(crate) struct SessionOrder {
    pub(crate) work: SessionWork,
    /// Interrupts the turn cleanly.
    pub(crate) cancel: CancellationToken,
    pub(crate) reply: TurnReply,
}

/// Outcome of a turn, or the reason why there is none.
pub(crate) type TurnEnd = Result<TurnOutcome, TurnError>;

/// Error of a turn without outcome.
#[derive(Debug)]
pub(crate) struct TurnError {
    /// Description with the chain of causes.
    pub(crate) text: String,
    /// Whether another program has continued the session.
    pub(crate) is_fenced: bool,
    /// Refusal by the gate before the turn began, if the gate refused it.
    pub(crate) refusal: Option<GateRefusal>,
}

impl TurnError {
    fn new(error: &(dyn std::error::Error + 'static)) -> Self {
        let of_session = rind_lib::host::Error::session_cause(error);
        Self {
            text: error_chain(error),
            is_fenced: matches!(of_session, Some(session::Error::Fenced { .. })),
            refusal: None,
        }
    }
}

impl From<String> for TurnError {
    fn from(text: String) -> Self {
        Self {
            text,
            is_fenced: false,
            refusal: None,
        }
    }
}

impl From<GateRefusal> for TurnError {
    fn from(refusal: GateRefusal) -> Self {
        Self {
            text: refusal.text.clone(),
            is_fenced: false,
            refusal: Some(refusal),
        }
    }
}

/// Sender for the outcome of a turn. The receiver may have been dropped.
pub(crate) type TurnReply = oneshot::Sender<TurnEnd>;

/// Cancellation tokens of the ordered turns that have not ended, the running one first.
#[derive(Debug, Default)]
pub(crate) struct OrderedTurns(watch::Sender<VecDeque<CancellationToken>>);

impl OrderedTurns {
    /// Adds a turn and orders it with `send`. The lock is held during `send`, so that two
    /// concurrent requests cannot both find the session idle.
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

    /// Whether a turn runs or is about to.
    pub(crate) fn is_running(&self) -> bool {
        !self.0.borrow().is_empty()
    }

    /// Waits until a turn runs or is about to, for `true`, or until none does, for `false`.
    pub(crate) async fn wait_for(&self, is_running: bool) {
        let mut turns = self.0.subscribe();
        // An error would mean that the sender was dropped, but `self` still borrows it.
        let _ = turns.wait_for(|turns| turns.is_empty() != is_running).await;
    }

    /// Ends the running turn cleanly. Returns whether a turn was running.
    pub(crate) fn interrupt_turn(&self) -> bool {
        let turns = self.0.borrow();
        turns.front().inspect(|cancel| cancel.cancel()).is_some()
    }
}

/// Parts of an open session that its task shares with requests.
#[derive(Clone)]
pub(crate) struct SharedSession {
    pub(crate) turns: Arc<OrderedTurns>,
    pub(crate) events: Arc<EventLog>,
    pub(crate) steering: SteerHandle,
    /// Outputs of the running calls.
    pub(crate) outputs: LiveOutputs,
    /// Cancelled when the session closes: the running turn is interrupted and no further one
    /// begins.
    pub(crate) ending: CancellationToken,
    /// Cancelled when the running turn is dropped, so that another program can continue it.
    pub(crate) release: CancellationToken,
    /// Gate that every turn passes before it begins.
    pub(crate) gate: Option<Arc<dyn TurnGate>>,
}

/// Runs the orders for a session until the session is closed or has been idle for [`IDLE`].
pub(crate) async fn run_session(
    mut session: Session,
    mut orders: mpsc::Receiver<SessionOrder>,
    shared: SharedSession,
) {
    loop {
        let order = tokio::select! {
            biased;
            () = shared.ending.cancelled() => break,
            order = tokio::time::timeout(IDLE, orders.recv()) => order,
        };
        match order {
            Ok(Some(order)) => tokio::select! {
                biased;
                // The turn is dropped and not interrupted, because the next holder continues it and
                // writes its end.
                () = shared.release.cancelled() => break,
                () = run_order(&mut session, order, &shared) => {}
            },
            Ok(None) => break,
            // The session is idle: accept no further orders, but carry out those that were already
            // sent.
            Err(_) => orders.close(),
        }
    }
    let id = session.id().clone();
    if let Err(error) = session.close().await {
        tracing::warn!(
            session = &*id,
            error = error_chain(&error),
            "a session did not close cleanly"
        );
    }
    shared.events.close_log();
}

/// Runs a turn, and then further turns for texts that arrived too late for that turn.
async fn run_order(session: &mut Session, order: SessionOrder, shared: &SharedSession) {
    let SessionOrder {
        work,
        cancel,
        reply,
    } = order;
    // A turn that has already ended only returns its outcome again, so it needs no gate.
    let is_known = matches!(&work, SessionWork::Turn(order) if has_ended(session, order));
    let turn = async {
        match work {
            SessionWork::Turn(order) => run_turn(session, *order, &cancel).await,
            SessionWork::Continue => continue_turn(session, &cancel).await,
            SessionWork::Loop(turn) => run_loop_turn(session, *turn, &cancel).await,
        }
    };
    let outcome = match is_known {
        true => turn.await,
        false => pass_gate(shared, turn).await,
    };
    // The caller may have stopped listening.
    let _ = reply.send(outcome);
    while let Some(text) = late_text(shared, &cancel) {
        let order = TurnOrder {
            text,
            ..TurnOrder::default()
        };
        let turn = run_turn(session, order, &cancel);
        if let Err(error) = pass_gate(shared, turn).await {
            tracing::warn!(error = error.text, "a turn started by late texts failed");
        }
    }
    shared.turns.end_turn();
}

/// Whether the session has already run the turn of this input to its end.
fn has_ended(session: &Session, order: &TurnOrder) -> bool {
    let id = order.input_id.as_deref();
    let taken = id.and_then(|id| session.stored().taken_input(id));
    taken.is_some_and(|taken| taken.ended.is_some())
}

/// Runs a turn if the gate allows it, and then reports to the gate what the turn used.
async fn pass_gate(shared: &SharedSession, turn: impl Future<Output = TurnEnd>) -> TurnEnd {
    let Some(gate) = &shared.gate else {
        return turn.await;
    };
    if let Err(refusal) = gate.begin().await {
        let event = serde_json::json!({"type": "turn-refused", "reason": refusal.text});
        shared.events.push_event("turn-refused", event.to_string());
        return Err(refusal.into());
    }
    let outcome = turn.await;
    if let Ok(outcome) = &outcome {
        gate.end(&outcome.summary).await;
    }
    outcome
}

/// Takes the texts that the ended turn did not read, joined into one input. After an interruption
/// the texts are dropped, with an event for each, because the person who interrupted decides what
/// comes next.
fn late_text(shared: &SharedSession, cancel: &CancellationToken) -> Option<String> {
    let waiting = shared.steering.waiting().into_iter();
    let taken: Vec<(u64, String)> = waiting
        .filter_map(|waiting| {
            let input = shared.steering.take_back(waiting.number)?;
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

async fn run_turn(session: &mut Session, order: TurnOrder, cancel: &CancellationToken) -> TurnEnd {
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
    let outcome = turn.await.map_err(|error| TurnError::new(&error))?;
    if order.is_stored_first {
        let stored = session.stored().synced().await;
        stored.map_err(|error| TurnError::new(&error))?;
    }
    Ok(outcome)
}

/// Runs the turn of a loop. Both the loop and clients of the API can interrupt the turn.
async fn run_loop_turn(
    session: &mut Session,
    turn: LoopTurn,
    cancel: &CancellationToken,
) -> TurnEnd {
    let by_loop = turn.cancel().clone();
    let pass_on = async {
        by_loop.cancelled().await;
        cancel.cancel();
        std::future::pending::<Infallible>().await
    };
    tokio::select! {
        outcome = turn.run_in(session, cancel) => outcome.map_err(TurnError::from),
        never = pass_on => match never {},
    }
}

async fn continue_turn(session: &mut Session, cancel: &CancellationToken) -> TurnEnd {
    match session.continue_turn() {
        Some(turn) => turn
            .until(cancel)
            .await
            .map_err(|error| TurnError::new(&error)),
        None => Err("no turn of the session was interrupted".to_owned().into()),
    }
}
