//! Runs the turns of a worker in sessions that people can follow, steer and answer questions of at
//! `rind serve --nats`.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::files::{ClaimedFiles, SessionFolder};
use super::hosts::{ContinuedTurn, LoadedHost, TurnHosts};
use super::plugins::SetLoader;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use http::{Request, Response};
use rind_lib::lock::lock;
use rind_nats::call::{AnsweredBoards, AnsweredSession, CallHandler, SessionCalls};
use rind_nats::worker::{ClaimedSession, QueuedInput, TurnFailure, TurnsState, WorkerTurns};
use rind_nats::{NatsError, NatsSessions};
use rind_serve::body::Bytes;
use rind_serve::holder::{HeldSession, HoldError, SessionHolder};
use serde_json::Value;

/// Timeout for a session to become idle after a turn, before its files are stored.
const TURN_END: Duration = Duration::from_secs(1);

/// Runs turns in sessions that this worker holds, and answers requests about these sessions.
pub(super) struct ServedTurns {
    hosts: Arc<TurnHosts>,
    sets: Arc<SetLoader>,
    calls: SessionCalls,
    /// Folder whose files are stored and restored; `None` without `--snapshots`.
    folder: Option<SessionFolder>,
    _boards: AnsweredBoards,
}

impl ServedTurns {
    /// Starts to answer which sessions are open on this worker.
    pub(super) async fn open(
        sessions: &NatsSessions,
        hosts: Arc<TurnHosts>,
        sets: Arc<SetLoader>,
        folder: Option<SessionFolder>,
    ) -> Result<Self, NatsError> {
        let calls = SessionCalls::new(sessions);
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
            _boards: calls.answer_boards(Arc::new(tell)).await?,
            calls,
        })
    }
}

impl WorkerTurns for ServedTurns {
    fn claim<'a>(
        &'a self,
        session: &'a str,
    ) -> BoxFuture<'a, Result<Box<dyn ClaimedSession>, TurnFailure>> {
        Box::pin(async move {
            // Do not open a session while there is no current host: another worker may have its
            // plugins.
            let host = self.hosts.current().ok_or(TurnFailure::Busy)?;
            let files = match &self.folder {
                Some(folder) => Some(folder.restore(session).await?),
                None => None,
            };
            let held = host.holder.hold(session).await.map_err(failure_of)?;
            if let Some(files) = &files
                && let Err(failure) = files.check_current().await
            {
                held.close().await;
                return Err(failure);
            }
            let calls = HolderCalls(Arc::new(Mutex::new(host.holder.clone())));
            let answered = match self.calls.answer(session, Arc::new(calls.clone())).await {
                Ok(answered) => answered,
                Err(error) => {
                    held.close().await;
                    return Err(TurnFailure::Failed(error.to_string()));
                }
            };
            let claimed: Box<dyn ClaimedSession> = Box::new(ServedSession {
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
        Box::pin(self.hosts.ready())
    }

    fn state(&self) -> TurnsState {
        self.hosts.state()
    }
}

/// A claimed session. Answers requests about it while claimed.
struct ServedSession {
    session: String,
    host: Arc<LoadedHost>,
    hosts: Arc<TurnHosts>,
    sets: Arc<SetLoader>,
    /// Open session; `None` if it was closed to change its plugins and could not be opened again.
    held: Option<HeldSession>,
    calls: HolderCalls,
    answered: AnsweredSession,
    files: Option<ClaimedFiles>,
}

impl ServedSession {
    /// Reopens the session with the set of plugins with which the turn of `input` began, if that
    /// turn was interrupted and the set may still be used. Otherwise the turn continues with the
    /// current set, as its continuation entry records.
    async fn take_set_of(
        &mut self,
        input: &QueuedInput,
    ) -> Result<Option<ContinuedTurn>, TurnFailure> {
        let held = self.held.as_ref();
        let wanted = held.and_then(|held| held.interrupted_set(&input.id).map(str::to_owned));
        let Some(wanted) = wanted.filter(|wanted| !self.host.is_of(wanted)) else {
            return Ok(None);
        };
        if self.host.set().is_none() {
            // The plugins of this machine must not replace a set, even if the set no longer exists.
            return Err(TurnFailure::Busy);
        }
        let earlier = self.sets.earlier(&wanted, &self.hosts).await;
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
        let continued = earlier.continue_turn();
        let held = earlier.holder.hold(&self.session).await;
        self.held = Some(held.map_err(failure_of)?);
        *lock(&self.calls.0) = earlier.holder.clone();
        self.host = earlier;
        Ok(Some(continued))
    }
}

impl ClaimedSession for ServedSession {
    fn run<'a>(&'a mut self, input: &'a QueuedInput) -> BoxFuture<'a, Result<(), TurnFailure>> {
        Box::pin(async move {
            let continued = self.take_set_of(input).await?;
            let Some(held) = &mut self.held else {
                return Err(TurnFailure::Busy);
            };
            if continued.is_none() && !self.host.is_current() {
                // The worker closes the session and claims it again with the current plugins.
                return Err(TurnFailure::Busy);
            }
            let Some(files) = &mut self.files else {
                let ended = held.run_input(&input.id, &input.text).await;
                return ended.map_err(failure_of);
            };
            let (text, notice) = files.begin_turn(input).await?;
            let teller = held.teller();
            let tell = async {
                if let Some(notice) = notice {
                    teller.tell(notice).await;
                    files.note_told();
                }
                std::future::pending().await
            };
            let ended = tokio::select! {
                ended = held.run_input(&input.id, &text) => ended,
                never = tell => never,
            };
            ended.map_err(failure_of)?;
            files.end_turn();
            // Wait for a turn that a person has started meanwhile: it would change files while they
            // are read.
            let _ = tokio::time::timeout(TURN_END, held.idle()).await;
            match held.is_running() || !files.is_due() {
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
                files.note_turn();
                held.idle().await;
                files.store_changes().await;
            }
            held.idle().await;
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
                files.leave().await;
            }
        })
    }
}

fn failure_of(error: HoldError) -> TurnFailure {
    match error {
        HoldError::Busy => TurnFailure::Busy,
        HoldError::Fenced => TurnFailure::Fenced,
        HoldError::Refused(refusal) => TurnFailure::OverQuota(refusal.free_in.unwrap_or_default()),
        HoldError::Failed(cause) => TurnFailure::Failed(cause),
    }
}

/// Answers the requests about the sessions of a holder. The holder is replaced when a turn needs
/// another set of plugins.
#[derive(Clone)]
struct HolderCalls(Arc<Mutex<SessionHolder>>);

impl CallHandler for HolderCalls {
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
