//! The task that owns an open session: it runs one turn at a time, in the order in which inputs
//! came, and closes the session when nothing was asked of it for a while.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rind_lib::Session;
use rind_lib::agent::{AnswerSchema, TurnOutcome};
use rind_lib::lock::lock;
use rind_lib::message::Attachment;
use rind_lib::point::payload::Source;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::error::error_chain;
use crate::event_log::EventLog;

/// Time after which a session that does nothing is closed. It is opened again when it is needed.
const IDLE: Duration = Duration::from_secs(600);

/// Number of inputs that wait for the running turn.
pub(crate) const MAX_WAITING: usize = 16;

/// An input for a session.
pub(crate) struct TurnOrder {
    pub(crate) text: String,
    pub(crate) images: Vec<Attachment>,
    pub(crate) input_id: Option<String>,
    pub(crate) answer_schema: Option<AnswerSchema>,
    pub(crate) max_cost_usd: Option<f64>,
}

/// Work that a session is asked to do.
pub(crate) enum SessionOrder {
    /// Run a turn.
    Turn(Box<TurnOrder>, TurnReply),
    /// Go on with the interrupted turn.
    Continue(TurnReply),
    /// End the session.
    Close,
}

/// Receives the outcome of a turn, or the reason why there is none. Nobody needs to wait for it.
pub(crate) type TurnReply = oneshot::Sender<Result<TurnOutcome, String>>;

/// State of a session that requests may look at while a turn runs.
#[derive(Debug, Default)]
pub(crate) struct RunningTurn {
    cancel: Mutex<Option<CancellationToken>>,
}

impl RunningTurn {
    fn begin_turn(&self) -> CancellationToken {
        let cancel = CancellationToken::new();
        *lock(&self.cancel) = Some(cancel.clone());
        cancel
    }

    fn end_turn(&self) {
        *lock(&self.cancel) = None;
    }

    /// Whether a turn runs.
    pub(crate) fn is_running(&self) -> bool {
        lock(&self.cancel).is_some()
    }

    /// Ends the running turn in good order. Returns whether one runs.
    pub(crate) fn interrupt_turn(&self) -> bool {
        let cancel = lock(&self.cancel);
        cancel.as_ref().inspect(|cancel| cancel.cancel()).is_some()
    }
}

/// Runs what a session is asked to do until it is closed.
pub(crate) async fn run_session(
    mut session: Session,
    mut orders: mpsc::Receiver<SessionOrder>,
    running: Arc<RunningTurn>,
    events: Arc<EventLog>,
) {
    loop {
        let order = match tokio::time::timeout(IDLE, orders.recv()).await {
            Ok(Some(order)) => order,
            Ok(None) => break,
            Err(_) => {
                // From here on nothing can be ordered; what was ordered before is still done.
                orders.close();
                continue;
            }
        };
        match order {
            SessionOrder::Turn(order, reply) => {
                let outcome = run_turn(&mut session, *order, &running).await;
                let _ = reply.send(outcome);
            }
            SessionOrder::Continue(reply) => {
                let outcome = continue_turn(&mut session, &running).await;
                let _ = reply.send(outcome);
            }
            SessionOrder::Close => break,
        }
    }
    let id = session.id().clone();
    if let Err(error) = session.close().await {
        tracing::warn!(
            session = &*id,
            error = error_chain(&error),
            "a session did not close in good order"
        );
    }
    events.close_log();
}

async fn run_turn(
    session: &mut Session,
    order: TurnOrder,
    running: &RunningTurn,
) -> Result<TurnOutcome, String> {
    let cancel = running.begin_turn();
    let mut turn = session
        .turn(order.text)
        .source(Source::Http)
        .attach(order.images)
        .until(&cancel);
    if let Some(id) = order.input_id {
        turn = turn.input_id(id);
    }
    if let Some(schema) = order.answer_schema {
        turn = turn.answer_schema(schema);
    }
    if let Some(usd) = order.max_cost_usd {
        turn = turn.max_cost_usd(usd);
    }
    let outcome = turn.await;
    running.end_turn();
    outcome.map_err(|error| error_chain(&error))
}

async fn continue_turn(
    session: &mut Session,
    running: &RunningTurn,
) -> Result<TurnOutcome, String> {
    let cancel = running.begin_turn();
    let outcome = match session.continue_turn() {
        Some(turn) => turn
            .until(&cancel)
            .await
            .map_err(|error| error_chain(&error)),
        None => Err("no turn of the session was interrupted".to_owned()),
    };
    running.end_turn();
    outcome
}
