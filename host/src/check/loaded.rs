//! The plugin as the loader has it: its tools, and why it is refused.

use std::path::PathBuf;

use serde_json::Value;

use super::Found;
use super::place::function;
use crate::plugin::Error;
use crate::plugin::load::Loaded;
use crate::plugin::manifest::Manifest;
use crate::plugin::surface::Surface;

/// Names of the built-in tools, which no plugin's tool takes.
const BUILT_IN: [&str; 6] = [
    "bash",
    "edit_file",
    "list_files",
    "read_file",
    "search",
    "write_file",
];

/// Fewest characters of a description that tells a model when to call a tool.
const MIN_DESCRIPTION_CHARS: usize = 12;

/// Checks the tools of a plugin that is loaded.
pub(super) fn check(found: &mut Found<'_>, plugin: &Loaded, surface: Option<&Surface>) {
    let exports_tools = surface.is_some_and(|surface| surface.own_exports().any(|e| e == "tools"));
    if exports_tools && plugin.tools.is_empty() {
        let file = plugin.manifest.component.clone().unwrap_or_default();
        found.add(
            "unused-export",
            file,
            None,
            "the component exports `tools` and lists none",
        );
    }
    for tool in &plugin.tools {
        let (file, line) = place(found, &plugin.manifest, &tool.name);
        let mut add = |rule, message: String| {
            found.add(rule, &file, line, message);
        };
        if BUILT_IN.contains(&tool.name.as_str()) {
            let message = format!(
                "the tool `{}` has the name of a built-in one, which is taken in its place: rename it",
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
        let properties = tool.parameters.get("properties").and_then(Value::as_object);
        for (name, property) in properties.into_iter().flatten() {
            if property
                .get("description")
                .and_then(Value::as_str)
                .is_none_or(|text| text.trim().is_empty())
            {
                add(
                    "description",
                    format!(
                        "the argument `{name}` of the tool `{}` has no description",
                        tool.name
                    ),
                );
            }
        }
        let required = tool.parameters.get("required").and_then(Value::as_array);
        for name in required.into_iter().flatten().filter_map(Value::as_str) {
            if !properties.is_some_and(|all| all.contains_key(name)) {
                add(
                    "schema",
                    format!(
                        "the tool `{}` requires the argument `{name}`, which its schema does not describe",
                        tool.name
                    ),
                );
            }
        }
    }
}

/// Names the reason why the loader refuses a plugin whose names are all covered.
pub(super) fn refused(found: &mut Found<'_>, manifest: &Manifest, error: &Error) {
    // Settings that must be given have no default to fit, and another plugin need not be here.
    if error.is_up_to_operator(&manifest.name) {
        return;
    }
    let (rule, file, line) = match error {
        Error::Tool { tool, .. } => {
            let (file, line) = place(found, manifest, tool);
            ("tools", file, line)
        }
        Error::Reserved { .. } => (
            "manifest",
            PathBuf::from("plugin.toml"),
            found.places.line(&["name"]),
        ),
        _ => (
            "load",
            PathBuf::from(manifest.component.as_deref().unwrap_or("plugin.toml")),
            None,
        ),
    };
    found.add(rule, file, line, error.to_string()).refused();
}

/// Place of a tool: its function in the sources, or else the component.
fn place(found: &Found<'_>, manifest: &Manifest, tool: &str) -> (PathBuf, Option<usize>) {
    match function(found.folder, tool) {
        Some((file, line)) => (file, Some(line)),
        None => (manifest.component.clone().unwrap_or_default().into(), None),
    }
}
