//! Runs the turns of a worker in sessions that people can follow, steer and answer questions of at
//! `rind serve --nats`.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::files::{ClaimedSessionFiles, WorkerSessionFolder};
use super::hosts::{ContinuationPermit, LoadedHost, TurnHosts};
use super::plugins::PluginSetLoader;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use http::{Request, Response};
use rind_lib::lock::lock;
use rind_nats::call::{BoardAnswerTaskGuard, CallHandler, SessionAnswerTaskGuard, SessionRequests};
use rind_nats::worker::{ClaimedSession, QueuedInput, TurnFailure, WorkerTurns, WorkerTurnsState};
use rind_nats::{NatsError, NatsSessions};
use rind_serve::body::Bytes;
use rind_serve::holder::{HeldSession, HeldSessionError, SessionHolder};
use serde_json::Value;

/// Maximum time to wait after a turn until the session is idle, so that its files can be stored.
const TURN_END: Duration = Duration::from_secs(1);

/// Runs turns in the sessions that this worker has claimed, and answers requests about these
/// sessions.
pub(super) struct WorkerTurnRunner {
    hosts: Arc<TurnHosts>,
    sets: Arc<PluginSetLoader>,
    calls: SessionRequests,
    /// Worker's folder in which a session's files are restored before its turns and from which they
    /// are stored; `None` without `--snapshots`.
    folder: Option<WorkerSessionFolder>,
    _boards: BoardAnswerTaskGuard,
}

impl WorkerTurnRunner {
    /// Creates the runner of turns. From then on, this worker answers requests for the list of the
    /// sessions that it has open.
    pub(super) async fn open(
        sessions: &NatsSessions,
        hosts: Arc<TurnHosts>,
        sets: Arc<PluginSetLoader>,
        folder: Option<WorkerSessionFolder>,
    ) -> Result<Self, NatsError> {
        let calls = SessionRequests::new(sessions);
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
            _boards: calls.answer_board_requests(Arc::new(tell)).await?,
            calls,
        })
    }
}

impl WorkerTurns for WorkerTurnRunner {
    fn claim<'a>(
        &'a self,
        session: &'a str,
    ) -> BoxFuture<'a, Result<Box<dyn ClaimedSession>, TurnFailure>> {
        Box::pin(async move {
            // Do not open a session while this worker has no current host: another worker may have
            // loaded the plugins.
            let host = self.hosts.current_host().ok_or(TurnFailure::Busy)?;
            let files = match &self.folder {
                Some(folder) => Some(folder.restore_session_files(session).await?),
                None => None,
            };
            let held = host
                .holder
                .hold_session(session)
                .await
                .map_err(to_turn_failure)?;
            if let Some(files) = &files
                && let Err(failure) = files.check_files_current().await
            {
                held.close().await;
                return Err(failure);
            }
            let calls = HolderCallHandler(Arc::new(Mutex::new(host.holder.clone())));
            let answered = match self.calls.answer(session, Arc::new(calls.clone())).await {
                Ok(answered) => answered,
                Err(error) => {
                    held.close().await;
                    return Err(TurnFailure::Failed(error.to_string()));
                }
            };
            let claimed: Box<dyn ClaimedSession> = Box::new(WorkerHeldSession {
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

    fn ready(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.hosts.wait_for_host())
    }

    fn state(&self) -> WorkerTurnsState {
        self.hosts.worker_turns_state()
    }
}

/// A session that this worker has claimed. Answers requests about the session until it is closed.
struct WorkerHeldSession {
    session: String,
    host: Arc<LoadedHost>,
    hosts: Arc<TurnHosts>,
    sets: Arc<PluginSetLoader>,
    /// Open session; `None` if it was closed to change its plugins and could not be opened again.
    held: Option<HeldSession>,
    calls: HolderCallHandler,
    answered: SessionAnswerTaskGuard,
    files: Option<ClaimedSessionFiles>,
}

impl WorkerHeldSession {
    /// Reopens the session with the set of plugins with which the turn of `input` began, if that
    /// turn was interrupted and the set may still be used. Otherwise the turn continues with the
    /// current set, as its continuation entry records.
    async fn reopen_with_earlier_set(
        &mut self,
        input: &QueuedInput,
    ) -> Result<Option<ContinuationPermit>, TurnFailure> {
        let held = self.held.as_ref();
        let wanted =
            held.and_then(|held| held.interrupted_plugin_set(&input.id).map(str::to_owned));
        let Some(wanted) = wanted.filter(|wanted| !self.host.has_loaded_set(wanted)) else {
            return Ok(None);
        };
        if self.host.plugin_set().is_none() {
            // The turn began with a published set of plugins, so it must not continue with the
            // plugins of this machine, even if that set no longer exists.
            return Err(TurnFailure::Busy);
        }
        let earlier = self
            .sets
            .load_earlier_plugin_set(&wanted, &self.hosts)
            .await;
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
        let continued = earlier.issue_continuation_permit();
        let held = earlier.holder.hold_session(&self.session).await;
        self.held = Some(held.map_err(to_turn_failure)?);
        *lock(&self.calls.0) = earlier.holder.clone();
        self.host = earlier;
        Ok(Some(continued))
    }
}

impl ClaimedSession for WorkerHeldSession {
    fn run<'a>(&'a mut self, input: &'a QueuedInput) -> BoxFuture<'a, Result<(), TurnFailure>> {
        Box::pin(async move {
            let continued = self.reopen_with_earlier_set(input).await?;
            let Some(held) = &mut self.held else {
                return Err(TurnFailure::Busy);
            };
            if continued.is_none() && !self.host.is_current_host() {
                // The worker closes the session and claims it again with the current plugins.
                return Err(TurnFailure::Busy);
            }
            let Some(files) = &mut self.files else {
                let ended = held.run_input(&input.id, &input.text).await;
                return ended.map_err(to_turn_failure);
            };
            let (text, notice) = files.begin_turn(input).await?;
            let teller = held.running_turn_sender();
            let tell = async {
                if let Some(notice) = notice {
                    teller.tell(notice).await;
                    files.record_model_informed();
                }
                std::future::pending().await
            };
            let ended = tokio::select! {
                ended = held.run_input(&input.id, &text) => ended,
                never = tell => never,
            };
            ended.map_err(to_turn_failure)?;
            files.end_turn();
            // Wait for a turn that a person has started meanwhile: it would change files while they
            // are read.
            let _ = tokio::time::timeout(TURN_END, held.wait_until_idle()).await;
            match held.is_running() || !files.may_store_snapshot() {
                true => Ok(()),
                false => files.store().await,
            }
        })
    }

    fn idle(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let Some(held) = &self.held else {
                return;
            };
            if let Some(files) = &self.files
                && held.is_running()
            {
                // A turn that a person started changes files as well, so store them after it.
                files.record_other_turn();
                held.wait_until_idle().await;
                files.store_changes().await;
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
                files.store_changes().await;
            }
            if let Some(held) = self.held {
                held.close().await;
            }
            if let Some(files) = &self.files {
                files.release_session().await;
            }
        })
    }
}

fn to_turn_failure(error: HeldSessionError) -> TurnFailure {
    match error {
        HeldSessionError::Busy => TurnFailure::Busy,
        HeldSessionError::Fenced => TurnFailure::Fenced,
        HeldSessionError::Refused(refusal) => {
            TurnFailure::OverQuota(refusal.free_in.unwrap_or_default())
        }
        HeldSessionError::Failed(cause) => TurnFailure::Failed(cause),
    }
}

/// Answers requests about the sessions that a [`SessionHolder`] keeps open. The holder is replaced
/// when a turn needs another set of plugins.
#[derive(Clone)]
struct HolderCallHandler(Arc<Mutex<SessionHolder>>);

impl CallHandler for HolderCallHandler {
    fn answer(
        &self,
        session: &str,
        request: Request<Bytes>,
    ) -> BoxFuture<'static, Response<BoxStream<'static, Bytes>>> {
        let answered = lock(&self.0).answer(session, request);
        Box::pin(async move {
            answered.await.map(|body| {
                // The body comes from this program, and cannot fail before its end.
                let parts = body.into_data_stream();
                parts.filter_map(async |part| part.ok()).boxed()
            })
        })
    }
}
