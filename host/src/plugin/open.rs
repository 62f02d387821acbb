//! Loaded plugins in one session: their hooks in a registry, their tools, the points they define.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::Error;
use super::agent_loop::PluginAgentLoop;
use super::commands::PluginCommand;
use super::component::ForeignTool;
use super::hooks::{self, WasmImplement};
use super::host::PluginBacking;
use super::instance::{InstanceSlot, InstanceTemplate};
use super::load::{LoadedPlugin, PluginSet};
use super::loops::PluginLoop;
use super::manifest::{HookOptions, Manifest, PointDeclaration};
use super::startable::StartableSet;
use super::store::PluginStore;
use super::tools::WasmTool;
use crate::config::{HookSettings, PluginSettings};
use crate::point::agent_loop::AgentLoop;
use crate::point::catalog::{self, PointRow};
use crate::point::defined::{DefinedPoint, DefinedPoints};
use crate::point::dispatch::PointKind;
use crate::point::handle::AgentHandle;
use crate::point::payload::CheckArguments;
use crate::point::registry::{HOOK_DEADLINE, HookSpec, Registry};
use crate::tool::{SharedTool, schema};

/// Deadline of a hook in the background; a manifest can only lower it and [`HOOK_DEADLINE`], except
/// for a plugin that was granted `model` or `agents`: its `[hooks.X] timeout` may go up to
/// [`WAITING_DEADLINE`].
const ASYNC_DEADLINE: Duration = Duration::from_secs(15);

/// The longest deadline of a hook that waits for a model: most short answers take less, and a turn
/// that stands still for longer looks dead.
const WAITING_DEADLINE: Duration = Duration::from_secs(60);

/// Plugins opened for one session.
#[derive(Default)]
pub struct OpenPlugins {
    /// Hooks of the plugins.
    pub registry: Registry,
    /// Tools of the plugins.
    pub tools: Vec<SharedTool>,
    /// Points that the plugins define.
    pub points: DefinedPoints,
    /// Slash commands of the plugins.
    pub commands: Vec<PluginCommand>,
    /// Loops of the plugins, one each at most.
    pub loops: Vec<PluginLoop>,
    /// Loops of the agent, at most one for each plugin; the settings select one.
    pub(crate) agent_loops: Vec<Arc<dyn AgentLoop>>,
    /// Counts of their usage in the session.
    pub(crate) limits: Vec<PluginLimits>,
}

/// Counts of one plugin's usage in a session.
pub(crate) struct PluginLimits {
    plugin: String,
    backing: Arc<PluginBacking>,
}

impl PluginLimits {
    /// Returns the name of the plugin.
    pub(crate) fn plugin(&self) -> &str {
        &self.plugin
    }

    /// Counts from the beginning again.
    pub(crate) fn renew_limits(&self) {
        self.backing.renew_limits();
    }
}

impl<S: Deref<Target = PluginSet>> StartableSet<S> {
    /// Makes the plugins ready for a session that they reach through `handle`. No instance is made
    /// before it is called.
    ///
    /// # Errors
    /// The schema of a point that a plugin defines cannot be used.
    pub fn open(&self, handle: &Arc<dyn AgentHandle>) -> Result<OpenPlugins, Error> {
        let mut open = OpenPlugins::default();
        for plugin in &self.plugins {
            for (name, point) in &plugin.manifest.points {
                open.points
                    .add(&plugin.manifest.name, name, defined_point(name, point)?);
            }
            if let Some(template) = plugin.template() {
                let backing = plugin.open_backing(handle.clone());
                plugin.open_plugin(
                    template,
                    backing,
                    &self.points_of(&plugin.manifest),
                    &mut open,
                );
            }
        }
        // If two tools have the same name, use the one of the more trusted plugin.
        let trust = |tool: &SharedTool| {
            let of = |plugin: &&Arc<LoadedPlugin>| {
                Some(plugin.manifest.name.as_str()) == tool.spec().plugin.as_deref()
            };
            self.plugins.iter().find(of).map(|plugin| plugin.trust)
        };
        open.tools.sort_by_key(trust);
        Ok(open)
    }
}

impl PluginSet {
    /// Opens one plugin for a session of this set, to replace the plugin with the same name.
    pub(crate) fn open_one(
        &self,
        plugin: &LoadedPlugin,
        handle: &Arc<dyn AgentHandle>,
    ) -> OpenPlugins {
        let mut open = OpenPlugins::default();
        if let Some(template) = plugin.template() {
            let backing = plugin.open_backing(handle.clone());
            plugin.open_plugin(
                template,
                backing,
                &self.points_of(&plugin.manifest),
                &mut open,
            );
        }
        open
    }

    /// The store of each plugin, by its name.
    #[must_use]
    pub fn stores(&self) -> BTreeMap<String, PluginStore> {
        let store =
            |plugin: &Arc<LoadedPlugin>| (plugin.manifest.name.clone(), plugin.store().clone());
        self.plugins.iter().map(store).collect()
    }

    /// The points of other plugins that a plugin implements, with the kind that their owner gave
    /// them: a gate of a plugin's own refuses when an implementer fails, like any gate.
    fn points_of<'a>(&self, manifest: &'a Manifest) -> Vec<(&'a str, PointKind)> {
        let kind = |full_name: &'a String| {
            let (owner, name) = full_name.split_once('.')?;
            let owner = self
                .plugins
                .iter()
                .find(|plugin| plugin.manifest.name == owner)?;
            Some((full_name.as_str(), owner.manifest.points.get(name)?.kind))
        };
        manifest.implements.keys().filter_map(kind).collect()
    }
}

impl LoadedPlugin {
    fn open_plugin(
        &self,
        template: &Arc<InstanceTemplate>,
        backing: Arc<PluginBacking>,
        implemented: &[(&str, PointKind)],
        open: &mut OpenPlugins,
    ) {
        open.limits.push(PluginLimits {
            plugin: self.request.plugin.clone(),
            backing: backing.clone(),
        });
        let slot = &Arc::new(InstanceSlot::new(template.clone(), backing));
        // Hooks in the background have an instance of their own: a slow one must not make a guard
        // of the same plugin miss its deadline.
        let background = Arc::new(slot.sibling());
        let spec =
            |row: &PointRow| self.hook_spec(row.name, row.kind, &self.manifest.hook(row.name));
        hooks::bind_hooks(&mut open.registry, slot, &background, self, &spec);
        for (point, kind) in implemented {
            let options = self
                .manifest
                .implements
                .get(*point)
                .cloned()
                .unwrap_or_default();
            let spec = self.hook_spec(point, *kind, &options);
            let implement = WasmImplement {
                slot: slot.clone(),
                point: (*point).to_owned(),
            };
            open.registry.add(spec, Arc::new(implement));
        }
        for spec in &self.commands {
            open.commands.push(PluginCommand {
                plugin: self.request.plugin.clone(),
                spec: spec.clone(),
                slot: slot.clone(),
                deadline: super::tools::call_deadline(&self.manifest),
            });
        }
        if self.has_loop() {
            open.loops.push(PluginLoop {
                plugin: self.request.plugin.clone(),
                slot: slot.clone(),
                deadline: super::tools::call_deadline(&self.manifest),
            });
        }
        if self.may_order_turns() {
            open.agent_loops.push(Arc::new(PluginAgentLoop {
                plugin: self.request.plugin.clone(),
                // The loop is in a call for the whole turn, in which the plugin's hooks are called.
                slot: Arc::new(slot.sibling()),
                deadline: super::tools::call_deadline(&self.manifest),
            }));
        }
        let may = super::tools::tool_rights(self.granted(), self.request.has_hooks);
        for (spec, function) in self.foreign.iter().flat_map(|own| &own.tools) {
            open.tools.push(Arc::new(ForeignTool {
                spec: spec.clone(),
                function: function.clone(),
                slot: slot.clone(),
                deadline: super::tools::call_deadline(&self.manifest),
                may: may.clone(),
                tracking: super::tools::tool_tracking(self.granted()),
            }));
        }
        for spec in self.tools.iter().filter(|_| !self.is_foreign()) {
            open.tools.push(Arc::new(WasmTool {
                spec: spec.clone(),
                slot: slot.clone(),
                deadline: super::tools::call_deadline(&self.manifest),
                may: may.clone(),
                tracking: super::tools::tool_tracking(self.granted()),
                repetition: super::tools::call_repetition(&self.manifest, &spec.name),
            }));
        }
    }

    fn hook_spec(&self, point: &str, kind: PointKind, options: &HookOptions) -> HookSpec {
        self.spec_with((point, kind), options, &self.settings, self.granted())
    }
}

/// The longest deadline of a hook with these options; `waits` is whether its plugin may ask a model
/// or run agents.
#[must_use]
pub fn ceiling(options: &HookOptions, waits: bool) -> Duration {
    match options.is_async {
        _ if waits && options.timeout.is_some() => WAITING_DEADLINE,
        true => ASYNC_DEADLINE,
        false => HOOK_DEADLINE,
    }
}

pub(super) fn settings_for(plugin: &PluginSettings, point: &str) -> HookSettings {
    let is_it =
        |name: &String| name == point || catalog::find(name).is_some_and(|row| row.name == point);
    let found = plugin.hooks.iter().find(|(name, _)| is_it(name));
    found
        .map(|(_, settings)| settings.clone())
        .unwrap_or_default()
}

fn defined_point(name: &str, point: &PointDeclaration) -> Result<DefinedPoint, Error> {
    let compile = |which: &str, declared: &Option<Value>| -> Result<Arc<CheckArguments>, Error> {
        let Some(declared) = declared else {
            return Ok(Arc::new(|_: &Value| Ok(())));
        };
        schema::compile(declared).map_err(|e| Error::UnknownPoint {
            point: name.to_owned(),
            why: format!("its `{which}` is refused: {e}"),
        })
    };
    Ok(DefinedPoint {
        kind: point.kind,
        payload: compile("payload", &point.payload)?,
        result: compile("result", &point.result)?,
        callers: point.callers.clone(),
    })
}
