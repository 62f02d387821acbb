//! The directory that built-in tools may access, and nothing outside of it.
//!
//! Every path is resolved relative to one open directory handle. Absolute paths, `..` and symlinks
//! that lead outside are refused, even if a symlink is swapped in between a check and its use. This
//! module must not know which tool asks. Start from [`Workspace`].

mod error;
mod write;

use std::ffi::OsString;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, MetadataExt};
use tokio_util::sync::CancellationToken;

use super::known::FileContentVersion;
use super::subject::WorkspacePath;
use crate::beneath::{
    HiddenFolders, MissingParentFolderHandling, PathWalkResult, open_regular_file,
    select_folders_below_root, walk_path_beneath,
};
use crate::disk::create_private_folder;
pub use error::WorkspaceError;
pub(super) use write::{ExpectedFileState, file_version_from_attributes};

/// Time for which cancelled read-only work may continue before it is abandoned.
const CANCELLED_READ_GRACE_PERIOD: Duration = Duration::from_millis(100);

/// The directory that built-in tools may access.
///
/// All methods take paths as the model writes them: relative to the root, or absolute and inside
/// it. Most of them block; call them through [`Workspace::run_blocking`] or
/// [`Workspace::run_blocking_read_only`] from async code.
#[derive(Debug)]
pub struct Workspace {
    /// Canonical path of the workspace's root folder.
    root: PathBuf,
    /// Path that the caller passed, made absolute; may contain symlinks.
    given: PathBuf,
    dir: Dir,
    /// Folders inside the root that belong to Rind, such as its settings; no path may lead into
    /// them.
    hidden: HiddenFolders,
}

impl Workspace {
    /// Opens an existing directory.
    ///
    /// # Errors
    /// The directory does not exist or cannot be opened.
    pub fn open_root_folder(root: &Path) -> io::Result<Self> {
        let given = std::path::absolute(root)?;
        let root = root.canonicalize()?;
        let dir = Dir::open_ambient_dir(&root, ambient_authority())?;
        let hidden = HiddenFolders::default();
        Ok(Self {
            root,
            given,
            dir,
            hidden,
        })
    }

    /// Hides the folders in `own` that are inside the workspace: tools cannot access or list them.
    /// Creates the missing folders, so that nothing else can be created under their names.
    ///
    /// # Errors
    /// The workspace cannot be examined.
    pub fn hide_folders(mut self, own: &[PathBuf]) -> io::Result<Self> {
        for folder in select_folders_below_root(&self.root, own) {
            // Ignore the error: a folder that cannot be created is hidden by name.
            let _ = create_private_folder(&folder);
        }
        self.hidden = HiddenFolders::from_folders_inside_root(&self.root, own)?;
        Ok(self)
    }

    /// Returns the canonical absolute path of the workspace.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Runs blocking file work off the async threads. If the returned future is dropped, or
    /// `cancel` is set, the token passed to the work is set; long-running work must watch it.
    ///
    /// # Errors
    /// Errors of the work, and [`WorkspaceError::Host`] if it panicked.
    pub async fn run_blocking<T: Send + 'static>(
        self: &Arc<Self>,
        cancel: &CancellationToken,
        work: impl FnOnce(&Self, &CancellationToken) -> Result<T, WorkspaceError> + Send + 'static,
    ) -> Result<T, WorkspaceError> {
        let workspace = self.clone();
        let cancel = cancel.child_token();
        let _cancel_on_drop = cancel.clone().drop_guard();
        tokio::task::spawn_blocking(move || work(&workspace, &cancel))
            .await
            .unwrap_or_else(|error| Err(WorkspaceError::Host(error.to_string())))
    }

    /// Runs read-only work as [`Self::run_blocking`] does, and returns an error soon after `cancel`
    /// is set or when the work takes longer than `limit`. The work itself may continue, because a
    /// long computation may not check its token.
    ///
    /// # Errors
    /// Errors of the work, [`WorkspaceError::Cancelled`] and [`WorkspaceError::TooLong`].
    pub async fn run_blocking_read_only<T: Send + 'static>(
        self: &Arc<Self>,
        cancel: &CancellationToken,
        limit: Duration,
        work: impl FnOnce(&Self, &CancellationToken) -> Result<T, WorkspaceError> + Send + 'static,
    ) -> Result<T, WorkspaceError> {
        let mut work = std::pin::pin!(self.run_blocking(cancel, work));
        let gone = async {
            cancel.cancelled().await;
            tokio::time::sleep(CANCELLED_READ_GRACE_PERIOD).await;
        };
        tokio::select! {
            biased;
            done = &mut work => done,
            () = gone => Err(WorkspaceError::Cancelled),
            () = tokio::time::sleep(limit) => Err(WorkspaceError::TooLong { seconds: limit.as_secs() }),
        }
    }

    /// Returns the path relative to the root. An absolute path must begin with the root.
    pub(super) fn path_relative_to_root<'a>(
        &self,
        path: &'a str,
    ) -> Result<&'a str, WorkspaceError> {
        let asked = Path::new(path);
        if !asked.is_absolute() {
            return Ok(path);
        }
        let below = asked.strip_prefix(&self.root);
        let below = below.or_else(|_| asked.strip_prefix(&self.given)).ok();
        below
            .and_then(Path::to_str)
            .ok_or_else(|| WorkspaceError::Escape(path.to_owned()))
    }

    /// Resolves a path from the root, following a symlink at its end.
    fn walk_path(
        &self,
        path: &str,
        missing: MissingParentFolderHandling,
    ) -> Result<PathWalkResult, WorkspaceError> {
        let relative = match self.path_relative_to_root(path)? {
            "" => ".",
            relative => relative,
        };
        let walk = |missing| {
            let walked = walk_path_beneath(&self.dir, relative, true, missing)
                .map_err(|errno| WorkspaceError::from_io(path, errno.into()))?;
            if self.hidden.hides_walked_path(&walked) {
                return Err(WorkspaceError::Hidden(path.to_owned()));
            }
            Ok(walked)
        };
        if missing == MissingParentFolderHandling::Made && !self.hidden.is_empty() {
            // Check that the path is inside the workspace before creating missing directories.
            walk(MissingParentFolderHandling::Named)?;
        }
        walk(missing)
    }

    /// Whether an entry that was listed in `folder` is hidden. The path is relative to the root.
    pub(super) fn is_hidden_entry(&self, folder: &Dir, path: &Path) -> bool {
        self.hidden.hides_listed_entry(folder, path)
    }

    /// Resolves a path. Symlinks and `..` are followed as far as the path exists; the remaining
    /// components must be plain names.
    #[must_use]
    pub fn resolve_path(&self, path: &str) -> WorkspacePath {
        self.walk_path(path, MissingParentFolderHandling::Named)
            .map_or(WorkspacePath::Unknown, |walked| {
                WorkspacePath::Known(walked.names.join("/"))
            })
    }

    /// Opens a regular file for reading and returns its size in bytes.
    ///
    /// # Errors
    /// See [`WorkspaceError`].
    pub fn open_file(&self, path: &str) -> Result<(File, u64), WorkspaceError> {
        let walked = self.walk_path(path, MissingParentFolderHandling::Refused)?;
        let opened = match open_regular_file(&walked.folder, walked.name.as_ref()) {
            Err(source) if source.kind() == ErrorKind::NotFound => {
                match find_non_utf8_file_name(&walked.folder, &walked.name) {
                    Some(name) => open_regular_file(&walked.folder, name.as_ref()),
                    None => Err(source),
                }
            }
            opened => opened,
        };
        let opened = opened.map_err(|source| WorkspaceError::from_io(path, source))?;
        let opened = opened.map(|(file, metadata)| (file, metadata.len()));
        opened.ok_or_else(|| WorkspaceError::NotAFile(path.to_owned()))
    }

    /// Returns the path of an existing directory relative to the root, with symlinks and `..`
    /// resolved; empty for the root.
    ///
    /// # Errors
    /// See [`WorkspaceError`].
    pub fn resolve_existing_folder(&self, path: &str) -> Result<String, WorkspaceError> {
        let walked = self.walk_path(path, MissingParentFolderHandling::Refused)?;
        match walked.folder.symlink_metadata(&walked.name) {
            Ok(metadata) if metadata.is_dir() => Ok(walked.names.join("/")),
            Ok(_) => Err(WorkspaceError::NotAFolder(path.to_owned())),
            Err(source) => Err(WorkspaceError::from_io(path, source)),
        }
    }

    pub(super) fn open_folder(&self, path: &str) -> Result<Dir, WorkspaceError> {
        let walked = self.walk_path(path, MissingParentFolderHandling::Refused)?;
        let opened = walked.folder.open_dir(&walked.name);
        opened.map_err(|source| WorkspaceError::from_io(path, source))
    }

    /// Returns the version of a file: the hash of its content, or its attributes if it is larger
    /// than `cap` bytes.
    pub(super) fn file_version(
        &self,
        path: &str,
        cap: u64,
    ) -> Result<FileContentVersion, WorkspaceError> {
        let (file, _) = self.open_file(path)?;
        write::compute_file_version(file, cap)
            .map_err(|source| WorkspaceError::from_io(path, source))
    }

    /// Returns a note for the preview of a write: the content also changes under the other names
    /// (hard links) of the file. Empty if the file has only one name.
    pub(super) fn hard_link_note(&self, path: &str) -> Result<String, WorkspaceError> {
        let (file, _) = self.open_file(path)?;
        let metadata = file.metadata();
        let metadata = metadata.map_err(|source| WorkspaceError::from_io(path, source))?;
        let n_others = metadata.nlink().saturating_sub(1);
        Ok(match n_others {
            0 => String::new(),
            1 => "; the file has another name (hard link), which may be outside of the workspace, and would change there too".to_owned(),
            n => format!("; the file has {n} other names (hard links), which may be outside of the workspace, and would change there too"),
        })
    }

    /// Reads a whole file of at most `cap` bytes.
    ///
    /// # Errors
    /// See [`WorkspaceError`].
    pub fn read_file(&self, path: &str, cap: u64) -> Result<Vec<u8>, WorkspaceError> {
        let (file, bytes) = self.open_file(path)?;
        let too_large = |bytes| WorkspaceError::TooLarge {
            path: path.to_owned(),
            bytes,
            cap,
        };
        if bytes > cap {
            return Err(too_large(bytes));
        }
        let mut content = Vec::new();
        // Do not rely on the reported size: files grow, and files in `/proc` report 0.
        file.take(cap + 1)
            .read_to_end(&mut content)
            .map_err(|source| WorkspaceError::from_io(path, source))?;
        if content.len() as u64 > cap {
            return Err(too_large(content.len() as u64));
        }
        Ok(content)
    }
}

/// Finds the file whose name is not UTF-8 and is listed as `name`, with U+FFFD for each invalid
/// byte. `None` if there is no such file, or more than one.
fn find_non_utf8_file_name(folder: &Dir, name: &str) -> Option<OsString> {
    if !name.contains(char::REPLACEMENT_CHARACTER) {
        return None;
    }
    let entries = folder.entries().ok()?.flatten();
    let mut names = entries.map(|entry| entry.file_name());
    let mut found = names.by_ref().filter(|own| own.to_string_lossy() == name);
    let first = found.next()?;
    found.next().is_none().then_some(first)
}
