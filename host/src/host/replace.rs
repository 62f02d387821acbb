//! Replaces plugins while a session is open, so that authors can test a changed plugin without
//! restarting the session.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::offers::SharedPluginCommandsAndLoops;
use crate::agent::{PluginReplacement, SharedPluginReplacementQueue};
use crate::event::{Event, EventSender};
use crate::grant::GrantedCapabilities;
use crate::lock::lock_ignoring_poison;
use crate::plugin::load::{FoundPluginSet, LoadedPlugin};
use crate::point::handle::AgentHandle;
use crate::point::outcome::Level;

/// Reason why a plugin was not replaced. The running version stays.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PluginReplaceError {
    /// No plugin of this name runs in the session.
    #[error("no plugin `{plugin}` runs in this session; start a new session with the plugin")]
    Unknown {
        /// Name of the plugin that was to be replaced.
        plugin: String,
    },
    /// The new version cannot be loaded, or needs permissions that are not granted.
    #[error("{why}")]
    NotLoaded {
        /// Reason why the new version was not loaded.
        why: String,
    },
    /// The new version was granted more than the running version.
    #[error(
        "the new version has permissions that the running version does not have: {}; start a new session to be asked about them",
        capabilities.join(", ")
    )]
    Wider {
        /// Permissions that the new version has and the running version does not have.
        capabilities: Vec<String>,
    },
    /// The new version defines other points than the running version, and plugins of the session
    /// may have hooks on the old points.
    #[error("the points that the plugin defines have changed; start a new session")]
    Points,
    /// The plugin runs the agent loop of the session, and the new version exports no agent loop or
    /// lacks the permission for it.
    #[error(
        "it runs the agent loop of this session (`loop` under [agent]), but the new version has no agent loop or was not granted \
         `agent_loop`; start a new session"
    )]
    AgentLoop,
}

/// Replaces plugins of an open session, even while a turn runs. Cheap to clone; may outlive the
/// session.
#[derive(Clone)]
pub struct PluginReplacer {
    plugins: Arc<FoundPluginSet>,
    handle: Arc<dyn AgentHandle>,
    replacements: SharedPluginReplacementQueue,
    offers: SharedPluginCommandsAndLoops,
    events: EventSender,
    /// Name of the plugin whose agent loop runs the turns of the session; `None` if there is none.
    ordering: Option<String>,
    /// Permissions of the latest version of each replaced plugin. The next version may not have
    /// more.
    granted: Arc<Mutex<BTreeMap<String, Arc<GrantedCapabilities>>>>,
}

impl PluginReplacer {
    /// Returns the handle with which the plugins act on the session.
    pub(super) fn agent_handle(&self) -> Arc<dyn AgentHandle> {
        self.handle.clone()
    }

    pub(super) fn new(
        plugins: Arc<FoundPluginSet>,
        handle: Arc<dyn AgentHandle>,
        (replacements, offers): (SharedPluginReplacementQueue, SharedPluginCommandsAndLoops),
        events: EventSender,
        ordering: Option<String>,
    ) -> Self {
        Self {
            plugins,
            handle,
            replacements,
            offers,
            events,
            ordering,
            granted: Arc::default(),
        }
    }

    /// Emits a notice of the host to the observers of the session.
    pub fn emit_notice(&self, level: Level, text: impl Into<String>) {
        self.events.emit(Event::create_host_notice(level, text));
    }

    /// Replaces the running plugin of this name with the one in `set`, before the next step of a
    /// running turn or before the next turn. Its commands and its loop are replaced at once. Its
    /// `state` and its store are kept, but its data in memory is lost. The event
    /// [`PluginReplaced`](Event::PluginReplaced) reports the replacement.
    ///
    /// # Errors
    /// The session or `set` has no such plugin, the new version cannot be loaded, has more
    /// permissions or defines other points than the running version, or may not run the agent loop
    /// although the running version does.
    pub fn replace_plugin(
        &self,
        set: &FoundPluginSet,
        plugin: &str,
    ) -> Result<(), PluginReplaceError> {
        let is_it = |loaded: &&Arc<LoadedPlugin>| loaded.manifest.name == plugin;
        let unknown = || PluginReplaceError::Unknown {
            plugin: plugin.to_owned(),
        };
        let running = self
            .plugins
            .plugins
            .iter()
            .find(is_it)
            .ok_or_else(unknown)?;
        let Some(new) = set.plugins.iter().find(is_it) else {
            let left = set.left_out.iter().find(|left| left.name == plugin);
            let left = left.or_else(|| set.left_out.first());
            let why = left.map_or_else(
                || "it was not found".to_owned(),
                |left| left.why.to_string(),
            );
            return Err(PluginReplaceError::NotLoaded { why });
        };
        let mut granted = lock_ignoring_poison(&self.granted);
        let before = granted
            .get(plugin)
            .unwrap_or(running.granted_capabilities());
        let wider = new.granted_capabilities().capabilities().iter();
        let wider: Vec<String> = wider
            .filter(|capability| !before.has_capability(capability))
            .map(ToString::to_string)
            .collect();
        if !wider.is_empty() {
            return Err(PluginReplaceError::Wider {
                capabilities: wider,
            });
        }
        if !new.defines_same_points_as(running) {
            return Err(PluginReplaceError::Points);
        }
        if self.ordering.as_deref() == Some(plugin) && !new.may_run_agent_loop() {
            return Err(PluginReplaceError::AgentLoop);
        }
        granted.insert(plugin.to_owned(), new.granted_capabilities().clone());
        let open = self.plugins.open_replacement_plugin(new, &self.handle);
        self.offers
            .replace_commands_and_loops(plugin, open.commands, open.loops, open.limits);
        let hooks = open.registry.hook_specs().iter();
        let tools = open.tools.iter();
        self.replacements.add_replacement(PluginReplacement {
            plugin: plugin.to_owned(),
            event: Event::PluginReplaced {
                plugin: plugin.to_owned(),
                version: new.manifest.version.to_string(),
                digest: new.digest.clone(),
                hooks: hooks.map(|spec| spec.point.clone()).collect(),
                tools: tools.map(|tool| tool.spec().name.clone()).collect(),
            },
            hooks: open.registry,
            tools: open.tools,
            agent_loop: open.agent_loops.into_iter().next(),
        });
        Ok(())
    }
}

impl_partial_debug!(PluginReplacer, self, plugins = self.plugins);
