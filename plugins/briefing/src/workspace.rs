//! Describes the workspace: files and folders of the first two levels, and the branch.

use rind_sdk::files::{self, Entry, Kind};

/// Folders of which only the name is listed, because their entries are of no use to the model.
const UNEXPANDED_FOLDER_NAMES: [&str; 9] = [
    "node_modules",
    "target",
    "dist",
    "build",
    "venv",
    "__pycache__",
    "vendor",
    "site-packages",
    "coverage",
];

/// Maximum number of listed entries per folder below the top.
const MAX_LISTED_ENTRIES_PER_SUBFOLDER: usize = 12;

/// Describes the workspace with at most `max_entries` entries; empty for an empty workspace.
pub(crate) fn describe_workspace(max_entries: usize) -> String {
    let top = visible_entries("workspace");
    if top.is_empty() || max_entries == 0 {
        return String::new();
    }
    let mut lines = Vec::new();
    let mut n_left = max_entries;
    // List all entries of the top level first; only the remaining number is for entries below it.
    let mut n_for_below = max_entries.saturating_sub(top.len());
    for entry in &top {
        if n_left == 0 {
            break;
        }
        n_left -= 1;
        lines.push(format_entry(entry, ""));
        if !matches!(entry.kind, Kind::Folder) || UNEXPANDED_FOLDER_NAMES.contains(&&*entry.name) {
            continue;
        }
        let below = visible_entries(&format!("workspace/{}", entry.name));
        let n_shown = below
            .len()
            .min(MAX_LISTED_ENTRIES_PER_SUBFOLDER)
            .min(n_for_below);
        n_for_below -= n_shown;
        lines.extend(
            below
                .iter()
                .take(n_shown)
                .map(|entry| format_entry(entry, "  ")),
        );
        if below.len() > n_shown {
            lines.push(format!("  … {} more", below.len() - n_shown));
        }
    }
    if top.len() > max_entries {
        lines.push(format!("… {} more", top.len() - max_entries));
    }
    let branch =
        read_git_branch().map_or_else(String::new, |name| format!(", on the branch {name}"));
    format!(
        "The workspace when the session began{branch}:\n{}",
        lines.join("\n")
    )
}

/// Returns the entries of a folder without hidden ones, folders first.
fn visible_entries(folder: &str) -> Vec<Entry> {
    let mut entries = files::list(folder).unwrap_or_default();
    entries.retain(|entry| !entry.name.starts_with('.'));
    entries.sort_by_key(|entry| !matches!(entry.kind, Kind::Folder));
    entries
}

fn format_entry(entry: &Entry, indent: &str) -> String {
    // A name may contain any character, even a line feed.
    let name: String = entry
        .name
        .chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .take(100)
        .collect();
    match entry.kind {
        Kind::Folder => format!("{indent}{name}/"),
        _ => format!("{indent}{name}"),
    }
}

/// Returns the name of the branch that is checked out.
fn read_git_branch() -> Option<String> {
    let top = files::list("workspace").ok()?;
    // In a worktree `.git` is a file, and the branch is recorded in another folder.
    let git = top.iter().find(|entry| entry.name == ".git");
    git.filter(|git| matches!(git.kind, Kind::Folder))?;
    let head = files::read("workspace/.git/HEAD", 0, 1_024).ok()?;
    let head = String::from_utf8(head).ok()?;
    let name = head.trim().strip_prefix("ref: refs/heads/")?;
    Some(name.chars().filter(|c| !c.is_control()).take(100).collect())
}
