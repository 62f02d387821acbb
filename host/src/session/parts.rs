//! Lists the files in the folder of a session, each with its kind.
//!
//! Owns the names of a session's files. The module follows no symlinks and opens no files, so it is
//! safe to list a malicious folder. Start from [`list_session_files`].

use std::io;
use std::path::Path;

use serde::Serialize;

use super::children::{SUBAGENTS_FOLDER_NAME, is_agent_id};
use super::guarded;
use super::log::SESSION_FILE_NAME;

/// Name of the folder for data that repairs removed from a session.
pub(super) const REMOVED_DATA_FOLDER_NAME: &str = "kept";

/// Maximum depth of nested subagents.
const MAX_NESTED_SUBAGENT_DEPTH: usize = 8;

/// Maximum depth of the folders that are listed: two levels for each nested subagent (`agents/ID`),
/// and two more.
const MAX_LISTED_FOLDER_DEPTH: usize = 2 * MAX_NESTED_SUBAGENT_DEPTH + 2;

/// Kind of a file of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SessionFileKind {
    /// File with the entries of the session or of a subagent.
    Entries,
    /// Image or other bytes that messages refer to.
    Content,
    /// Large value of a plugin's session state.
    State,
    /// Checkpoint file: contents of files before calls changed them.
    Checkpoint,
    /// Lock file of the process that writes the session.
    Lock,
    /// Remains of an unfinished write, or data that a repair removed.
    Left,
    /// File that no version of Rind creates.
    Foreign,
    /// Link, pipe or anything else that is neither a file nor a folder.
    Odd,
}

display_as_in_json!(SessionFileKind);

/// File of a session, with its kind and size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SessionFile {
    /// Path relative to the folder of the session, separated by `/`.
    pub(super) path: String,
    pub(super) kind: SessionFileKind,
    /// Size in bytes; 0 for anything other than a regular file.
    pub(super) bytes: u64,
}

/// Lists the files of a session, in the order of their paths.
pub(super) fn list_session_files(folder: &Path) -> io::Result<Vec<SessionFile>> {
    let mut all = Vec::new();
    collect_session_files(folder, "", 0, &mut all)?;
    all.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(all)
}

fn collect_session_files(
    folder: &Path,
    prefix: &str,
    depth: usize,
    all: &mut Vec<SessionFile>,
) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let path = format!("{prefix}{}", name.to_string_lossy());
        let meta = entry.path().symlink_metadata()?;
        let kind = match (meta.is_dir(), meta.is_file(), name.to_str()) {
            // Repairs move superfluous files to the folder `kept`, symlinks included.
            (false, ..) if Path::new(&path).starts_with(REMOVED_DATA_FOLDER_NAME) => {
                SessionFileKind::Left
            }
            (true, ..) if depth < MAX_LISTED_FOLDER_DEPTH => {
                collect_session_files(&entry.path(), &format!("{path}/"), depth + 1, all)?;
                continue;
            }
            (_, true, Some(_)) => session_file_kind(&path),
            (_, true, None) => SessionFileKind::Foreign,
            _ => SessionFileKind::Odd,
        };
        let bytes = if meta.is_file() { meta.len() } else { 0 };
        all.push(SessionFile { path, kind, bytes });
    }
    Ok(())
}

/// Returns the kind of a session's file. `path` is relative to the folder of the session.
pub(super) fn session_file_kind(path: &str) -> SessionFileKind {
    session_file_kind_at_subagent_depth(path, 0)
}

fn session_file_kind_at_subagent_depth(path: &str, depth: usize) -> SessionFileKind {
    let names: Vec<&str> = path.splitn(3, '/').collect();
    let is_hash = |name: &str| {
        let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        name.len() == 2 * blake3::OUT_LEN && name.bytes().all(is_hex)
    };
    match names[..] {
        [SESSION_FILE_NAME] => SessionFileKind::Entries,
        ["lock"] => SessionFileKind::Lock,
        [name] if name.starts_with(SESSION_FILE_NAME) && name.ends_with(".torn") => {
            SessionFileKind::Left
        }
        ["content", name] if is_hash(name) => SessionFileKind::Content,
        ["blobs", name] if is_hash(name) => SessionFileKind::State,
        ["content" | "blobs", name] if name.ends_with(".half") => SessionFileKind::Left,
        [
            "checkpoints",
            "contents" | "changes.jsonl" | "snapshot.json",
        ] if depth == 0 => SessionFileKind::Checkpoint,
        ["checkpoints", name]
            if name.ends_with(".half") || name.starts_with(".snapshot.json.tmp-") =>
        {
            SessionFileKind::Left
        }
        [REMOVED_DATA_FOLDER_NAME, ..] => SessionFileKind::Left,
        [SUBAGENTS_FOLDER_NAME, agent, below]
            if is_agent_id(agent) && depth < MAX_NESTED_SUBAGENT_DEPTH =>
        {
            session_file_kind_at_subagent_depth(below, depth + 1)
        }
        _ => SessionFileKind::Foreign,
    }
}

/// Returns the total size of the files of a session, in bytes. Files and folders that cannot be
/// read, such as one that was removed at this moment, count as 0.
pub(super) fn session_size_bytes(folder: &Path) -> u64 {
    match guarded::is_real_folder(folder) {
        Ok(true) => folder_size_bytes(folder, 0),
        _ => 0,
    }
}

fn folder_size_bytes(folder: &Path, depth: usize) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| match entry.path().symlink_metadata() {
        Ok(meta) if meta.is_dir() && depth < MAX_LISTED_FOLDER_DEPTH => {
            folder_size_bytes(&entry.path(), depth + 1)
        }
        Ok(meta) if meta.is_file() => meta.len(),
        _ => 0,
    });
    sizes.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_known_by_their_names() {
        let hash = "0123456789abcdef".repeat(4);
        for (path, kind) in [
            ("session.jsonl".to_owned(), SessionFileKind::Entries),
            (
                "agents/held-1/session.jsonl".to_owned(),
                SessionFileKind::Entries,
            ),
            (format!("content/{hash}"), SessionFileKind::Content),
            (
                format!("agents/sub-1/agents/sub-2/blobs/{hash}"),
                SessionFileKind::State,
            ),
            (format!("blobs/{hash}.1.half"), SessionFileKind::Left),
            ("session.jsonl.1.torn".to_owned(), SessionFileKind::Left),
            ("lock".to_owned(), SessionFileKind::Lock),
            (
                "checkpoints/contents".to_owned(),
                SessionFileKind::Checkpoint,
            ),
            (
                "checkpoints/contents.half".to_owned(),
                SessionFileKind::Left,
            ),
            ("checkpoints/x".to_owned(), SessionFileKind::Foreign),
            (
                "agents/a/checkpoints/contents".to_owned(),
                SessionFileKind::Foreign,
            ),
            ("content/x".to_owned(), SessionFileKind::Foreign),
            (
                "agents/A/session.jsonl".to_owned(),
                SessionFileKind::Foreign,
            ),
            (
                "agents/../session.jsonl".to_owned(),
                SessionFileKind::Foreign,
            ),
            (
                format!("{}session.jsonl", "agents/a/".repeat(9)),
                SessionFileKind::Foreign,
            ),
        ] {
            assert_eq!(session_file_kind(&path), kind, "{path}");
        }
    }
}
