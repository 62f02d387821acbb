//! The outcome of a turn, and the errors that end a turn without an outcome.

use crate::point::payload::TurnSummary;
use crate::session;

/// Error that ends a turn without an outcome: a fault of the host. A failing provider, hook or tool
/// does not cause one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The session cannot be written or read.
    #[error("cannot read or write the session")]
    Session(#[from] session::Error),
    /// The turn that ran the input with this id was interrupted, and other turns came after that
    /// turn.
    #[error(
        "the input `{id}` ran in turn {turn}, which was interrupted, and other turns followed; check that turn, and use another id to run the input again"
    )]
    InputTaken {
        /// Id of the input that was already run.
        id: String,
        /// Number of the turn that already ran the input.
        turn: u32,
    },
    /// A hook with `on_failure = "block"` failed at a point where there was nothing left to block.
    #[error("{0}")]
    Guard(String),
}

/// Outcome of a turn that has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnOutcome {
    /// Number of the turn within the session.
    pub turn: u32,
    /// Output for the user, also if the turn was interrupted or failed.
    pub output: String,
    /// Stop reason, usage and cost of the turn.
    pub summary: TurnSummary,
}
