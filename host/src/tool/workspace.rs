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

use super::known::FileVersion;
use super::subject::WorkspacePath;
use crate::beneath::{
    HiddenFolders, MissingParents, WalkedPath, open_regular, own_below, walk_beneath,
};
use crate::disk::private_folder;
pub use error::WorkspaceError;
pub(super) use write::{ExpectedFile, stamp_of};

/// Grace period for read-only work after cancellation.
const CALLED_OFF: Duration = Duration::from_millis(100);

/// The directory that built-in tools may access.
///
/// All methods take paths as the model writes them: relative to the root, or absolute and inside
/// it. Most of them block; call them through [`Workspace::blocking`] or [`Workspace::looking`] from
/// async code.
#[derive(Debug)]
pub struct Workspace {
    /// Canonical path of the root.
    root: PathBuf,
    /// Path as given by the caller, made absolute; may contain symlinks.
    given: PathBuf,
    dir: Dir,
    /// Folders of Rind's own inside the root, which no path may reach.
    hidden: HiddenFolders,
}

impl Workspace {
    /// Opens an existing directory.
    ///
    /// # Errors
    /// The directory does not exist or cannot be opened.
    pub fn open(root: &Path) -> io::Result<Self> {
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

    /// Hides those of these folders that are inside the workspace: paths cannot reach them, and
    /// listings leave them out. Creates the missing ones, so that nothing else can take their
    /// names.
    ///
    /// # Errors
    /// The workspace cannot be examined.
    pub fn hiding(mut self, own: &[PathBuf]) -> io::Result<Self> {
        for folder in own_below(&self.root, own) {
            // Ignore the error: a folder that cannot be created is hidden by name.
            let _ = private_folder(&folder);
        }
        self.hidden = HiddenFolders::below(&self.root, own)?;
        Ok(self)
    }

    /// Returns the canonical absolute path.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Runs blocking file work off the async threads. If the returned future is dropped, or
    /// `cancel` is set, the token passed to the work is set; long-running work must watch it.
    ///
    /// # Errors
    /// Errors of the work, and [`WorkspaceError::Host`] if it panicked.
    pub async fn blocking<T: Send + 'static>(
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

    /// [Runs](Self::blocking) read-only work, and abandons it soon after `cancel` is set or when it
    /// takes longer than `limit`. The work may be stuck in a computation that checks no token.
    ///
    /// # Errors
    /// Errors of the work, [`WorkspaceError::Cancelled`] and [`WorkspaceError::TooLong`].
    pub async fn looking<T: Send + 'static>(
        self: &Arc<Self>,
        cancel: &CancellationToken,
        limit: Duration,
        work: impl FnOnce(&Self, &CancellationToken) -> Result<T, WorkspaceError> + Send + 'static,
    ) -> Result<T, WorkspaceError> {
        let mut work = std::pin::pin!(self.blocking(cancel, work));
        let gone = async {
            cancel.cancelled().await;
            tokio::time::sleep(CALLED_OFF).await;
        };
        tokio::select! {
            biased;
            done = &mut work => done,
            () = gone => Err(WorkspaceError::Cancelled),
            () = tokio::time::sleep(limit) => Err(WorkspaceError::TooLong { seconds: limit.as_secs() }),
        }
    }

    /// Returns the path relative to the root. An absolute path must begin with the root.
    pub(super) fn relative<'a>(&self, path: &'a str) -> Result<&'a str, WorkspaceError> {
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
    fn walk(&self, path: &str, missing: MissingParents) -> Result<WalkedPath, WorkspaceError> {
        let relative = match self.relative(path)? {
            "" => ".",
            relative => relative,
        };
        let walk = |missing| {
            let walked = walk_beneath(&self.dir, relative, true, missing)
                .map_err(|errno| WorkspaceError::from_io(path, errno.into()))?;
            if self.hidden.hide_walked(&walked) {
                return Err(WorkspaceError::Hidden(path.to_owned()));
            }
            Ok(walked)
        };
        if missing == MissingParents::Made && !self.hidden.is_empty() {
            // Check the location before creating anything.
            walk(MissingParents::Named)?;
        }
        walk(missing)
    }

    /// Whether an entry that was listed in `folder` is hidden. The path is relative to the root.
    pub(super) fn hides(&self, folder: &Dir, path: &Path) -> bool {
        self.hidden.hide_listed(folder, path)
    }

    /// Resolves a path. Symlinks and `..` are followed as far as the path exists; the remaining
    /// components must be plain names.
    #[must_use]
    pub fn place(&self, path: &str) -> WorkspacePath {
        self.walk(path, MissingParents::Named)
            .map_or(WorkspacePath::Unknown, |walked| {
                WorkspacePath::Known(walked.names.join("/"))
            })
    }

    /// Opens a regular file for reading and returns its size in bytes.
    ///
    /// # Errors
    /// See [`WorkspaceError`].
    pub fn open_file(&self, path: &str) -> Result<(File, u64), WorkspaceError> {
        let walked = self.walk(path, MissingParents::Refused)?;
        let opened = match open_regular(&walked.folder, walked.name.as_ref()) {
            Err(source) if source.kind() == ErrorKind::NotFound => {
                match shown_as(&walked.folder, &walked.name) {
                    Some(name) => open_regular(&walked.folder, name.as_ref()),
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
    pub fn folder(&self, path: &str) -> Result<String, WorkspaceError> {
        let walked = self.walk(path, MissingParents::Refused)?;
        match walked.folder.symlink_metadata(&walked.name) {
            Ok(metadata) if metadata.is_dir() => Ok(walked.names.join("/")),
            Ok(_) => Err(WorkspaceError::NotAFolder(path.to_owned())),
            Err(source) => Err(WorkspaceError::from_io(path, source)),
        }
    }

    pub(super) fn open_folder(&self, path: &str) -> Result<Dir, WorkspaceError> {
        let walked = self.walk(path, MissingParents::Refused)?;
        let opened = walked.folder.open_dir(&walked.name);
        opened.map_err(|source| WorkspaceError::from_io(path, source))
    }

    /// Returns the version of a file: the hash of its content, or its attributes if it is larger
    /// than `cap` bytes.
    pub(super) fn version(&self, path: &str, cap: u64) -> Result<FileVersion, WorkspaceError> {
        let (file, _) = self.open_file(path)?;
        write::version_of(file, cap).map_err(|source| WorkspaceError::from_io(path, source))
    }

    /// Formats a note for write previews about the other names (hard links) of a file, whose
    /// content changes too; empty if there are none.
    pub(super) fn other_names(&self, path: &str) -> Result<String, WorkspaceError> {
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
    pub fn read(&self, path: &str, cap: u64) -> Result<Vec<u8>, WorkspaceError> {
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
        // The reported size can be wrong: files grow, and files in `/proc` report 0.
        file.take(cap + 1)
            .read_to_end(&mut content)
            .map_err(|source| WorkspaceError::from_io(path, source))?;
        if content.len() as u64 > cap {
            return Err(too_large(content.len() as u64));
        }
        Ok(content)
    }
}

/// Finds the file that a listing shows under this name because its real name is not UTF-8: each
/// invalid byte appears as U+FFFD. `None` if there is no such file, or more than one.
fn shown_as(folder: &Dir, name: &str) -> Option<OsString> {
    if !name.contains(char::REPLACEMENT_CHARACTER) {
        return None;
    }
    let entries = folder.entries().ok()?.flatten();
    let mut names = entries.map(|entry| entry.file_name());
    let mut found = names.by_ref().filter(|own| own.to_string_lossy() == name);
    let first = found.next()?;
    found.next().is_none().then_some(first)
}
