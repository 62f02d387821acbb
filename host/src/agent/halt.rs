//! Stores the failure of an observing hook with `on_failure = "block"`, after which the turn must
//! not continue. Such a hook returns no verdict to its caller, and may even run in the background.
//! Therefore the code that writes trace records stores the failure here, and the turn watches for
//! it.

use tokio::sync::watch;

/// Reason to stop an agent and its subagents at once, shared by all of them; `None` while there is
/// no reason.
#[derive(Debug)]
pub(super) struct AgentHaltReason(watch::Sender<Option<String>>);

impl Default for AgentHaltReason {
    fn default() -> Self {
        Self(watch::Sender::new(None))
    }
}

impl AgentHaltReason {
    /// Sets the reason to stop, which ends the running turn, or the next one if none runs. A later
    /// reason does not replace the first.
    pub(super) fn set_reason(&self, why: String) {
        self.0.send_if_modified(|kept| {
            let is_first = kept.is_none();
            kept.get_or_insert(why);
            is_first
        });
    }

    /// Whether a reason to end the turn early is set.
    pub(super) fn is_set(&self) -> bool {
        self.0.borrow().is_some()
    }

    /// Returns the reason to end the turn, if one is set, and keeps it set.
    pub(super) fn current_reason_text(&self) -> Option<String> {
        self.0.borrow().clone()
    }

    /// Returns the reason to end the turn, if one is set, and clears it.
    pub(super) fn take_reason(&self) -> Option<String> {
        self.0.send_replace(None)
    }

    /// Waits until a reason to end the turn is set, and returns it.
    pub(super) async fn wait_for_reason(&self) -> String {
        let mut receiver = self.0.subscribe();
        let kept = receiver.wait_for(Option::is_some).await;
        match kept.ok().and_then(|kept| kept.clone()) {
            Some(why) => why,
            // `wait_for` fails only when the sender is gone, but this function borrows the sender.
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_reason_is_told_until_it_is_taken() {
        let halt = AgentHaltReason::default();
        assert!(!halt.is_set() && halt.take_reason().is_none());
        halt.set_reason("one".to_owned());
        halt.set_reason("two".to_owned());
        assert!(halt.is_set());
        assert_eq!(halt.wait_for_reason().await, "one");
        assert_eq!(halt.take_reason().as_deref(), Some("one"));
        assert!(!halt.is_set());
    }
}
