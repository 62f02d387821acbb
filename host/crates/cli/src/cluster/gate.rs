//! Decides whether a turn of this program may begin: the tenant must have quota left, and the
//! plugins must be those that are in force.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use rind_lib::point::payload::TurnSummary;
use rind_lib::text::format_error_chain;
use rind_nats::{
    NatsError, NatsSessions, TenantPluginSetStore, TenantQuotaClient, TurnTokensAndCost,
};
use rind_serve::gate::{TurnAdmissionController, TurnStartRefusal};

use super::hosts::HostTurnPermits;

/// Lets turns begin as long as the tenant has quota left.
struct QuotaTurnAdmissionController(TenantQuotaClient);

impl TurnAdmissionController for QuotaTurnAdmissionController {
    fn check(&self) -> BoxFuture<'_, Result<(), TurnStartRefusal>> {
        Box::pin(async move {
            self.0
                .check_turn_quotas()
                .await
                .map_err(quota_error_to_turn_refusal)
        })
    }

    fn admit_and_count_turn(&self) -> BoxFuture<'_, Result<(), TurnStartRefusal>> {
        Box::pin(async move {
            // Refuse the turn if the quotas cannot be read.
            self.0
                .count_turn_against_quotas()
                .await
                .map_err(quota_error_to_turn_refusal)
        })
    }

    fn record_finished_turn<'a>(&'a self, summary: &'a TurnSummary) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if let Err(error) = self
                .0
                .add_turn_usage(TurnTokensAndCost::from_summary(summary))
                .await
            {
                let error = format_error_chain(&error);
                tracing::warn!(
                    error,
                    "the use of a turn was not added to the quotas of its tenant"
                );
            }
        })
    }
}

/// Lets a turn begin if the tenant has quota left, and the host's plugins are the current ones or
/// the host has a permit to continue a turn that was interrupted with these plugins.
pub(super) struct HostTurnAdmissionController {
    quotas: QuotaTurnAdmissionController,
    uses: Arc<HostTurnPermits>,
}

impl HostTurnAdmissionController {
    /// Creates the gate of a host. `uses` decides which turns the host may run.
    pub(super) fn new(quotas: TenantQuotaClient, uses: Arc<HostTurnPermits>) -> Self {
        let quotas = QuotaTurnAdmissionController(quotas);
        Self { quotas, uses }
    }

    fn refuse_turn_of_replaced_host(&self, may_begin: bool) -> Result<(), TurnStartRefusal> {
        match may_begin {
            true => Ok(()),
            false => Err(TurnStartRefusal {
                text: "the plugins of the worker have changed, and it closes the session to open it with the new ones; send \
                       the input again"
                    .to_owned(),
                free_in: None,
            }),
        }
    }
}

impl TurnAdmissionController for HostTurnAdmissionController {
    fn check(&self) -> BoxFuture<'_, Result<(), TurnStartRefusal>> {
        Box::pin(async move {
            self.refuse_turn_of_replaced_host(self.uses.can_begin_turn())?;
            self.quotas.check().await
        })
    }

    fn admit_and_count_turn(&self) -> BoxFuture<'_, Result<(), TurnStartRefusal>> {
        Box::pin(async move {
            self.refuse_turn_of_replaced_host(self.uses.try_consume_turn_permit())?;
            self.quotas.admit_and_count_turn().await
        })
    }

    fn record_finished_turn<'a>(&'a self, summary: &'a TurnSummary) -> BoxFuture<'a, ()> {
        self.quotas.record_finished_turn(summary)
    }
}

/// Refuses turns in a program that has no key to verify sets of plugins, once a set is published
/// for the tenant or one of its classes: the turn would run without the guards of the set.
pub(super) struct UnverifiablePluginSetTurnGate {
    quotas: QuotaTurnAdmissionController,
    sets: TenantPluginSetStore,
    /// Whether other programs, the workers, run the turns that people start.
    has_workers: bool,
}

impl UnverifiablePluginSetTurnGate {
    /// Creates the gate for turns of the tenant to which `sessions` belongs.
    pub(super) fn new(sessions: &NatsSessions, has_workers: bool) -> Self {
        Self {
            quotas: QuotaTurnAdmissionController(TenantQuotaClient::from_sessions(sessions)),
            sets: TenantPluginSetStore::from_sessions(sessions),
            has_workers,
        }
    }

    async fn check_plugin_set_unpublished(&self) -> Result<(), TurnStartRefusal> {
        match self.sets.is_plugin_set_published(None).await {
            Ok(false) => Ok(()),
            Ok(true) => Err(TurnStartRefusal {
                text: "a set of plugins is published for the tenant, which only workers load; have them run the turns with \
                       --class"
                    .to_owned(),
                free_in: None,
            }),
            Err(error) => Err(quota_error_to_turn_refusal(error)),
        }
    }
}

impl TurnAdmissionController for UnverifiablePluginSetTurnGate {
    fn check(&self) -> BoxFuture<'_, Result<(), TurnStartRefusal>> {
        Box::pin(async move {
            if !self.has_workers {
                self.check_plugin_set_unpublished().await?;
            }
            self.quotas.check().await
        })
    }

    fn admit_and_count_turn(&self) -> BoxFuture<'_, Result<(), TurnStartRefusal>> {
        Box::pin(async move {
            self.check_plugin_set_unpublished().await?;
            self.quotas.admit_and_count_turn().await
        })
    }

    fn record_finished_turn<'a>(&'a self, summary: &'a TurnSummary) -> BoxFuture<'a, ()> {
        self.quotas.record_finished_turn(summary)
    }
}

fn quota_error_to_turn_refusal(error: NatsError) -> TurnStartRefusal {
    TurnStartRefusal {
        free_in: error.time_until_available(),
        text: format_error_chain(&error),
    }
}
