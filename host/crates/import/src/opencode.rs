//! Imports the settings of OpenCode: `opencode.json`, and the folders of commands and agents.

use std::path::Path;

use serde_json::Value;

use super::ImportSourceFolders;
use super::file::{ImportFileReadError, read_json_and_record_file};
use super::permission::{ImportedRuleOrigin, add_opencode_rules};
use super::plan::ImportPlan;
use super::server::{
    OtherAgentsMcpServer, add_mcp_server_to_plan, extract_json_list_strings, extract_json_string,
    extract_json_string_fields,
};
use super::template::{
    add_markdown_files_of_folder, add_opencode_agent, add_slash_command_template,
};

/// Reads all settings of OpenCode into the plan of an import.
pub(crate) fn read_opencode_settings(
    places: &ImportSourceFolders,
    plan: &mut ImportPlan,
) -> Result<(), ImportFileReadError> {
    let usual = places.home.join(".config/opencode");
    let folder = places.agent_folder.as_ref().unwrap_or(&usual);
    read_opencode_folders(folder, folder, ImportedRuleOrigin::Person, plan)?;
    if let Some(project) = &places.project {
        read_opencode_folders(
            project,
            &project.join(".opencode"),
            ImportedRuleOrigin::Project,
            plan,
        )?;
        plan.record_file_used_without_import(
            project.join("AGENTS.md"),
            "is read as a context file of the project",
        );
    }
    Ok(())
}

/// Reads the settings in the folder `settings`, and the commands and agents in the folder `texts`.
fn read_opencode_folders(
    settings: &Path,
    texts: &Path,
    origin: ImportedRuleOrigin,
    plan: &mut ImportPlan,
) -> Result<(), ImportFileReadError> {
    for name in ["opencode.json", "opencode.jsonc"] {
        let path = settings.join(name);
        if let Some(settings) = read_json_and_record_file(&path, plan)? {
            import_opencode_settings(&settings, origin, &path, plan);
        }
    }
    for name in ["command", "commands"] {
        add_markdown_files_of_folder(&texts.join(name), add_slash_command_template, plan)?;
    }
    for name in ["agent", "agents"] {
        add_markdown_files_of_folder(&texts.join(name), add_opencode_agent, plan)?;
    }
    for name in ["plugin", "plugins", "tool", "tools"] {
        if texts.join(name).is_dir() {
            let why = "it is JavaScript that runs in the process of OpenCode; `rind plugin new --lang js` begins a plugin that is confined";
            plan.record_setting_not_imported(&texts.join(name), name, why);
        }
    }
    Ok(())
}

fn import_opencode_settings(
    settings: &Value,
    origin: ImportedRuleOrigin,
    path: &Path,
    plan: &mut ImportPlan,
) {
    for (key, value) in settings.as_object().into_iter().flatten() {
        let entries = || value.as_object().into_iter().flatten();
        match key.as_str() {
            "$schema" => {}
            "permission" => add_opencode_rules(value, origin, path, plan),
            "mcp" => entries()
                .for_each(|(name, server)| import_opencode_mcp_server(name, server, path, plan)),
            "command" => {
                for (name, command) in entries() {
                    if let (Some(front), Some(body)) =
                        (command.as_object(), command["template"].as_str())
                    {
                        add_slash_command_template(name, front, body, path, plan);
                    }
                }
            }
            "agent" | "mode" => {
                for (name, agent) in entries() {
                    if let Some(front) = agent.as_object() {
                        let body = agent["prompt"].as_str().unwrap_or_default();
                        add_opencode_agent(name, front, body, path, plan);
                    }
                }
            }
            "model" | "small_model" | "provider" => {
                plan.record_setting_not_imported(
                    path,
                    key,
                    "name the model and its server in [provider] of config.toml",
                );
            }
            "plugin" => plan.record_setting_not_imported(
                path,
                key,
                "it is JavaScript that runs in the process of OpenCode",
            ),
            "instructions" => plan.record_setting_not_imported(
                path,
                key,
                "context files are AGENTS.md and CLAUDE.md",
            ),
            _ => plan.record_setting_not_imported(
                path,
                key,
                "this setting has no counterpart in Rind",
            ),
        }
    }
}

fn import_opencode_mcp_server(name: &str, server: &Value, path: &Path, plan: &mut ImportPlan) {
    let mut command = extract_json_list_strings(&server["command"]).into_iter();
    let foreign = OtherAgentsMcpServer {
        command: command.next(),
        args: command.collect(),
        env: extract_json_string_fields(&server["environment"]),
        url: extract_json_string(&server["url"]),
        headers: extract_json_string_fields(&server["headers"]),
        is_off: server["enabled"] == false,
    };
    add_mcp_server_to_plan(name, foreign, path, plan);
}
