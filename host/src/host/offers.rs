//! Stores the slash commands and loops of a session's plugins, and the counters that limit the
//! plugins' usage.

use std::sync::{Arc, Mutex};

use crate::lock::lock_ignoring_poison;
use crate::plugin::commands::PluginSlashCommand;
use crate::plugin::loops::PluginLoop;
use crate::plugin::open::PluginSessionUsageLimits;

/// Commands and loops of the plugins of a session. Cheap to clone.
#[derive(Clone)]
pub(super) struct SharedPluginCommandsAndLoops(Arc<Mutex<PluginCommandsLoopsAndLimits>>);

/// Commands, loops and limits of the plugins at one point in time.
struct PluginCommandsLoopsAndLimits {
    commands: Arc<[Arc<PluginSlashCommand>]>,
    loops: Arc<[Arc<PluginLoop>]>,
    limits: Arc<[Arc<PluginSessionUsageLimits>]>,
}

impl SharedPluginCommandsAndLoops {
    pub(super) fn new(
        commands: Vec<PluginSlashCommand>,
        loops: Vec<PluginLoop>,
        limits: Vec<PluginSessionUsageLimits>,
    ) -> Self {
        Self(Arc::new(Mutex::new(PluginCommandsLoopsAndLimits {
            commands: commands.into_iter().map(Arc::new).collect(),
            loops: loops.into_iter().map(Arc::new).collect(),
            limits: limits.into_iter().map(Arc::new).collect(),
        })))
    }

    pub(super) fn commands(&self) -> Arc<[Arc<PluginSlashCommand>]> {
        lock_ignoring_poison(&self.0).commands.clone()
    }

    pub(super) fn plugin_loops(&self) -> Arc<[Arc<PluginLoop>]> {
        lock_ignoring_poison(&self.0).loops.clone()
    }

    /// Resets the counts of what the plugins have used in the session, such as HTTP requests.
    pub(super) fn reset_plugin_usage_limit_counts(&self) {
        let limits = lock_ignoring_poison(&self.0).limits.clone();
        limits.iter().for_each(|limits| limits.reset_usage());
    }

    /// Replaces the commands, loops and limits of a plugin with those of its new version.
    pub(super) fn replace_commands_and_loops(
        &self,
        plugin: &str,
        commands: Vec<PluginSlashCommand>,
        loops: Vec<PluginLoop>,
        limits: Vec<PluginSessionUsageLimits>,
    ) {
        let mut own = lock_ignoring_poison(&self.0);
        own.commands =
            retain_and_append_items(&own.commands, commands, |own| own.plugin_name() != plugin);
        own.loops = retain_and_append_items(&own.loops, loops, |own| own.plugin_name() != plugin);
        own.limits =
            retain_and_append_items(&own.limits, limits, |own| own.plugin_name() != plugin);
    }
}

/// Keeps the items of `all` that `is_kept` selects, and appends `new`.
fn retain_and_append_items<T>(
    all: &[Arc<T>],
    new: Vec<T>,
    is_kept: impl Fn(&T) -> bool,
) -> Arc<[Arc<T>]> {
    let others = all.iter().filter(|own| is_kept(own)).cloned();
    others.chain(new.into_iter().map(Arc::new)).collect()
}
