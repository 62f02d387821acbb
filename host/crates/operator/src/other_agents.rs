//! Settings of other agents in a project, which this program does not use where they are.
//!
//! Ensures that the notice for a project is shown once, and again when its list of files changes.
//! Files that are used in place (context files, skills, presets of subagents) are not among them.
//! Reads no content of these files. Start from [`tell_unused`].

use std::path::Path;

use super::setup::OperatorSetup;
use rind_lib::disk::private_folder;
use rind_lib::script::HooksConfig;

/// Places in a project that are not used, and the agent whose import takes them over.
const PLACES: &[(&str, &str)] = &[
    (".claude/settings.json", "claude-code"),
    (".claude/settings.local.json", "claude-code"),
    (".claude/commands", "claude-code"),
    (".codex/config.toml", "codex"),
    ("opencode.json", "opencode"),
    (".opencode", "opencode"),
];

/// Warns that settings of other agents in the workspace are not used, unless the same list was
/// shown before.
pub fn tell_unused(setup: &OperatorSetup) {
    let workspace = &setup.paths.workspace;
    let hooks: HooksConfig = setup.config.section().unwrap_or_default();
    let is_used = |place: &str| {
        let whole = workspace.join(place);
        // Relative names are those of files beside the settings.
        let named = |own: &String| setup.paths.config.join(own) == whole;
        hooks.claude.iter().any(named)
    };
    let found: Vec<&(&str, &str)> = PLACES
        .iter()
        .filter(|(place, _)| !is_used(place) && is_there(&workspace.join(place)))
        .collect();
    let places: Vec<&str> = found.iter().map(|(place, _)| *place).collect();
    if places.is_empty() || !is_new(&setup.paths.told_mark(&places)) {
        return;
    }
    let mut agents: Vec<&str> = found.iter().map(|(_, agent)| *agent).collect();
    agents.dedup();
    let commands = agents
        .iter()
        .map(|agent| format!("`rind import {agent} --project --dry-run`"));
    let commands: Vec<String> = commands.collect();
    setup.environment.warn_once(&format!(
        "this project has settings of other agents, which are not used here: {}; {} shows which of them can be imported (shown once)",
        places.join(", "),
        commands.join(" or "),
    ));
}

fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// Writes a mark file, and returns whether it was missing. If it cannot be written, the notice is
/// shown each time.
pub(super) fn is_new(mark: &Path) -> bool {
    if is_there(mark) {
        return false;
    }
    if let Some(folder) = mark.parent() {
        let _ = private_folder(folder).and_then(|()| std::fs::write(mark, b""));
    }
    true
}
