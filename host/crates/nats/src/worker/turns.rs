//! Interface between a worker and a program that can run turns.

use futures_util::future::BoxFuture;

use super::QueuedInput;

/// The reason why a turn did not end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TurnFailure {
    /// Another program works on the session. The turn is retried later.
    Busy,
    /// Another program has taken over the session, and with it the turn.
    Fenced,
    /// The tenant has used a quota up, or the quotas cannot be read. The turn waits for this time at least.
    OverQuota(std::time::Duration),
    /// Another failure. The turn is tried again a few times, then it is a dead letter with this cause.
    Failed(String),
}

/// State of what a worker runs turns with, for its operator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TurnsState {
    /// Set of plugins that new turns use.
    pub plugins: Option<String>,
    /// Reason why no turn begins.
    pub fault: Option<String>,
}

/// Runs turns for a worker. Called from tasks of the worker, for several sessions at once.
pub trait WorkerTurns: Send + Sync {
    /// Opens a session, or creates it if there is none, and keeps all others from writing to it.
    fn claim<'a>(
        &'a self,
        session: &'a str,
    ) -> BoxFuture<'a, Result<Box<dyn ClaimedSession>, TurnFailure>>;

    /// Waits until turns can begin. Until then the worker takes no work from others.
    fn ready(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }

    /// Returns what new turns run with.
    fn state(&self) -> TurnsState {
        TurnsState::default()
    }
}

/// A session that a worker has claimed.
pub trait ClaimedSession: Send {
    /// Runs the turn of an input until its end is stored. A session takes an input once by its id:
    /// a turn that ended before gives its outcome again, and one that was interrupted continues.
    ///
    /// The worker drops the future when it must release the session. The turn is then interrupted,
    /// and another worker continues it.
    fn run<'a>(&'a mut self, input: &'a QueuedInput) -> BoxFuture<'a, Result<(), TurnFailure>>;

    /// Waits until no turn runs that others than the worker ordered in the session, such as people.
    fn idle(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }

    /// Closes the session, so that others can open it.
    fn close(self: Box<Self>) -> BoxFuture<'static, ()>;
}
