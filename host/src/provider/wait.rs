//! Applies the timeouts of one attempt, and classifies connection errors.
//!
//! Owns the timeout of each phase. It must not know the meaning of the awaited bytes, nor retry.
//! Servers send comments and pings while they load a model or while the model writes long
//! arguments. Comments and pings restart the idle timeout
//! ([`RequestAttemptTimeouts::restart_idle_timeout`]), but a longer timeout limits the time without
//! a part of the answer. Only such a part ends a phase
//! ([`RequestAttemptTimeouts::restart_all_timeouts`]). Start from
//! [`RequestAttemptTimeouts::wait_for_data`].

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::endpoint::ModelApiEndpoint;
use super::error::{Error, TimedRequestPhase};
use super::http::HttpConfig;
use super::retry::RequestAttemptFailure;

/// Timeouts of one attempt to send a request and read the answer.
pub(super) struct RequestAttemptTimeouts<'a> {
    endpoint: &'a ModelApiEndpoint,
    config: &'a HttpConfig,
    phase: TimedRequestPhase,
    /// Time at which the last part of the answer arrived, or at which the attempt began.
    since: Instant,
    /// Time at which the last bytes of any kind arrived, including comments and pings.
    alive: Instant,
    limit_ms: u64,
}

impl<'a> RequestAttemptTimeouts<'a> {
    /// Starts the timeouts of an attempt that began at the time `since`.
    pub(super) fn start_timer(
        endpoint: &'a ModelApiEndpoint,
        config: &'a HttpConfig,
        since: Instant,
    ) -> Self {
        Self {
            endpoint,
            config,
            phase: TimedRequestPhase::FirstByte,
            since,
            alive: since,
            limit_ms: config.first_byte_timeout_ms,
        }
    }

    /// Waits for the response or its next bytes, at most as long as the phase allows.
    pub(super) async fn wait_for_data<T>(
        &mut self,
        arrival: impl Future<Output = reqwest::Result<T>>,
    ) -> Result<T, RequestAttemptFailure> {
        let silent = self.alive + Duration::from_millis(self.limit_ms);
        let pinged_ms = self.config.ping_timeout_ms.max(self.limit_ms);
        let pinged = self.since + Duration::from_millis(pinged_ms);
        match timeout_at(silent.min(pinged), arrival).await {
            Ok(Ok(arrived)) => Ok(arrived),
            Ok(Err(error)) => Err(self.network_error_to_failure(&error)),
            // Nothing arrived, not even a ping: the connection may be dead or the server slow, so
            // a retry may succeed.
            Err(_) if silent <= pinged => Err(RequestAttemptFailure::new_retryable(
                self.timeout_error(self.phase, self.limit_ms),
            )),
            Err(_) => Err(RequestAttemptFailure::new_fatal(
                self.timeout_error(TimedRequestPhase::Pings, pinged_ms),
            )),
        }
    }

    /// Restarts the idle timeout: the server sent a comment or ping.
    pub(super) fn restart_idle_timeout(&mut self) {
        self.alive = Instant::now();
    }

    /// Waits for data after a complete answer, at most for the time `rest`.
    pub(super) async fn wait_for_trailing_data<T>(
        &self,
        rest: Duration,
        arrival: impl Future<Output = reqwest::Result<T>>,
    ) -> Option<T> {
        timeout_at(self.since + rest, arrival).await.ok()?.ok()
    }

    /// Restarts all timeouts: the server sent a part of the answer.
    pub(super) fn restart_all_timeouts(&mut self) {
        self.phase = TimedRequestPhase::NextByte;
        self.since = Instant::now();
        self.alive = self.since;
        self.limit_ms = self.config.idle_timeout_ms;
    }

    fn timeout_error(&self, phase: TimedRequestPhase, after_ms: u64) -> Error {
        Error::Timeout {
            provider: self.endpoint.provider.clone(),
            phase,
            after_ms,
        }
    }

    /// Converts a network error to the failure of the attempt: a failed connection, or an open
    /// connection that broke.
    fn network_error_to_failure(&self, error: &reqwest::Error) -> RequestAttemptFailure {
        let endpoint = self.endpoint;
        let (provider, cause) = (endpoint.provider.clone(), find_root_cause(error));
        let failure =
            RequestAttemptFailure::new_retryable(match (error.is_connect(), error.is_timeout()) {
                (true, true) => {
                    self.timeout_error(TimedRequestPhase::Connect, self.config.connect_timeout_ms)
                }
                (true, false) => Error::Unreachable {
                    provider,
                    url: endpoint.display_url(),
                    cause,
                    advice: endpoint.advice.clone(),
                },
                (false, _) => Error::EndedEarly { provider, cause },
            });
        RequestAttemptFailure {
            is_unanswered: !error.is_connect()
                && matches!(self.phase, TimedRequestPhase::FirstByte),
            ..failure
        }
    }
}

/// Returns the root cause of an error: it is the most specific, and it contains no URL.
fn find_root_cause(error: &reqwest::Error) -> String {
    let mut error: &dyn std::error::Error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string().to_lowercase()
}
