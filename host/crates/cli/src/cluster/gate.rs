//! The quotas of a tenant as a gate that every turn of this program passes.

use futures_util::future::BoxFuture;
use rind_lib::point::payload::TurnSummary;
use rind_lib::text::error_chain;
use rind_nats::{NatsError, TenantQuotas, TurnUse};
use rind_serve::gate::{GateRefusal, TurnGate};

/// Lets turns begin as long as the tenant has quota left.
pub(super) struct QuotaGate(pub(super) TenantQuotas);

impl TurnGate for QuotaGate {
    fn check(&self) -> BoxFuture<'_, Result<(), GateRefusal>> {
        Box::pin(async move { self.0.check().await.map_err(refusal) })
    }

    fn begin(&self) -> BoxFuture<'_, Result<(), GateRefusal>> {
        Box::pin(async move {
            // Without an answer about the quotas no turn begins.
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

fn refusal(error: NatsError) -> GateRefusal {
    GateRefusal {
        free_in: error.free_in(),
        text: error_chain(&error),
    }
}
