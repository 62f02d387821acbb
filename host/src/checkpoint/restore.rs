//! Restores files to their state before a turn. Each file is replaced atomically, so a killed
//! process leaves no partial file and the same rewind can run again. Immediately before each change
//! the current state is read again: a file that changed since the plan was made is not restored.
//! Start from [`OpenedCheckpointStore::apply_planned_changes`].

use std::io::{self, ErrorKind, Write};

use cap_std::fs::{Dir, OpenOptions};
use rustix::fs::{
    AtFlags, Mode, RawMode, RenameFlags, chmodat, fchmod, mkdirat, renameat_with, symlinkat,
    unlinkat,
};
use rustix::io::Errno;

use super::record::{ChangeRecord, ChangeSource};
use super::rewind::PlannedRewindChange;
use super::state::{FileState, open_parent_without_symlinks, read_entry_state};
use super::store::OpenedCheckpointStore;
use crate::beneath::{MissingParentFolderHandling, PathWalkResult, walk_path_beneath};
use crate::git::is_path_into_git_folder;

/// Maximum size of a file that is read to compare it with a record, in bytes.
pub(super) const MAX_COMPARED_FILE_BYTES: u64 = 64 << 20;

/// Removes the temporary files of rewinds that were interrupted because the program was killed.
pub(super) fn remove_rewind_temporary_files(store: &OpenedCheckpointStore) {
    let is_killed =
        |record: &&ChangeRecord| record.source == ChangeSource::Rewind && !record.has_outcome();
    for record in store.log.records.iter().filter(is_killed) {
        for (n, change) in record.changes.iter().enumerate() {
            if let Ok(Some(walked)) = open_parent_without_symlinks(&store.root, &change.path) {
                let name = temporary_file_name(record.id, n);
                let _ = unlinkat(&walked.folder, name.as_str(), AtFlags::empty());
            }
        }
    }
}

/// Returns the name of the temporary file for a change. It is derived from the record and the
/// change's index, so that the file of a killed rewind can be found.
fn temporary_file_name(record: u64, n: usize) -> String {
    format!(".rind-rewind-{record}-{n}.tmp")
}

impl OpenedCheckpointStore {
    /// Applies the changes: first removals, deepest paths first; then new folders and files,
    /// parents before their contents. Returns the index and the error of each change that failed.
    pub(super) fn apply_planned_changes(
        &self,
        changes: &[PlannedRewindChange],
        record: u64,
    ) -> Vec<(usize, String)> {
        let mut failures: Vec<(usize, String)> = Vec::new();
        let mut note = |n: usize, done: Result<(), String>| {
            if let Err(why) = done
                && failures.iter().all(|(at, _)| *at != n)
            {
                failures.push((n, why));
            }
        };
        let numbered: Vec<(usize, &PlannedRewindChange)> = changes.iter().enumerate().collect();
        for (n, change) in numbered.iter().rev() {
            note(*n, self.remove_conflicting_entry(change));
        }
        for (n, change) in &numbered {
            note(
                *n,
                self.create_restored_path(change, &temporary_file_name(record, *n)),
            );
        }
        // Set the modes of folders last, because nothing can be created in a folder without write
        // permission.
        for (n, change) in numbered.iter().rev() {
            note(*n, self.set_folder_mode(change));
        }
        failures
    }

    /// Removes the entry at the path if the target state is no entry, or if only one of the present
    /// and the target state is a folder.
    fn remove_conflicting_entry(&self, change: &PlannedRewindChange) -> Result<(), String> {
        let is_in_place = change.present.is_folder() == change.target.is_folder()
            && change.target != FileState::Absent;
        if change.present == FileState::Absent || is_in_place {
            return Ok(());
        }
        let walked = self.open_parent_folder(change, MissingParentFolderHandling::Refused)?;
        check_path_state_unchanged(&walked, &change.present)?;
        let flags = match change.present.is_folder() {
            true => AtFlags::REMOVEDIR,
            false => AtFlags::empty(),
        };
        match unlinkat(&walked.folder, walked.name.as_str(), flags) {
            Ok(()) => Ok(()),
            Err(Errno::NOTEMPTY | Errno::EXIST) => {
                Err("the folder is not removed, because it has other files in it".to_owned())
            }
            Err(errno) => Err(format!(
                "the path cannot be removed: {}",
                io::Error::from(errno)
            )),
        }
    }

    /// Creates the file, symlink or folder of the target state, or replaces the present file or
    /// symlink.
    fn create_restored_path(
        &self,
        change: &PlannedRewindChange,
        temporary: &str,
    ) -> Result<(), String> {
        let is_replaced = !change.present.is_folder() && !change.target.is_folder();
        let expected = match is_replaced {
            true => &change.present,
            false => &FileState::Absent,
        };
        match &change.target {
            FileState::Folder { .. } if change.present.is_folder() => Ok(()),
            FileState::Folder { mode } => {
                let walked = self.open_parent_folder(change, MissingParentFolderHandling::Made)?;
                check_path_state_unchanged(&walked, expected)?;
                // Keep the folder writable for its owner until its contents are restored.
                let mode = to_unix_file_mode(mode | 0o700);
                let made = mkdirat(&walked.folder, walked.name.as_str(), mode);
                made.map_err(|errno| {
                    format!("the folder cannot be made: {}", io::Error::from(errno))
                })
            }
            FileState::File { digest, mode, .. } => {
                let content = self.contents.get(digest);
                let content =
                    content.ok_or("its content in the folder of the session is damaged")?;
                let walked = self.open_parent_folder(change, MissingParentFolderHandling::Made)?;
                check_path_state_unchanged(&walked, expected)?;
                let written = write_temporary_file(&walked.folder, temporary, &content, *mode);
                rename_temporary_file(&walked, temporary, written, expected)
            }
            FileState::Link { target } => {
                let walked = self.open_parent_folder(change, MissingParentFolderHandling::Made)?;
                check_path_state_unchanged(&walked, expected)?;
                let _ = unlinkat(&walked.folder, temporary, AtFlags::empty());
                let made = symlinkat(target.as_str(), &walked.folder, temporary);
                rename_temporary_file(&walked, temporary, made.map_err(io::Error::from), expected)
            }
            FileState::Absent | FileState::Unkept { .. } | FileState::Other => Ok(()),
        }
    }

    fn set_folder_mode(&self, change: &PlannedRewindChange) -> Result<(), String> {
        let FileState::Folder { mode } = &change.target else {
            return Ok(());
        };
        let walked = self.open_parent_folder(change, MissingParentFolderHandling::Refused)?;
        let present = read_entry_state(&walked.folder, &walked.name, 0);
        match present.map(|read| read.state) {
            Ok(FileState::Folder { mode: own }) if own == *mode => Ok(()),
            Ok(FileState::Folder { .. }) => {
                let mode = to_unix_file_mode(*mode);
                let set = chmodat(&walked.folder, walked.name.as_str(), mode, AtFlags::empty());
                set.map_err(|errno| {
                    format!(
                        "the mode of the folder cannot be set: {}",
                        io::Error::from(errno)
                    )
                })
            }
            _ => Err("the path is no longer a folder".to_owned()),
        }
    }

    /// Opens the parent folder of a path without following symlinks.
    fn open_parent_folder(
        &self,
        change: &PlannedRewindChange,
        missing: MissingParentFolderHandling,
    ) -> Result<PathWalkResult, String> {
        let names = change.path.split('/');
        if is_path_into_git_folder(self.workspace.root(), names) {
            return Err("the path belongs to the data of a git repository".to_owned());
        }
        let walked = walk_path_beneath(&self.root, &change.path, false, missing);
        let walked = walked.map_err(|errno| {
            let error = io::Error::from(errno);
            format!("its folder cannot be opened: {error}")
        })?;
        match walked.names.join("/") == change.path {
            true => Ok(walked),
            false => Err("the path leads through a link, which is not followed".to_owned()),
        }
    }
}

/// Checks that a path still has the state that it had when the plan was made.
fn check_path_state_unchanged(walked: &PathWalkResult, expected: &FileState) -> Result<(), String> {
    let most = match expected {
        FileState::Unkept { .. } => 0,
        _ => MAX_COMPARED_FILE_BYTES,
    };
    let present = read_entry_state(&walked.folder, &walked.name, most);
    match present.map(|read| read.state) {
        // Do not compare the modes of folders, which change temporarily while the contents are
        // restored.
        Ok(present)
            if present.is_same_state(expected) || present.is_folder() && expected.is_folder() =>
        {
            match present {
                FileState::Other => Err("the path is not a file, folder or link".to_owned()),
                _ => Ok(()),
            }
        }
        Ok(_) => Err("the path changed after the restore was planned".to_owned()),
        Err(error) => Err(format!("the path cannot be read: {error}")),
    }
}

/// Returns the permission bits of a mode, with the set-id bits and the sticky bit.
#[allow(
    clippy::useless_conversion,
    reason = "the system's type for modes has 16 bits on macOS"
)]
fn to_unix_file_mode(mode: u32) -> Mode {
    Mode::from_raw_mode(RawMode::try_from(mode & 0o7777).unwrap_or_default())
}

fn write_temporary_file(folder: &Dir, name: &str, content: &[u8], mode: u32) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    let mut file = match folder.open_with(name, &options) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            folder.remove_file(name)?;
            folder.open_with(name, &options)?
        }
        opened => opened?,
    };
    // Set the mode before the first byte is written, so that other users can never read a private
    // file.
    fchmod(&file, to_unix_file_mode(mode))?;
    file.write_all(content)?;
    // Set the mode again, because writing clears the set-id bits.
    fchmod(&file, to_unix_file_mode(mode))?;
    file.sync_data()
}

/// Renames a temporary file to its final name. If the plan expects no file under this name, but one
/// has appeared meanwhile, that file is not replaced.
fn rename_temporary_file(
    walked: &PathWalkResult,
    temporary: &str,
    written: io::Result<()>,
    expected: &FileState,
) -> Result<(), String> {
    let (folder, name) = (&walked.folder, walked.name.as_str());
    let flags = match expected {
        FileState::Absent => RenameFlags::NOREPLACE,
        _ => RenameFlags::empty(),
    };
    let renamed = written.and_then(|()| {
        match renameat_with(folder, temporary, folder, name, flags) {
            // Fall back to a plain rename if the file system does not support RENAME_NOREPLACE.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                folder.rename(temporary, folder, name)
            }
            renamed => renamed.map_err(io::Error::from),
        }
    });
    renamed.map_err(|error| {
        let _ = unlinkat(folder, temporary, AtFlags::empty());
        format!("it cannot be written: {error}")
    })
}
