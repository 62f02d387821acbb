//! Manages the sessions that are open in this process.
//!
//! A session is opened when it is created or when a turn is requested, and then has a task of its
//! own. After ten minutes without a turn it is closed, which frees its memory and lets another
//! process open it. Reading a session never opens it.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rind_lib::Session;
use rind_lib::event::Stamped;
use rind_lib::host::{PluginLoopTurnRequest, SessionBuilder};
use rind_lib::lock::lock_ignoring_poison;
use rind_lib::point::payload::Source;
use rind_lib::session::{InterruptedTurn, SessionStore};
use rind_lib::tool::live::RunningOutput;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::approver::ApiApprover;
use crate::error::ApiError;
use crate::event_log::SessionEventLog;
use crate::gate::TurnAdmissionController;
use crate::questions::PendingQuestions;
use crate::session_task::{
    AnyTurnRequest, MAX_QUEUED_INPUTS, SessionTaskSharedState, SessionTurnRequest,
    SessionWorkRequest, TurnEndResult, run_session_task,
};
use crate::workspaces::{WorkspaceHost, WorkspaceHosts};

/// Maximum number of sessions that are open at once.
const MAX_OPEN_SESSIONS: usize = 1000;

/// Open sessions by their ids. A session is removed when its task ends.
type OpenSessionMap = tokio::sync::Mutex<BTreeMap<String, Arc<OpenSession>>>;

/// Function that creates or continues a session from its builder.
type SessionOpenerFn =
    Arc<dyn Fn(SessionBuilder) -> Result<Session, rind_lib::host::Error> + Send + Sync>;

/// The open sessions of all folders, and the questions of their turns.
pub struct OpenSessions {
    workspaces: WorkspaceHosts,
    board: Arc<PendingQuestions>,
    open: Arc<OpenSessionMap>,
    /// Locks by session id, so that two requests do not open the same session concurrently. Opening
    /// reads the complete session, and must not block requests about other sessions.
    opening: std::sync::Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<()>>>>,
    /// Read-locked while a session is opened; write-locked by
    /// [`close_all_sessions`](Self::close_all_sessions), so that no session is opened afterwards.
    openings: tokio::sync::RwLock<()>,
    /// Semaphore that limits the number of open sessions to [`MAX_OPEN_SESSIONS`]. A permit is
    /// acquired before a session is opened, so that concurrent requests cannot exceed the limit.
    room: Arc<Semaphore>,
    /// Cancelled when the server stops. A session that is still being opened is then closed
    /// immediately.
    ending: CancellationToken,
    /// Maximum time for which a question waits for its answer; `None` for no limit.
    answer_time: Option<Duration>,
    /// Whether only [`Self::get_or_create_session`] may open sessions; requests then cannot
    /// open any.
    opens_held_only: bool,
    /// Gate that must permit each turn before the turn begins.
    gate: OnceLock<Arc<dyn TurnAdmissionController>>,
}

/// Session that is open in this process, with the task that runs its turns.
pub(crate) struct OpenSession {
    orders: mpsc::Sender<SessionWorkRequest>,
    shared: SessionTaskSharedState,
    /// Turn that was already interrupted when the session was opened.
    interrupted: Option<InterruptedTurn>,
    task: tokio::sync::Mutex<Option<JoinHandle<()>>>,
}

/// Activity of an open session, as its list entry shows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenSessionState {
    /// Milliseconds since the last event of the running turn; `None` when none runs.
    pub(crate) quiet_ms: Option<u64>,
    /// Whether a question of the session waits for an answer.
    pub(crate) is_waiting: bool,
}

/// A turn that was requested but may not have run yet.
pub(crate) struct RequestedTurn {
    /// Open session that runs the turn.
    pub(crate) live: Arc<OpenSession>,
    /// Number of the last event before the turn was requested.
    pub(crate) after: u64,
    /// Receiver for the outcome of the turn, which is sent when the turn ends.
    pub(crate) outcome: oneshot::Receiver<TurnEndResult>,
}

impl OpenSessions {
    /// Creates an empty set of open sessions for these folders.
    pub(crate) fn new(workspaces: WorkspaceHosts) -> Self {
        Self {
            workspaces,
            board: Arc::default(),
            open: Arc::default(),
            opening: std::sync::Mutex::default(),
            openings: tokio::sync::RwLock::default(),
            room: Arc::new(Semaphore::new(MAX_OPEN_SESSIONS)),
            ending: CancellationToken::new(),
            answer_time: None,
            opens_held_only: false,
            gate: OnceLock::new(),
        }
    }

    /// Checks whether the gate would permit a turn to begin now.
    pub(crate) async fn check_turn_admission(&self) -> Result<(), ApiError> {
        match self.gate.get() {
            Some(gate) => Ok(gate.check().await?),
            None => Ok(()),
        }
    }

    /// Sets the gate for the turns of sessions that are opened from now on. Only the first call has
    /// an effect.
    pub(crate) fn set_turn_admission_controller(&self, gate: Arc<dyn TurnAdmissionController>) {
        let _ = self.gate.set(gate);
    }

    /// Permits only [`Self::get_or_create_session`] to open sessions. Otherwise, a request
    /// that arrives after a session was closed would open it again, and the program would not know
    /// that it is open.
    pub(crate) fn with_explicit_opening_only(mut self) -> Self {
        self.opens_held_only = true;
        self
    }

    /// Sets the maximum time that a question waits for an answer; after this time it is answered
    /// with no.
    pub(crate) fn with_question_timeout(mut self, time: Option<Duration>) -> Self {
        self.answer_time = time;
        self
    }

    /// Returns the session store, which the hosts of all folders share.
    pub(crate) fn session_store(&self) -> &SessionStore {
        self.workspaces.default_workspace_host().host.store()
    }

    pub(crate) fn workspaces(&self) -> &WorkspaceHosts {
        &self.workspaces
    }

    pub(crate) fn pending_questions(&self) -> &Arc<PendingQuestions> {
        &self.board
    }

    /// Creates a session in `folder`, or in the folder in which the server was started, and opens
    /// it. Returns the session's id.
    pub(crate) async fn create_session(
        &self,
        id: Option<String>,
        folder: Option<String>,
    ) -> Result<String, ApiError> {
        let workspace = self.workspaces.get_workspace_host(folder).await?;
        let opened = self
            .open_session(&workspace, move |builder| match id {
                Some(id) => builder.create_named(&id),
                None => builder.create(),
            })
            .await?;
        Ok(opened.0)
    }

    /// Returns the session with this id if it is open in this process.
    pub(crate) async fn find_open_session(&self, id: &str) -> Option<Arc<OpenSession>> {
        let open = self.open.lock().await;
        open.get(id)
            .filter(|live| !live.has_stopped_accepting_turns())
            .cloned()
    }

    /// Returns the states of the open sessions, by session id.
    pub(crate) async fn list_open_sessions(&self) -> BTreeMap<String, OpenSessionState> {
        let waiting = self.board.sessions_with_open_questions();
        let open = self.open.lock().await;
        let live = open
            .iter()
            .filter(|(_, live)| !live.has_stopped_accepting_turns());
        live.map(|(id, live)| {
            let state = OpenSessionState {
                quiet_ms: live
                    .has_running_turn()
                    .then(|| live.shared.events.ms_since_last_event()),
                is_waiting: waiting.contains(id),
            };
            (id.clone(), state)
        })
        .collect()
    }

    /// Requests a turn. Opens the session if it is not open.
    pub(crate) async fn request_turn(
        &self,
        id: &str,
        order: SessionTurnRequest,
        may_wait: bool,
    ) -> Result<RequestedTurn, ApiError> {
        let live = self.get_or_resume_session(id).await?;
        live.enqueue_session_work(AnyTurnRequest::Turn(Box::new(order)), may_wait)
    }

    /// Requests a turn of a loop. Opens or creates the session if it is not open.
    pub(crate) async fn request_plugin_loop_turn(
        &self,
        turn: PluginLoopTurnRequest,
    ) -> Result<RequestedTurn, ApiError> {
        let how: SessionOpenerFn = Arc::new(turn.session_opener());
        let workspace = self.workspaces.default_workspace_host();
        let live = self
            .get_or_open_session(workspace, turn.session_id(), how)
            .await?;
        live.enqueue_session_work(AnyTurnRequest::Loop(Box::new(turn)), true)
    }

    /// Returns a session of the folder in which the server was started. Opens the session, or
    /// creates it, if it is not open.
    pub(crate) async fn get_or_create_session(
        &self,
        id: &str,
    ) -> Result<Arc<OpenSession>, ApiError> {
        let wanted = id.to_owned();
        let how: SessionOpenerFn =
            Arc::new(move |builder: SessionBuilder| builder.resume_or_create(&wanted));
        self.get_or_open_session(self.workspaces.default_workspace_host(), id, how)
            .await
    }

    /// Requests that a session continue its interrupted turn.
    pub(crate) async fn request_turn_continuation(
        &self,
        id: &str,
    ) -> Result<RequestedTurn, ApiError> {
        let live = self.get_or_resume_session(id).await?;
        live.enqueue_session_work(AnyTurnRequest::Continue, false)
    }

    /// Closes the session with this id. Returns whether it was open.
    pub(crate) async fn close_session(&self, id: &str) -> bool {
        // Keep the session in the list of open sessions until it has released its file.
        let live = self.open.lock().await.get(id).cloned();
        let Some(live) = live else {
            return false;
        };
        live.interrupt_and_close().await;
        true
    }

    /// Interrupts the turns of all open sessions and closes the sessions.
    pub async fn close_all_sessions(&self) {
        self.ending.cancel();
        let _last = self.openings.write().await;
        let open = std::mem::take(&mut *self.open.lock().await);
        let ending = open.values().map(|live| live.interrupt_and_close());
        futures_util::future::join_all(ending).await;
    }

    async fn get_or_resume_session(&self, id: &str) -> Result<Arc<OpenSession>, ApiError> {
        match self.find_open_session(id).await {
            Some(live) => Ok(live),
            None if self.opens_held_only => Err(ApiError::conflict(
                "closing",
                "the program that had the session open has closed it: send the request again",
            )),
            None => {
                let workspace = self.workspaces.host_of_session_folder(id).await?;
                self.get_or_open_session(&workspace, id, existing_session_opener(id))
                    .await
            }
        }
    }

    async fn get_or_open_session(
        &self,
        workspace: &WorkspaceHost,
        id: &str,
        how: SessionOpenerFn,
    ) -> Result<Arc<OpenSession>, ApiError> {
        let own = lock_ignoring_poison(&self.opening)
            .entry(id.to_owned())
            .or_default()
            .clone();
        let opened = {
            let _alone = own.lock().await;
            self.get_or_open_session_locked(workspace, id, how).await
        };
        drop(own);
        // Remove the lock of this session if no other request waits for it.
        lock_ignoring_poison(&self.opening).retain(|_, opening| Arc::strong_count(opening) > 1);
        opened
    }

    async fn get_or_open_session_locked(
        &self,
        workspace: &WorkspaceHost,
        id: &str,
        how: SessionOpenerFn,
    ) -> Result<Arc<OpenSession>, ApiError> {
        loop {
            let live = self.open.lock().await.get(id).cloned();
            let Some(live) = live else {
                let how = how.clone();
                let opened = self.open_session(workspace, move |builder| how(builder));
                return Ok(opened.await?.1);
            };
            if !live.has_stopped_accepting_turns() {
                return Ok(live);
            }
            // Wait for the task of the session, which releases the lock of the session's file.
            live.interrupt_and_close().await;
            // If the task of the session failed, it has not removed the session from the map.
            let mut open = self.open.lock().await;
            if open.get(id).is_some_and(|own| Arc::ptr_eq(own, &live)) {
                open.remove(id);
            }
        }
    }

    async fn open_session(
        &self,
        workspace: &WorkspaceHost,
        how: impl FnOnce(SessionBuilder) -> Result<Session, rind_lib::host::Error> + Send + 'static,
    ) -> Result<(String, Arc<OpenSession>), ApiError> {
        let _opening = self.openings.read().await;
        let room = self.room.clone().try_acquire_owned().map_err(|_| {
            ApiError::too_many_requests(format!(
                "{MAX_OPEN_SESSIONS} sessions are open, which is the maximum; close one"
            ))
        })?;
        let events = Arc::new(SessionEventLog::new(rind_lib::clock::now_ms()));
        let session_id = Arc::new(OnceLock::new());
        let approver = ApiApprover::new(self.board.clone(), events.clone(), session_id.clone())
            .with_question_timeout(self.answer_time);
        let (log, hooks) = (events.clone(), workspace.hooks.clone());
        let builder = workspace
            .host
            .session()
            .policy(workspace.policy.clone())
            .approver(Arc::new(approver))
            .observe(move |stamped| {
                hooks.count_hook_call_event(stamped);
                append_event_to_log(&log, stamped);
            });
        // Opening a session reads files and starts plugins, so do it on a blocking thread.
        let session = tokio::task::spawn_blocking(move || how(builder)).await;
        let session = session.map_err(|error| ApiError::internal(&error))??;
        let id = session.id().clone();
        let _ = session_id.set(id.clone());
        let interrupted = session.stored().interrupted_turn();
        let (orders, receiver) = mpsc::channel(MAX_QUEUED_INPUTS);
        let shared = SessionTaskSharedState {
            turns: Arc::default(),
            events,
            steering: session.steering(),
            outputs: session.live_outputs(),
            ending: self.ending.child_token(),
            release: CancellationToken::new(),
            gate: self.gate.get().cloned(),
        };
        let mut open = self.open.lock().await;
        let (sessions, own_id, own_parts) = (self.open.clone(), id.clone(), shared.clone());
        let task = tokio::spawn(async move {
            run_session_task(session, receiver, own_parts).await;
            sessions.lock().await.remove(&*own_id);
            drop(room);
        });
        let live = Arc::new(OpenSession {
            orders,
            shared,
            interrupted,
            task: tokio::sync::Mutex::new(Some(task)),
        });
        open.insert(id.to_string(), live.clone());
        Ok((id.to_string(), live))
    }
}

impl OpenSession {
    pub(crate) fn enqueue_session_work(
        self: Arc<Self>,
        work: AnyTurnRequest,
        may_wait: bool,
    ) -> Result<RequestedTurn, ApiError> {
        let (reply, outcome) = oneshot::channel();
        let after = self.shared.events.last_event_number();
        let cancel = self.shared.ending.child_token();
        let order = SessionWorkRequest {
            work,
            cancel: cancel.clone(),
            reply,
        };
        let send = || {
            self.orders
                .try_send(order)
                .map_err(queue_send_error_to_api_error)
        };
        self.shared.turns.add_turn(may_wait, cancel, send)?;
        Ok(RequestedTurn {
            live: self,
            after,
            outcome,
        })
    }

    /// Returns the turn that was already interrupted when the session was opened.
    pub(crate) fn turn_interrupted_before_opening(&self) -> Option<&InterruptedTurn> {
        self.interrupted.as_ref()
    }

    /// Whether a turn of the session runs or is about to run.
    pub(crate) fn has_running_turn(&self) -> bool {
        self.shared.turns.has_running_turn()
    }

    /// Waits until a turn runs or is about to run (`is_running`), or until no turn does
    /// (`!is_running`). Returns early if the session stops accepting turns.
    pub(crate) async fn wait_until_turn_state(&self, is_running: bool) {
        tokio::select! {
            () = self.shared.turns.wait_until_is_running_equals(is_running) => {}
            () = self.shared.ending.cancelled() => {}
            () = self.orders.closed() => {}
        }
    }

    /// Returns the log of the session's recent events.
    pub(crate) fn event_log(&self) -> &Arc<SessionEventLog> {
        &self.shared.events
    }

    /// Returns the last `n_lines` lines of the output of each running call.
    pub(crate) fn running_call_outputs(&self, n_lines: usize) -> Vec<RunningOutput> {
        self.shared.outputs.running_outputs(n_lines)
    }

    /// Makes the running turn stop at once, and store that it ended. Returns whether a turn was
    /// running.
    pub(crate) fn interrupt_turn(&self) -> bool {
        self.shared.turns.interrupt_turn()
    }

    /// Adds a text to the running turn. Returns the number of the text, or `None` if no turn runs.
    pub(crate) fn steer_turn(
        &self,
        text: String,
        source: Source,
        is_follow_up: bool,
    ) -> Option<u64> {
        let steering = &self.shared.steering;
        self.has_running_turn().then(|| match is_follow_up {
            true => steering.follow_up(text, source),
            false => steering.steer(text, source),
        })
    }

    /// Stops the running turn without writing its end to the session, so that another program can
    /// continue the turn. Then closes the session.
    pub(crate) fn abandon_turn_and_close(&self) {
        self.shared.release.cancel();
        self.shared.ending.cancel();
    }

    /// Whether the session no longer accepts turns, because it is closing or its task has ended.
    pub(crate) fn has_stopped_accepting_turns(&self) -> bool {
        self.orders.is_closed() || self.shared.ending.is_cancelled()
    }

    /// Interrupts the running turn, prevents further ones, closes the session and waits until it is
    /// closed.
    pub(crate) async fn interrupt_and_close(&self) {
        self.shared.ending.cancel();
        // Keep the lock while waiting, so that every caller that ends the session waits for the
        // end.
        let mut task = self.task.lock().await;
        if let Some(running) = task.as_mut() {
            if let Err(error) = running.await {
                tracing::warn!(%error, "the task of a session failed");
            }
            *task = None;
        }
    }
}

/// Returns a function that opens the existing session `id`.
fn existing_session_opener(id: &str) -> SessionOpenerFn {
    let wanted = id.to_owned();
    Arc::new(move |builder: SessionBuilder| builder.resume(&wanted))
}

fn queue_send_error_to_api_error(error: TrySendError<SessionWorkRequest>) -> ApiError {
    match error {
        TrySendError::Full(_) => ApiError::too_many_requests(format!(
            "{MAX_QUEUED_INPUTS} inputs are already waiting; try again later"
        )),
        TrySendError::Closed(_) => {
            ApiError::conflict("closing", "the session is closing; send the input again")
        }
    }
}

fn append_event_to_log(log: &SessionEventLog, stamped: &Stamped) {
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
