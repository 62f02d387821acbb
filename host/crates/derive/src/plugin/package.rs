//! Collects the facts about a plugin that its skill shows, from the manifest and the loaded plugin.
//! The facts are plain data, so that the skill can be rendered in another process.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::hooks;
use rind_cases::file::{CaseFile, PluginCase};
use rind_lib::grant::{
    GrantedCapabilities, SideEffect, describe_capability, describe_combined_risk,
};
use rind_lib::message::ToolSpec;
use rind_lib::plugin::commands::CommandSpec;
use rind_lib::plugin::inspect::build_plugin_report;
use rind_lib::plugin::load::PluginWithPermissionDecision;
use rind_lib::plugin::manifest::Manifest;

/// Maximum size of an argument or result in an example, in bytes.
const MAX_EXAMPLE_JSON_BYTES: usize = 2 << 10;

/// Facts about a plugin that was loaded without any grants.
#[derive(Debug, Serialize, Deserialize)]
pub struct PluginPackage {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) description: String,
    pub(super) side_effects: Vec<SideEffect>,
    pub(super) tools: Vec<ToolSpec>,
    pub(super) commands: Vec<PackagedCommand>,
    /// Descriptions of the plugin's hooks, each as one list item in Markdown.
    pub(super) hooks: Vec<String>,
    /// Files with the prompt templates that the plugin contains.
    pub(super) prompts: Vec<String>,
    /// Directories of the skills that the plugin contains.
    pub(super) skills: Vec<String>,
    /// Descriptions of the permissions that the plugin requests.
    pub(super) permissions: Vec<String>,
    /// Description of what the permissions allow in combination, if the combination is dangerous.
    pub(super) together: Option<String>,
    /// Names of the plugins that this plugin requires, with version requirements.
    pub(super) dependencies: Vec<String>,
    /// JSON Schema of the plugin's settings.
    pub(super) settings: Option<Value>,
    pub(super) examples: Vec<ToolCallExample>,
    pub(super) readme: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PackagedCommand {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) arguments: Option<Value>,
}

/// Call of a tool with its result, taken from a test case.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ToolCallExample {
    pub(super) tool: String,
    pub(super) case: String,
    pub(super) arguments: String,
    pub(super) result: String,
}

impl PluginPackage {
    /// Collects the facts about a plugin from which its skill is derived. `manifest` is the
    /// author's manifest; the examples are taken from `cases`.
    pub fn new(
        manifest: &Manifest,
        loaded: &PluginWithPermissionDecision,
        readme: Option<String>,
        cases: &[CaseFile],
        skills: Vec<String>,
    ) -> Self {
        let report = build_plugin_report(loaded);
        let requested = manifest.requested_permissions();
        let permissions = requested.iter().map(describe_capability).collect();
        let commands = loaded
            .commands
            .iter()
            .map(|command: &CommandSpec| PackagedCommand {
                name: command.name.clone(),
                description: command.description.clone(),
                arguments: command.arguments.clone(),
            });
        let mut package = Self {
            name: manifest.name.clone(),
            version: manifest.version.to_string(),
            description: manifest.description.clone(),
            side_effects: manifest.side_effects.clone(),
            tools: loaded.tools.clone(),
            commands: commands.collect(),
            hooks: report.hooks.iter().map(hooks::describe_hook).collect(),
            prompts: report.prompts.iter().map(ToString::to_string).collect(),
            skills,
            together: describe_combined_risk(
                &GrantedCapabilities::new(requested),
                !report.hooks.is_empty(),
            ),
            permissions,
            dependencies: manifest
                .dependencies
                .iter()
                .map(|(name, range)| format!("{name} {range}"))
                .collect(),
            settings: manifest.config.clone(),
            examples: cases
                .iter()
                .flat_map(|file| &file.cases)
                .filter_map(convert_case_to_example)
                .collect(),
            readme,
        };
        package.tools.sort_by(|a, b| a.name.cmp(&b.name));
        package.commands.sort_by(|a, b| a.name.cmp(&b.name));
        package
    }
}

/// Returns an example from a test case in which the model calls a tool and whose expectations
/// contain the tool's result.
fn convert_case_to_example(case: &PluginCase) -> Option<ToolCallExample> {
    let call = case.given.tool.as_ref()?;
    let result = case.expect.results.as_ref()?.first()?;
    let arguments = serde_json::to_string_pretty(&call.arguments).ok()?;
    let is_short =
        arguments.len() <= MAX_EXAMPLE_JSON_BYTES && result.len() <= MAX_EXAMPLE_JSON_BYTES;
    is_short.then(|| ToolCallExample {
        tool: call.name.clone(),
        case: case.name.clone(),
        arguments,
        result: result.clone(),
    })
}
