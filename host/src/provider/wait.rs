//! The time limits of one attempt, and what a broken connection means.
//!
//! Owns which limit holds in which phase. It must not know what is waited for, nor try again. Comments and pings, which servers
//! send while a model loads or writes a long argument, show that the server is alive: they begin the wait anew
//! ([`Wait::alive`]), up to a bound of their own. Only a part of the answer ends a phase ([`Wait::progress`]).
//! Start from [`Wait::until`].

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::endpoint::Endpoint;
use super::error::{Error, Phase};
use super::http::HttpConfig;
use super::retry::Failure;

/// The clock of one attempt.
pub(super) struct Wait<'a> {
    endpoint: &'a Endpoint,
    config: &'a HttpConfig,
    phase: Phase,
    /// Time of the last part of the answer.
    since: Instant,
    /// Time of the last sign of life.
    alive: Instant,
    limit_ms: u64,
}

impl<'a> Wait<'a> {
    /// The clock of an attempt that began at `since`.
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

    /// Waits for the response or its next piece, no longer than the phase allows.
    pub(super) async fn until<T>(
        &mut self,
        arrival: impl Future<Output = reqwest::Result<T>>,
    ) -> Result<T, Failure> {
        let silent = self.alive + Duration::from_millis(self.limit_ms);
        let pinged_ms = self.config.ping_timeout_ms.max(self.limit_ms);
        let pinged = self.since + Duration::from_millis(pinged_ms);
        match timeout_at(silent.min(pinged), arrival).await {
            Ok(Ok(arrived)) => Ok(arrived),
            Ok(Err(error)) => Err(self.broken(&error)),
            // A server that keeps silent may answer the next attempt: a connection that went dead looks just like it.
            Err(_) if silent <= pinged => {
                Err(Failure::passing(self.timeout(self.phase, self.limit_ms)))
            }
            Err(_) => Err(Failure::fatal(self.timeout(Phase::Pings, pinged_ms))),
        }
    }

    /// The server showed that it is alive.
    pub(super) fn alive(&mut self) {
        self.alive = Instant::now();
    }

    /// The answer is whole: waits for what may still follow it no longer than `rest`.
    pub(super) async fn rest<T>(
        &self,
        rest: Duration,
        arrival: impl Future<Output = reqwest::Result<T>>,
    ) -> Option<T> {
        timeout_at(self.since + rest, arrival).await.ok()?.ok()
    }

    /// More of the answer has come: the wait for the next piece begins.
    pub(super) fn progress(&mut self) {
        self.phase = Phase::NextByte;
        self.since = Instant::now();
        self.alive = self.since;
        self.limit_ms = self.config.idle_timeout_ms;
    }

    fn timeout(&self, phase: Phase, after_ms: u64) -> Error {
        Error::Timeout {
            provider: self.endpoint.provider.clone(),
            phase,
            after_ms,
        }
    }

    /// The failure of the connection, before or after it stood.
    fn broken(&self, error: &reqwest::Error) -> Failure {
        let endpoint = self.endpoint;
        let (provider, cause) = (endpoint.provider.clone(), innermost(error));
        Failure::passing(match (error.is_connect(), error.is_timeout()) {
            (true, true) => self.timeout(Phase::Connect, self.config.connect_timeout_ms),
            (true, false) => Error::Unreachable {
                provider,
                url: endpoint.shown_url(),
                cause,
                advice: endpoint.advice.clone(),
            },
            (false, _) => Error::EndedEarly { provider, cause },
        })
    }
}

/// The error at the bottom of the chain: it alone says what really happened, and it names no URL.
fn innermost(error: &reqwest::Error) -> String {
    let mut error: &dyn std::error::Error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string().to_lowercase()
}
