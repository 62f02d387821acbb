//! Stores the slash commands and loops of a session's plugins, and the counters that limit the
//! plugins' usage.

use std::sync::{Arc, Mutex};

use crate::lock::lock;
use crate::plugin::commands::PluginCommand;
use crate::plugin::loops::PluginLoop;
use crate::plugin::open::PluginUsageLimits;

/// Commands and loops of the plugins of a session. Cheap to clone.
#[derive(Clone)]
pub(super) struct SharedCommandsAndLoops(Arc<Mutex<CommandsAndLoops>>);

/// Commands, loops and limits of the plugins at one point in time.
struct CommandsAndLoops {
    commands: Arc<[Arc<PluginCommand>]>,
    loops: Arc<[Arc<PluginLoop>]>,
    limits: Arc<[Arc<PluginUsageLimits>]>,
}

impl SharedCommandsAndLoops {
    pub(super) fn new(
        commands: Vec<PluginCommand>,
        loops: Vec<PluginLoop>,
        limits: Vec<PluginUsageLimits>,
    ) -> Self {
        Self(Arc::new(Mutex::new(CommandsAndLoops {
            commands: commands.into_iter().map(Arc::new).collect(),
            loops: loops.into_iter().map(Arc::new).collect(),
            limits: limits.into_iter().map(Arc::new).collect(),
        })))
    }

    pub(super) fn commands(&self) -> Arc<[Arc<PluginCommand>]> {
        lock(&self.0).commands.clone()
    }

    pub(super) fn plugin_loops(&self) -> Arc<[Arc<PluginLoop>]> {
        lock(&self.0).loops.clone()
    }

    /// Resets the counts of what the plugins have used in the session, such as HTTP requests.
    pub(super) fn reset_limits(&self) {
        let limits = lock(&self.0).limits.clone();
        limits.iter().for_each(|limits| limits.reset_limits());
    }

    /// Replaces the commands, loops and limits of a plugin with those of its new version.
    pub(super) fn replace_commands_and_loops(
        &self,
        plugin: &str,
        commands: Vec<PluginCommand>,
        loops: Vec<PluginLoop>,
        limits: Vec<PluginUsageLimits>,
    ) {
        let mut own = lock(&self.0);
        own.commands = replace_items(&own.commands, commands, |own| own.plugin() != plugin);
        own.loops = replace_items(&own.loops, loops, |own| own.plugin() != plugin);
        own.limits = replace_items(&own.limits, limits, |own| own.plugin() != plugin);
    }
}

/// Keeps the items of `all` that `is_kept` selects, and appends `new`.
fn replace_items<T>(all: &[Arc<T>], new: Vec<T>, is_kept: impl Fn(&T) -> bool) -> Arc<[Arc<T>]> {
    let others = all.iter().filter(|own| is_kept(own)).cloned();
    others.chain(new.into_iter().map(Arc::new)).collect()
}
