//! Gate of turns beside the session itself, such as the quotas of a store that many programs share.
//!
//! Every turn passes the gate, whoever ordered it. Start from [`TurnGate`].

use std::time::Duration;

use crate::error::ApiError;
use futures_util::future::BoxFuture;
use rind_lib::point::payload::TurnSummary;

/// Reason why a turn may not begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateRefusal {
    /// Reason in words, with what to do.
    pub text: String,
    /// Time after which it may; `None` if the gate does not know whether turns may begin.
    pub free_in: Option<Duration>,
}

impl From<GateRefusal> for ApiError {
    fn from(refusal: GateRefusal) -> Self {
        match refusal.free_in {
            Some(_) => Self::too_many(refusal.text),
            None => Self::unavailable(refusal.text),
        }
    }
}

/// Lets turns begin and learns what they used. Called for several sessions at once.
pub trait TurnGate: Send + Sync {
    /// Says whether a turn may begin now, and counts none.
    fn check(&self) -> BoxFuture<'_, Result<(), GateRefusal>>;

    /// Counts a turn that is to begin.
    fn begin(&self) -> BoxFuture<'_, Result<(), GateRefusal>>;

    /// Takes what a turn used that has ended.
    fn end<'a>(&'a self, summary: &'a TurnSummary) -> BoxFuture<'a, ()>;
}
