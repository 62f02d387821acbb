//! Runs the turns of a worker with a [`Host`] whose sessions are in the worker's store.

use std::error::Error as StdError;

use futures_util::future::BoxFuture;
use rind_lib::host::{self, Host};
use rind_lib::point::payload::Source;
use rind_lib::session;
use rind_lib::text::format_error_chain;

use crate::{NatsError, TenantQuotaClient, TurnTokensAndCost};

use super::{ClaimedSession, QueuedInput, WorkerTurnExecutor, WorkerTurnFailure};

/// Runner of a worker's turns with a host. The session store of the host must be
/// `SessionStore::with_backend` the worker's store.
pub struct HostTurnRunner {
    host: Host,
    quotas: Option<TenantQuotaClient>,
}

impl HostTurnRunner {
    /// Creates a runner of turns with this host, without quotas.
    #[must_use]
    pub fn new(host: Host) -> Self {
        Self { host, quotas: None }
    }

    /// Makes turns count against the quotas of a tenant.
    #[must_use]
    pub fn with_quotas(mut self, quotas: TenantQuotaClient) -> Self {
        self.quotas = Some(quotas);
        self
    }
}

impl std::fmt::Debug for HostTurnRunner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostTurnRunner").finish_non_exhaustive()
    }
}

impl WorkerTurnExecutor for HostTurnRunner {
    fn claim_session<'a>(
        &'a self,
        session: &'a str,
    ) -> BoxFuture<'a, Result<Box<dyn ClaimedSession>, WorkerTurnFailure>> {
        Box::pin(async move {
            let (builder, id) = (self.host.session(), session.to_owned());
            // Open the session on a blocking thread, because opening reads all of it.
            let opened = tokio::task::spawn_blocking(move || builder.resume_or_create(&id)).await;
            let opened = opened.map_err(|error| WorkerTurnFailure::Failed(error.to_string()))?;
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
    quotas: Option<TenantQuotaClient>,
}

impl ClaimedSession for ClaimedHostSession {
    fn run<'a>(
        &'a mut self,
        input: &'a QueuedInput,
    ) -> BoxFuture<'a, Result<(), WorkerTurnFailure>> {
        Box::pin(async move {
            // Do not count an input toward the quotas if its turn has already ended: when it is
            // delivered again, it causes no model request.
            let taken = self.session.stored().find_turn_for_input_id(&input.id);
            let is_known = taken.is_some_and(|taken| taken.ended.is_some());
            let quotas = self.quotas.as_ref().filter(|_| !is_known);
            if let Some(quotas) = quotas {
                quotas
                    .count_turn_against_quotas()
                    .await
                    .map_err(quota_error_to_turn_failure)?;
            }
            let turn = self.session.turn(input.text.as_str());
            let turn = turn.source(Source::Http).input_id(input.id.as_str());
            let ended = turn.await.map_err(|error| to_turn_failure(&error))?;
            tracing::debug!(turn = ended.turn, "a turn ended");
            let stored = self.session.stored().sync_on_blocking_thread().await;
            stored.map_err(|error| to_turn_failure(&error))?;
            if let Some(quotas) = quotas {
                // Only log the error: the turn is stored, and reporting a failure would cause it to
                // run again.
                if let Err(error) = quotas
                    .add_turn_usage(TurnTokensAndCost::from_summary(&ended.summary))
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
fn quota_error_to_turn_failure(error: NatsError) -> WorkerTurnFailure {
    tracing::warn!(error = format_error_chain(&error), "a turn waits");
    WorkerTurnFailure::OverQuota(error.time_until_available().unwrap_or_default())
}

/// Converts an error of the host into the failure of the turn.
fn to_turn_failure(error: &(dyn StdError + 'static)) -> WorkerTurnFailure {
    match host::Error::find_session_error_in_chain(error) {
        Some(session::Error::Locked { .. } | session::Error::Exists { .. }) => {
            WorkerTurnFailure::Busy
        }
        Some(session::Error::Fenced { .. }) => WorkerTurnFailure::Fenced,
        _ => WorkerTurnFailure::Failed(format_error_chain(error)),
    }
}
