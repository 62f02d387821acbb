//! The sessions that are open in this process.
//!
//! A session is opened with its first input, has a task of its own, and is closed when it was idle
//! for ten minutes; then it costs nothing and another process may open it. Reading a session never
//! opens it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};

use rind_lib::agent::{SteerHandle, TurnOutcome};
use rind_lib::event::Stamped;
use rind_lib::host::SessionBuilder;
use rind_lib::lock::lock;
use rind_lib::point::payload::Source;
use rind_lib::tool::policy::Policy;
use rind_lib::{Host, Session};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::error::ApiError;
use crate::event_log::EventLog;
use crate::questions::{ApiApprover, QuestionBoard};
use crate::session_task::{MAX_WAITING, RunningTurn, SessionOrder, TurnOrder, run_session};

/// Maximum number of sessions that are open at once.
const MAX_OPEN: usize = 1000;

/// The open sessions of a host, and the questions of their turns.
pub struct LiveSessions {
    host: Host,
    policy: Arc<dyn Policy>,
    board: Arc<QuestionBoard>,
    open: tokio::sync::Mutex<BTreeMap<String, Arc<LiveSession>>>,
}

/// An open session.
pub(crate) struct LiveSession {
    orders: mpsc::Sender<SessionOrder>,
    pub(crate) running: Arc<RunningTurn>,
    pub(crate) events: Arc<EventLog>,
    steering: SteerHandle,
    task: Mutex<Option<JoinHandle<()>>>,
}

/// A turn that was ordered.
pub(crate) struct OrderedTurn {
    /// Open session that runs it.
    pub(crate) live: Arc<LiveSession>,
    /// Number of the last event before it.
    pub(crate) after: u64,
    /// Outcome, once it is there.
    pub(crate) outcome: oneshot::Receiver<Result<TurnOutcome, String>>,
}

impl LiveSessions {
    /// Makes the sessions of a host; none is open.
    #[must_use]
    pub fn new(host: Host, policy: Arc<dyn Policy>) -> Self {
        Self {
            host,
            policy,
            board: Arc::default(),
            open: tokio::sync::Mutex::default(),
        }
    }

    pub(crate) fn host(&self) -> &Host {
        &self.host
    }

    pub(crate) fn board(&self) -> &Arc<QuestionBoard> {
        &self.board
    }

    /// Makes a new session and opens it. Returns its id.
    pub(crate) async fn create_session(&self, id: Option<String>) -> Result<String, ApiError> {
        let mut open = self.open.lock().await;
        let opened = self
            .open_session(&mut open, move |builder| match id {
                Some(id) => builder.create_named(&id),
                None => builder.create(),
            })
            .await?;
        Ok(opened.0)
    }

    /// Returns a session that is open already.
    pub(crate) async fn opened(&self, id: &str) -> Option<Arc<LiveSession>> {
        let open = self.open.lock().await;
        open.get(id).filter(|live| !live.is_over()).cloned()
    }

    /// Returns the ids of the sessions that are open, each with whether a turn runs.
    pub(crate) async fn open_ids(&self) -> BTreeMap<String, bool> {
        let open = self.open.lock().await;
        let live = open.iter().filter(|(_, live)| !live.is_over());
        live.map(|(id, live)| (id.clone(), live.running.is_running()))
            .collect()
    }

    /// Orders a turn, of a session that is opened for it if it is not open.
    pub(crate) async fn order_turn(
        &self,
        id: &str,
        order: TurnOrder,
        may_wait: bool,
    ) -> Result<OrderedTurn, ApiError> {
        let live = self.get_or_open(id).await?;
        if live.running.is_running() && !may_wait {
            return Err(ApiError::conflict(
                "busy",
                "a turn of the session runs: steer it, interrupt it, or pass `queue` to wait for its end",
            ));
        }
        live.order(|reply| SessionOrder::Turn(Box::new(order), reply))
    }

    /// Orders that the interrupted turn of a session goes on.
    pub(crate) async fn order_continue(&self, id: &str) -> Result<OrderedTurn, ApiError> {
        let live = self.get_or_open(id).await?;
        live.order(SessionOrder::Continue)
    }

    /// Closes a session. Returns whether it was open.
    pub(crate) async fn close_session(&self, id: &str) -> bool {
        let live = self.open.lock().await.remove(id);
        let Some(live) = live else {
            return false;
        };
        live.end_session().await;
        true
    }

    /// Interrupts all turns and closes all sessions.
    pub async fn close_all(&self) {
        let open = std::mem::take(&mut *self.open.lock().await);
        let ending = open.values().map(|live| live.end_session());
        futures_util::future::join_all(ending).await;
    }

    async fn get_or_open(&self, id: &str) -> Result<Arc<LiveSession>, ApiError> {
        let mut open = self.open.lock().await;
        if let Some(live) = open.get(id).cloned() {
            if !live.is_over() {
                return Ok(live);
            }
            // Its task closes the session and lets go of its lock.
            live.end_session().await;
            open.remove(id);
        }
        let wanted = id.to_owned();
        let opened = self
            .open_session(&mut open, move |builder| builder.resume(&wanted))
            .await?;
        Ok(opened.1)
    }

    async fn open_session(
        &self,
        open: &mut BTreeMap<String, Arc<LiveSession>>,
        how: impl FnOnce(SessionBuilder) -> Result<Session, rind_lib::host::Error> + Send + 'static,
    ) -> Result<(String, Arc<LiveSession>), ApiError> {
        open.retain(|_, live| !live.is_gone());
        if open.len() >= MAX_OPEN {
            return Err(ApiError::too_many(format!(
                "{MAX_OPEN} sessions are open; close one that is not needed"
            )));
        }
        let events = Arc::new(EventLog::new(rind_lib::clock::now_ms()));
        let session_id = Arc::new(OnceLock::new());
        let approver = ApiApprover::new(self.board.clone(), events.clone(), session_id.clone());
        let log = events.clone();
        let builder = self
            .host
            .session()
            .policy(self.policy.clone())
            .approver(Arc::new(approver))
            .observe(move |stamped| log_event(&log, stamped));
        // Files are read and plugins made ready: other requests must not wait for it.
        let session = tokio::task::spawn_blocking(move || how(builder)).await;
        let session = session.map_err(|error| ApiError::internal(&error))??;
        let id = session.id().clone();
        let _ = session_id.set(id.clone());
        let (orders, receiver) = mpsc::channel(MAX_WAITING);
        let running = Arc::<RunningTurn>::default();
        let steering = session.steering();
        let task = run_session(session, receiver, running.clone(), events.clone());
        let live = Arc::new(LiveSession {
            orders,
            running,
            events,
            steering,
            task: Mutex::new(Some(tokio::spawn(task))),
        });
        open.insert(id.to_string(), live.clone());
        Ok((id.to_string(), live))
    }
}

impl LiveSession {
    fn order(
        self: Arc<Self>,
        order: impl FnOnce(crate::session_task::TurnReply) -> SessionOrder,
    ) -> Result<OrderedTurn, ApiError> {
        let (reply, outcome) = oneshot::channel();
        let after = self.events.last_number();
        self.orders
            .try_send(order(reply))
            .map_err(|error| match error {
                mpsc::error::TrySendError::Full(_) => {
                    ApiError::too_many(format!("{MAX_WAITING} inputs wait already"))
                }
                mpsc::error::TrySendError::Closed(_) => {
                    ApiError::conflict("closing", "the session is closing; send the input again")
                }
            })?;
        Ok(OrderedTurn {
            live: self,
            after,
            outcome,
        })
    }

    /// Says something to the running turn. Returns the number of the text, or `None` when no turn
    /// runs.
    pub(crate) fn steer_turn(&self, text: String, is_follow_up: bool) -> Option<u64> {
        self.running.is_running().then(|| {
            if is_follow_up {
                self.steering.follow_up(text, Source::Http)
            } else {
                self.steering.steer(text, Source::Http)
            }
        })
    }

    /// Whether nothing can be ordered any more.
    fn is_over(&self) -> bool {
        self.orders.is_closed()
    }

    /// Whether its task has ended.
    fn is_gone(&self) -> bool {
        lock(&self.task)
            .as_ref()
            .is_none_or(JoinHandle::is_finished)
    }

    /// Interrupts the running turn, closes the session and waits for it.
    async fn end_session(&self) {
        self.running.interrupt_turn();
        let _ = self.orders.send(SessionOrder::Close).await;
        let task = lock(&self.task).take();
        if let Some(task) = task
            && let Err(error) = task.await
        {
            tracing::warn!(%error, "the task of a session failed");
        }
    }
}

fn log_event(log: &EventLog, stamped: &Stamped) {
    match serde_json::to_string(stamped) {
        Ok(json) => log.push_event(stamped.event.name(), json),
        Err(error) => tracing::warn!(%error, "an event cannot be written as JSON"),
    }
}

impl From<rind_lib::host::Error> for ApiError {
    fn from(error: rind_lib::host::Error) -> Self {
        match error {
            rind_lib::host::Error::Session(error) => error.into(),
            other => Self::internal(&other),
        }
    }
}
