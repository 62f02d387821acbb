//! A plugin whose component was compiled and was run once, to list its tools and commands. Its
//! permissions are not decided yet.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use wasmtime::component::Component;

use super::checked::CheckedPlugin;
use crate::grant::{Granted, OfferedTool, Request};
use crate::message::ToolSpec;
use crate::plugin::commands::CommandSpec;
use crate::plugin::component::ComponentFunctions;
use crate::plugin::contract::stamp::Stamp;
use crate::plugin::instance::InstanceTemplate;
use crate::plugin::{Error, agent_loop, authority, loops};

/// Facts about a component, read from its bytes without running it.
#[derive(Default)]
pub(in crate::plugin) struct ComponentFacts {
    pub(in crate::plugin) digest: String,
    pub(in crate::plugin) imports: Vec<String>,
    pub(in crate::plugin) exports: Vec<String>,
    pub(in crate::plugin) stamp: Option<Stamp>,
    /// Functions of a component that was not built for Rind's plugin contract; `None` for a plugin.
    pub(in crate::plugin) foreign: Option<ComponentFunctions>,
    pub(in crate::plugin) was_cached: bool,
}

/// Compiled component, and the template of its instances. An instance of this template, which is
/// linked with all requested permissions, listed the tools.
pub(in crate::plugin) struct CompiledComponent {
    pub(in crate::plugin) component: Component,
    pub(in crate::plugin) template: Arc<InstanceTemplate>,
    /// Requested permissions, for which the template is linked.
    pub(in crate::plugin) requested: Granted,
}

impl CompiledComponent {
    /// Returns the template from which instances of the component are created, if it was linked
    /// for exactly the permissions `granted`.
    pub(in crate::plugin) fn template_for(
        &self,
        granted: &Granted,
    ) -> Option<Arc<InstanceTemplate>> {
        (self.requested == *granted).then(|| self.template.clone())
    }
}

/// Plugin whose tools and commands are known, before its permissions are decided.
pub struct ListedPlugin {
    checked: CheckedPlugin,
    /// Digest of the component; empty for a plugin without one.
    pub digest: String,
    /// Interfaces that the component imports, with their full names.
    pub imports: Vec<String>,
    /// Interfaces of Rind's plugin contract that the component exports, without package and
    /// version.
    pub exports: Vec<String>,
    /// Stamp of the component.
    pub stamp: Option<Stamp>,
    /// Tools of the plugin.
    pub tools: Vec<ToolSpec>,
    /// Slash commands of the plugin.
    pub commands: Vec<CommandSpec>,
    /// Time that loading took, without the time in which the operator answered questions.
    pub load_time: Duration,
    /// Whether the component's native code came from the cache.
    pub was_cached: bool,
    pub(in crate::plugin) foreign: Option<ComponentFunctions>,
    /// Compiled component; `None` for a plugin without one.
    pub(in crate::plugin) compiled: Option<CompiledComponent>,
}

impl Deref for ListedPlugin {
    type Target = CheckedPlugin;

    fn deref(&self) -> &CheckedPlugin {
        &self.checked
    }
}

impl ListedPlugin {
    /// Combines a checked plugin with the facts about its component, and with its tools and
    /// commands.
    pub(in crate::plugin) fn new(
        checked: CheckedPlugin,
        facts: ComponentFacts,
        (tools, commands): (Vec<ToolSpec>, Vec<CommandSpec>),
        compiled: Option<CompiledComponent>,
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
    pub(in crate::plugin) fn build_grant_request(&self, source: String) -> Result<Request, Error> {
        let manifest = &self.manifest;
        Ok(Request {
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
            tools: self.tools.iter().map(convert_offered_tool).collect(),
            has_hooks: self
                .exports
                .iter()
                .any(|e| authority::exposes_conversation(e)),
        })
    }

    /// Whether the plugin is a component that was not built for Rind's plugin contract.
    #[must_use]
    pub fn is_foreign(&self) -> bool {
        self.foreign.is_some()
    }

    /// Returns a message for each function that is not offered as a tool, with the reason. Only for
    /// components that were not written for Rind; otherwise empty.
    #[must_use]
    pub fn refused_functions(&self) -> &[String] {
        self.foreign.as_ref().map_or(&[], |own| &own.refused)
    }

    /// Whether the host ever calls the component: its hooks, tools, commands, loops or
    /// implementations of points. Also true for a plugin without a component, which contains only
    /// prompts or skills.
    #[must_use]
    pub fn is_called(&self) -> bool {
        let is_used = |export: &String| match export.as_str() {
            "tools" => !self.tools.is_empty(),
            "commands" => !self.commands.is_empty(),
            "implement" => !self.manifest.implements.is_empty(),
            _ => true,
        };
        self.manifest.component.is_none() || self.is_foreign() || self.exports.iter().any(is_used)
    }

    /// Whether the plugin has a loop, which runs during `rind serve`.
    #[must_use]
    pub fn has_loop(&self) -> bool {
        self.exports.iter().any(|export| export == loops::INTERFACE)
    }

    /// Whether the plugin has an agent loop, which runs the agent's turns if that is granted.
    #[must_use]
    pub fn has_agent_loop(&self) -> bool {
        let mut exports = self.exports.iter();
        exports.any(|export| export == agent_loop::INTERFACE)
    }
}

fn convert_offered_tool(tool: &ToolSpec) -> OfferedTool {
    OfferedTool {
        name: tool.name.clone(),
        description: tool.description.clone(),
        parameters: tool.parameters.to_string(),
    }
}
