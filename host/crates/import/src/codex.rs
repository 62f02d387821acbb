//! Imports the settings of Codex: `config.toml`, `hooks.json`, and the folders of prompts and
//! rules.

use std::path::Path;

use serde_json::Value;

use super::ImportSourceFolders;
use super::codex_rules::{add_codex_rules, report_lost_hooks};
use super::file::{ImportError, read_json, read_text};
use super::permission::ImportedRuleOrigin;
use super::plan::ImportPlan;
use super::server::{add_server, codex_server};
use super::template::{add_command, add_markdown_folder};

/// Reads all settings of Codex.
pub(crate) fn read_codex(
    places: &ImportSourceFolders,
    plan: &mut ImportPlan,
) -> Result<(), ImportError> {
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
    add_markdown_folder(&folder.join("prompts"), add_command, plan)?;
    add_codex_rules(&folder.join("rules"), ImportedRuleOrigin::Person, plan)?;
    read_hooks(&folder.join("hooks.json"), plan)?;
    for (name, why) in [
        (
            "AGENTS.md",
            "copy it beside config.toml, where your own AGENTS.md is read",
        ),
        ("skills", "install them with `rind skill install`"),
    ] {
        if folder.join(name).exists() {
            plan.record_setting_not_imported(&folder.join(name), name, why);
        }
    }
    if let Some(project) = &places.project {
        let folder = project.join(".codex");
        add_codex_rules(&folder.join("rules"), ImportedRuleOrigin::Project, plan)?;
        read_hooks(&folder.join("hooks.json"), plan)?;
        plan.record_used_file(
            project.join("AGENTS.md"),
            "is read as a context file of the project",
        );
        plan.record_used_file(
            project.join(".agents/skills"),
            "are found once the project is trusted",
        );
    }
    Ok(())
}

fn read_hooks(path: &Path, plan: &mut ImportPlan) -> Result<(), ImportError> {
    if let Some(file) = read_json(path, plan)? {
        report_lost_hooks(&file["hooks"], path, plan);
    }
    Ok(())
}

fn read_settings(settings: &Value, path: &Path, plan: &mut ImportPlan) {
    for (key, value) in settings.as_object().into_iter().flatten() {
        match key.as_str() {
            "mcp_servers" => read_servers(value, path, plan),
            "model" | "model_provider" | "model_providers" => {
                plan.record_setting_not_imported(
                    path,
                    key,
                    "name the model and its server in [provider] of config.toml",
                );
            }
            "approval_policy" | "sandbox_mode" => {
                let why = "the mode is chosen for a run with --mode (ask, accept-edits, plan, full), and rules stand in [tools]";
                plan.record_setting_not_imported(path, format!("{key} = {value}"), why);
            }
            "sandbox_workspace_write" => {
                let why = "commands are confined by default; `write` and `network` in [sandbox] of config.toml open folders and the network";
                plan.record_setting_not_imported(path, key, why);
            }
            "projects" => plan.record_setting_not_imported(
                path,
                key,
                "a project is asked about before its files are used",
            ),
            "hooks" => report_lost_hooks(value, path, plan),
            "notify" => plan.record_setting_not_imported(
                path,
                key,
                "write it as [hooks.scripts.NAME] with `point = \"turn-end\"`",
            ),
            "profiles" | "profile" => plan.record_setting_not_imported(
                path,
                key,
                "there is one set of settings; --model and --mode choose for a run",
            ),
            "shell_environment_policy" => plan.record_setting_not_imported(
                path,
                key,
                "commands get a short list of variables; `env` in [sandbox] of config.toml adds others",
            ),
            _ => plan.record_setting_not_imported(path, key, "it has no counterpart"),
        }
    }
}

fn read_servers(table: &Value, path: &Path, plan: &mut ImportPlan) {
    for (name, server) in table.as_object().into_iter().flatten() {
        for key in ["enabled_tools", "disabled_tools", "cwd"] {
            if !server[key].is_null() {
                let why = match key {
                    "cwd" => "a server starts in its first folder of `write` or `read`",
                    _ => {
                        "write rules for its tools into [tools], as { tool = \"mcp__SERVER__TOOL\", decision = \"deny\" }"
                    }
                };
                plan.record_setting_not_imported(path, format!("MCP server `{name}`: {key}"), why);
            }
        }
        add_server(name, codex_server(server), path, plan);
    }
}
