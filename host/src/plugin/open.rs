//! Opens loaded plugins for one session: binds their hooks, and collects their tools, commands,
//! loops and the points that they define.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::Error;
use super::agent_loop::PluginAgentLoop;
use super::commands::PluginSlashCommand;
use super::component::ComponentFunctionTool;
use super::hooks::{self, WasmExtensionPointImplementation};
use super::host::SharedPluginState;
use super::instance::{PluginInstanceTemplate, ReusableInstanceSlot};
use super::load::{FoundPluginSet, LoadedPlugin};
use super::loops::PluginLoop;
use super::manifest::{ExtensionPointDeclaration, HookOptions, Manifest};
use super::startable::StartablePluginSet;
use super::store::PluginKeyValueStore;
use super::tools::WasmTool;
use crate::config::{HookSettings, PluginSettings};
use crate::point::agent_loop::AgentLoop;
use crate::point::catalog::{self, BuiltinExtensionPoint};
use crate::point::defined::{PluginDefinedPoint, PluginDefinedPoints};
use crate::point::dispatch::ExtensionPointKind;
use crate::point::handle::AgentHandle;
use crate::point::payload::ToolArgumentsChecker;
use crate::point::registry::{DEFAULT_HOOK_DEADLINE, HookRegistry, HookSpec};
use crate::tool::{SharedTool, schema};

/// Maximum deadline of a background hook. A manifest can lower this deadline and
/// [`DEFAULT_HOOK_DEADLINE`], but not raise either of them, unless the plugin was granted `model`
/// or `agents`: then `[hooks.X] timeout` may be up to [`MAX_MODEL_HOOK_DEADLINE`].
const MAX_BACKGROUND_HOOK_DEADLINE: Duration = Duration::from_secs(15);

/// Maximum deadline of a hook that may wait for a model. Most short answers take less time, and a
/// turn without progress for longer looks hung.
const MAX_MODEL_HOOK_DEADLINE: Duration = Duration::from_secs(60);

/// Plugins opened for one session.
#[derive(Default)]
pub struct SessionPlugins {
    /// Registry with the hooks of all plugins of the session.
    pub registry: HookRegistry,
    /// Tools of all plugins of the session.
    pub tools: Vec<SharedTool>,
    /// Extension points that the plugins define.
    pub points: PluginDefinedPoints,
    /// Slash commands of the plugins.
    pub commands: Vec<PluginSlashCommand>,
    /// Loops of the plugins, at most one per plugin.
    pub loops: Vec<PluginLoop>,
    /// Agent loops, which control the steps of the agent's turns, at most one per plugin. The
    /// settings select one agent loop.
    pub(crate) agent_loops: Vec<Arc<dyn AgentLoop>>,
    /// Usage limits of the plugins in the session.
    pub(crate) limits: Vec<PluginSessionUsageLimits>,
}

/// Usage limits of one plugin in a session, such as the number of HTTP requests.
pub(crate) struct PluginSessionUsageLimits {
    plugin: String,
    backing: Arc<SharedPluginState>,
}

impl PluginSessionUsageLimits {
    /// Returns the name of the plugin.
    pub(crate) fn plugin_name(&self) -> &str {
        &self.plugin
    }

    /// Resets the plugin's counted usage, such as its HTTP requests, to zero.
    pub(crate) fn reset_usage(&self) {
        self.backing.reset_session_limits();
    }
}

impl<S: Deref<Target = FoundPluginSet>> StartablePluginSet<S> {
    /// Opens the plugins for a session, which the plugins access through `handle`. A plugin's
    /// instance is created only at the first call of the plugin.
    ///
    /// # Errors
    /// The schema of a point that a plugin defines is invalid.
    pub fn open_plugins(&self, handle: &Arc<dyn AgentHandle>) -> Result<SessionPlugins, Error> {
        let mut open = SessionPlugins::default();
        for plugin in &self.plugins {
            for (name, point) in &plugin.manifest.points {
                open.points.add_extension_point(
                    &plugin.manifest.name,
                    name,
                    build_plugin_defined_point(name, point)?,
                );
            }
            if let Some(template) = plugin.instance_template() {
                let backing = plugin.open_shared_state(handle.clone());
                plugin.open_for_session(
                    template,
                    backing,
                    &self.list_implemented_extension_points(&plugin.manifest),
                    &mut open,
                );
            }
        }
        // Sort by trust, because a session offers the first of two tools with the same name.
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

impl FoundPluginSet {
    /// Opens `plugin` for a session in which the plugins of this set run, so that it can replace
    /// the plugin of the same name.
    pub(crate) fn open_replacement_plugin(
        &self,
        plugin: &LoadedPlugin,
        handle: &Arc<dyn AgentHandle>,
    ) -> SessionPlugins {
        let mut open = SessionPlugins::default();
        if let Some(template) = plugin.instance_template() {
            let backing = plugin.open_shared_state(handle.clone());
            plugin.open_for_session(
                template,
                backing,
                &self.list_implemented_extension_points(&plugin.manifest),
                &mut open,
            );
        }
        open
    }

    /// Returns the store of each plugin, keyed by plugin name.
    #[must_use]
    pub fn plugin_key_value_stores(&self) -> BTreeMap<String, PluginKeyValueStore> {
        let store = |plugin: &Arc<LoadedPlugin>| {
            (
                plugin.manifest.name.clone(),
                plugin.key_value_store().clone(),
            )
        };
        self.plugins.iter().map(store).collect()
    }

    /// Returns the plugin-defined points that a plugin implements, each with the kind that its
    /// owner declared. The kind determines what happens by default if an implementer fails: a gate
    /// refuses.
    fn list_implemented_extension_points<'a>(
        &self,
        manifest: &'a Manifest,
    ) -> Vec<(&'a str, ExtensionPointKind)> {
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
    fn open_for_session(
        &self,
        template: &Arc<PluginInstanceTemplate>,
        backing: Arc<SharedPluginState>,
        implemented: &[(&str, ExtensionPointKind)],
        open: &mut SessionPlugins,
    ) {
        open.limits.push(PluginSessionUsageLimits {
            plugin: self.request.plugin.clone(),
            backing: backing.clone(),
        });
        let slot = &Arc::new(ReusableInstanceSlot::new(template.clone(), backing));
        // Hooks in the background have a separate instance: a slow background hook must not make a
        // guard of the same plugin miss its deadline.
        let background = Arc::new(slot.create_additional_slot());
        let spec = |row: &BuiltinExtensionPoint| {
            self.hook_spec(row.name, row.kind, &self.manifest.hook(row.name))
        };
        hooks::bind_component_hooks(&mut open.registry, slot, &background, self, &spec);
        for (point, kind) in implemented {
            let options = self
                .manifest
                .implements
                .get(*point)
                .cloned()
                .unwrap_or_default();
            let spec = self.hook_spec(point, *kind, &options);
            let implement = WasmExtensionPointImplementation {
                slot: slot.clone(),
                point: (*point).to_owned(),
            };
            open.registry.add(spec, Arc::new(implement));
        }
        for spec in &self.commands {
            open.commands.push(PluginSlashCommand {
                plugin: self.request.plugin.clone(),
                spec: spec.clone(),
                slot: slot.clone(),
                deadline: super::tools::tool_call_deadline(&self.manifest),
            });
        }
        if self.has_loop() {
            open.loops.push(PluginLoop {
                plugin: self.request.plugin.clone(),
                slot: slot.clone(),
                deadline: super::tools::tool_call_deadline(&self.manifest),
            });
        }
        if self.may_run_agent_loop() {
            open.agent_loops.push(Arc::new(PluginAgentLoop {
                plugin: self.request.plugin.clone(),
                // The agent loop occupies its instance during the entire turn, so the plugin's
                // hooks need another instance.
                slot: Arc::new(slot.create_additional_slot()),
                deadline: super::tools::tool_call_deadline(&self.manifest),
            }));
        }
        let may =
            super::tools::describe_tool_rights(self.granted_capabilities(), self.request.has_hooks);
        for (spec, function) in self.foreign.iter().flat_map(|own| &own.tools) {
            open.tools.push(Arc::new(ComponentFunctionTool {
                spec: spec.clone(),
                function: function.clone(),
                slot: slot.clone(),
                deadline: super::tools::tool_call_deadline(&self.manifest),
                may: may.clone(),
                tracking: super::tools::file_change_tracking_method(self.granted_capabilities()),
            }));
        }
        for spec in self
            .tools
            .iter()
            .filter(|_| !self.is_component_without_contract())
        {
            open.tools.push(Arc::new(WasmTool {
                spec: spec.clone(),
                slot: slot.clone(),
                deadline: super::tools::tool_call_deadline(&self.manifest),
                may: may.clone(),
                tracking: super::tools::file_change_tracking_method(self.granted_capabilities()),
                repetition: super::tools::interrupted_call_retry_rule(&self.manifest, &spec.name),
            }));
        }
    }

    /// Describes a hook, or an implementation of a plugin-defined point, as the dispatcher calls it.
    pub(super) fn hook_spec(
        &self,
        point: &str,
        kind: ExtensionPointKind,
        options: &HookOptions,
    ) -> HookSpec {
        self.build_hook_spec(
            (point, kind),
            options,
            &self.settings,
            self.granted_capabilities(),
        )
    }
}

/// Returns the maximum deadline of a hook with these options. `waits` is true if the hook's plugin
/// may send requests to a model or run agents.
#[must_use]
pub fn max_hook_deadline(options: &HookOptions, waits: bool) -> Duration {
    match options.is_async {
        _ if waits && options.timeout.is_some() => MAX_MODEL_HOOK_DEADLINE,
        true => MAX_BACKGROUND_HOOK_DEADLINE,
        false => DEFAULT_HOOK_DEADLINE,
    }
}

pub(super) fn find_hook_settings(plugin: &PluginSettings, point: &str) -> HookSettings {
    let is_it = |name: &String| {
        name == point
            || catalog::find_builtin_extension_point(name).is_some_and(|row| row.name == point)
    };
    let found = plugin.hooks.iter().find(|(name, _)| is_it(name));
    found
        .map(|(_, settings)| settings.clone())
        .unwrap_or_default()
}

fn build_plugin_defined_point(
    name: &str,
    point: &ExtensionPointDeclaration,
) -> Result<PluginDefinedPoint, Error> {
    let compile =
        |which: &str, declared: &Option<Value>| -> Result<Arc<ToolArgumentsChecker>, Error> {
            let Some(declared) = declared else {
                return Ok(Arc::new(|_: &Value| Ok(())));
            };
            schema::compile_json_schema_check(declared).map_err(|e| Error::UnknownPoint {
                point: name.to_owned(),
                why: format!("its `{which}` cannot be used as a schema: {e}"),
            })
        };
    Ok(PluginDefinedPoint {
        kind: point.kind,
        payload: compile("payload", &point.payload)?,
        result: compile("result", &point.result)?,
        callers: point.callers.clone(),
    })
}
