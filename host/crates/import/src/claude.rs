//! Imports the settings of Claude Code: `settings.json`, `.claude.json`, `.mcp.json` and the folder
//! of commands.

use std::path::Path;

use rind_lib::tool::policy::Rule;
use serde_json::Value;

use super::ImportSourceFolders;
use super::file::{ImportError, read_json};
use super::permission::{ImportedRuleOrigin, add_claude_rule};
use super::plan::ImportPlan;
use super::server::add_servers;
use super::template::{add_command, add_markdown_folder};

/// Reads all settings of Claude Code.
pub(crate) fn read_claude(
    places: &ImportSourceFolders,
    plan: &mut ImportPlan,
) -> Result<(), ImportError> {
    let usual = places.home.join(".claude");
    let folder = places.agent_folder.as_ref().unwrap_or(&usual);
    read_settings(
        &folder.join("settings.json"),
        ImportedRuleOrigin::Person,
        plan,
    )?;
    let own = match &places.agent_folder {
        Some(folder) => folder.join(".claude.json"),
        None => places.home.join(".claude.json"),
    };
    if let Some(state) = read_json(&own, plan)? {
        add_servers(&state["mcpServers"], &own, plan);
        if let Some(project) = &places.project {
            add_servers(
                &state["projects"][&*project.to_string_lossy()]["mcpServers"],
                &own,
                plan,
            );
        }
    }
    add_markdown_folder(&folder.join("commands"), add_command, plan)?;
    if *folder == usual {
        plan.record_used_file(usual.join("CLAUDE.md"), "is read as your context file");
        plan.record_used_file(usual.join("skills"), "are found as your skills");
        plan.record_used_file(usual.join("agents"), "are found as presets of subagents");
    }
    plan_plugin_imports(&folder.join("plugins"), plan);
    let Some(project) = &places.project else {
        return Ok(());
    };
    let folder = project.join(".claude");
    for name in ["settings.json", "settings.local.json"] {
        read_settings(&folder.join(name), ImportedRuleOrigin::Project, plan)?;
    }
    let servers = project.join(".mcp.json");
    if let Some(table) = read_json(&servers, plan)? {
        add_servers(&table["mcpServers"], &servers, plan);
    }
    plan.record_used_file(
        folder.join("commands"),
        "are found once the project is trusted",
    );
    plan.record_used_file(
        folder.join("skills"),
        "are found once the project is trusted",
    );
    plan.record_used_file(
        folder.join("agents"),
        "are found once the project is trusted",
    );
    plan.record_used_file(
        project.join("CLAUDE.md"),
        "is read as a context file of the project",
    );
    Ok(())
}

fn plan_plugin_imports(folder: &Path, plan: &mut ImportPlan) {
    if folder.is_dir() {
        let why = "hooks of a plugin can be named in [hooks] claude, as `…/hooks/hooks.json`; its skills are installed with `rind skill install`";
        plan.record_setting_not_imported(folder, "plugins of Claude Code", why);
    }
}

fn read_settings(
    path: &Path,
    origin: ImportedRuleOrigin,
    plan: &mut ImportPlan,
) -> Result<(), ImportError> {
    let Some(settings) = read_json(path, plan)? else {
        return Ok(());
    };
    let Some(table) = settings.as_object() else {
        return Err(ImportError::new(path, "it is not an object"));
    };
    for (key, value) in table {
        match key.as_str() {
            "$schema" => {}
            "permissions" => read_permissions(value, origin, path, plan),
            "hooks" if value.as_object().is_none_or(serde_json::Map::is_empty) => {}
            "hooks" if origin == ImportedRuleOrigin::Person => plan.hooks.push(path.to_owned()),
            "hooks" => plan.record_used_file(path.to_owned(), "its hooks are asked about when `rind` starts at a terminal there"),
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
            _ => plan.record_setting_not_imported(path, key, "it has no counterpart"),
        }
    }
    Ok(())
}

fn read_permissions(
    permissions: &Value,
    origin: ImportedRuleOrigin,
    path: &Path,
    plan: &mut ImportPlan,
) {
    let asks = permissions["ask"].as_array().into_iter().flatten();
    let asks: Vec<&str> = asks.filter_map(Value::as_str).collect();
    for (key, value) in permissions.as_object().into_iter().flatten() {
        let decision = match key.as_str() {
            "deny" => Rule::Deny,
            "ask" => Rule::Ask,
            "allow" => Rule::Allow,
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
                let why = "file tools work in the workspace; commands may see other folders with `read` and `write` in [sandbox]";
                plan.record_setting_not_imported(path, "permissions.additionalDirectories", why);
                continue;
            }
            _ => {
                plan.record_setting_not_imported(
                    path,
                    format!("permissions.{key}"),
                    "it has no counterpart",
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
