//! Plugins that are replaced while a session is open: for authors who change one and watch it work.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::offers::SessionOffers;
use crate::agent::{PluginReplacement, PluginReplacements};
use crate::event::{Event, Events};
use crate::grant::Granted;
use crate::lock::lock;
use crate::plugin::load::{LoadedPlugin, PluginSet};
use crate::point::handle::AgentHandle;
use crate::point::outcome::Level;

/// Reason why a plugin was not replaced. The running one stays.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplaceError {
    /// The session has no plugin of this name.
    #[error("no plugin `{plugin}` runs in this session; start a new session with the plugin")]
    Unknown {
        /// Name of the plugin.
        plugin: String,
    },
    /// The new version cannot be loaded, or waits for permissions.
    #[error("{why}")]
    NotLoaded {
        /// Cause, as text.
        why: String,
    },
    /// The new version was granted more than the running version.
    #[error(
        "it has permissions that the running version does not have: {}; start a new session to be asked about them",
        capabilities.join(", ")
    )]
    Wider {
        /// Permissions beyond those of the running version.
        capabilities: Vec<String>,
    },
    /// The new version defines other points, which plugins of the session may be bound to.
    #[error("the points that it defines have changed; start a new session")]
    Points,
    /// The plugin orders the turns of the session, and the new version may not.
    #[error(
        "it orders the turns of this session (`loop` under [agent]), and the new version has no loop of the agent or was not granted \
         `agent_loop`; start a new session"
    )]
    AgentLoop,
}

/// The way to replace a plugin of an open session, also while a turn runs. Cheap to clone; it
/// outlives the session.
#[derive(Clone)]
pub struct PluginReplacer {
    plugins: Arc<PluginSet>,
    handle: Arc<dyn AgentHandle>,
    replacements: PluginReplacements,
    offers: SessionOffers,
    events: Events,
    /// Name of the plugin that orders the turns, if one does.
    ordering: Option<String>,
    /// Permissions of those that were replaced, which no later version may widen.
    granted: Arc<Mutex<BTreeMap<String, Arc<Granted>>>>,
}

impl PluginReplacer {
    /// Returns the parts with which the plugins act on the session.
    pub(super) fn handle(&self) -> Arc<dyn AgentHandle> {
        self.handle.clone()
    }

    pub(super) fn new(
        plugins: Arc<PluginSet>,
        handle: Arc<dyn AgentHandle>,
        (replacements, offers): (PluginReplacements, SessionOffers),
        events: Events,
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

    /// Emits a notice of the host to those who observe the session.
    pub fn notice(&self, level: Level, text: impl Into<String>) {
        self.events.emit(Event::notice(level, text));
    }

    /// Has the plugin of this name in `set` take the place of the one that runs: before the next
    /// step of a running turn, or before the next turn. Its commands and its loop are the new ones
    /// at once. Its `state` and its store stay; its data in memory is lost. The event
    /// [`PluginReplaced`](Event::PluginReplaced) reports it.
    ///
    /// # Errors
    /// There is nothing to replace, the new version cannot be loaded, it has more permissions than
    /// the one that runs, or it orders the turns of the session and the new version may not.
    pub fn replace(&self, set: &PluginSet, plugin: &str) -> Result<(), ReplaceError> {
        let is_it = |loaded: &&Arc<LoadedPlugin>| loaded.manifest.name == plugin;
        let unknown = || ReplaceError::Unknown {
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
            return Err(ReplaceError::NotLoaded { why });
        };
        let mut granted = lock(&self.granted);
        let before = granted.get(plugin).unwrap_or(running.granted());
        let wider = new.granted().capabilities().iter();
        let wider: Vec<String> = wider
            .filter(|capability| !before.has(capability))
            .map(ToString::to_string)
            .collect();
        if !wider.is_empty() {
            return Err(ReplaceError::Wider {
                capabilities: wider,
            });
        }
        if !new.defines_points_of(running) {
            return Err(ReplaceError::Points);
        }
        if self.ordering.as_deref() == Some(plugin) && !new.may_order_turns() {
            return Err(ReplaceError::AgentLoop);
        }
        granted.insert(plugin.to_owned(), new.granted().clone());
        let open = self.plugins.open_one(new, &self.handle);
        self.offers
            .replace_offers(plugin, open.commands, open.loops, open.limits);
        let hooks = open.registry.specs().iter();
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

debug_some!(PluginReplacer, self, plugins = self.plugins);
