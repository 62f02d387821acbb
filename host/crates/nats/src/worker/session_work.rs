//! Handles one wake message: runs the queued inputs of a session in order.

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::{AckKind, Message};
use rind_lib::session::SessionAddress;
use tokio_util::sync::CancellationToken;

use super::dead::QueuedInputAttempts;
use super::inbox::{QueuedInput, SessionInboxClient};
use super::turns::{ClaimedSession, WorkerTurnExecutor, WorkerTurnFailure};
use crate::names::id_in_last_subject_token;
use crate::{NatsError, NatsSessions};

/// Pause before the next check of a session that another program works on.
const BUSY_SESSION_RECHECK_DELAY: Duration = Duration::from_secs(1);

/// Maximum pause before the next check of a session whose tenant has used up a quota.
const MAX_EXHAUSTED_QUOTA_RECHECK_DELAY: Duration = Duration::from_secs(60);

/// Maximum number of consecutive turns of a session while wake messages for other sessions are
/// pending. After that, the session goes to the end of the queue, so that a session with many
/// inputs does not occupy a slot until all of them have run.
const MAX_CONSECUTIVE_TURNS_PER_SESSION: u64 = 4;

/// Interval at which the lease of a session is checked during a turn.
const SESSION_LEASE_CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// Handles one wake message: runs the inputs of its session. Contains the state of the worker that
/// this needs.
pub(crate) struct WakeMessageHandler {
    pub(crate) sessions: NatsSessions,
    pub(crate) inbox: SessionInboxClient,
    pub(crate) turns: Arc<dyn WorkerTurnExecutor>,
    pub(crate) max_attempts: u32,
    /// Class of the worker; it runs only inputs for this class.
    pub(crate) class: String,
    /// Token that prevents further turns from beginning when it is cancelled.
    pub(crate) stop: CancellationToken,
    /// Token that interrupts running turns when it is cancelled.
    pub(crate) now: CancellationToken,
    /// Interval of the progress acknowledgements that extend the deadline of the wake message.
    pub(crate) beat: Duration,
}

/// Counts of a handled wake message: turns, dead letters and other results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WakeMessageResultCounts {
    pub(crate) n_turns: u64,
    pub(crate) n_dead: u64,
    pub(crate) is_fenced: bool,
    pub(crate) is_interrupted: bool,
    pub(crate) is_claimed: bool,
}

/// Answer with which the worker ends the handling of a wake message.
enum WakeMessageAcknowledgement {
    /// Acknowledges the wake message: the session has no input left.
    Done,
    /// Asks the server to deliver the wake message again after this time.
    Again(Duration),
    /// Moves the session to the end of the queue, behind all pending wakes.
    Behind,
}

impl WakeMessageHandler {
    /// Handles a wake message: runs the inputs of the session, and answers the message.
    pub(crate) async fn handle_wake_message(self, wake: Message) -> WakeMessageResultCounts {
        let mut outcome = WakeMessageResultCounts::default();
        let Some(at) = SessionAddress::parse(&id_in_last_subject_token(&wake.subject)) else {
            // Drop a wake whose subject contains no valid session id: any client may store one.
            let _ = wake.ack_with(AckKind::Term).await;
            return outcome;
        };
        let worked = {
            let work = self.handle_session_wake(&at, &mut outcome);
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
            WakeMessageAcknowledgement::Again(BUSY_SESSION_RECHECK_DELAY)
        });
        let answered = match end {
            WakeMessageAcknowledgement::Done => wake.double_ack().await,
            WakeMessageAcknowledgement::Again(pause) => {
                wake.ack_with(AckKind::Nak(Some(pause))).await
            }
            // Publish a new wake message, which is delivered after the pending ones. A redelivered
            // message would be delivered before them.
            WakeMessageAcknowledgement::Behind => {
                match self.inbox.send_session_wake(&at, &self.class).await {
                    Ok(()) => wake.double_ack().await,
                    Err(_) => wake.ack_with(AckKind::Nak(None)).await,
                }
            }
        };
        if let Err(error) = answered {
            tracing::debug!(%error, "a wake message was not acknowledged and will be redelivered");
        }
        outcome
    }

    async fn handle_session_wake(
        &self,
        at: &SessionAddress,
        outcome: &mut WakeMessageResultCounts,
    ) -> Result<WakeMessageAcknowledgement, NatsError> {
        let Some(first) = self.inbox.first_queued_input(at).await? else {
            return Ok(WakeMessageAcknowledgement::Done);
        };
        match self.inbox.quotas().check_session_turn_quotas(at).await {
            Ok(()) => {}
            Err(error) if error.time_until_available().is_some() => {
                return Ok(redeliver_when_quota_available(
                    at,
                    error.time_until_available().unwrap_or_default(),
                ));
            }
            Err(error) => return Err(error),
        }
        let mut claimed = match self.turns.claim_session(at.as_str()).await {
            Ok(claimed) => claimed,
            Err(WorkerTurnFailure::Busy) => {
                return Ok(WakeMessageAcknowledgement::Again(
                    BUSY_SESSION_RECHECK_DELAY,
                ));
            }
            Err(WorkerTurnFailure::OverQuota(free_in)) => {
                return Ok(redeliver_when_quota_available(at, free_in));
            }
            Err(WorkerTurnFailure::Fenced) => {
                outcome.is_fenced = true;
                log_session_taken_over(at);
                return Ok(WakeMessageAcknowledgement::Again(
                    BUSY_SESSION_RECHECK_DELAY,
                ));
            }
            Err(WorkerTurnFailure::Failed(cause)) => {
                let known = self.inbox.recorded_attempts(at, &first).await?;
                let attempts = QueuedInputAttempts {
                    attempts: known.attempts + 1,
                    cause,
                    ..known
                };
                return self
                    .record_turn_failure(at, &first, attempts, outcome)
                    .await;
            }
        };
        outcome.is_claimed = true;
        let worked = self.run_session_inputs(at, &mut *claimed, outcome).await;
        claimed.close().await;
        worked
    }

    /// Runs the inputs of a claimed session until no input is queued and no other turn runs in the
    /// session.
    async fn run_session_inputs(
        &self,
        at: &SessionAddress,
        claimed: &mut dyn ClaimedSession,
        outcome: &mut WakeMessageResultCounts,
    ) -> Result<WakeMessageAcknowledgement, NatsError> {
        loop {
            let end = self.run_queued_inputs(at, claimed, outcome).await?;
            // Keep the session open while turns run in it that the worker did not start.
            let is_idle = tokio::select! {
                () = claimed.wait_until_idle() => true,
                () = self.now.cancelled() => false,
                () = self.wait_until_lease_endangered(at) => false,
            };
            if !is_idle || !matches!(end, WakeMessageAcknowledgement::Done) {
                return Ok(end);
            }
            if self.inbox.first_queued_input(at).await?.is_none() {
                return Ok(WakeMessageAcknowledgement::Done);
            }
        }
    }

    /// Runs the queued inputs of a claimed session in order.
    async fn run_queued_inputs(
        &self,
        at: &SessionAddress,
        claimed: &mut dyn ClaimedSession,
        outcome: &mut WakeMessageResultCounts,
    ) -> Result<WakeMessageAcknowledgement, NatsError> {
        let mut n_in_a_row = 0;
        while let Some(input) = self.inbox.first_queued_input(at).await? {
            if n_in_a_row >= MAX_CONSECUTIVE_TURNS_PER_SESSION {
                if self.inbox.count_undelivered_wakes(&self.class).await? > 0 {
                    return Ok(WakeMessageAcknowledgement::Behind);
                }
                n_in_a_row = 0;
            }
            n_in_a_row += 1;
            if self.stop.is_cancelled() {
                return Ok(WakeMessageAcknowledgement::Again(Duration::ZERO));
            }
            let before = self.inbox.recorded_attempts(at, &input).await?;
            if before.attempts >= self.max_attempts {
                self.inbox.move_to_dead_letters(at, &input, &before).await?;
                outcome.n_dead += 1;
                continue;
            }
            // Record the attempt before the turn, so that it counts even if the turn crashes the
            // worker.
            let attempts = QueuedInputAttempts {
                attempts: before.attempts + 1,
                ..before.clone()
            };
            self.inbox.record_input_attempts(at, &attempts).await?;
            match self.run_turn(at, claimed, &input).await {
                Some(Ok(())) => {
                    outcome.n_turns += 1;
                    self.inbox.remove_inputs_through(at, &input).await?;
                }
                Some(Err(WorkerTurnFailure::Failed(cause))) => {
                    let attempts = QueuedInputAttempts { cause, ..attempts };
                    return self
                        .record_turn_failure(at, &input, attempts, outcome)
                        .await;
                }
                Some(Err(WorkerTurnFailure::OverQuota(free_in))) => {
                    self.inbox.record_input_attempts(at, &before).await?;
                    return Ok(redeliver_when_quota_available(at, free_in));
                }
                // Do not count the attempt: the session was busy, so the turn did not begin.
                Some(Err(WorkerTurnFailure::Busy)) => {
                    self.inbox.record_input_attempts(at, &before).await?;
                    return Ok(WakeMessageAcknowledgement::Again(
                        BUSY_SESSION_RECHECK_DELAY,
                    ));
                }
                Some(Err(WorkerTurnFailure::Fenced)) => {
                    outcome.is_fenced = true;
                    log_session_taken_over(at);
                    return Ok(WakeMessageAcknowledgement::Again(
                        BUSY_SESSION_RECHECK_DELAY,
                    ));
                }
                None => {
                    // Do not count the attempt: the interruption is not the fault of the turn.
                    outcome.is_interrupted = true;
                    self.inbox.record_input_attempts(at, &before).await?;
                    return Ok(WakeMessageAcknowledgement::Again(Duration::ZERO));
                }
            }
        }
        Ok(WakeMessageAcknowledgement::Done)
    }

    /// Runs the turn of an input; `None` if it was interrupted because the worker must release the
    /// session.
    async fn run_turn(
        &self,
        at: &SessionAddress,
        claimed: &mut dyn ClaimedSession,
        input: &QueuedInput,
    ) -> Option<Result<(), WorkerTurnFailure>> {
        tokio::select! {
            ended = claimed.run(input) => return Some(ended),
            () = self.now.cancelled() => return None,
            () = self.wait_until_lease_endangered(at) => {}
        }
        // The turn's future was dropped. If this program was paused for long, another worker may
        // already have the session.
        match self.sessions.is_leased_elsewhere(at).await {
            Ok(true) => Some(Err(WorkerTurnFailure::Fenced)),
            Ok(false) => None,
            Err(error) => {
                tracing::debug!(%error, "it is not known who has the session now");
                None
            }
        }
    }

    /// Waits until the lease of a session is lost, or was not renewed for half of its lifetime.
    /// Then another worker may soon take the session over, and further work here would be wasted.
    async fn wait_until_lease_endangered(&self, at: &SessionAddress) {
        loop {
            tokio::time::sleep(SESSION_LEASE_CHECK_INTERVAL).await;
            if let Some((age, is_lost)) = self.sessions.lease_age(at)
                && (is_lost || age > self.sessions.lease_duration() / 2)
            {
                return;
            }
        }
    }

    /// Records the cause of a failed turn. After the last attempt, makes the input a dead letter.
    async fn record_turn_failure(
        &self,
        at: &SessionAddress,
        input: &QueuedInput,
        attempts: QueuedInputAttempts,
        outcome: &mut WakeMessageResultCounts,
    ) -> Result<WakeMessageAcknowledgement, NatsError> {
        tracing::warn!(
            session = at.as_str(),
            class = self.class.as_str(),
            attempt = attempts.attempts,
            cause = attempts.cause.as_str(),
            "a turn failed"
        );
        if attempts.attempts >= self.max_attempts {
            self.inbox
                .move_to_dead_letters(at, input, &attempts)
                .await?;
            outcome.n_dead += 1;
            return Ok(WakeMessageAcknowledgement::Again(Duration::ZERO));
        }
        self.inbox.record_input_attempts(at, &attempts).await?;
        let pause = Duration::from_secs(1 << attempts.attempts.min(5));
        Ok(WakeMessageAcknowledgement::Again(pause))
    }
}

/// Returns the answer that requests another delivery of the wake when the quota is available again.
/// The delay is at most [`MAX_EXHAUSTED_QUOTA_RECHECK_DELAY`], because the operator may raise the
/// quota earlier.
fn redeliver_when_quota_available(
    at: &SessionAddress,
    free_in: Duration,
) -> WakeMessageAcknowledgement {
    let pause = free_in.clamp(
        BUSY_SESSION_RECHECK_DELAY,
        MAX_EXHAUSTED_QUOTA_RECHECK_DELAY,
    );
    tracing::info!(
        session = at.as_str(),
        seconds = pause.as_secs(),
        "a quota of the tenant is used up; the inputs of the session wait"
    );
    WakeMessageAcknowledgement::Again(pause)
}

fn log_session_taken_over(at: &SessionAddress) {
    tracing::warn!(
        session = at.as_str(),
        "another worker has continued the session and runs its turn; this worker stops writing to it"
    );
}
