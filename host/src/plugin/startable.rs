//! Plugin sets with which a session may be opened, because all guards run.

use std::ops::Deref;
use std::sync::Arc;

use super::Error;
use super::load::PluginSet;

/// A set of plugins in which every guard runs: those that a policy requires, and those that the
/// operator relies on.
///
/// Only [`check`](Self::check) creates a startable set, and only a startable set can be opened, so
/// no session starts without its guards.
#[derive(Clone, Debug)]
pub struct StartableSet<S = Arc<PluginSet>>(S);

impl<S: Deref<Target = PluginSet>> StartableSet<S> {
    /// Checks that every guard runs.
    ///
    /// # Errors
    /// A policy requires a plugin that does not run, or the operator relies on one. The error says
    /// why it does not run, and how to continue without it.
    pub fn check(set: S) -> Result<Self, Error> {
        set.check_required_plugins()?;
        set.check_relied_on_plugins()?;
        Ok(Self(set))
    }
}

impl StartableSet {
    /// Returns the set of plugins that may start, which clones of this value share.
    #[must_use]
    pub fn shared_set(&self) -> &Arc<PluginSet> {
        &self.0
    }
}

impl<S: Deref<Target = PluginSet>> Deref for StartableSet<S> {
    type Target = PluginSet;

    fn deref(&self) -> &PluginSet {
        &self.0
    }
}
