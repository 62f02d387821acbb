//! The work for one wake message: runs the queued inputs of a session in order.

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::{AckKind, Message};
use rind_lib::session::SessionAddress;
use tokio_util::sync::CancellationToken;

use super::dead::TurnAttempts;
use super::inbox::{QueuedInput, TurnInbox};
use super::turns::{ClaimedSession, TurnFailure, WorkerTurns};
use crate::names::last_id;
use crate::{NatsError, NatsSessions};

/// Pause before the next check of a session that another program works on.
const BUSY_PAUSE: Duration = Duration::from_secs(1);

/// Maximum pause before the next check of a session whose tenant has used up a quota.
const QUOTA_PAUSE: Duration = Duration::from_secs(60);

/// Maximum number of turns of a session in a row while wakes of other sessions are pending. Then
/// the session goes to the end of the queue, so that one with a thousand inputs does not occupy a
/// slot for all of them.
const MAX_IN_A_ROW: u64 = 4;

/// Interval at which the lease of a session is checked during a turn.
const LEASE_LOOK: Duration = Duration::from_millis(250);

/// Work for one wake message, with the state of its worker that it needs.
pub(crate) struct SessionWork {
    pub(crate) sessions: NatsSessions,
    pub(crate) inbox: TurnInbox,
    pub(crate) turns: Arc<dyn WorkerTurns>,
    pub(crate) max_attempts: u32,
    /// Class of the worker.
    pub(crate) class: String,
    /// Cancelled once no further turn may begin.
    pub(crate) stop: CancellationToken,
    /// Cancelled once running turns are to be interrupted.
    pub(crate) now: CancellationToken,
    /// Interval of the progress acknowledgements that extend the deadline of the wake message.
    pub(crate) beat: Duration,
}

/// Result of the work for a wake message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WorkOutcome {
    pub(crate) n_turns: u64,
    pub(crate) n_dead: u64,
    pub(crate) is_fenced: bool,
    pub(crate) is_interrupted: bool,
    pub(crate) is_claimed: bool,
}

/// Answer to a wake message.
enum WakeEnd {
    /// Acknowledges the wake: no input is left.
    Done,
    /// Has the wake delivered again after this time.
    Again(Duration),
    /// Moves the session to the end of the queue, behind all pending wakes.
    Behind,
}

impl SessionWork {
    /// Does the work for a wake message, and answers the message.
    pub(crate) async fn run(self, wake: Message) -> WorkOutcome {
        let mut outcome = WorkOutcome::default();
        let Some(at) = SessionAddress::parse(&last_id(&wake.subject)) else {
            // Any client that may publish can store a wake; drop one that names no session.
            let _ = wake.ack_with(AckKind::Term).await;
            return outcome;
        };
        let worked = {
            let work = self.work(&at, &mut outcome);
            tokio::pin!(work);
            let mut beat = tokio::time::interval(self.beat);
            loop {
                tokio::select! {
                    worked = &mut work => break worked,
                    _ = beat.tick() => {
                        let _ = wake.ack_with(AckKind::Progress).await;
                    }
                }
            }
        };
        let end = worked.unwrap_or_else(|error| {
            tracing::warn!(session = at.as_str(), %error, "a session is checked again");
            WakeEnd::Again(BUSY_PAUSE)
        });
        let answered = match end {
            WakeEnd::Done => wake.double_ack().await,
            WakeEnd::Again(pause) => wake.ack_with(AckKind::Nak(Some(pause))).await,
            // A redelivered wake would come before the pending ones, so publish a new one, which
            // comes after them.
            WakeEnd::Behind => match self.inbox.wake(&at, &self.class).await {
                Ok(()) => wake.double_ack().await,
                Err(_) => wake.ack_with(AckKind::Nak(None)).await,
            },
        };
        if let Err(error) = answered {
            tracing::debug!(%error, "a wake message was not acknowledged and will be redelivered");
        }
        outcome
    }

    async fn work(
        &self,
        at: &SessionAddress,
        outcome: &mut WorkOutcome,
    ) -> Result<WakeEnd, NatsError> {
        let Some(first) = self.inbox.first_input(at).await? else {
            return Ok(WakeEnd::Done);
        };
        match self.inbox.quotas().check_turn(at).await {
            Ok(()) => {}
            Err(error) if error.free_in().is_some() => {
                return Ok(wait_for_quota(at, error.free_in().unwrap_or_default()));
            }
            Err(error) => return Err(error),
        }
        let mut claimed = match self.turns.claim(at.as_str()).await {
            Ok(claimed) => claimed,
            Err(TurnFailure::Busy) => return Ok(WakeEnd::Again(BUSY_PAUSE)),
            Err(TurnFailure::OverQuota(free_in)) => return Ok(wait_for_quota(at, free_in)),
            Err(TurnFailure::Fenced) => {
                outcome.is_fenced = true;
                report_fenced(at);
                return Ok(WakeEnd::Again(BUSY_PAUSE));
            }
            Err(TurnFailure::Failed(cause)) => {
                let known = self.inbox.attempts(at, &first).await?;
                let attempts = TurnAttempts {
                    attempts: known.attempts + 1,
                    cause,
                    ..known
                };
                return self.note_failure(at, &first, attempts, outcome).await;
            }
        };
        outcome.is_claimed = true;
        let worked = self.run_inputs(at, &mut *claimed, outcome).await;
        claimed.close().await;
        worked
    }

    /// Runs the inputs of a claimed session, until none is left and the session runs no other turn.
    async fn run_inputs(
        &self,
        at: &SessionAddress,
        claimed: &mut dyn ClaimedSession,
        outcome: &mut WorkOutcome,
    ) -> Result<WakeEnd, NatsError> {
        loop {
            let end = self.run_waiting(at, claimed, outcome).await?;
            // Keep the session open for turns that people started in it from elsewhere.
            let is_idle = tokio::select! {
                () = claimed.idle() => true,
                () = self.now.cancelled() => false,
                () = self.lease_ends(at) => false,
            };
            if !is_idle || !matches!(end, WakeEnd::Done) {
                return Ok(end);
            }
            if self.inbox.first_input(at).await?.is_none() {
                return Ok(WakeEnd::Done);
            }
        }
    }

    /// Runs the queued inputs.
    async fn run_waiting(
        &self,
        at: &SessionAddress,
        claimed: &mut dyn ClaimedSession,
        outcome: &mut WorkOutcome,
    ) -> Result<WakeEnd, NatsError> {
        let mut n_in_a_row = 0;
        while let Some(input) = self.inbox.first_input(at).await? {
            if n_in_a_row >= MAX_IN_A_ROW {
                if self.inbox.n_waiting(&self.class).await? > 0 {
                    return Ok(WakeEnd::Behind);
                }
                n_in_a_row = 0;
            }
            n_in_a_row += 1;
            if self.stop.is_cancelled() {
                return Ok(WakeEnd::Again(Duration::ZERO));
            }
            let before = self.inbox.attempts(at, &input).await?;
            if before.attempts >= self.max_attempts {
                self.inbox.bury(at, &input, &before).await?;
                outcome.n_dead += 1;
                continue;
            }
            // Count the attempt before the turn: if the turn crashes its worker, nothing else
            // records it.
            let attempts = TurnAttempts {
                attempts: before.attempts + 1,
                ..before.clone()
            };
            self.inbox.set_attempts(at, &attempts).await?;
            match self.run_turn(at, claimed, &input).await {
                Some(Ok(())) => {
                    outcome.n_turns += 1;
                    self.inbox.remove_input(at, &input).await?;
                }
                Some(Err(TurnFailure::Failed(cause))) => {
                    let attempts = TurnAttempts { cause, ..attempts };
                    return self.note_failure(at, &input, attempts, outcome).await;
                }
                Some(Err(TurnFailure::OverQuota(free_in))) => {
                    self.inbox.set_attempts(at, &before).await?;
                    return Ok(wait_for_quota(at, free_in));
                }
                // The session cannot run an input now, so the turn did not begin.
                Some(Err(TurnFailure::Busy)) => {
                    self.inbox.set_attempts(at, &before).await?;
                    return Ok(WakeEnd::Again(BUSY_PAUSE));
                }
                Some(Err(TurnFailure::Fenced)) => {
                    outcome.is_fenced = true;
                    report_fenced(at);
                    return Ok(WakeEnd::Again(BUSY_PAUSE));
                }
                None => {
                    // An interruption is not the fault of the turn, so it does not count as an
                    // attempt.
                    outcome.is_interrupted = true;
                    self.inbox.set_attempts(at, &before).await?;
                    return Ok(WakeEnd::Again(Duration::ZERO));
                }
            }
        }
        Ok(WakeEnd::Done)
    }

    /// Runs the turn of an input; `None` if it was interrupted because the worker must release the
    /// session.
    async fn run_turn(
        &self,
        at: &SessionAddress,
        claimed: &mut dyn ClaimedSession,
        input: &QueuedInput,
    ) -> Option<Result<(), TurnFailure>> {
        tokio::select! {
            ended = claimed.run(input) => return Some(ended),
            () = self.now.cancelled() => return None,
            () = self.lease_ends(at) => {}
        }
        // The turn was dropped. If this program was paused for long, another worker may already
        // have the session.
        match self.sessions.is_held_elsewhere(at).await {
            Ok(true) => Some(Err(TurnFailure::Fenced)),
            Ok(false) => None,
            Err(error) => {
                tracing::debug!(%error, "it is not known who has the session now");
                None
            }
        }
    }

    /// Waits until the lease of a session is lost, or was not renewed for half of its time. Another
    /// worker may soon take the session over, so further work here would be wasted.
    async fn lease_ends(&self, at: &SessionAddress) {
        loop {
            tokio::time::sleep(LEASE_LOOK).await;
            if let Some((age, is_lost)) = self.sessions.lease_age(at)
                && (is_lost || age > self.sessions.lease_time() / 2)
            {
                return;
            }
        }
    }

    /// Records why a turn failed, or makes its input a dead letter after the last attempt.
    async fn note_failure(
        &self,
        at: &SessionAddress,
        input: &QueuedInput,
        attempts: TurnAttempts,
        outcome: &mut WorkOutcome,
    ) -> Result<WakeEnd, NatsError> {
        tracing::warn!(
            session = at.as_str(),
            class = self.class.as_str(),
            attempt = attempts.attempts,
            cause = attempts.cause.as_str(),
            "a turn failed"
        );
        if attempts.attempts >= self.max_attempts {
            self.inbox.bury(at, input, &attempts).await?;
            outcome.n_dead += 1;
            return Ok(WakeEnd::Again(Duration::ZERO));
        }
        self.inbox.set_attempts(at, &attempts).await?;
        let pause = Duration::from_secs(1 << attempts.attempts.min(5));
        Ok(WakeEnd::Again(pause))
    }
}

/// Has the session checked again when the quota is available, and at least every [`QUOTA_PAUSE`],
/// because the operator may raise the quota earlier.
fn wait_for_quota(at: &SessionAddress, free_in: Duration) -> WakeEnd {
    let pause = free_in.clamp(BUSY_PAUSE, QUOTA_PAUSE);
    tracing::info!(
        session = at.as_str(),
        seconds = pause.as_secs(),
        "a quota of the tenant is used up; the inputs of the session wait"
    );
    WakeEnd::Again(pause)
}

fn report_fenced(at: &SessionAddress) {
    tracing::warn!(
        session = at.as_str(),
        "another worker has continued the session and runs its turn; this worker stops writing to it"
    );
}
