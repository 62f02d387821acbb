//! Checks the tools and commands of the loaded plugin, or reports why the loader refuses it.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::PluginFaultCollector;
use super::place::find_tool_function;
use rind_lib::plugin::Error;
use rind_lib::plugin::load::LoadedPlugin;
use rind_lib::plugin::manifest::Manifest;
use rind_lib::plugin::surface::ComponentImportsAndExports;
use rind_lib::plugin::tools::BUILT_IN_TOOL_NAMES;

/// Names of the built-in commands, which hide a plugin's command of the same name.
pub const BUILT_IN_COMMAND_NAMES: [&str; 26] = [
    "help",
    "model",
    "mode",
    "status",
    "stop",
    "plugins",
    "permissions",
    "skills",
    "done",
    "cost",
    "context",
    "compact",
    "diff",
    "undo",
    "rewind",
    "continue",
    "fork",
    "rename",
    "copy",
    "export",
    "resume",
    "new",
    "clear",
    "init",
    "reload",
    "quit",
];

/// Minimum length of a useful description, in characters: a shorter one can tell neither a model
/// when to call a tool, nor a person the effect of a command.
const MIN_DESCRIPTION_CHARS: usize = 12;

/// Checks the tools and commands of a loaded plugin.
pub(super) fn check_loaded_plugin(
    found: &mut PluginFaultCollector<'_>,
    plugin: &LoadedPlugin,
    surface: Option<&ComponentImportsAndExports>,
) {
    check_plugin_tools(found, plugin, surface);
    check_plugin_commands(found, plugin, surface);
}

fn check_plugin_commands(
    found: &mut PluginFaultCollector<'_>,
    plugin: &LoadedPlugin,
    surface: Option<&ComponentImportsAndExports>,
) {
    let exports_commands = surface.is_some_and(|s| s.contract_exports().any(|e| e == "commands"));
    if exports_commands && plugin.commands.is_empty() {
        let file = plugin.manifest.component.clone().unwrap_or_default();
        let message = "the component exports `commands` and lists none";
        found.add_fault("unused-export", file, None, message);
    }
    for command in &plugin.commands {
        let (file, line) = find_tool_source_location(found, &plugin.manifest, &command.name);
        let name = format!("command `/{}`", command.name);
        if BUILT_IN_COMMAND_NAMES.contains(&command.name.as_str()) {
            let message = format!(
                "the {name} has the name of a built-in command, which is called instead: rename it; it is called as \
                 `/{}:{}` until then",
                plugin.manifest.name, command.name
            );
            found.add_fault("commands", &file, line, message);
        }
        let description = command.description.trim();
        if description.chars().count() < MIN_DESCRIPTION_CHARS {
            let message = format!(
                "the description of the {name} does not tell a person what it does: `{}`",
                description.escape_debug()
            );
            found.add_fault("description", &file, line, message);
        }
        if let Some(schema) = &command.arguments {
            check_argument_schema(found, &name, schema, &file, line);
        }
    }
}

/// Checks the JSON Schema of the arguments of a tool or command.
fn check_argument_schema(
    found: &mut PluginFaultCollector<'_>,
    name: &str,
    schema: &Value,
    file: &Path,
    line: Option<usize>,
) {
    let properties = schema.get("properties").and_then(Value::as_object);
    for (argument, property) in properties.into_iter().flatten() {
        let description = property.get("description").and_then(Value::as_str);
        if description.is_none_or(|text| text.trim().is_empty()) {
            let message = format!("the argument `{argument}` of the {name} has no description");
            found.add_fault("description", file, line, message);
        }
    }
    let required = schema.get("required").and_then(Value::as_array);
    for argument in required.into_iter().flatten().filter_map(Value::as_str) {
        if !properties.is_some_and(|all| all.contains_key(argument)) {
            let message = format!(
                "the {name} requires the argument `{argument}`, which its schema does not describe"
            );
            found.add_fault("schema", file, line, message);
        }
    }
}

fn check_plugin_tools(
    found: &mut PluginFaultCollector<'_>,
    plugin: &LoadedPlugin,
    surface: Option<&ComponentImportsAndExports>,
) {
    let exports_tools =
        surface.is_some_and(|surface| surface.contract_exports().any(|e| e == "tools"));
    if exports_tools && plugin.tools.is_empty() {
        let file = plugin.manifest.component.clone().unwrap_or_default();
        found.add_fault(
            "unused-export",
            file,
            None,
            "the component exports `tools` and lists none",
        );
    }
    for tool in &plugin.tools {
        let (file, line) = find_tool_source_location(found, &plugin.manifest, &tool.name);
        let mut add = |rule, message: String| {
            found.add_fault(rule, &file, line, message);
        };
        if BUILT_IN_TOOL_NAMES.contains(&tool.name.as_str()) {
            let message = format!(
                "the tool `{}` has the name of a built-in tool, which is used instead: rename it",
                tool.name
            );
            add("tools", message);
        }
        let description = tool.description.trim();
        if description.chars().count() < MIN_DESCRIPTION_CHARS {
            let message = format!(
                "the description of the tool `{}` does not tell a model when to call it: `{}`",
                tool.name,
                description.escape_debug()
            );
            add("description", message);
        }
        let name = format!("tool `{}`", tool.name);
        check_argument_schema(found, &name, &tool.parameters, &file, line);
    }
}

/// Reports tools that have the name of another plugin's tool: a session offers only one of the two.
pub(super) fn check_tool_name_conflicts(
    found: &mut PluginFaultCollector<'_>,
    manifest: &Manifest,
    tools: &[String],
    taken: &[(String, String)],
) {
    for tool in tools {
        let is_it = |(plugin, name): &&(String, String)| name == tool && *plugin != manifest.name;
        if let Some((plugin, _)) = taken.iter().find(is_it) {
            let (file, line) = find_tool_source_location(found, manifest, tool);
            let message = format!(
                "the tool `{tool}` has the name of one of plugin `{plugin}`, and a session offers only one of the two: rename it"
            );
            found.add_fault("tools", &file, line, message);
        }
    }
}

/// Reports why the loader refuses a plugin although its manifest declares all imports and exports.
pub(super) fn report_load_refusal(
    found: &mut PluginFaultCollector<'_>,
    manifest: &Manifest,
    error: &Error,
) {
    // Skip errors that only the operator can correct: required settings without defaults, and other
    // plugins that need not be installed here.
    if error.needs_operator_action(&manifest.name) {
        return;
    }
    let (rule, file, line) = match error {
        Error::Tool { tool, .. } => {
            let (file, line) = find_tool_source_location(found, manifest, tool);
            ("tools", file, line)
        }
        Error::Command { command, .. } => {
            let (file, line) = find_tool_source_location(found, manifest, command);
            ("commands", file, line)
        }
        Error::Skew { .. } => (
            "contract",
            PathBuf::from(manifest.component.as_deref().unwrap_or("plugin.toml")),
            None,
        ),
        Error::Reserved { .. } => (
            "manifest",
            PathBuf::from("plugin.toml"),
            found.places.line_of_key(&["name"]),
        ),
        _ => (
            "load",
            PathBuf::from(manifest.component.as_deref().unwrap_or("plugin.toml")),
            None,
        ),
    };
    found
        .add_fault(rule, file, line, error.to_string())
        .mark_as_load_blocking();
}

/// Returns the location of a tool or command: its function in the sources, or otherwise the
/// component.
fn find_tool_source_location(
    found: &PluginFaultCollector<'_>,
    manifest: &Manifest,
    name: &str,
) -> (PathBuf, Option<usize>) {
    match find_tool_function(found.folder, name) {
        Some((file, line)) => (file, Some(line)),
        None => (manifest.component.clone().unwrap_or_default().into(), None),
    }
}
