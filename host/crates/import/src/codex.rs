//! Imports the settings of Codex: `config.toml`, `hooks.json`, and the folders of prompts and
//! rules.

use std::path::Path;

use serde_json::Value;

use super::ImportSourceFolders;
use super::codex_rules::{add_codex_rules, record_hooks_not_imported};
use super::file::{ImportFileReadError, read_json_and_record_file, read_text_and_record_file};
use super::permission::ImportedRuleOrigin;
use super::plan::ImportPlan;
use super::server::{add_mcp_server_to_plan, parse_codex_server};
use super::template::{add_markdown_files_of_folder, add_slash_command_template};

/// Reads all settings of Codex into the plan of an import.
pub(crate) fn read_codex_settings(
    places: &ImportSourceFolders,
    plan: &mut ImportPlan,
) -> Result<(), ImportFileReadError> {
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
        let Some(text) = read_text_and_record_file(&path, plan)? else {
            continue;
        };
        let settings: Value =
            toml::from_str(&text).map_err(|error| ImportFileReadError::new(&path, error))?;
        import_codex_settings(&settings, &path, plan);
    }
    add_markdown_files_of_folder(&folder.join("prompts"), add_slash_command_template, plan)?;
    add_codex_rules(&folder.join("rules"), ImportedRuleOrigin::Person, plan)?;
    record_codex_hooks_not_imported(&folder.join("hooks.json"), plan)?;
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
        record_codex_hooks_not_imported(&folder.join("hooks.json"), plan)?;
        plan.record_file_used_without_import(
            project.join("AGENTS.md"),
            "is read as a context file of the project",
        );
        plan.record_file_used_without_import(
            project.join(".agents/skills"),
            "are found once the project is trusted",
        );
    }
    Ok(())
}

fn record_codex_hooks_not_imported(
    path: &Path,
    plan: &mut ImportPlan,
) -> Result<(), ImportFileReadError> {
    if let Some(file) = read_json_and_record_file(path, plan)? {
        record_hooks_not_imported(&file["hooks"], path, plan);
    }
    Ok(())
}

fn import_codex_settings(settings: &Value, path: &Path, plan: &mut ImportPlan) {
    for (key, value) in settings.as_object().into_iter().flatten() {
        match key.as_str() {
            "mcp_servers" => import_codex_mcp_servers(value, path, plan),
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
            "hooks" => record_hooks_not_imported(value, path, plan),
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
            _ => plan.record_setting_not_imported(
                path,
                key,
                "this setting has no counterpart in Rind",
            ),
        }
    }
}

fn import_codex_mcp_servers(table: &Value, path: &Path, plan: &mut ImportPlan) {
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
        add_mcp_server_to_plan(name, parse_codex_server(server), path, plan);
    }
}
