//! Caches the servers' answers about quotas for a short time, so that not every input causes a
//! request. Start from [`TenantQuotaCache`].

use std::time::{Duration, Instant};

use super::QuotaExceededError;

/// Time for which the information that the tenant has no quotas is cached.
const NO_QUOTAS_CACHE_LIFETIME: Duration = Duration::from_secs(2);

/// Time for which a cached refusal also applies to further inputs, without a request to the
/// servers. A sender that floods an inbox thus causes little load.
const REFUSAL_CACHE_LIFETIME: Duration = Duration::from_millis(500);

/// Cache of the servers' answers about a tenant's quotas. Each answer has an expiry time.
#[derive(Debug, Default)]
pub(crate) struct TenantQuotaCache {
    none_until: Option<Instant>,
    refused: Option<(Instant, QuotaExceededError)>,
}

impl TenantQuotaCache {
    /// Whether a cached answer that has not expired says that no quotas are declared.
    pub(super) fn is_absence_of_quotas_cached(&self) -> bool {
        self.none_until.is_some_and(|until| Instant::now() < until)
    }

    pub(super) fn cache_absence_of_quotas(&mut self) {
        self.none_until = Some(Instant::now() + NO_QUOTAS_CACHE_LIFETIME);
    }

    /// Returns the cached refusal of an earlier input, if it still applies to further inputs.
    pub(super) fn cached_refusal(&self) -> Option<QuotaExceededError> {
        let (until, refusal) = self.refused.as_ref()?;
        let holds = Instant::now() < *until && !refusal.time_until_available().is_zero();
        holds.then(|| refusal.clone())
    }

    pub(super) fn cache_refusal(&mut self, refusal: QuotaExceededError) {
        self.refused = Some((Instant::now() + REFUSAL_CACHE_LIFETIME, refusal));
    }
}
