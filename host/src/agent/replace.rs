//! A plugin that takes the place of another version of itself while the session is open.
//!
//! Owns when that happens: before a turn, and before a step of a running one. What runs meanwhile (a call, a subagent, a hook in
//! the background) goes on with what it began with. It must not know how plugins are loaded, nor whether they may.

use std::sync::{Arc, Mutex};

use super::agent::Agent;
use super::scope::TurnScope;
use crate::event::Event;
use crate::lock::lock;
use crate::point::outcome::Level;
use crate::point::registry::Registry;
use crate::tool::SharedTool;

/// A plugin in place of the one of its name.
pub(crate) struct Replacement {
    pub(crate) plugin: String,
    pub(crate) hooks: Registry,
    pub(crate) tools: Vec<SharedTool>,
    /// Event that tells of it.
    pub(crate) event: Event,
}

/// Replacements that wait for the next safe point. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Replacements(Arc<Mutex<Vec<Replacement>>>);

impl Replacements {
    /// Has a plugin take its place at the next safe point. One that waits already is passed over.
    pub(crate) fn add(&self, new: Replacement) {
        let mut waiting = lock(&self.0);
        waiting.retain(|waiting| waiting.plugin != new.plugin);
        waiting.push(new);
    }
}

impl Agent {
    /// Returns the queue of plugins that take the place of others.
    pub(crate) fn replacements(&self) -> Replacements {
        self.replacements.clone()
    }

    /// Puts the plugins that wait in place; `scope` is that of the running turn.
    pub(super) fn take_replacements(&mut self, scope: Option<&TurnScope>) {
        let waiting = std::mem::take(&mut *lock(&self.replacements.0));
        for new in waiting {
            let tools = &mut self.spec_mut().tools;
            let own = tools.specs().into_iter();
            let own = own.filter(|spec| spec.plugin.as_deref() == Some(&*new.plugin));
            for spec in own.collect::<Vec<_>>() {
                tools.remove(&spec.name);
            }
            let added = new.tools.into_iter().map(|tool| tools.add(tool));
            let refused: Vec<String> = added
                .filter_map(|added| added.err().map(|error| error.to_string()))
                .collect();
            let tools = tools.clone();
            if let Some(scope) = scope {
                scope.skills.set_tools(tools);
            }
            self.dispatcher.replace(&new.plugin, new.hooks);
            self.spec_mut().hooks = self.dispatcher.registry();
            self.spec.events.emit(new.event);
            for why in refused {
                self.notice(Level::Warn, why);
            }
        }
    }
}
