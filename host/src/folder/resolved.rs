//! Defines a resolved path: one name in one open directory, with the access that is allowed there.
//!
//! Operations use the directory handle and follow no symlink, so no operation can reach another
//! path than the one that was checked. Start from [`ResolvedPath`].

use std::io;
use std::sync::Arc;

use cap_std::fs::{Dir, Metadata, MetadataExt};
use rustix::io::Errno;

use super::{DataFolderUsage, FolderError};
use crate::grant::{FolderAccess, RootFolderKind};

/// Maximum number of path components from the root to a path that may be written, because the
/// functions that count and remove directories recurse once per level.
const MAX_WRITABLE_PATH_DEPTH: usize = 64;

/// A resolved path: one name in one open directory. Operations on the name follow no symlink, so
/// they happen at this path or fail.
#[derive(Debug)]
pub struct ResolvedPath {
    pub(super) folder: Dir,
    pub(super) name: String,
    pub(super) names: Vec<String>,
    /// Root of the granted directory: the workspace or the plugin's data directory. `None` if the
    /// path is in the empty directory.
    pub(super) root: Option<RootFolderKind>,
    /// Whether the path as the plugin wrote it ended with `/`.
    pub(super) is_folder_wanted: bool,
    pub(super) access: FolderAccess,
    pub(super) is_reserved: bool,
    pub(super) grant: Option<usize>,
    /// Number of components in `names` that lead to the granted directory.
    pub(super) n_above: usize,
    pub(super) usage: Option<Arc<DataFolderUsage>>,
    pub(super) before: Option<Metadata>,
}

impl ResolvedPath {
    /// Returns the directory that contains the entry at this path.
    #[must_use]
    pub fn parent_folder(&self) -> &Dir {
        &self.folder
    }

    /// Returns the name: a single component, or `.` if the path denotes the directory itself.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the path components from the root of the grant.
    #[must_use]
    pub fn path_components(&self) -> &[String] {
        &self.names
    }

    /// Returns the usage of the directory with a quota that contains this path, to which writes are
    /// added; `None` if no quota applies.
    #[must_use]
    pub fn data_folder_usage_counter(&self) -> Option<&Arc<DataFolderUsage>> {
        self.usage.as_ref()
    }

    /// Returns whether the path may only be read or also changed.
    #[must_use]
    pub fn allowed_access(&self) -> FolderAccess {
        if self.is_reserved {
            FolderAccess::Read
        } else {
            self.access
        }
    }

    /// Returns the metadata; for a symlink the metadata of the link, not of its target.
    pub fn metadata(&self) -> io::Result<Metadata> {
        self.folder.symlink_metadata(&self.name)
    }

    /// Stores the current metadata, which an operation that removes or replaces the file needs.
    /// Blocks.
    pub fn refresh_metadata(&mut self) -> Result<(), FolderError> {
        match self.metadata() {
            Ok(metadata) => self.before = Some(metadata),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Returns the metadata stored by [`Self::refresh_metadata`].
    #[must_use]
    pub fn last_refreshed_metadata(&self) -> Option<&Metadata> {
        self.before.as_ref()
    }

    /// Returns an error if the plugin must not change the path.
    pub fn check_write_allowed(&self) -> Result<(), FolderError> {
        if self.root.is_none() {
            return Err(FolderError::NotGranted);
        }
        if self.is_reserved {
            return Err(FolderError::Reserved);
        }
        if self.access == FolderAccess::Read {
            return Err(FolderError::ReadOnly);
        }
        if self.names.len() > MAX_WRITABLE_PATH_DEPTH {
            return Err(Errno::NAMETOOLONG.into());
        }
        Ok(())
    }

    /// Refuses a path that ended with `/` but is not a directory.
    pub fn check_trailing_slash(&self) -> Result<(), FolderError> {
        if !self.is_folder_wanted {
            return Ok(());
        }
        match self.metadata() {
            Ok(metadata) if !metadata.is_dir() => Err(Errno::NOTDIR.into()),
            _ => Ok(()),
        }
    }

    /// Refuses to create a symlink to `target` at this path if it would lead out of the granted
    /// directory. Only the components of `target` are checked, not the symlinks in it.
    pub fn check_symlink_target(&self, target: &str) -> Result<(), FolderError> {
        if target.starts_with('/') {
            return Err(FolderError::Escape);
        }
        let mut depth = self.names.len().saturating_sub(self.n_above + 1);
        for name in target.split('/') {
            match name {
                "" | "." => {}
                ".." => depth = depth.checked_sub(1).ok_or(FolderError::Escape)?,
                _ => depth += 1,
            }
        }
        Ok(())
    }

    /// Subtracts a file that was removed or replaced from the usage of the folder's quota.
    pub fn release_removed_file_quota(&self, before: Option<&Metadata>) {
        if let (Some(usage), Some(before)) = (&self.usage, before) {
            usage.subtract_freed_usage(usage.bytes_freed_by_removal(before), 1);
        }
    }

    /// Fails if the two paths of an operation, such as a rename, belong to different grants.
    pub fn check_same_grant(&self, other: &Self) -> Result<(), FolderError> {
        if self.grant == other.grant {
            Ok(())
        } else {
            Err(FolderError::Crosses)
        }
    }

    /// Checks that this path may be renamed to `new`. Returns the metadata of the file that the
    /// rename replaces. Call [`Self::refresh_metadata`] on both paths first.
    pub fn check_rename<'a>(&self, new: &'a Self) -> Result<Option<&'a Metadata>, FolderError> {
        self.check_same_grant(new)?;
        let old = self.last_refreshed_metadata().ok_or(Errno::NOENT)?;
        if new.is_folder_wanted && !old.is_dir() {
            return Err(Errno::NOTDIR.into());
        }
        let is_other = |there: &&Metadata| (there.dev(), there.ino()) != (old.dev(), old.ino());
        Ok(new.last_refreshed_metadata().filter(is_other))
    }
}

/// Formats the path for messages and traces.
impl std::fmt::Display for ResolvedPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.root {
            Some(RootFolderKind::Workspace) => "workspace",
            Some(RootFolderKind::Data) => "data",
            None => "",
        })?;
        self.names.iter().try_for_each(|name| write!(f, "/{name}"))
    }
}
