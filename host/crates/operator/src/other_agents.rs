//! Warns about settings of other agents in a project that Rind does not use.
//!
//! The warning lists the files. It is shown once for each project, and again when the list changes.
//! The list excludes files that Rind uses in place (context files, skills, presets of subagents,
//! slash commands). Parts of slash commands that have no effect are reported too. Rind does not
//! read the content of the other files. Start from [`warn_unused_agent_settings`].

use std::path::Path;

use super::project_commands::read_commands;
use super::setup::OperatorWorkspaceSetup;
use rind_lib::disk::create_private_folder;
use rind_lib::script::HooksConfig;

/// Path in a project that is not used, name of the agent for `rind import`, and the reason.
type PathAgentAndReason = (&'static str, &'static str, &'static str);

const UNUSED_SETTINGS_FILE_REASON: &str = "its rules would judge your calls, and the project can change them at any time; its hooks can be used in place, after a question";

/// Reason why Rind uses nothing but the hooks of another agent's settings file.
const NON_HOOK_SETTINGS_UNUSED_REASON: &str = "all but its hooks: its rules would judge your calls, and the project can change them at any time";

const IGNORED_AGENT_SETTINGS_PATHS: &[PathAgentAndReason] = &[
    (
        ".claude/settings.json",
        "claude-code",
        UNUSED_SETTINGS_FILE_REASON,
    ),
    (
        ".claude/settings.local.json",
        "claude-code",
        UNUSED_SETTINGS_FILE_REASON,
    ),
    (
        ".codex/config.toml",
        "codex",
        "only its MCP servers can be used in place",
    ),
    ("opencode.json", "opencode", "its format is another one"),
    (".opencode", "opencode", "its format is another one"),
];

/// Warns that settings of other agents in the workspace are not used, unless the same list was
/// shown before.
pub fn warn_unused_agent_settings(setup: &OperatorWorkspaceSetup) {
    let workspace = &setup.paths.workspace;
    let hooks: HooksConfig = setup.config.section().unwrap_or_default();
    let is_used = |place: &str| {
        let whole = workspace.join(place);
        // Resolve a relative name in the settings against the folder of the settings.
        let named = |own: &String| setup.paths.config.join(own) == whole;
        hooks.claude.iter().any(named)
    };
    warn_unused_slash_command_parts(setup);
    let has_called_hooks = |place: &str| {
        let path = workspace.join(place).display().to_string();
        let mut hooks = setup.project_hooks.iter();
        hooks.any(|script| script.place.starts_with(&format!("{path}: ")))
    };
    let found: Vec<PathAgentAndReason> = IGNORED_AGENT_SETTINGS_PATHS
        .iter()
        .filter(|(place, ..)| !is_used(place) && path_exists(&workspace.join(place)))
        .map(|&(place, agent, why)| match has_called_hooks(place) {
            true => (place, agent, NON_HOOK_SETTINGS_UNUSED_REASON),
            false => (place, agent, why),
        })
        .collect();
    let places: Vec<&str> = found.iter().map(|(place, ..)| *place).collect();
    if places.is_empty()
        || !create_notice_marker_file(&setup.paths.shown_notice_marker_path(&places))
    {
        return;
    }
    let mut agents: Vec<&str> = found.iter().map(|(_, agent, _)| *agent).collect();
    agents.dedup();
    let commands = agents
        .iter()
        .map(|agent| format!("`rind import {agent} --project --dry-run`"));
    let commands: Vec<String> = commands.collect();
    setup.environment.warn_once(&format!(
        "this project has settings of other agents, which are not used here: {}; {} shows which of them can be imported (shown once)",
        format_ignored_agent_paths(&found),
        commands.join(" or "),
    ));
}

/// Formats the paths with their reasons. States the reason once for consecutive paths with the same
/// reason.
fn format_ignored_agent_paths(found: &[PathAgentAndReason]) -> String {
    let groups = found.chunk_by(|(_, _, one), (_, _, other)| one == other);
    let groups = groups.map(|group| {
        let places: Vec<&str> = group.iter().map(|(place, ..)| *place).collect();
        let why = group.first().map_or("", |(_, _, why)| *why);
        format!("{} ({why})", places.join(" and "))
    });
    groups.collect::<Vec<_>>().join(", ")
}

/// Reports parts of the project's slash commands that have no effect.
fn warn_unused_slash_command_parts(setup: &OperatorWorkspaceSetup) {
    let Some(held) = &setup.project else {
        return;
    };
    let unused = read_commands(&setup.paths.workspace, held).unused;
    let things: Vec<&str> = unused.iter().map(String::as_str).collect();
    if !things.is_empty()
        && create_notice_marker_file(&setup.paths.shown_notice_marker_path(&things))
    {
        setup.environment.warn_once(&format!(
            "parts of the project's slash commands have no effect (shown once):\n{}",
            things.join("\n")
        ));
    }
}

fn path_exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// Creates a marker file. Returns `false` if it already exists. If creating it fails, the notice is
/// shown again next time.
pub(super) fn create_notice_marker_file(mark: &Path) -> bool {
    if path_exists(mark) {
        return false;
    }
    if let Some(folder) = mark.parent() {
        let _ = create_private_folder(folder).and_then(|()| std::fs::write(mark, b""));
    }
    true
}
