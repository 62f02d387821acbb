//! Answers of the servers about quotas that a program relies on for a moment, so that it does not ask
//! them for every input. Start from [`KnownQuotas`].

use std::time::{Duration, Instant};

use super::QuotaRefusal;

/// Time for which it is believed that no quotas were declared.
const BELIEF: Duration = Duration::from_secs(2);

/// Time for which an input is refused as the one before it was, without asking the servers: a sender
/// that floods must not burden them for the others.
const REFUSAL: Duration = Duration::from_millis(500);

/// Answers about the quotas of a tenant, each with the time until which it is relied on.
#[derive(Debug, Default)]
pub(crate) struct KnownQuotas {
    none_until: Option<Instant>,
    refused: Option<(Instant, QuotaRefusal)>,
}

impl KnownQuotas {
    /// Whether no quotas are believed to be declared.
    pub(super) fn are_none(&self) -> bool {
        self.none_until.is_some_and(|until| Instant::now() < until)
    }

    pub(super) fn note_none(&mut self) {
        self.none_until = Some(Instant::now() + BELIEF);
    }

    /// Returns the last refusal of an input, if further inputs are refused without a request.
    pub(super) fn refused_input(&self) -> Option<QuotaRefusal> {
        let (until, refusal) = self.refused.as_ref()?;
        let holds = Instant::now() < *until && !refusal.free_in().is_zero();
        holds.then(|| refusal.clone())
    }

    pub(super) fn note_refused(&mut self, refusal: QuotaRefusal) {
        self.refused = Some((Instant::now() + REFUSAL, refusal));
    }
}
