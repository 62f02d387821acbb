//! Runs the turns of a worker in sessions that people can follow, steer and answer questions of at
//! `rind serve --nats`.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::files::{ClaimedSessionFiles, WorkerSessionFilesFolder};
use super::hosts::{AgentHostRegistry, TurnContinuationPermit, WorkerHostWithOpenSessions};
use super::plugins::PluginSetLoader;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use http::{Request, Response};
use rind_lib::lock::lock_ignoring_poison;
use rind_nats::call::{
    SessionListResponderGuard, SessionRequestHandler, SessionRequestMessenger,
    SessionRequestTaskGuard,
};
use rind_nats::worker::{
    ClaimedSession, QueuedInput, WorkerTurnExecutor, WorkerTurnExecutorState, WorkerTurnFailure,
};
use rind_nats::{NatsError, NatsSessions};
use rind_serve::body::Bytes;
use rind_serve::holder::{OpenSessionHandle, OpenSessionRegistry, SessionOpenOrTurnError};
use serde_json::Value;

/// Maximum time to wait after a turn until the session is idle, so that its files can be stored.
const SESSION_IDLE_TIMEOUT: Duration = Duration::from_secs(1);

/// Runs turns in the sessions that this worker has claimed, and answers requests about these
/// sessions.
pub(super) struct WorkerTurnRunner {
    hosts: Arc<AgentHostRegistry>,
    sets: Arc<PluginSetLoader>,
    calls: SessionRequestMessenger,
    /// Worker's folder in which a session's files are restored before its turns and from which they
    /// are stored; `None` without `--snapshots`.
    folder: Option<WorkerSessionFilesFolder>,
    _boards: SessionListResponderGuard,
}

impl WorkerTurnRunner {
    /// Creates the runner of turns. From then on, this worker answers requests for the list of the
    /// sessions that it has open.
    pub(super) async fn open(
        sessions: &NatsSessions,
        hosts: Arc<AgentHostRegistry>,
        sets: Arc<PluginSetLoader>,
        folder: Option<WorkerSessionFilesFolder>,
    ) -> Result<Self, NatsError> {
        let calls = SessionRequestMessenger::new(sessions);
        let own = hosts.clone();
        let tell = move || -> BoxFuture<'static, (Vec<String>, Value)> {
            let own = own.clone();
            Box::pin(async move {
                let states = own.session_states().await;
                let told = serde_json::to_value(&states).unwrap_or_default();
                (states.into_iter().map(|state| state.id).collect(), told)
            })
        };
        Ok(Self {
            hosts,
            sets,
            folder,
            _boards: calls.answer_session_list_requests(Arc::new(tell)).await?,
            calls,
        })
    }
}

impl WorkerTurnExecutor for WorkerTurnRunner {
    fn claim_session<'a>(
        &'a self,
        session: &'a str,
    ) -> BoxFuture<'a, Result<Box<dyn ClaimedSession>, WorkerTurnFailure>> {
        Box::pin(async move {
            // Do not open a session while this worker has no current host: another worker may have
            // loaded the plugins.
            let host = self.hosts.current_host().ok_or(WorkerTurnFailure::Busy)?;
            let files = match &self.folder {
                Some(folder) => Some(folder.restore_session_files(session).await?),
                None => None,
            };
            let held = host
                .holder
                .open_or_create_session(session)
                .await
                .map_err(session_error_to_worker_turn_failure)?;
            if let Some(files) = &files
                && let Err(failure) = files.check_files_unchanged_since_restore().await
            {
                held.close().await;
                return Err(failure);
            }
            let calls = LocalSessionRequestHandler(Arc::new(Mutex::new(host.holder.clone())));
            let answered = match self
                .calls
                .answer_session_requests(session, Arc::new(calls.clone()))
                .await
            {
                Ok(answered) => answered,
                Err(error) => {
                    held.close().await;
                    return Err(WorkerTurnFailure::Failed(error.to_string()));
                }
            };
            let claimed: Box<dyn ClaimedSession> = Box::new(WorkerClaimedSession {
                session: session.to_owned(),
                host,
                hosts: self.hosts.clone(),
                sets: self.sets.clone(),
                held: Some(held),
                calls,
                answered,
                files,
            });
            Ok(claimed)
        })
    }

    fn wait_until_ready(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.hosts.wait_for_host())
    }

    fn state(&self) -> WorkerTurnExecutorState {
        self.hosts.turn_executor_state()
    }
}

/// A session that this worker has claimed. Answers requests about the session until it is closed.
struct WorkerClaimedSession {
    session: String,
    host: Arc<WorkerHostWithOpenSessions>,
    hosts: Arc<AgentHostRegistry>,
    sets: Arc<PluginSetLoader>,
    /// Open session; `None` if it was closed to change its plugins and could not be opened again.
    held: Option<OpenSessionHandle>,
    calls: LocalSessionRequestHandler,
    answered: SessionRequestTaskGuard,
    files: Option<ClaimedSessionFiles>,
}

impl WorkerClaimedSession {
    /// Reopens the session with the set of plugins with which the turn of `input` began, if that
    /// turn was interrupted and the set may still be used. Otherwise the turn continues with the
    /// current set, as its continuation entry records.
    async fn reopen_with_earlier_plugin_set(
        &mut self,
        input: &QueuedInput,
    ) -> Result<Option<TurnContinuationPermit>, WorkerTurnFailure> {
        let held = self.held.as_ref();
        let wanted = held.and_then(|held| {
            held.plugin_set_digest_of_interrupted_turn(&input.id)
                .map(str::to_owned)
        });
        let Some(wanted) = wanted.filter(|wanted| !self.host.has_loaded_plugin_set(wanted)) else {
            return Ok(None);
        };
        if self.host.plugin_set().is_none() {
            // The turn began with a published set of plugins, so it must not continue with the
            // plugins of this machine, even if that set no longer exists.
            return Err(WorkerTurnFailure::Busy);
        }
        let earlier = self.sets.load_host_by_digest(&wanted, &self.hosts).await;
        let Some(earlier) = earlier else {
            tracing::warn!(
                session = self.session,
                set = wanted,
                "a turn that began with another set of plugins goes on with the present one"
            );
            return Ok(None);
        };
        if let Some(held) = self.held.take() {
            held.close().await;
        }
        let continued = earlier.issue_turn_continuation_permit();
        let held = earlier.holder.open_or_create_session(&self.session).await;
        self.held = Some(held.map_err(session_error_to_worker_turn_failure)?);
        *lock_ignoring_poison(&self.calls.0) = earlier.holder.clone();
        self.host = earlier;
        Ok(Some(continued))
    }
}

impl ClaimedSession for WorkerClaimedSession {
    fn run<'a>(
        &'a mut self,
        input: &'a QueuedInput,
    ) -> BoxFuture<'a, Result<(), WorkerTurnFailure>> {
        Box::pin(async move {
            let continued = self.reopen_with_earlier_plugin_set(input).await?;
            let Some(held) = &mut self.held else {
                return Err(WorkerTurnFailure::Busy);
            };
            if continued.is_none() && !self.host.is_accepting_new_turns() {
                // The worker closes the session and claims it again with the current plugins.
                return Err(WorkerTurnFailure::Busy);
            }
            let Some(files) = &mut self.files else {
                let ended = held.run_turn_for_input(&input.id, &input.text).await;
                return ended.map_err(session_error_to_worker_turn_failure);
            };
            let (text, notice) = files.record_turn_start(input).await?;
            let teller = held.steering_sender();
            let tell = async {
                if let Some(notice) = notice {
                    teller.send_text_to_turn(notice).await;
                    files.mark_file_loss_reported();
                }
                std::future::pending().await
            };
            let ended = tokio::select! {
                ended = held.run_turn_for_input(&input.id, &text) => ended,
                never = tell => never,
            };
            ended.map_err(session_error_to_worker_turn_failure)?;
            files.record_turn_end();
            // Wait for a turn that a person has started meanwhile: it would change files while they
            // are read.
            let _ = tokio::time::timeout(SESSION_IDLE_TIMEOUT, held.wait_until_idle()).await;
            match held.is_turn_running() || !files.should_store_files_snapshot() {
                true => Ok(()),
                false => files.store_after_turn().await,
            }
        })
    }

    fn wait_until_idle(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let Some(held) = &self.held else {
                return;
            };
            if let Some(files) = &self.files
                && held.is_turn_running()
            {
                // A turn that a person started changes files as well, so store them after it.
                files.record_unqueued_turn_start();
                held.wait_until_idle().await;
                files.store_files_if_changed().await;
            }
            held.wait_until_idle().await;
        })
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            // Stop answering requests first, so that none can start a turn in a session that is
            // closing.
            drop(self.answered);
            if let Some(files) = &self.files {
                files.store_files_if_changed().await;
            }
            if let Some(held) = self.held {
                held.close().await;
            }
            if let Some(files) = &self.files {
                files.record_session_release().await;
            }
        })
    }
}

fn session_error_to_worker_turn_failure(error: SessionOpenOrTurnError) -> WorkerTurnFailure {
    match error {
        SessionOpenOrTurnError::Busy => WorkerTurnFailure::Busy,
        SessionOpenOrTurnError::Fenced => WorkerTurnFailure::Fenced,
        SessionOpenOrTurnError::Refused(refusal) => {
            WorkerTurnFailure::OverQuota(refusal.free_in.unwrap_or_default())
        }
        SessionOpenOrTurnError::Failed(cause) => WorkerTurnFailure::Failed(cause),
    }
}

/// Answers requests about the sessions that an [`OpenSessionRegistry`] keeps open. The registry is
/// replaced when a turn needs another set of plugins.
#[derive(Clone)]
struct LocalSessionRequestHandler(Arc<Mutex<OpenSessionRegistry>>);

impl SessionRequestHandler for LocalSessionRequestHandler {
    fn answer(
        &self,
        session: &str,
        request: Request<Bytes>,
    ) -> BoxFuture<'static, Response<BoxStream<'static, Bytes>>> {
        let answered = lock_ignoring_poison(&self.0).answer_session_request(session, request);
        Box::pin(async move {
            answered.await.map(|body| {
                // The body comes from this program, and cannot fail before its end.
                let parts = body.into_data_stream();
                parts.filter_map(async |part| part.ok()).boxed()
            })
        })
    }
}
