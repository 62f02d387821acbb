//! A plugin whose component was compiled and was run once, to list its tools and commands. Its
//! permissions are not decided yet.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use wasmtime::component::Component;

use super::checked::PluginWithCheckedSettings;
use crate::grant::{GrantRequest, GrantedCapabilities, OfferedTool};
use crate::message::ToolSpec;
use crate::plugin::commands::CommandSpec;
use crate::plugin::component::ComponentFunctions;
use crate::plugin::contract::stamp::ComponentBuildInfo;
use crate::plugin::instance::PluginInstanceTemplate;
use crate::plugin::{Error, agent_loop, authority, loops};

/// Facts about a component, read from its bytes without running it.
#[derive(Default)]
pub(in crate::plugin) struct ComponentMetadata {
    pub(in crate::plugin) digest: String,
    pub(in crate::plugin) imports: Vec<String>,
    pub(in crate::plugin) exports: Vec<String>,
    pub(in crate::plugin) stamp: Option<ComponentBuildInfo>,
    /// Functions of a component that was not built for Rind's plugin contract; `None` for a plugin.
    pub(in crate::plugin) foreign: Option<ComponentFunctions>,
    pub(in crate::plugin) was_cached: bool,
}

/// Compiled component, and the template of its instances. An instance of this template, which is
/// linked with all requested permissions, listed the tools.
pub(in crate::plugin) struct ComponentWithInstanceTemplate {
    pub(in crate::plugin) component: Component,
    pub(in crate::plugin) template: Arc<PluginInstanceTemplate>,
    /// Requested permissions, for which the template is linked.
    pub(in crate::plugin) requested: GrantedCapabilities,
}

impl ComponentWithInstanceTemplate {
    /// Returns the template from which instances of the component are created, if it was linked
    /// for exactly the permissions `granted`.
    pub(in crate::plugin) fn instance_template_for(
        &self,
        granted: &GrantedCapabilities,
    ) -> Option<Arc<PluginInstanceTemplate>> {
        (self.requested == *granted).then(|| self.template.clone())
    }
}

/// Plugin whose tools and commands are known, before its permissions are decided.
pub struct PluginWithListedTools {
    checked: PluginWithCheckedSettings,
    /// Digest of the component; empty for a plugin without one.
    pub digest: String,
    /// Interfaces that the component imports, with their full names.
    pub imports: Vec<String>,
    /// Interfaces of Rind's plugin contract that the component exports, without package and
    /// version.
    pub exports: Vec<String>,
    /// Build information that the SDK wrote into the component; `None` if it has none.
    pub stamp: Option<ComponentBuildInfo>,
    /// Tools that the component lists.
    pub tools: Vec<ToolSpec>,
    /// Slash commands that the component lists.
    pub commands: Vec<CommandSpec>,
    /// Time that loading took, without the time in which the operator answered questions.
    pub load_time: Duration,
    /// Whether the component's native code came from the cache.
    pub was_cached: bool,
    pub(in crate::plugin) foreign: Option<ComponentFunctions>,
    /// Compiled component; `None` for a plugin without one.
    pub(in crate::plugin) compiled: Option<ComponentWithInstanceTemplate>,
}

impl Deref for PluginWithListedTools {
    type Target = PluginWithCheckedSettings;

    fn deref(&self) -> &PluginWithCheckedSettings {
        &self.checked
    }
}

impl PluginWithListedTools {
    /// Combines a checked plugin with the facts about its component, and with its tools and
    /// commands.
    pub(in crate::plugin) fn new(
        checked: PluginWithCheckedSettings,
        facts: ComponentMetadata,
        (tools, commands): (Vec<ToolSpec>, Vec<CommandSpec>),
        compiled: Option<ComponentWithInstanceTemplate>,
        load_time: Duration,
    ) -> Self {
        Self {
            checked,
            digest: facts.digest,
            imports: facts.imports,
            exports: facts.exports,
            stamp: facts.stamp,
            tools,
            commands,
            load_time,
            was_cached: facts.was_cached,
            foreign: facts.foreign,
            compiled,
        }
    }

    /// Returns the request that the operator decides on: all requested permissions, and the
    /// plugin's content. `source` describes the plugin's origin.
    ///
    /// # Errors
    /// The manifest cannot be written as text.
    pub(in crate::plugin) fn build_grant_request(
        &self,
        source: String,
    ) -> Result<GrantRequest, Error> {
        let manifest = &self.manifest;
        Ok(GrantRequest {
            plugin: manifest.name.clone(),
            version: manifest.version.to_string(),
            description: manifest.description.clone(),
            trust: manifest.trust.map_or(self.trust, |own| own.max(self.trust)),
            source,
            digest: self.digest.clone(),
            // Serialize the parsed manifest, so that comments and the order of keys do not change
            // the digest.
            manifest: serde_json::to_string(manifest).map_err(|e| Error::Start {
                message: format!("its manifest cannot be converted to JSON: {e}"),
            })?,
            side_effects: manifest.side_effects.clone(),
            capabilities: manifest.requested_permissions(),
            tools: self.tools.iter().map(to_offered_tool).collect(),
            has_hooks: self
                .exports
                .iter()
                .any(|e| authority::can_see_conversation(e)),
        })
    }

    /// Whether the plugin is a component that was not built for Rind's plugin contract.
    #[must_use]
    pub fn is_component_without_contract(&self) -> bool {
        self.foreign.is_some()
    }

    /// Returns a message for each function that is not offered as a tool, with the reason. Only for
    /// components that were not written for Rind; otherwise empty.
    #[must_use]
    pub fn skipped_function_messages(&self) -> &[String] {
        self.foreign.as_ref().map_or(&[], |own| &own.refused)
    }

    /// Whether the host ever calls the component: its hooks, tools, commands, loops or
    /// implementations of points. Also true for a plugin without a component, which contains only
    /// prompts or skills.
    #[must_use]
    pub fn is_component_used(&self) -> bool {
        let is_used = |export: &String| match export.as_str() {
            "tools" => !self.tools.is_empty(),
            "commands" => !self.commands.is_empty(),
            "implement" => !self.manifest.implements.is_empty(),
            _ => true,
        };
        self.manifest.component.is_none()
            || self.is_component_without_contract()
            || self.exports.iter().any(is_used)
    }

    /// Whether the plugin has a loop, which runs during `rind serve`.
    #[must_use]
    pub fn has_loop(&self) -> bool {
        self.exports
            .iter()
            .any(|export| export == loops::LOOP_INTERFACE_NAME)
    }

    /// Whether the plugin has an agent loop, which runs the agent's turns if that is granted.
    #[must_use]
    pub fn has_agent_loop(&self) -> bool {
        let mut exports = self.exports.iter();
        exports.any(|export| export == agent_loop::AGENT_LOOP_INTERFACE_NAME)
    }
}

fn to_offered_tool(tool: &ToolSpec) -> OfferedTool {
    OfferedTool {
        name: tool.name.clone(),
        description: tool.description.clone(),
        parameters: tool.parameters.to_string(),
    }
}
