//! Lists the files in the folder of a session, each with its kind.
//!
//! Owns the names of a session's files. The module follows no symlinks and opens no files, so it is
//! safe to list a malicious folder. Start from [`parts`].

use std::io;
use std::path::Path;

use serde::Serialize;

use super::children::{AGENTS, is_agent_id};
use super::guarded;
use super::log::FILE;

/// Name of the folder for data that repairs removed from a session.
pub(super) const KEPT: &str = "kept";

/// Maximum depth of nested subagents.
const MAX_DEPTH: usize = 8;

/// Maximum depth of the folders that are listed: two levels for each nested subagent (`agents/ID`),
/// and two more.
const MAX_FOLDERS: usize = 2 * MAX_DEPTH + 2;

/// Kind of a file of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PartKind {
    /// Entries of the session or of a subagent.
    Entries,
    /// Image or other bytes that messages refer to.
    Content,
    /// Large value of a plugin.
    State,
    /// Checkpoint file: contents of files before calls changed them.
    Checkpoint,
    /// Lock of the writer.
    Lock,
    /// Remains of an unfinished write, or data that a repair removed.
    Left,
    /// File that no version of Rind creates.
    Foreign,
    /// Link, pipe or anything else that is neither a file nor a folder.
    Odd,
}

display_as_in_json!(PartKind);

/// One file of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FilePart {
    /// Path relative to the folder of the session, separated by `/`.
    pub(super) path: String,
    pub(super) kind: PartKind,
    /// Size in bytes; 0 if it is not a file.
    pub(super) bytes: u64,
}

/// Lists the files of a session, in the order of their paths.
pub(super) fn parts(folder: &Path) -> io::Result<Vec<FilePart>> {
    let mut all = Vec::new();
    add_parts(folder, "", 0, &mut all)?;
    all.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(all)
}

fn add_parts(folder: &Path, prefix: &str, depth: usize, all: &mut Vec<FilePart>) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let path = format!("{prefix}{}", name.to_string_lossy());
        let meta = entry.path().symlink_metadata()?;
        let kind = match (meta.is_dir(), meta.is_file(), name.to_str()) {
            // Repairs move files to this folder, symlinks included.
            (false, ..) if Path::new(&path).starts_with(KEPT) => PartKind::Left,
            (true, ..) if depth < MAX_FOLDERS => {
                add_parts(&entry.path(), &format!("{path}/"), depth + 1, all)?;
                continue;
            }
            (_, true, Some(_)) => kind_of(&path),
            (_, true, None) => PartKind::Foreign,
            _ => PartKind::Odd,
        };
        let bytes = if meta.is_file() { meta.len() } else { 0 };
        all.push(FilePart { path, kind, bytes });
    }
    Ok(())
}

/// Returns the kind of a file by its path within the folder of a session.
pub(super) fn kind_of(path: &str) -> PartKind {
    kind_below(path, 0)
}

fn kind_below(path: &str, depth: usize) -> PartKind {
    let names: Vec<&str> = path.splitn(3, '/').collect();
    let is_hash = |name: &str| {
        let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        name.len() == 2 * blake3::OUT_LEN && name.bytes().all(is_hex)
    };
    match names[..] {
        [FILE] => PartKind::Entries,
        ["lock"] => PartKind::Lock,
        [name] if name.starts_with(FILE) && name.ends_with(".torn") => PartKind::Left,
        ["content", name] if is_hash(name) => PartKind::Content,
        ["blobs", name] if is_hash(name) => PartKind::State,
        ["content" | "blobs", name] if name.ends_with(".half") => PartKind::Left,
        [
            "checkpoints",
            "contents" | "changes.jsonl" | "snapshot.json",
        ] if depth == 0 => PartKind::Checkpoint,
        ["checkpoints", name]
            if name.ends_with(".half") || name.starts_with(".snapshot.json.tmp-") =>
        {
            PartKind::Left
        }
        [KEPT, ..] => PartKind::Left,
        [AGENTS, agent, below] if is_agent_id(agent) && depth < MAX_DEPTH => {
            kind_below(below, depth + 1)
        }
        _ => PartKind::Foreign,
    }
}

/// Returns the total size of the files of a session, in bytes. Files and folders that cannot be
/// read, such as one that was removed at this moment, count as 0.
pub(super) fn size(folder: &Path) -> u64 {
    match guarded::is_folder(folder) {
        Ok(true) => size_below(folder, 0),
        _ => 0,
    }
}

fn size_below(folder: &Path, depth: usize) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| match entry.path().symlink_metadata() {
        Ok(meta) if meta.is_dir() && depth < MAX_FOLDERS => size_below(&entry.path(), depth + 1),
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
            ("session.jsonl".to_owned(), PartKind::Entries),
            ("agents/held-1/session.jsonl".to_owned(), PartKind::Entries),
            (format!("content/{hash}"), PartKind::Content),
            (
                format!("agents/sub-1/agents/sub-2/blobs/{hash}"),
                PartKind::State,
            ),
            (format!("blobs/{hash}.1.half"), PartKind::Left),
            ("session.jsonl.1.torn".to_owned(), PartKind::Left),
            ("lock".to_owned(), PartKind::Lock),
            ("checkpoints/contents".to_owned(), PartKind::Checkpoint),
            ("checkpoints/contents.half".to_owned(), PartKind::Left),
            ("checkpoints/x".to_owned(), PartKind::Foreign),
            (
                "agents/a/checkpoints/contents".to_owned(),
                PartKind::Foreign,
            ),
            ("content/x".to_owned(), PartKind::Foreign),
            ("agents/A/session.jsonl".to_owned(), PartKind::Foreign),
            ("agents/../session.jsonl".to_owned(), PartKind::Foreign),
            (
                format!("{}session.jsonl", "agents/a/".repeat(9)),
                PartKind::Foreign,
            ),
        ] {
            assert_eq!(kind_of(&path), kind, "{path}");
        }
    }
}
