//! Imports the settings of Claude Code: `settings.json`, `.claude.json`, `.mcp.json` and the folder
//! of commands.

use std::path::Path;

use rind_lib::tool::policy::RuleDecision;
use serde_json::Value;

use super::ImportSourceFolders;
use super::file::{ImportFileReadError, read_json_and_record_file};
use super::permission::{ImportedRuleOrigin, add_claude_rule};
use super::plan::ImportPlan;
use super::server::add_mcp_json_servers;
use super::template::{add_markdown_files_of_folder, add_slash_command_template};

/// Reads all settings of Claude Code into the plan of an import.
pub(crate) fn read_claude_code_settings(
    places: &ImportSourceFolders,
    plan: &mut ImportPlan,
) -> Result<(), ImportFileReadError> {
    let usual = places.home.join(".claude");
    let folder = places.agent_folder.as_ref().unwrap_or(&usual);
    import_claude_settings(
        &folder.join("settings.json"),
        ImportedRuleOrigin::Person,
        plan,
    )?;
    let own = match &places.agent_folder {
        Some(folder) => folder.join(".claude.json"),
        None => places.home.join(".claude.json"),
    };
    if let Some(state) = read_json_and_record_file(&own, plan)? {
        add_mcp_json_servers(&state["mcpServers"], &own, plan);
        if let Some(project) = &places.project {
            add_mcp_json_servers(
                &state["projects"][&*project.to_string_lossy()]["mcpServers"],
                &own,
                plan,
            );
        }
    }
    add_markdown_files_of_folder(&folder.join("commands"), add_slash_command_template, plan)?;
    if *folder == usual {
        plan.record_file_used_without_import(
            usual.join("CLAUDE.md"),
            "is read as your context file",
        );
        plan.record_file_used_without_import(usual.join("skills"), "are found as your skills");
        plan.record_file_used_without_import(
            usual.join("agents"),
            "are found as presets of subagents",
        );
    }
    record_plugins_not_imported(&folder.join("plugins"), plan);
    let Some(project) = &places.project else {
        return Ok(());
    };
    let folder = project.join(".claude");
    for name in ["settings.json", "settings.local.json"] {
        import_claude_settings(&folder.join(name), ImportedRuleOrigin::Project, plan)?;
    }
    let servers = project.join(".mcp.json");
    if let Some(table) = read_json_and_record_file(&servers, plan)? {
        add_mcp_json_servers(&table["mcpServers"], &servers, plan);
    }
    plan.record_file_used_without_import(
        folder.join("commands"),
        "are found once the project is trusted",
    );
    plan.record_file_used_without_import(
        folder.join("skills"),
        "are found once the project is trusted",
    );
    plan.record_file_used_without_import(
        folder.join("agents"),
        "are found once the project is trusted",
    );
    plan.record_file_used_without_import(
        project.join("CLAUDE.md"),
        "is read as a context file of the project",
    );
    Ok(())
}

fn record_plugins_not_imported(folder: &Path, plan: &mut ImportPlan) {
    if folder.is_dir() {
        let why = "hooks of a plugin can be named in [hooks] claude, as `…/hooks/hooks.json`; its skills are installed with `rind skill install`";
        plan.record_setting_not_imported(folder, "plugins of Claude Code", why);
    }
}

fn import_claude_settings(
    path: &Path,
    origin: ImportedRuleOrigin,
    plan: &mut ImportPlan,
) -> Result<(), ImportFileReadError> {
    let Some(settings) = read_json_and_record_file(path, plan)? else {
        return Ok(());
    };
    let Some(table) = settings.as_object() else {
        return Err(ImportFileReadError::new(path, "it is not an object"));
    };
    for (key, value) in table {
        match key.as_str() {
            "$schema" => {}
            "permissions" => import_claude_permissions(value, origin, path, plan),
            "hooks" if value.as_object().is_none_or(serde_json::Map::is_empty) => {}
            "hooks" if origin == ImportedRuleOrigin::Person => plan.hooks.push(path.to_owned()),
            "hooks" => plan.record_file_used_without_import(path.to_owned(), "its hooks are asked about when `rind` starts at a terminal there"),
            // Rind itself reads this key in Claude Code's settings file, and then does not ask
            // about the project's hooks, so no loss is recorded.
            "disableAllHooks" => {}
            "env" => plan.record_setting_not_imported(path, "env", "the program gets the variables of the shell that starts it; secrets belong in secrets.toml"),
            "model" => plan.record_setting_not_imported(path, format!("model = {value}"), "name the model in [provider] of config.toml, or with --model"),
            "enableAllProjectMcpServers" | "enabledMcpjsonServers" | "disabledMcpjsonServers" => {
                plan.record_setting_not_imported(path, key, "each server is asked about before its first use");
            }
            "sandbox" => plan.record_setting_not_imported(path, key, "commands are confined by default; [sandbox] of config.toml opens folders and the network"),
            "enabledPlugins" | "extraKnownMarketplaces" => plan.record_setting_not_imported(path, key, "skills of a plugin are installed with `rind skill install`, its hooks named in [hooks] claude, its servers added with `rind mcp add`"),
            "statusLine" | "outputStyle" | "spinnerTipsEnabled" => plan.record_setting_not_imported(path, key, "the screen is Rind's own; plugins add a line to it"),
            "apiKeyHelper" | "awsAuthRefresh" | "awsCredentialExport" => plan.record_setting_not_imported(path, key, "no program is run for a key: put it into the environment or secrets.toml"),
            "attribution" | "includeCoAuthoredBy" => plan.record_setting_not_imported(path, key, "nothing is added to commits"),
            _ => plan.record_setting_not_imported(
                path,
                key,
                "this setting has no counterpart in Rind",
            ),
        }
    }
    Ok(())
}

fn import_claude_permissions(
    permissions: &Value,
    origin: ImportedRuleOrigin,
    path: &Path,
    plan: &mut ImportPlan,
) {
    let asks = permissions["ask"].as_array().into_iter().flatten();
    let asks: Vec<&str> = asks.filter_map(Value::as_str).collect();
    for (key, value) in permissions.as_object().into_iter().flatten() {
        let decision = match key.as_str() {
            "deny" => RuleDecision::Deny,
            "ask" => RuleDecision::Ask,
            "allow" => RuleDecision::Allow,
            "defaultMode" => {
                let why =
                    "the mode is chosen for a run with --mode: ask, accept-edits, plan or full";
                plan.record_setting_not_imported(
                    path,
                    format!("permissions.defaultMode = {value}"),
                    why,
                );
                continue;
            }
            "additionalDirectories" => {
                let why = "file tools work only in the workspace; commands may see other folders \
                    with `read` and `write` in [sandbox]";
                plan.record_setting_not_imported(path, "permissions.additionalDirectories", why);
                continue;
            }
            _ => {
                plan.record_setting_not_imported(
                    path,
                    format!("permissions.{key}"),
                    "this setting has no counterpart in Rind",
                );
                continue;
            }
        };
        for rule in value.as_array().into_iter().flatten() {
            match rule.as_str() {
                Some(text) => add_claude_rule(text, decision, &asks, origin, path, plan),
                None => plan.record_setting_not_imported(
                    path,
                    format!("permissions.{key}: {rule}"),
                    "it is not a text",
                ),
            }
        }
    }
}
