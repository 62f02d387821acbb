//! The open checkpoint files of a session, together with its workspace.
//!
//! Start from [`OpenedCheckpointStore`].

use std::io;
use std::path::Path;

use cap_std::ambient_authority;
use cap_std::fs::Dir;

use super::config::CheckpointConfig;
use super::contents::FileContentStore;
use super::record::{FileChange, FileChangeLog};
use super::snapshot::Snapshot;
use super::state::{FileStamp, FileState, open_parent_without_symlinks, read_path_state};
use crate::disk::{create_private_folder, read_if_present};
use crate::tool::workspace::Workspace;

/// Name of the file with the last snapshot.
pub(super) const SNAPSHOT_FILE_NAME: &str = "snapshot.json";

/// Maximum size of a snapshot file that is read, in bytes; larger than a snapshot with the maximum
/// number of files.
const MAX_SNAPSHOT_BYTES: u64 = 1 << 30;

/// Maximum size of a file whose content is stored before a file tool overwrites the file, in bytes.
/// File tools write less, because they write only text.
pub(super) const MAX_STORED_FILE_BYTES_BEFORE_WRITE: u64 = 32 << 20;

/// Opened files of the checkpoints, and the opened workspace to which they belong.
#[derive(Debug)]
pub(super) struct OpenedCheckpointStore {
    pub(super) workspace: Workspace,
    pub(super) root: Dir,
    pub(super) contents: FileContentStore,
    pub(super) log: FileChangeLog,
    /// Last snapshot; `None` before the first one, or if an earlier process saved none.
    pub(super) last: Option<Snapshot>,
    /// Whether the snapshot file on disk contains the last snapshot.
    pub(super) is_saved: bool,
}

impl OpenedCheckpointStore {
    /// Opens the workspace, and the checkpoint files in `folder`, which is created if it is
    /// missing.
    pub(super) fn open(
        folder: &Path,
        workspace: &Path,
        config: &CheckpointConfig,
    ) -> io::Result<Self> {
        create_private_folder(folder)?;
        let saved = read_if_present(&folder.join(SNAPSHOT_FILE_NAME), MAX_SNAPSHOT_BYTES);
        let saved = saved.ok().flatten();
        let last: Option<Snapshot> = saved.and_then(|text| serde_json::from_str(&text).ok());
        Ok(Self {
            workspace: Workspace::open_root_folder(workspace)?,
            root: Dir::open_ambient_dir(workspace, ambient_authority())?,
            contents: FileContentStore::open(folder, config.max_session_bytes)?,
            log: FileChangeLog::open(folder)?,
            is_saved: last.is_some(),
            last,
        })
    }

    /// Returns the changes that a write to a path will make: to the path itself, and to missing
    /// folders that are created. Stores the old and the new content of the file. If `content` is
    /// `None`, the state after the change is not known yet.
    pub(super) fn plan_file_write(
        &mut self,
        path: &str,
        content: Option<&[u8]>,
    ) -> io::Result<Vec<FileChange>> {
        let mut changes = Vec::new();
        for (at, _) in path.match_indices('/') {
            let folder = path.get(..at).unwrap_or_default();
            if read_path_state(&self.root, folder, 0)?.state == FileState::Absent {
                changes.push(FileChange {
                    path: folder.to_owned(),
                    before: FileState::Absent,
                    after: FileState::Folder { mode: 0o755 },
                });
            }
        }
        let before = read_path_state(&self.root, path, MAX_STORED_FILE_BYTES_BEFORE_WRITE)?;
        let mut state = before.state;
        let mut mode = 0o644;
        if let (
            FileState::File {
                digest,
                bytes,
                mode: own,
            },
            Some(content),
        ) = (&state, &before.content)
        {
            mode = *own;
            if let Err(why) = self.contents.store_content(digest, content) {
                state = FileState::Unkept {
                    bytes: *bytes,
                    stamp: self.read_file_stamp(path)?,
                    why,
                };
            }
        }
        let after = match content {
            None => state.clone(),
            Some(content) => {
                let digest = blake3::hash(content).to_hex().to_string();
                // Ignore the error: the new content is stored only so that the change can be shown
                // to users.
                let _ = self.contents.store_content(&digest, content);
                let bytes = content.len() as u64;
                FileState::File {
                    digest,
                    bytes,
                    mode,
                }
            }
        };
        changes.push(FileChange {
            path: path.to_owned(),
            before: state,
            after,
        });
        Ok(changes)
    }

    fn read_file_stamp(&self, path: &str) -> io::Result<FileStamp> {
        let walked =
            open_parent_without_symlinks(&self.root, path)?.ok_or(io::ErrorKind::NotFound)?;
        let metadata = walked.folder.symlink_metadata(&walked.name)?;
        Ok(FileStamp::from_file_metadata(&metadata))
    }
}
