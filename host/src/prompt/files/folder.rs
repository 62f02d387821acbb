//! Finds the context files of one folder by name.

use std::path::Path;

/// Context file found in a folder.
pub(super) struct FoundContextFile {
    pub(super) name: &'static str,
    /// Last part of the key of the prompt part that contains the file. The keys determine the order
    /// of the parts.
    pub(super) key: String,
}

/// Accepted spellings of a file name. If a folder contains several of these files, only the first
/// is read.
const AGENTS_FILE_NAMES: &[&str] = &["AGENTS.md", "agents.md", "Agents.md"];
const CLAUDE_FILE_NAMES: &[&str] = &["CLAUDE.md", "claude.md", "Claude.md"];

/// Name of a file that replaces `AGENTS.md` in the same folder, as in Codex.
const AGENTS_OVERRIDE_FILE_NAME: &str = "AGENTS.override.md";

/// Name of a file with a user's private instructions for a project. It follows the shared file in
/// the prompt.
const CLAUDE_LOCAL_FILE_NAME: &str = "CLAUDE.local.md";

const CLAUDE_SUBFOLDER_FILE_PATH: &str = ".claude/CLAUDE.md";

/// Returns the context files of a folder in order, and adds messages about ignored files to
/// `notices`. `is_usable` returns whether a file can be read.
pub(super) fn find_context_file_names(
    folder: &Path,
    notices: &mut Vec<String>,
    is_usable: impl Fn(&Path) -> bool,
) -> Vec<FoundContextFile> {
    let is_there = |name: &str| folder.join(name).symlink_metadata().is_ok();
    let mut spelled = |names: &'static [&'static str]| {
        let mut found = names.iter().copied().filter(|name| is_there(name));
        let first = found.next()?;
        let real = |name: &str| folder.join(name).canonicalize().ok();
        // Compare the real paths: on a case-insensitive file system all spellings are the same
        // file.
        for other in found.filter(|other| real(other) != real(first)) {
            let path = folder.join(other);
            notices.push(format!(
                "{} is left out, because {first} in the same folder is used instead",
                path.display()
            ));
        }
        Some(first)
    };
    let agents = spelled(AGENTS_FILE_NAMES);
    let claude = spelled(CLAUDE_FILE_NAMES);
    let overriding = Some(AGENTS_OVERRIDE_FILE_NAME).filter(|name| is_there(name));
    let is_overridden = overriding.is_some_and(|name| is_usable(&folder.join(name)));
    if let Some(agents) = agents.filter(|_| is_overridden) {
        notices.push(format!(
            "{} is left out: {AGENTS_OVERRIDE_FILE_NAME} in the same folder replaces it",
            folder.join(agents).display()
        ));
    }
    let agents = agents.filter(|_| !is_overridden);
    let within = Some(CLAUDE_SUBFOLDER_FILE_PATH).filter(|name| is_there(name));
    let local = Some(CLAUDE_LOCAL_FILE_NAME).filter(|name| is_there(name));
    let named = [within, agents, overriding, claude].into_iter().flatten();
    let named = named.map(|name| FoundContextFile {
        name,
        key: name.to_owned(),
    });
    let local = local.map(|name| FoundContextFile {
        name,
        // Begin the key with `~`, which sorts after `CLAUDE.md`.
        key: format!("~{name}"),
    });
    named.chain(local).collect()
}
