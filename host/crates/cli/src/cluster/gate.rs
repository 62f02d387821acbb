//! Decides whether a turn of this program may begin: the tenant must have quota left, and the
//! plugins must be those that are in force.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use rind_lib::point::payload::TurnSummary;
use rind_lib::text::format_error_chain;
use rind_nats::{NatsError, NatsSessions, PluginSets, TenantQuotas, TurnUsage};
use rind_serve::gate::{TurnGate, TurnGateRefusal};

use super::hosts::HostTurnPermits;

/// Lets turns begin as long as the tenant has quota left.
struct QuotaGate(TenantQuotas);

impl TurnGate for QuotaGate {
    fn check(&self) -> BoxFuture<'_, Result<(), TurnGateRefusal>> {
        Box::pin(async move { self.0.check().await.map_err(to_gate_refusal) })
    }

    fn begin(&self) -> BoxFuture<'_, Result<(), TurnGateRefusal>> {
        Box::pin(async move {
            // Refuse the turn if the quotas cannot be read.
            self.0.begin_turn().await.map_err(to_gate_refusal)
        })
    }

    fn end<'a>(&'a self, summary: &'a TurnSummary) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if let Err(error) = self.0.end_turn(TurnUsage::from_summary(summary)).await {
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
pub(super) struct HostTurnGate {
    quotas: QuotaGate,
    uses: Arc<HostTurnPermits>,
}

impl HostTurnGate {
    /// Creates the gate of a host. `uses` decides which turns the host may run.
    pub(super) fn new(quotas: TenantQuotas, uses: Arc<HostTurnPermits>) -> Self {
        let quotas = QuotaGate(quotas);
        Self { quotas, uses }
    }

    fn require_admission(&self, may_begin: bool) -> Result<(), TurnGateRefusal> {
        match may_begin {
            true => Ok(()),
            false => Err(TurnGateRefusal {
                text: "the plugins of the worker have changed, and it closes the session to open it with the new ones; send \
                       the input again"
                    .to_owned(),
                free_in: None,
            }),
        }
    }
}

impl TurnGate for HostTurnGate {
    fn check(&self) -> BoxFuture<'_, Result<(), TurnGateRefusal>> {
        Box::pin(async move {
            self.require_admission(self.uses.may_begin())?;
            self.quotas.check().await
        })
    }

    fn begin(&self) -> BoxFuture<'_, Result<(), TurnGateRefusal>> {
        Box::pin(async move {
            self.require_admission(self.uses.try_begin_turn())?;
            self.quotas.begin().await
        })
    }

    fn end<'a>(&'a self, summary: &'a TurnSummary) -> BoxFuture<'a, ()> {
        self.quotas.end(summary)
    }
}

/// Refuses turns in a program that has no key to verify sets of plugins, once a set is published
/// for the tenant or one of its classes: the turn would run without the guards of the set.
pub(super) struct KeylessTurnGate {
    quotas: QuotaGate,
    sets: PluginSets,
    /// Whether workers run the turns that people start.
    has_workers: bool,
}

impl KeylessTurnGate {
    /// Creates the gate for turns of the tenant to which `sessions` belongs.
    pub(super) fn new(sessions: &NatsSessions, has_workers: bool) -> Self {
        Self {
            quotas: QuotaGate(TenantQuotas::from_sessions(sessions)),
            sets: PluginSets::from_sessions(sessions),
            has_workers,
        }
    }

    async fn check_no_set_published(&self) -> Result<(), TurnGateRefusal> {
        match self.sets.is_plugin_set_published(None).await {
            Ok(false) => Ok(()),
            Ok(true) => Err(TurnGateRefusal {
                text: "a set of plugins is published for the tenant, which only workers load; have them run the turns with \
                       --class"
                    .to_owned(),
                free_in: None,
            }),
            Err(error) => Err(to_gate_refusal(error)),
        }
    }
}

impl TurnGate for KeylessTurnGate {
    fn check(&self) -> BoxFuture<'_, Result<(), TurnGateRefusal>> {
        Box::pin(async move {
            if !self.has_workers {
                self.check_no_set_published().await?;
            }
            self.quotas.check().await
        })
    }

    fn begin(&self) -> BoxFuture<'_, Result<(), TurnGateRefusal>> {
        Box::pin(async move {
            self.check_no_set_published().await?;
            self.quotas.begin().await
        })
    }

    fn end<'a>(&'a self, summary: &'a TurnSummary) -> BoxFuture<'a, ()> {
        self.quotas.end(summary)
    }
}

fn to_gate_refusal(error: NatsError) -> TurnGateRefusal {
    TurnGateRefusal {
        free_in: error.time_until_available(),
        text: format_error_chain(&error),
    }
}
