//! Runs the turns of a worker with a [`Host`] whose sessions are in the worker's store.

use std::error::Error as StdError;

use futures_util::future::BoxFuture;
use rind_lib::host::{self, Host};
use rind_lib::point::payload::Source;
use rind_lib::session;
use rind_lib::text::format_error_chain;

use crate::{NatsError, TenantQuotas, TurnUsage};

use super::{ClaimedSession, QueuedInput, TurnFailure, WorkerTurns};

/// Runner of a worker's turns with a host. The session store of the host must be
/// `SessionStore::with_backend` the worker's store.
pub struct HostTurnRunner {
    host: Host,
    quotas: Option<TenantQuotas>,
}

impl HostTurnRunner {
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

impl std::fmt::Debug for HostTurnRunner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostTurnRunner").finish_non_exhaustive()
    }
}

impl WorkerTurns for HostTurnRunner {
    fn claim<'a>(
        &'a self,
        session: &'a str,
    ) -> BoxFuture<'a, Result<Box<dyn ClaimedSession>, TurnFailure>> {
        Box::pin(async move {
            let (builder, id) = (self.host.session(), session.to_owned());
            // Open the session on a blocking thread, because opening reads all of it.
            let opened = tokio::task::spawn_blocking(move || builder.resume_or_create(&id)).await;
            let opened = opened.map_err(|error| TurnFailure::Failed(error.to_string()))?;
            let session = opened.map_err(|error| to_turn_failure(&error))?;
            let claimed: Box<dyn ClaimedSession> = Box::new(ClaimedHostSession {
                session,
                quotas: self.quotas.clone(),
            });
            Ok(claimed)
        })
    }
}

struct ClaimedHostSession {
    session: rind_lib::Session,
    quotas: Option<TenantQuotas>,
}

impl ClaimedSession for ClaimedHostSession {
    fn run<'a>(&'a mut self, input: &'a QueuedInput) -> BoxFuture<'a, Result<(), TurnFailure>> {
        Box::pin(async move {
            // Do not count an input toward the quotas if its turn has already ended: when it is
            // delivered again, it causes no model request.
            let taken = self.session.stored().taken_input(&input.id);
            let is_known = taken.is_some_and(|taken| taken.ended.is_some());
            let quotas = self.quotas.as_ref().filter(|_| !is_known);
            if let Some(quotas) = quotas {
                quotas.begin_turn().await.map_err(quota_turn_failure)?;
            }
            let turn = self.session.turn(input.text.as_str());
            let turn = turn.source(Source::Http).input_id(input.id.as_str());
            let ended = turn.await.map_err(|error| to_turn_failure(&error))?;
            tracing::debug!(turn = ended.turn, "a turn ended");
            let stored = self.session.stored().synced().await;
            stored.map_err(|error| to_turn_failure(&error))?;
            if let Some(quotas) = quotas {
                // Only log the error: the turn is stored, and reporting a failure would cause it to
                // run again.
                if let Err(error) = quotas
                    .end_turn(TurnUsage::from_summary(&ended.summary))
                    .await
                {
                    tracing::warn!(
                        error = format_error_chain(&error),
                        "the usage of a turn was not added to the quotas of the tenant"
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
                    error = format_error_chain(&error),
                    "a session did not close cleanly"
                );
            }
        })
    }
}

/// Converts an error of a quota check into the failure of the turn. The turn must wait even if the
/// quotas only cannot be read.
fn quota_turn_failure(error: NatsError) -> TurnFailure {
    tracing::warn!(error = format_error_chain(&error), "a turn waits");
    TurnFailure::OverQuota(error.time_until_available().unwrap_or_default())
}

/// Converts an error of the host into the failure of the turn.
fn to_turn_failure(error: &(dyn StdError + 'static)) -> TurnFailure {
    match host::Error::session_cause(error) {
        Some(session::Error::Locked { .. } | session::Error::Exists { .. }) => TurnFailure::Busy,
        Some(session::Error::Fenced { .. }) => TurnFailure::Fenced,
        _ => TurnFailure::Failed(format_error_chain(error)),
    }
}
