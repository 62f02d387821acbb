//! Replaces a plugin with another version of itself while the session is open.
//!
//! Decides when a plugin is replaced: before a turn, or before a step of a running one. Work that
//! runs meanwhile (a call, a subagent, a background hook) continues with the version with which it
//! began. The module must not know how plugins are loaded, nor whether they may be replaced.

use std::sync::{Arc, Mutex, Weak};

use tokio::sync::Notify;

use super::scope::SharedTurnState;
use super::spec::AgentSpec;
use crate::event::Event;
use crate::lock::lock_ignoring_poison;
use crate::point::agent_loop::AgentLoop;
use crate::point::dispatch::HookDispatcher;
use crate::point::outcome::Level;
use crate::point::registry::HookRegistry;
use crate::tool::SharedTool;

/// Replacement of a running plugin by another version of it.
pub(crate) struct PluginReplacement {
    pub(crate) plugin: String,
    pub(crate) hooks: HookRegistry,
    pub(crate) tools: Vec<SharedTool>,
    /// Loop of the new version; `None` unless the loop of this plugin runs the turns of the
    /// session.
    pub(crate) agent_loop: Option<Arc<dyn AgentLoop>>,
    /// Event that reports the replacement once it has taken place.
    pub(crate) event: Event,
}

/// Queue of replacements that wait for the next safe point. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct SharedPluginReplacementQueue(Arc<PluginReplacementQueueState>);

#[derive(Default)]
struct PluginReplacementQueueState {
    waiting: Mutex<Vec<PluginReplacement>>,
    added: Notify,
}

/// Weak reference to a queue of plugin replacements.
#[derive(Clone)]
pub(crate) struct WeakPluginReplacementQueue(Weak<PluginReplacementQueueState>);

impl WeakPluginReplacementQueue {
    /// Returns the queue of replacements; `None` if the session is closed.
    pub(crate) fn upgrade(&self) -> Option<SharedPluginReplacementQueue> {
        self.0.upgrade().map(SharedPluginReplacementQueue)
    }
}

impl SharedPluginReplacementQueue {
    /// Returns a weak reference, which does not keep the queue alive.
    pub(crate) fn downgrade(&self) -> WeakPluginReplacementQueue {
        WeakPluginReplacementQueue(Arc::downgrade(&self.0))
    }

    /// Queues a replacement for the next safe point. It supersedes a queued replacement of the same
    /// plugin.
    pub(crate) fn add_replacement(&self, new: PluginReplacement) {
        let mut waiting = lock_ignoring_poison(&self.0.waiting);
        waiting.retain(|waiting| waiting.plugin != new.plugin);
        waiting.push(new);
        drop(waiting);
        self.0.added.notify_one();
    }

    /// Waits until a replacement is added. Returns at once if one was added since the last call.
    pub(super) async fn wait_for_replacement(&self) {
        self.0.added.notified().await;
    }

    /// Replaces the hooks, tools and agent loops of plugins by those of their queued new versions.
    /// `scope` belongs to the running turn; `None` between turns.
    pub(super) fn apply_queued_replacements(
        &self,
        spec: &mut Arc<AgentSpec>,
        dispatcher: &HookDispatcher,
        scope: Option<&SharedTurnState>,
    ) {
        let waiting = std::mem::take(&mut *lock_ignoring_poison(&self.0.waiting));
        for new in waiting {
            let spec = Arc::make_mut(spec);
            let tools = &mut spec.tools;
            let own = tools.specs().into_iter();
            let own = own.filter(|spec| spec.plugin.as_deref() == Some(&*new.plugin));
            let own = own.map(|spec| spec.name.clone()).collect::<Vec<_>>();
            for name in own {
                tools.remove(&name);
            }
            let added = new.tools.into_iter().map(|tool| tools.add(tool));
            let refused: Vec<String> = added
                .filter_map(|added| added.err().map(|error| error.to_string()))
                .collect();
            if let Some(scope) = scope {
                scope.skills.set_tools(tools.clone());
            }
            dispatcher.replace_plugin_hooks(&new.plugin, new.hooks);
            spec.hooks = dispatcher.registry();
            let ordering = spec.agent_loop.as_ref();
            // A running turn continues with the loop with which it began. A new version that lacks
            // the loop was already rejected.
            if ordering.is_some_and(|own| own.plugin() == new.plugin) && new.agent_loop.is_some() {
                spec.agent_loop = new.agent_loop;
            }
            spec.events.emit(new.event);
            for why in refused {
                spec.events
                    .emit(Event::create_host_notice(Level::Warn, why));
            }
        }
    }
}
