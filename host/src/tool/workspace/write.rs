//! Writes a file of the workspace: atomically by a rename where possible, in place where a rename
//! would change more than the content.
//!
//! A rename gives the path a new inode. That would split a file with several hard links in two,
//! give a file of another owner to the user, and drop access control lists and extended attributes.
//! Such a file is overwritten in place instead, and its old content is restored if that fails.

use std::io::{self, Read, Seek, SeekFrom, Write};

use cap_std::fs::{Dir, File, Metadata, MetadataExt, OpenOptions, OpenOptionsExt};
use rustix::fs::{OFlags, RenameFlags, fchown, renameat_with};
use rustix::io::Errno;
use rustix::process::{Gid, Uid};

use super::super::known::FileContentVersion;
use super::super::subject::WorkspacePath;
use super::{Workspace, WorkspaceError};
use crate::beneath::{MissingParentFolderHandling, open_regular_file};
use crate::git::is_path_into_git_folder;
use crate::point::handle::FileChangeRecorder;

/// Expected state of a file before a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tool) enum ExpectedFileState {
    /// Any state: the file is written in every case.
    Any,
    /// No file exists at the path; the write fails if another process has created one meanwhile.
    Nothing,
    /// The file has the content that it had when the model read it, given by `version`; a file of
    /// more than `cap` bytes is compared by its attributes.
    Version {
        version: FileContentVersion,
        cap: u64,
    },
}

/// Result of writing a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tool) struct FileWriteResult {
    pub(in crate::tool) is_new: bool,
    /// Number of names (hard links) of the file; all of them have the new content.
    n_links: u64,
}

impl FileWriteResult {
    /// Returns a note for the model if the file has several names (hard links).
    pub(in crate::tool) fn hard_link_note(self) -> Option<String> {
        let n_links = self.n_links;
        (n_links > 1).then(|| {
            format!("the file has {n_links} names (hard links), and its content changed under all of them")
        })
    }
}

impl Workspace {
    /// Replaces the content of the file and returns whether the file is new. Missing directories
    /// are created. Mode, owner, hard links and extended attributes are kept, and a symlink within
    /// the workspace stays a symlink.
    ///
    /// # Errors
    /// See [`WorkspaceError`]; the file is then unchanged.
    pub fn write_file(&self, path: &str, content: &[u8]) -> Result<bool, WorkspaceError> {
        let written =
            self.write_file_checking_state(path, content, ExpectedFileState::Any, None)?;
        Ok(written.is_new)
    }

    /// Writes a file as [`Self::write_file`] does, if the file is in the expected state. The state
    /// is checked right before the file is replaced. `recorder` is called before the file changes,
    /// and again at the end.
    pub(in crate::tool) fn write_file_checking_state(
        &self,
        path: &str,
        content: &[u8],
        expected: ExpectedFileState,
        recorder: Option<&dyn FileChangeRecorder>,
    ) -> Result<FileWriteResult, WorkspaceError> {
        let (Some(recorder), WorkspacePath::Known(known)) = (recorder, self.resolve_path(path))
        else {
            return self
                .write_file_returning_path(path, content, expected)
                .map(|(written, _)| written);
        };
        let record = recorder.begin_change(&known, Some(content));
        let written = self.write_file_returning_path(path, content, expected);
        if let Some(record) = record {
            // Compare the resolved paths: if a symlink changed during the write, another file was
            // written than the one that was recorded.
            let is_done = matches!(&written, Ok((_, names)) if *names == known);
            recorder.end_change(record, is_done);
        }
        written.map(|(written, _)| written)
    }

    /// Writes the file, and also returns its resolved path.
    fn write_file_returning_path(
        &self,
        path: &str,
        content: &[u8],
        expected: ExpectedFileState,
    ) -> Result<(FileWriteResult, String), WorkspaceError> {
        let failed = |source| WorkspaceError::from_io(path, source);
        let check = |names: &str| {
            if is_path_into_git_folder(self.root(), names.split('/')) {
                return Err(WorkspaceError::Repository(path.to_owned()));
            }
            Ok(())
        };
        if let WorkspacePath::Known(known) = self.resolve_path(path) {
            check(&known)?;
        }
        let walked = self.walk_path(path, MissingParentFolderHandling::Made)?;
        // Check again after resolving: a symlink may have been swapped in, and `..` may follow a
        // directory that was just created.
        check(&walked.names.join("/"))?;
        let (folder, name) = (&walked.folder, walked.name.as_str());
        let old = match folder.symlink_metadata(name) {
            Ok(metadata) if !metadata.is_file() => {
                return Err(WorkspaceError::NotAFile(path.to_owned()));
            }
            Ok(metadata) if metadata.permissions().readonly() => {
                return Err(WorkspaceError::ReadOnly(path.to_owned()));
            }
            Ok(metadata) => Some(metadata),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed(error)),
        };
        let written = FileWriteResult {
            is_new: old.is_none(),
            n_links: old.as_ref().map_or(1, MetadataExt::nlink),
        };
        let write = PendingFileWrite {
            folder,
            name,
            content,
            expected,
        };
        match write.write_and_rename(old) {
            Ok(true) => Ok((written, walked.names.join("/"))),
            Ok(false) => Err(WorkspaceError::Changed(path.to_owned())),
            Err(source) => Err(failed(source)),
        }
    }
}

/// Returns the version of an open file from its attributes only.
pub(in crate::tool) fn file_version_from_attributes(file: &File) -> io::Result<FileContentVersion> {
    Ok(metadata_to_file_version(&file.metadata()?))
}

/// Returns the version of an open file: its hash, or its attributes if it is larger than `cap`
/// bytes.
pub(super) fn compute_file_version(file: File, cap: u64) -> io::Result<FileContentVersion> {
    let metadata = file.metadata()?;
    if metadata.len() > cap {
        return Ok(metadata_to_file_version(&metadata));
    }
    let mut content = Vec::new();
    file.take(cap + 1).read_to_end(&mut content)?;
    Ok(match content.len() as u64 > cap {
        true => metadata_to_file_version(&metadata),
        false => FileContentVersion::from_content(&content),
    })
}

fn metadata_to_file_version(metadata: &Metadata) -> FileContentVersion {
    let ns = |seconds: i64, ns: i64| i128::from(seconds) * 1_000_000_000 + i128::from(ns);
    FileContentVersion::Stamp {
        inode: metadata.ino(),
        bytes: metadata.len(),
        modified_ns: ns(metadata.mtime(), metadata.mtime_nsec()),
        changed_ns: ns(metadata.ctime(), metadata.ctime_nsec()),
    }
}

/// Write of one file in an open directory.
struct PendingFileWrite<'a> {
    folder: &'a Dir,
    name: &'a str,
    content: &'a [u8],
    expected: ExpectedFileState,
}

impl PendingFileWrite<'_> {
    /// Writes the file and returns true if it is in the state that `expected` describes; otherwise
    /// leaves the file unchanged and returns false.
    fn write_and_rename(&self, old: Option<Metadata>) -> io::Result<bool> {
        let temporary = format!(".rind-{}.tmp", crate::clock::new_uuid_v7());
        let written = self.write_temporary_file(&temporary, old.as_ref());
        let written = written.and_then(|keeps_owner| {
            if !self.is_file_in_expected_state()? {
                return Ok(false);
            }
            match old {
                None => self.rename_into_place(&temporary),
                Some(old) if keeps_owner && old.nlink() < 2 && !self.has_extra_attributes() => {
                    self.folder.rename(&temporary, self.folder, self.name)?;
                    Ok(true)
                }
                Some(old) => {
                    self.overwrite_in_place(&old)?;
                    self.folder.remove_file(&temporary)?;
                    Ok(true)
                }
            }
        });
        if !matches!(written, Ok(true)) {
            // After a success, the temporary file is already renamed or removed.
            let _ = self.folder.remove_file(&temporary);
        }
        written
    }

    /// Writes the content to a temporary file in the same directory. Returns whether the temporary
    /// file has the same owner as the file that it will replace.
    fn write_temporary_file(&self, temporary: &str, old: Option<&Metadata>) -> io::Result<bool> {
        let mut options = OpenOptions::new();
        let mut file = self
            .folder
            .open_with(temporary, options.write(true).create_new(true))?;
        let mut keeps_owner = true;
        if let Some(old) = old {
            keeps_owner = copy_owner_and_group(&file, old)?;
            // Set the mode after the owner, because chown clears set-id bits, and before the first
            // byte, because no other user may read a private file.
            file.set_permissions(old.permissions())?;
        }
        file.write_all(self.content)?;
        file.sync_all()?;
        Ok(keeps_owner)
    }

    fn is_file_in_expected_state(&self) -> io::Result<bool> {
        match self.expected {
            // `rename_into_place` itself refuses to overwrite a file if none is expected.
            ExpectedFileState::Any | ExpectedFileState::Nothing => Ok(true),
            ExpectedFileState::Version { version, cap } => {
                let opened = open_regular_file(self.folder, self.name.as_ref());
                match opened {
                    Ok(Some((file, _))) => Ok(compute_file_version(file, cap)? == version),
                    Ok(None) => Ok(false),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
                    Err(error) => Err(error),
                }
            }
        }
    }

    /// Renames the temporary file to the final name. Returns false, without renaming it, if no file
    /// was expected but one with that name exists by now.
    fn rename_into_place(&self, temporary: &str) -> io::Result<bool> {
        if self.expected == ExpectedFileState::Nothing {
            let (from, to) = (self.folder, self.folder);
            match renameat_with(from, temporary, to, self.name, RenameFlags::NOREPLACE) {
                Ok(()) => return Ok(true),
                Err(Errno::EXIST) => return Ok(false),
                // The file system does not support RENAME_NOREPLACE.
                Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        self.folder.rename(temporary, self.folder, self.name)?;
        Ok(true)
    }

    /// Whether the file has access control lists or other attributes that a new file would lack.
    fn has_extra_attributes(&self) -> bool {
        if !cfg!(target_os = "linux") {
            return false;
        }
        let Ok(Some((file, _))) = open_regular_file(self.folder, self.name.as_ref()) else {
            return false;
        };
        let mut names = vec![0; 64 << 10];
        let Ok(n_bytes) = rustix::fs::flistxattr(&file, &mut names[..]) else {
            return false;
        };
        // Ignore `security.*`: labels depend on the location of a file, and any write drops file
        // capabilities.
        let mut names = names[..n_bytes].split(|byte| *byte == 0);
        names.any(|name| !name.is_empty() && !name.starts_with(b"security."))
    }

    /// Overwrites the file in place. If that fails, the old content is restored.
    fn overwrite_in_place(&self, old: &Metadata) -> io::Result<()> {
        let mut options = OpenOptions::new();
        let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).unwrap_or(0);
        options.read(true).write(true).custom_flags(flags);
        let mut file = self.folder.open_with(self.name, &options)?;
        let opened = file.metadata()?;
        // Compare the opened file with the one that was checked: the path may lead to another file
        // by now.
        if !opened.is_file() || (opened.dev(), opened.ino()) != (old.dev(), old.ino()) {
            return Err(io::Error::other(
                "another file was put in its place meanwhile",
            ));
        }
        let mut content = Vec::new();
        file.read_to_end(&mut content)?;
        overwrite_file(&mut file, self.content).inspect_err(|_| {
            let _ = overwrite_file(&mut file, &content);
        })
    }
}

fn overwrite_file(file: &mut File, content: &[u8]) -> io::Result<()> {
    file.seek(SeekFrom::Start(0))?;
    file.write_all(content)?;
    file.set_len(content.len() as u64)?;
    file.sync_all()
}

/// Gives a new file the owner and group of the old one. Returns `false` if the user is not
/// permitted to do so.
fn copy_owner_and_group(file: &File, old: &Metadata) -> io::Result<bool> {
    let own = file.metadata()?;
    if (own.uid(), own.gid()) == (old.uid(), old.gid()) {
        return Ok(true);
    }
    let (uid, gid) = (Uid::from_raw(old.uid()), Gid::from_raw(old.gid()));
    Ok(fchown(file, Some(uid), Some(gid)).is_ok())
}
