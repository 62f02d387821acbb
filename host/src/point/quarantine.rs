//! Hooks that are disabled for the rest of the turn because they failed, with the reasons.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::lock::lock_ignoring_poison;

/// Hooks that failed in this turn, for example by a trap or at their deadline, and are not called
/// again. The list is needed because a quarantined hook that blocks on failure still refuses
/// values, under its name.
#[derive(Debug, Default)]
pub(crate) struct QuarantinedHooks {
    dropped: Mutex<HashMap<(Arc<str>, String), String>>,
    /// Whether `dropped` is empty; written only while `dropped` is locked.
    is_empty: AtomicBool,
}

impl QuarantinedHooks {
    /// Enables all disabled hooks again, at the start of a turn.
    pub(crate) fn clear_quarantine(&self) {
        let mut dropped = lock_ignoring_poison(&self.dropped);
        dropped.clear();
        self.is_empty.store(true, Ordering::Release);
    }

    /// Disables a hook for the rest of the turn.
    pub(crate) fn quarantine_hook(&self, plugin: &Arc<str>, point: &str, why: String) {
        let mut dropped = lock_ignoring_poison(&self.dropped);
        dropped
            .entry((plugin.clone(), point.to_owned()))
            .or_insert(why);
        self.is_empty.store(false, Ordering::Release);
    }

    /// Removes every hook of a plugin from the quarantine.
    pub(crate) fn release_plugin_hooks(&self, plugin: &str) {
        let mut dropped = lock_ignoring_poison(&self.dropped);
        dropped.retain(|(dropped, _), _| &**dropped != plugin);
        self.is_empty.store(dropped.is_empty(), Ordering::Release);
    }

    /// Returns the reason why a hook is quarantined, if it is.
    #[must_use]
    pub(crate) fn quarantine_reason(&self, plugin: &Arc<str>, point: &str) -> Option<String> {
        // Return early if no hook is quarantined, which is the common case: no lock and no key are
        // needed.
        if self.is_empty.load(Ordering::Acquire) {
            return None;
        }
        lock_ignoring_poison(&self.dropped)
            .get(&(plugin.clone(), point.to_owned()))
            .cloned()
    }
}
