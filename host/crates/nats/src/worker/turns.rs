//! Defines the interface through which a worker lets the program run turns.

use futures_util::future::BoxFuture;

use super::QueuedInput;

/// Reason why a turn, or the claim of a session, failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkerTurnFailure {
    /// The turn cannot run here now, for example because another program has the session open. The
    /// attempt is not counted, and the turn is retried later.
    Busy,
    /// Another program has taken the session over, and continues the turn.
    Fenced,
    /// The tenant has used up a quota, or the quotas cannot be read. The turn is retried after this
    /// time at the earliest.
    OverQuota(std::time::Duration),
    /// Failure of any other kind, with its cause. The turn is retried a few times, and then its
    /// input becomes a dead letter with this cause.
    Failed(String),
}

/// State of a [`WorkerTurnExecutor`] that is reported to the operator of the worker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerTurnExecutorState {
    /// Number and digest of the set of plugins with which new turns run.
    pub plugins: Option<String>,
    /// Reason why no turn can begin; `None` if turns can begin.
    pub fault: Option<String>,
}

/// Runs turns for a worker. The worker calls the methods for several sessions concurrently.
pub trait WorkerTurnExecutor: Send + Sync {
    /// Opens a session, creating it if it does not exist, and keeps other programs from writing to
    /// it.
    fn claim_session<'a>(
        &'a self,
        session: &'a str,
    ) -> BoxFuture<'a, Result<Box<dyn ClaimedSession>, WorkerTurnFailure>>;

    /// Waits until turns can begin. The worker requests no wake message before that.
    fn wait_until_ready(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }

    /// Returns the set of plugins of new turns, or the reason why no turn can begin.
    fn state(&self) -> WorkerTurnExecutorState {
        WorkerTurnExecutorState::default()
    }
}

/// Session that a worker has claimed, and in which it runs turns.
pub trait ClaimedSession: Send {
    /// Runs the turn of an input, and waits until its end is stored. A session runs an input only
    /// once, by its id: if the turn has already ended, its outcome is returned again, and an
    /// interrupted turn continues.
    ///
    /// The worker drops the future when it must release the session. This interrupts the turn, and
    /// another worker continues it.
    fn run<'a>(
        &'a mut self,
        input: &'a QueuedInput,
    ) -> BoxFuture<'a, Result<(), WorkerTurnFailure>>;

    /// Waits until all turns have ended that run in the session but were not started by the worker,
    /// for example turns of a person.
    fn wait_until_idle(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }

    /// Closes the session, so that other programs can open it.
    fn close(self: Box<Self>) -> BoxFuture<'static, ()>;
}
