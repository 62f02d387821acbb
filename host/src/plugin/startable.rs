//! Plugin sets with which a session may be opened, because all guards run.

use std::ops::Deref;
use std::sync::Arc;

use super::Error;
use super::load::FoundPluginSet;

/// A set of plugins in which every guard runs: those that a policy requires, and those that the
/// operator relies on.
///
/// Only [`try_from_plugin_set`](Self::try_from_plugin_set) creates a startable set, and only a
/// startable set can be opened, so no session starts without its guards.
#[derive(Clone, Debug)]
pub struct StartablePluginSet<S = Arc<FoundPluginSet>>(S);

impl<S: Deref<Target = FoundPluginSet>> StartablePluginSet<S> {
    /// Checks that every guard runs.
    ///
    /// # Errors
    /// A policy requires a plugin that does not run, or the operator relies on one. The error says
    /// why it does not run, and how to continue without it.
    pub fn try_from_plugin_set(set: S) -> Result<Self, Error> {
        set.check_required_plugins()?;
        set.check_needed_plugins_loaded()?;
        Ok(Self(set))
    }
}

impl StartablePluginSet {
    /// Returns the set of plugins that may start, which clones of this value share.
    #[must_use]
    pub fn plugin_set(&self) -> &Arc<FoundPluginSet> {
        &self.0
    }
}

impl<S: Deref<Target = FoundPluginSet>> Deref for StartablePluginSet<S> {
    type Target = FoundPluginSet;

    fn deref(&self) -> &FoundPluginSet {
        &self.0
    }
}
