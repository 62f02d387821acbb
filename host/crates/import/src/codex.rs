//! Settings of Codex: `config.toml` and its folder of prompts.

use serde_json::Value;

use super::ImportPlaces;
use super::file::{ImportError, read_text};
use super::plan::ImportPlan;
use super::server::{add_server, codex_server};
use super::template::{add_command, add_folder};

/// Reads all settings of Codex.
pub(crate) fn read_codex(places: &ImportPlaces, plan: &mut ImportPlan) -> Result<(), ImportError> {
    let usual = places.home.join(".codex");
    let folder = places.agent_folder.as_ref().unwrap_or(&usual);
    let mut files = vec![folder.join("config.toml")];
    files.extend(
        places
            .project
            .iter()
            .map(|project| project.join(".codex/config.toml")),
    );
    for path in files {
        let Some(text) = read_text(&path, plan)? else {
            continue;
        };
        let settings: Value =
            toml::from_str(&text).map_err(|error| ImportError::new(&path, error))?;
        read_settings(&settings, &path, plan);
    }
    add_folder(&folder.join("prompts"), add_command, plan)?;
    for (name, why) in [
        (
            "AGENTS.md",
            "copy it beside config.toml, where your own AGENTS.md is read",
        ),
        (
            "hooks.json",
            "its tools have other names; write the hooks as [hooks.scripts.NAME]",
        ),
        ("rules", "write them as `rules` in [tools] of config.toml"),
        ("skills", "install them with `rind skill install`"),
    ] {
        if folder.join(name).exists() {
            plan.lose(&folder.join(name), name, why);
        }
    }
    if let Some(project) = &places.project {
        plan.note_used(
            project.join("AGENTS.md"),
            "is read as a context file of the project",
        );
        plan.note_used(
            project.join(".agents/skills"),
            "are found once the project is trusted",
        );
    }
    Ok(())
}

fn read_settings(settings: &Value, path: &std::path::Path, plan: &mut ImportPlan) {
    for (key, value) in settings.as_object().into_iter().flatten() {
        match key.as_str() {
            "mcp_servers" => read_servers(value, path, plan),
            "model" | "model_provider" | "model_providers" => {
                plan.lose(
                    path,
                    key,
                    "name the model and its server in [provider] of config.toml",
                );
            }
            "approval_policy" | "sandbox_mode" => {
                let why = "the mode is chosen for a run with --mode (ask, accept-edits, plan, full), and rules stand in [tools]";
                plan.lose(path, format!("{key} = {value}"), why);
            }
            "sandbox_workspace_write" => {
                let why = "commands are confined by default; `write` and `network` in [sandbox] of config.toml open folders and the network";
                plan.lose(path, key, why);
            }
            "projects" => plan.lose(
                path,
                key,
                "a project is asked about before its files are used",
            ),
            _ => plan.lose(path, key, "it has no counterpart"),
        }
    }
}

fn read_servers(table: &Value, path: &std::path::Path, plan: &mut ImportPlan) {
    for (name, server) in table.as_object().into_iter().flatten() {
        for key in ["enabled_tools", "disabled_tools", "cwd"] {
            if !server[key].is_null() {
                let why = match key {
                    "cwd" => "a server starts in its first folder of `write` or `read`",
                    _ => {
                        "write rules for its tools into [tools], as { tool = \"mcp__SERVER__TOOL\", decision = \"deny\" }"
                    }
                };
                plan.lose(path, format!("MCP server `{name}`: {key}"), why);
            }
        }
        add_server(name, codex_server(server), path, plan);
    }
}
