//! Gates that every turn of this program must pass: the quotas of a tenant, and the plugins that
//! are currently in force.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use rind_lib::point::payload::TurnSummary;
use rind_lib::text::error_chain;
use rind_nats::{NatsError, NatsSessions, PluginSets, TenantQuotas, TurnUse};
use rind_serve::gate::{GateRefusal, TurnGate};

use super::hosts::HostUses;

/// Lets turns begin as long as the tenant has quota left.
struct QuotaGate(TenantQuotas);

impl TurnGate for QuotaGate {
    fn check(&self) -> BoxFuture<'_, Result<(), GateRefusal>> {
        Box::pin(async move { self.0.check().await.map_err(refusal) })
    }

    fn begin(&self) -> BoxFuture<'_, Result<(), GateRefusal>> {
        Box::pin(async move {
            // Refuse the turn if the quotas cannot be read.
            self.0.begin_turn().await.map_err(refusal)
        })
    }

    fn end<'a>(&'a self, summary: &'a TurnSummary) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if let Err(error) = self.0.end_turn(TurnUse::of(summary)).await {
                let error = error_chain(&error);
                tracing::warn!(
                    error,
                    "the use of a turn was not added to the quotas of its tenant"
                );
            }
        })
    }
}

/// Lets a turn begin if the host's plugins are current, or the turn has a permit to continue, and
/// the tenant has quota left.
pub(super) struct HostGate {
    quotas: QuotaGate,
    uses: Arc<HostUses>,
}

impl HostGate {
    /// Creates the gate of a host. `uses` decides which turns the host may run.
    pub(super) fn new(quotas: TenantQuotas, uses: Arc<HostUses>) -> Self {
        let quotas = QuotaGate(quotas);
        Self { quotas, uses }
    }

    fn refuse_unless(&self, may_begin: bool) -> Result<(), GateRefusal> {
        match may_begin {
            true => Ok(()),
            false => Err(GateRefusal {
                text: "the plugins of the worker have changed, and it closes the session to open it with the new ones; send \
                       the input again"
                    .to_owned(),
                free_in: None,
            }),
        }
    }
}

impl TurnGate for HostGate {
    fn check(&self) -> BoxFuture<'_, Result<(), GateRefusal>> {
        Box::pin(async move {
            self.refuse_unless(self.uses.may_begin())?;
            self.quotas.check().await
        })
    }

    fn begin(&self) -> BoxFuture<'_, Result<(), GateRefusal>> {
        Box::pin(async move {
            self.refuse_unless(self.uses.begin_turn())?;
            self.quotas.begin().await
        })
    }

    fn end<'a>(&'a self, summary: &'a TurnSummary) -> BoxFuture<'a, ()> {
        self.quotas.end(summary)
    }
}

/// Gate of a program that has no key for sets of plugins. No turn may begin once a set is published
/// for the tenant or one of its classes, because the turn would run without the guards of the set.
pub(super) struct FrontGate {
    quotas: QuotaGate,
    sets: PluginSets,
    /// Whether workers run the turns that people start.
    has_workers: bool,
}

impl FrontGate {
    /// Creates the gate of a program that runs turns of a tenant.
    pub(super) fn new(sessions: &NatsSessions, has_workers: bool) -> Self {
        Self {
            quotas: QuotaGate(TenantQuotas::of(sessions)),
            sets: PluginSets::of(sessions),
            has_workers,
        }
    }

    async fn check_sets(&self) -> Result<(), GateRefusal> {
        match self.sets.is_published(None).await {
            Ok(false) => Ok(()),
            Ok(true) => Err(GateRefusal {
                text: "a set of plugins is published for the tenant, which only workers load; have them run the turns with \
                       --class"
                    .to_owned(),
                free_in: None,
            }),
            Err(error) => Err(refusal(error)),
        }
    }
}

impl TurnGate for FrontGate {
    fn check(&self) -> BoxFuture<'_, Result<(), GateRefusal>> {
        Box::pin(async move {
            if !self.has_workers {
                self.check_sets().await?;
            }
            self.quotas.check().await
        })
    }

    fn begin(&self) -> BoxFuture<'_, Result<(), GateRefusal>> {
        Box::pin(async move {
            self.check_sets().await?;
            self.quotas.begin().await
        })
    }

    fn end<'a>(&'a self, summary: &'a TurnSummary) -> BoxFuture<'a, ()> {
        self.quotas.end(summary)
    }
}

fn refusal(error: NatsError) -> GateRefusal {
    GateRefusal {
        free_in: error.free_in(),
        text: error_chain(&error),
    }
}
