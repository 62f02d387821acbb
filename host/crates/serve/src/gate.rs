//! Decides from outside the session whether turns may begin, for example by the quotas of a store
//! that many programs share.
//!
//! The gate is asked before every turn, whether a user, a loop or another program requested it.
//! Start from [`TurnAdmissionController`].

use std::time::Duration;

use crate::error::ApiError;
use futures_util::future::BoxFuture;
use rind_lib::point::payload::TurnSummary;

/// Refusal by a gate to let a turn begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnStartRefusal {
    /// Reason for the refusal, in words for the user, and what the user can do about it.
    pub text: String,
    /// Time after which a turn may begin; `None` if the gate could not find out whether turns may
    /// begin.
    pub free_in: Option<Duration>,
}

impl From<TurnStartRefusal> for ApiError {
    fn from(refusal: TurnStartRefusal) -> Self {
        match refusal.free_in {
            Some(_) => Self::too_many_requests(refusal.text),
            None => Self::unavailable(refusal.text),
        }
    }
}

/// Decides whether turns may begin, and counts the tokens and the cost of each turn. Several
/// sessions call it concurrently.
pub trait TurnAdmissionController: Send + Sync {
    /// Checks whether a turn may begin now, without counting one.
    fn check(&self) -> BoxFuture<'_, Result<(), TurnStartRefusal>>;

    /// Checks whether a turn may begin, and if so counts it as begun.
    fn admit_and_count_turn(&self) -> BoxFuture<'_, Result<(), TurnStartRefusal>>;

    /// Records the tokens and the cost of a turn that has ended.
    fn record_finished_turn<'a>(&'a self, summary: &'a TurnSummary) -> BoxFuture<'a, ()>;
}
