//! Applies the timeouts of one attempt, and classifies connection errors.
//!
//! Owns the timeout of each phase. It must not know the meaning of the awaited bytes, nor retry.
//! Servers send comments and pings while they load a model or while the model writes long
//! arguments. Comments and pings restart the idle timeout ([`AttemptTimer::note_alive`]), but a
//! longer timeout limits the time without a part of the answer. Only such a part ends a phase
//! ([`AttemptTimer::note_progress`]). Start from [`AttemptTimer::wait_until`].

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::endpoint::Endpoint;
use super::error::{Error, Phase};
use super::http::HttpConfig;
use super::retry::AttemptFailure;

/// The timer of one attempt.
pub(super) struct AttemptTimer<'a> {
    endpoint: &'a Endpoint,
    config: &'a HttpConfig,
    phase: Phase,
    /// Time of the last part of the answer.
    since: Instant,
    /// Time of the last bytes of any kind, including comments and pings.
    alive: Instant,
    limit_ms: u64,
}

impl<'a> AttemptTimer<'a> {
    /// Starts the timer of an attempt that began at `since`.
    pub(super) fn first_byte(
        endpoint: &'a Endpoint,
        config: &'a HttpConfig,
        since: Instant,
    ) -> Self {
        Self {
            endpoint,
            config,
            phase: Phase::FirstByte,
            since,
            alive: since,
            limit_ms: config.first_byte_timeout_ms,
        }
    }

    /// Waits for the response or its next bytes, at most as long as the phase allows.
    pub(super) async fn wait_until<T>(
        &mut self,
        arrival: impl Future<Output = reqwest::Result<T>>,
    ) -> Result<T, AttemptFailure> {
        let silent = self.alive + Duration::from_millis(self.limit_ms);
        let pinged_ms = self.config.ping_timeout_ms.max(self.limit_ms);
        let pinged = self.since + Duration::from_millis(pinged_ms);
        match timeout_at(silent.min(pinged), arrival).await {
            Ok(Ok(arrived)) => Ok(arrived),
            Ok(Err(error)) => Err(self.broken_error(&error)),
            // Silence permits a retry: a dead connection cannot be told from a slow server.
            Err(_) if silent <= pinged => Err(AttemptFailure::passing_failure(
                self.timeout_error(self.phase, self.limit_ms),
            )),
            Err(_) => Err(AttemptFailure::fatal_failure(
                self.timeout_error(Phase::Pings, pinged_ms),
            )),
        }
    }

    /// Restarts the idle timeout: the server sent a comment or ping.
    pub(super) fn note_alive(&mut self) {
        self.alive = Instant::now();
    }

    /// Waits for data after a complete answer, at most `rest`.
    pub(super) async fn wait_rest<T>(
        &self,
        rest: Duration,
        arrival: impl Future<Output = reqwest::Result<T>>,
    ) -> Option<T> {
        timeout_at(self.since + rest, arrival).await.ok()?.ok()
    }

    /// Restarts all timeouts: the server sent a part of the answer.
    pub(super) fn note_progress(&mut self) {
        self.phase = Phase::NextByte;
        self.since = Instant::now();
        self.alive = self.since;
        self.limit_ms = self.config.idle_timeout_ms;
    }

    fn timeout_error(&self, phase: Phase, after_ms: u64) -> Error {
        Error::Timeout {
            provider: self.endpoint.provider.clone(),
            phase,
            after_ms,
        }
    }

    /// Classifies an error while connecting or on the open connection.
    fn broken_error(&self, error: &reqwest::Error) -> AttemptFailure {
        let endpoint = self.endpoint;
        let (provider, cause) = (endpoint.provider.clone(), innermost_text(error));
        let failure =
            AttemptFailure::passing_failure(match (error.is_connect(), error.is_timeout()) {
                (true, true) => self.timeout_error(Phase::Connect, self.config.connect_timeout_ms),
                (true, false) => Error::Unreachable {
                    provider,
                    url: endpoint.shown_url(),
                    cause,
                    advice: endpoint.advice.clone(),
                },
                (false, _) => Error::EndedEarly { provider, cause },
            });
        AttemptFailure {
            is_unanswered: !error.is_connect() && matches!(self.phase, Phase::FirstByte),
            ..failure
        }
    }
}

/// Returns the root cause of an error: it is the most specific, and it contains no URL.
fn innermost_text(error: &reqwest::Error) -> String {
    let mut error: &dyn std::error::Error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string().to_lowercase()
}
