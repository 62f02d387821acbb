//! The outcome of a turn, and the errors that keep a turn from having one.

use crate::point::payload::TurnSummary;
use crate::session;

/// Error that keeps a turn from ending normally: a fault of the host. A failing provider, hook or
/// tool is not one of these.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The session cannot be written or read.
    #[error("cannot read or write the session")]
    Session(#[from] session::Error),
    /// The turn that took an input with this id was interrupted, and other turns came after it.
    #[error(
        "the input `{id}` ran in turn {turn}, which was interrupted, and other turns followed; check that turn, and use another id to run the input again"
    )]
    InputTaken {
        /// Id of the input.
        id: String,
        /// Number of the turn.
        turn: u32,
    },
    /// A hook with `on_failure = block` failed at a point where nothing was left to refuse.
    #[error("{0}")]
    Guard(String),
}

/// Outcome of a turn.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnOutcome {
    /// Number within the session.
    pub turn: u32,
    /// Output for the user, for any reason of the end.
    pub output: String,
    /// Reason for the end, and usage.
    pub summary: TurnSummary,
}
