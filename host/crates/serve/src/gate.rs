//! Permission for turns to begin, from outside the session: for example the quotas of a store that
//! many programs share.
//!
//! Every turn asks the gate first, whether a person, a loop or another program ordered it. Start
//! from [`TurnGate`].

use std::time::Duration;

use crate::error::ApiError;
use futures_util::future::BoxFuture;
use rind_lib::point::payload::TurnSummary;

/// Refusal of a turn by the gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateRefusal {
    /// Reason for the person, with what the person can do about it.
    pub text: String,
    /// Time after which a turn may begin; `None` if the gate could not find out whether turns may
    /// begin.
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

/// Decides whether turns may begin, and counts what each one used. Called by several sessions at
/// once.
pub trait TurnGate: Send + Sync {
    /// Checks whether a turn may begin now, without counting one.
    fn check(&self) -> BoxFuture<'_, Result<(), GateRefusal>>;

    /// Checks whether a turn may begin, and counts it.
    fn begin(&self) -> BoxFuture<'_, Result<(), GateRefusal>>;

    /// Records what a turn used, after it has ended.
    fn end<'a>(&'a self, summary: &'a TurnSummary) -> BoxFuture<'a, ()>;
}
