//! Turns of a worker, in sessions that people at `rind serve --nats` see: they follow them, steer
//! them and answer their questions.

use std::sync::Arc;
use std::time::Duration;

use super::files::{ClaimedFiles, SessionFolder};
use super::gate::QuotaGate;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use http::{Request, Response};
use rind_nats::call::{AnsweredBoards, AnsweredSession, CallHandler, SessionCalls};
use rind_nats::worker::{ClaimedSession, QueuedInput, TurnFailure, WorkerTurns};
use rind_nats::{NatsError, NatsSessions, TenantQuotas};
use rind_serve::body::Bytes;
use rind_serve::holder::{HeldSession, HoldError, SessionHolder};
use serde_json::Value;

/// Time in which a session is idle after its last turn.
const TURN_END: Duration = Duration::from_secs(1);

/// Runs turns in sessions that it holds, and answers requests about these sessions.
pub(super) struct ServedTurns {
    holder: SessionHolder,
    calls: SessionCalls,
    /// Folder whose files are stored and restored, unless it is mounted.
    folder: Option<SessionFolder>,
    _boards: AnsweredBoards,
}

impl ServedTurns {
    /// Starts to publish which sessions are open here.
    pub(super) async fn open(
        sessions: &NatsSessions,
        holder: SessionHolder,
        folder: Option<SessionFolder>,
    ) -> Result<Self, NatsError> {
        let calls = SessionCalls::new(sessions);
        let holder = holder.with_gate(Arc::new(QuotaGate(TenantQuotas::of(sessions))));
        let own = holder.clone();
        let tell = move || -> BoxFuture<'static, (Vec<String>, Value)> {
            let own = own.clone();
            Box::pin(async move {
                let states = own.states().await;
                let told = serde_json::to_value(&states).unwrap_or_default();
                (states.into_iter().map(|state| state.id).collect(), told)
            })
        };
        Ok(Self {
            holder,
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
            let files = match &self.folder {
                Some(folder) => Some(folder.restore(session).await?),
                None => None,
            };
            let held = self.holder.hold(session).await.map_err(failure_of)?;
            if let Some(files) = &files
                && let Err(failure) = files.check_current().await
            {
                held.close().await;
                return Err(failure);
            }
            let handler = Arc::new(HolderCalls(self.holder.clone()));
            let answered = match self.calls.answer(session, handler).await {
                Ok(answered) => answered,
                Err(error) => {
                    held.close().await;
                    return Err(TurnFailure::Failed(error.to_string()));
                }
            };
            let claimed: Box<dyn ClaimedSession> = Box::new(ServedSession {
                held,
                answered,
                files,
            });
            Ok(claimed)
        })
    }
}

/// A claimed session, whose requests are answered.
struct ServedSession {
    held: HeldSession,
    answered: AnsweredSession,
    files: Option<ClaimedFiles>,
}

impl ClaimedSession for ServedSession {
    fn run<'a>(&'a mut self, input: &'a QueuedInput) -> BoxFuture<'a, Result<(), TurnFailure>> {
        Box::pin(async move {
            let Some(files) = &mut self.files else {
                let ended = self.held.run_input(&input.id, &input.text).await;
                return ended.map_err(failure_of);
            };
            let (text, notice) = files.begin_turn(input).await?;
            let teller = self.held.teller();
            let tell = async {
                if let Some(notice) = notice {
                    teller.tell(notice).await;
                    files.note_told();
                }
                std::future::pending().await
            };
            let ended = tokio::select! {
                ended = self.held.run_input(&input.id, &text) => ended,
                never = tell => never,
            };
            ended.map_err(failure_of)?;
            files.end_turn();
            // A turn that people ordered meanwhile would change files while they are read.
            let _ = tokio::time::timeout(TURN_END, self.held.idle()).await;
            match self.held.is_running() || !files.is_due() {
                true => Ok(()),
                false => files.store().await,
            }
        })
    }

    fn idle(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            if let Some(files) = &self.files
                && self.held.is_running()
            {
                // A turn that a person ordered changes files as well.
                files.note_turn();
                self.held.idle().await;
                files.store_changes().await;
            }
            self.held.idle().await;
        })
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            // A session that closes accepts no request that starts something.
            drop(self.answered);
            if let Some(files) = &self.files {
                files.store_changes().await;
            }
            self.held.close().await;
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

/// Answers the requests about the sessions of a holder.
struct HolderCalls(SessionHolder);

impl CallHandler for HolderCalls {
    fn answer(
        &self,
        session: &str,
        request: Request<Bytes>,
    ) -> BoxFuture<'static, Response<BoxStream<'static, Bytes>>> {
        let answered = self.0.answer(session, request);
        Box::pin(async move {
            answered.await.map(|body| {
                // A body of this program does not fail before its end.
                let parts = body.into_data_stream();
                parts.filter_map(async |part| part.ok()).boxed()
            })
        })
    }
}
