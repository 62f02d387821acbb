//! Runs the turns of a worker with a [`Host`] whose sessions are in the worker's store.

use std::error::Error as StdError;

use futures_util::future::BoxFuture;
use rind_lib::host::{self, Host};
use rind_lib::point::payload::Source;
use rind_lib::session;
use rind_lib::text::error_chain;

use crate::{NatsError, TenantQuotas, TurnUse};

use super::{ClaimedSession, QueuedInput, TurnFailure, WorkerTurns};

/// Runs turns with a host. The store of the host must be `SessionStore::over` the worker's store.
pub struct HostTurns {
    host: Host,
    quotas: Option<TenantQuotas>,
}

impl HostTurns {
    /// Creates a runner of turns with this host, without quotas.
    #[must_use]
    pub fn new(host: Host) -> Self {
        Self { host, quotas: None }
    }

    /// Applies the quotas of a tenant to the turns.
    #[must_use]
    pub fn with_quotas(mut self, quotas: TenantQuotas) -> Self {
        self.quotas = Some(quotas);
        self
    }
}

impl std::fmt::Debug for HostTurns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostTurns").finish_non_exhaustive()
    }
}

impl WorkerTurns for HostTurns {
    fn claim<'a>(
        &'a self,
        session: &'a str,
    ) -> BoxFuture<'a, Result<Box<dyn ClaimedSession>, TurnFailure>> {
        Box::pin(async move {
            let (builder, id) = (self.host.session(), session.to_owned());
            // Opening blocks until the session is read.
            let opened = tokio::task::spawn_blocking(move || builder.resume_or_create(&id)).await;
            let opened = opened.map_err(|error| TurnFailure::Failed(error.to_string()))?;
            let session = opened.map_err(|error| failure_of(&error))?;
            let claimed: Box<dyn ClaimedSession> = Box::new(HostSession {
                session,
                quotas: self.quotas.clone(),
            });
            Ok(claimed)
        })
    }
}

struct HostSession {
    session: rind_lib::Session,
    quotas: Option<TenantQuotas>,
}

impl ClaimedSession for HostSession {
    fn run<'a>(&'a mut self, input: &'a QueuedInput) -> BoxFuture<'a, Result<(), TurnFailure>> {
        Box::pin(async move {
            // An input whose turn has already ended runs no model when it is delivered again, so it
            // is not counted.
            let taken = self.session.stored().taken_input(&input.id);
            let is_known = taken.is_some_and(|taken| taken.ended.is_some());
            let quotas = self.quotas.as_ref().filter(|_| !is_known);
            if let Some(quotas) = quotas {
                quotas.begin_turn().await.map_err(over_quota)?;
            }
            let turn = self.session.turn(input.text.as_str());
            let turn = turn.source(Source::Http).input_id(input.id.as_str());
            let ended = turn.await.map_err(|error| failure_of(&error))?;
            tracing::debug!(turn = ended.turn, "a turn ended");
            let stored = self.session.stored().synced().await;
            stored.map_err(|error| failure_of(&error))?;
            if let Some(quotas) = quotas {
                // The turn is stored. A failure here would only run it again and use more.
                if let Err(error) = quotas.end_turn(TurnUse::of(&ended.summary)).await {
                    tracing::warn!(
                        error = error_chain(&error),
                        "what a turn used is not counted in the quotas of the tenant"
                    );
                }
            }
            Ok(())
        })
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            if let Err(error) = self.session.close().await {
                tracing::warn!(
                    error = error_chain(&error),
                    "a session did not close cleanly"
                );
            }
        })
    }
}

/// Converts an error of the quotas into the failure of the turn. Without an answer about the
/// quotas, no turn runs.
fn over_quota(error: NatsError) -> TurnFailure {
    tracing::warn!(error = error_chain(&error), "a turn waits");
    TurnFailure::OverQuota(error.free_in().unwrap_or_default())
}

/// Converts an error of the host into the failure of the turn.
fn failure_of(error: &(dyn StdError + 'static)) -> TurnFailure {
    match host::Error::session_cause(error) {
        Some(session::Error::Locked { .. } | session::Error::Exists { .. }) => TurnFailure::Busy,
        Some(session::Error::Fenced { .. }) => TurnFailure::Fenced,
        _ => TurnFailure::Failed(error_chain(error)),
    }
}
