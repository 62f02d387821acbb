//! The subagents of a session that run in this process or have ended recently.
//!
//! All agents of a session share the registry. The session file has the permanent record of each
//! subagent; see `session::SubagentSession`. The module must not know how a subagent runs. Start
//! from [`SubagentRegistry`].

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::event::SubagentState;
use crate::lock::lock_ignoring_poison;
use crate::message::Usage;
use crate::point::handle::HostFunctionError;
use crate::session::Session;

/// Maximum number of ended subagents whose answers are kept in memory. There is a limit because a
/// process that runs the loops of plugins can run for weeks.
const MAX_KEPT_ENDED_SUBAGENTS: usize = 64;

/// Maximum number of ids of subagents that an error message names.
const MAX_SUBAGENT_IDS_IN_ERROR: usize = 8;

/// Outcome of a subagent's work on one task.
#[derive(Clone, Debug)]
pub(in crate::agent) struct SubagentOutcome {
    pub(in crate::agent) state: SubagentState,
    /// Answer of the subagent, or the error if there is no answer.
    pub(in crate::agent) result: Result<String, HostFunctionError>,
    pub(in crate::agent) usage: Usage,
    pub(in crate::agent) steps: u32,
    /// Cost in US dollars; tokens of models with an unknown price are not included.
    pub(in crate::agent) cost_usd: f64,
}

impl SubagentOutcome {
    /// Creates the outcome of a subagent that failed before it did any work.
    pub(in crate::agent) fn from_error(error: HostFunctionError) -> Self {
        Self {
            state: SubagentState::Failed,
            result: Err(error),
            usage: Usage::default(),
            steps: 0,
            cost_usd: 0.0,
        }
    }

    /// Returns the subagent's answer, or the text of its error.
    pub(in crate::agent) fn text(&self) -> String {
        match &self.result {
            Ok(answer) => answer.clone(),
            Err(error) => error.to_string(),
        }
    }
}

/// A subagent that works on a task in this process, or has worked on it.
pub(in crate::agent) struct LiveSubagent {
    pub(in crate::agent) id: Arc<str>,
    /// Name of the agent that started the subagent.
    pub(in crate::agent) parent: Arc<str>,
    /// Plugin that started the subagent; `None` if the model did.
    pub(in crate::agent) plugin: Option<Arc<str>>,
    pub(in crate::agent) task: String,
    pub(in crate::agent) preset: Option<String>,
    /// Token whose cancellation stops the subagent.
    pub(in crate::agent) cancel: CancellationToken,
    stop_reason: Mutex<Option<String>>,
    /// Whether the model of the parent was already notified that the subagent ended.
    is_reported: AtomicBool,
    /// Outcome of the subagent; `None` while it runs.
    outcome: watch::Sender<Option<Arc<SubagentOutcome>>>,
}

impl LiveSubagent {
    pub(in crate::agent) fn new(
        id: Arc<str>,
        parent: Arc<str>,
        plugin: Option<Arc<str>>,
        task: String,
        preset: Option<String>,
        cancel: CancellationToken,
    ) -> Self {
        Self {
            id,
            parent,
            plugin,
            task,
            preset,
            cancel,
            stop_reason: Mutex::default(),
            is_reported: AtomicBool::new(false),
            outcome: watch::Sender::new(None),
        }
    }

    pub(in crate::agent) fn is_running(&self) -> bool {
        self.outcome.borrow().is_none()
    }

    /// Records that the model of the parent was notified that the subagent ended.
    pub(in crate::agent) fn mark_end_as_reported(&self) {
        self.is_reported.store(true, Ordering::Relaxed);
    }

    /// Returns the outcome; `None` while the subagent runs.
    pub(in crate::agent) fn outcome(&self) -> Option<Arc<SubagentOutcome>> {
        self.outcome.borrow().clone()
    }

    /// Waits until the subagent ends, and returns its outcome.
    pub(in crate::agent) async fn wait_for_end(&self) -> Arc<SubagentOutcome> {
        let mut receiver = self.outcome.subscribe();
        let ended = receiver.wait_for(Option::is_some).await;
        match ended.ok().and_then(|ended| ended.clone()) {
            Some(outcome) => outcome,
            // `wait_for` fails only when the sender is gone, but this function borrows the sender.
            None => std::future::pending().await,
        }
    }

    /// Stops the subagent. The reason `why` is stored only if no earlier call gave one. Has no
    /// effect on a subagent that has ended.
    pub(in crate::agent) fn stop(&self, why: impl Into<String>) {
        if self.is_running() {
            lock_ignoring_poison(&self.stop_reason).get_or_insert_with(|| why.into());
            self.cancel.cancel();
        }
    }

    /// Returns the reason why the subagent was stopped; `None` if it was not.
    pub(in crate::agent) fn stop_reason(&self) -> Option<String> {
        lock_ignoring_poison(&self.stop_reason).clone()
    }

    /// Records the outcome of the subagent, unless one was already recorded.
    pub(in crate::agent) fn record_outcome(&self, outcome: SubagentOutcome) {
        self.outcome.send_if_modified(|kept| {
            let is_first = kept.is_none();
            kept.get_or_insert_with(|| Arc::new(outcome));
            is_first
        });
    }
}

/// Guard that records a failure if it is dropped before an outcome was recorded. Without the guard,
/// a subagent would count as running forever after a panic.
pub(in crate::agent) struct SubagentEndGuard(pub(in crate::agent) Arc<LiveSubagent>);

impl Drop for SubagentEndGuard {
    fn drop(&mut self) {
        let error = HostFunctionError::Failed("the subagent broke off".to_owned());
        self.0.record_outcome(SubagentOutcome::from_error(error));
    }
}

/// Subagents of a session that run in this process or have ended recently. All agents of the
/// session share it.
pub(in crate::agent) struct SubagentRegistry {
    /// Running and recently ended subagents, oldest first.
    live: Mutex<Vec<Arc<LiveSubagent>>>,
    /// Number of subagents that models have started in the session, including its earlier runs.
    n_spawned: AtomicU32,
}

impl SubagentRegistry {
    /// Creates the registry of a session. The number of started subagents includes those of earlier
    /// runs of the session.
    pub(in crate::agent) fn for_session(session: &Session) -> Self {
        let children = session.subagents().into_iter();
        let spawned = children.filter(|child| !child.is_holder && child.plugin.is_none());
        Self {
            live: Mutex::default(),
            n_spawned: AtomicU32::new(u32::try_from(spawned.count()).unwrap_or(u32::MAX)),
        }
    }

    /// Adds a subagent that starts to run. Fails if this subagent is already running, or if
    /// `max_running` subagents of the session are.
    pub(in crate::agent) fn register_subagent(
        &self,
        new: &Arc<LiveSubagent>,
        max_running: usize,
    ) -> Result<SubagentEndGuard, HostFunctionError> {
        let mut live = lock_ignoring_poison(&self.live);
        let running: Vec<&str> = live
            .iter()
            .filter(|one| one.is_running())
            .map(|one| &*one.id)
            .collect();
        if running.contains(&&*new.id) {
            return Err(HostFunctionError::InvalidInput(format!(
                "{} still works on its task; wait for it or stop it first",
                new.id
            )));
        }
        if running.len() >= max_running {
            return Err(HostFunctionError::Limit(format!(
                "{} subagents run, and no more may at once (subagents.max_running = {max_running}): {}; wait for one to end, or \
                 stop one",
                running.len(),
                running
                    .get(..MAX_SUBAGENT_IDS_IN_ERROR)
                    .unwrap_or(&running)
                    .join(", ")
            )));
        }
        live.retain(|one| one.id != new.id);
        let n_ended = live.iter().filter(|one| !one.is_running()).count();
        let mut n_left = n_ended.saturating_sub(MAX_KEPT_ENDED_SUBAGENTS - 1);
        live.retain(|one| {
            let is_dropped = n_left > 0 && !one.is_running();
            n_left -= usize::from(is_dropped);
            !is_dropped
        });
        live.push(new.clone());
        Ok(SubagentEndGuard(new.clone()))
    }

    /// Counts a subagent that a model starts. Returns false, without counting it, if the limit
    /// `most` is reached.
    pub(in crate::agent) fn count_model_started_subagent(&self, most: u32) -> bool {
        let counted = self
            .n_spawned
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| {
                (n < most).then(|| n.saturating_add(1))
            });
        counted.is_ok()
    }

    /// Returns the subagent with this id, if it runs in this process or ended recently.
    pub(in crate::agent) fn find_live_subagent(&self, id: &str) -> Option<Arc<LiveSubagent>> {
        let live = lock_ignoring_poison(&self.live);
        live.iter().find(|one| &*one.id == id).cloned()
    }

    /// Returns the subagents that the model of `parent` started and of whose end that model was not
    /// notified yet, oldest first.
    pub(in crate::agent) fn unreported_subagents(&self, parent: &str) -> Vec<Arc<LiveSubagent>> {
        let live = lock_ignoring_poison(&self.live);
        let unread = live.iter().filter(|one| {
            let is_own = &*one.parent == parent && one.plugin.is_none();
            is_own && !one.is_reported.load(Ordering::Relaxed)
        });
        unread.cloned().collect()
    }

    /// Returns the running subagents, oldest first.
    pub(in crate::agent) fn running_subagents(&self) -> Vec<Arc<LiveSubagent>> {
        let live = lock_ignoring_poison(&self.live);
        let running = live.iter().filter(|one| one.is_running());
        running.cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live(id: &str) -> Arc<LiveSubagent> {
        let cancel = CancellationToken::new();
        let new = LiveSubagent::new(id.into(), "main".into(), None, "t".to_owned(), None, cancel);
        Arc::new(new)
    }

    fn registry() -> SubagentRegistry {
        SubagentRegistry {
            live: Mutex::default(),
            n_spawned: AtomicU32::new(1),
        }
    }

    #[test]
    fn as_many_run_at_once_as_may_and_one_that_breaks_off_makes_room() {
        let registry = registry();
        let (one, two) = (live("sub-1"), live("sub-2"));
        let mark = registry.register_subagent(&one, 1).unwrap();
        let full = registry
            .register_subagent(&two, 1)
            .err()
            .unwrap()
            .to_string();
        assert!(
            full.contains("subagents.max_running = 1): sub-1;"),
            "{full}"
        );
        let again = registry.register_subagent(&live("sub-1"), 5).err().unwrap();
        assert!(again.to_string().contains("still works"), "{again}");
        drop(mark);
        assert_eq!(one.outcome().unwrap().state, SubagentState::Failed);
        assert!(registry.register_subagent(&two, 1).is_ok());
    }

    #[test]
    fn the_registry_forgets_the_oldest_that_ended_and_none_that_runs() {
        let registry = registry();
        let running = live("sub-run");
        let mark = registry.register_subagent(&running, 2).unwrap();
        for n in 0..200 {
            drop(
                registry
                    .register_subagent(&live(&format!("sub-{n}")), 2)
                    .unwrap(),
            );
        }
        assert_eq!(
            lock_ignoring_poison(&registry.live).len(),
            MAX_KEPT_ENDED_SUBAGENTS + 1
        );
        assert!(registry.find_live_subagent("sub-199").is_some());
        assert!(registry.find_live_subagent("sub-0").is_none());
        let all = registry.running_subagents();
        assert!(all.len() == 1 && all[0].id == running.id);
        drop(mark);
    }

    #[test]
    fn the_count_of_a_session_ends_at_its_limit() {
        let registry = registry();
        assert!(registry.count_model_started_subagent(2));
        assert!(!registry.count_model_started_subagent(2));
        assert!(registry.count_model_started_subagent(3));
    }

    #[tokio::test]
    async fn the_first_reason_to_stop_and_the_first_end_stay() {
        let one = live("sub-1");
        one.stop("time");
        one.stop("parent");
        assert!(one.cancel.is_cancelled());
        assert_eq!(one.stop_reason().as_deref(), Some("time"));
        let end =
            |why: &str| SubagentOutcome::from_error(HostFunctionError::Failed(why.to_owned()));
        one.record_outcome(end("first"));
        one.record_outcome(end("second"));
        assert_eq!(one.wait_for_end().await.text(), "first");
    }
}
