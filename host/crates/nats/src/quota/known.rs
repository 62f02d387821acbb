//! Short-lived cache of the servers' answers about quotas, so that a program does not ask them for
//! every input. Start from [`KnownQuotas`].

use std::time::{Duration, Instant};

use super::QuotaRefusal;

/// Time for which the answer that there are no quotas is cached.
const BELIEF: Duration = Duration::from_secs(2);

/// Time for which a refusal of an input applies to further inputs without a request, so that a
/// sender that floods its inbox does not load the servers for other tenants.
const REFUSAL: Duration = Duration::from_millis(500);

/// Cached answers about the quotas of a tenant, each with the time at which it expires.
#[derive(Debug, Default)]
pub(crate) struct KnownQuotas {
    none_until: Option<Instant>,
    refused: Option<(Instant, QuotaRefusal)>,
}

impl KnownQuotas {
    /// Whether it is cached that no quotas were declared.
    pub(super) fn are_none(&self) -> bool {
        self.none_until.is_some_and(|until| Instant::now() < until)
    }

    pub(super) fn note_none(&mut self) {
        self.none_until = Some(Instant::now() + BELIEF);
    }

    /// Returns the cached refusal of an input, if it still applies to further inputs.
    pub(super) fn refused_input(&self) -> Option<QuotaRefusal> {
        let (until, refusal) = self.refused.as_ref()?;
        let holds = Instant::now() < *until && !refusal.free_in().is_zero();
        holds.then(|| refusal.clone())
    }

    pub(super) fn note_refused(&mut self, refusal: QuotaRefusal) {
        self.refused = Some((Instant::now() + REFUSAL, refusal));
    }
}
