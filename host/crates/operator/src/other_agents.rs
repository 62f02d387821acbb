//! Warns about settings of other agents in a project, which Rind does not use in place.
//!
//! The warning is shown once for each project, and again when its list of files changes. The list
//! has no files that Rind does use in place (context files, skills, presets of subagents, slash
//! commands). Parts of slash commands that have no effect are reported too. The content of other
//! files is not read. Start from [`report_unused`].

use std::path::Path;

use super::project_commands::read_commands;
use super::setup::OperatorSetup;
use rind_lib::disk::private_folder;
use rind_lib::script::HooksConfig;

/// Path in a project that is not used, the agent to import its content from, and the reason.
type UnusedPlace = (&'static str, &'static str, &'static str);

const OF_SETTINGS: &str = "its rules would judge your calls, and the project can change them at any time; its hooks can be used in place, after a question";

/// Reason for a file of settings whose hooks are called.
const OF_OTHER_SETTINGS: &str = "all but its hooks: its rules would judge your calls, and the project can change them at any time";

const PLACES: &[UnusedPlace] = &[
    (".claude/settings.json", "claude-code", OF_SETTINGS),
    (".claude/settings.local.json", "claude-code", OF_SETTINGS),
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
pub fn report_unused(setup: &OperatorSetup) {
    let workspace = &setup.paths.workspace;
    let hooks: HooksConfig = setup.config.section().unwrap_or_default();
    let is_used = |place: &str| {
        let whole = workspace.join(place);
        // Relative names in the settings are relative to the folder of the settings.
        let named = |own: &String| setup.paths.config.join(own) == whole;
        hooks.claude.iter().any(named)
    };
    report_unused_parts(setup);
    let has_called_hooks = |place: &str| {
        let path = workspace.join(place).display().to_string();
        let mut hooks = setup.project_hooks.iter();
        hooks.any(|script| script.place.starts_with(&format!("{path}: ")))
    };
    let found: Vec<UnusedPlace> = PLACES
        .iter()
        .filter(|(place, ..)| !is_used(place) && is_there(&workspace.join(place)))
        .map(|&(place, agent, why)| match has_called_hooks(place) {
            true => (place, agent, OF_OTHER_SETTINGS),
            false => (place, agent, why),
        })
        .collect();
    let places: Vec<&str> = found.iter().map(|(place, ..)| *place).collect();
    if places.is_empty() || !is_new(&setup.paths.told_mark(&places)) {
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
        with_reasons(&found),
        commands.join(" or "),
    ));
}

/// Lists the paths with their reasons; consecutive paths with the same reason share it.
fn with_reasons(found: &[UnusedPlace]) -> String {
    let groups = found.chunk_by(|(_, _, one), (_, _, other)| one == other);
    let groups = groups.map(|group| {
        let places: Vec<&str> = group.iter().map(|(place, ..)| *place).collect();
        let why = group.first().map_or("", |(_, _, why)| *why);
        format!("{} ({why})", places.join(" and "))
    });
    groups.collect::<Vec<_>>().join(", ")
}

/// Reports parts of the project's slash commands that have no effect.
fn report_unused_parts(setup: &OperatorSetup) {
    let Some(held) = &setup.project else {
        return;
    };
    let unused = read_commands(&setup.paths.workspace, held).unused;
    let things: Vec<&str> = unused.iter().map(String::as_str).collect();
    if !things.is_empty() && is_new(&setup.paths.told_mark(&things)) {
        setup.environment.warn_once(&format!(
            "parts of the project's slash commands have no effect (shown once):\n{}",
            things.join("\n")
        ));
    }
}

fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// Whether a marker file is missing. Creates the file; if that fails, the notice is shown again
/// next time.
pub(super) fn is_new(mark: &Path) -> bool {
    if is_there(mark) {
        return false;
    }
    if let Some(folder) = mark.parent() {
        let _ = private_folder(folder).and_then(|()| std::fs::write(mark, b""));
    }
    true
}
