//! A resolved path: one name in one open folder, and the access that is allowed there.

use std::io;
use std::sync::Arc;

use cap_std::fs::{Dir, Metadata, MetadataExt};
use rustix::io::Errno;

use super::{FolderError, Usage};
use crate::grant::{Access, Root};

/// Deepest folder that may be made below a granted one; counting a folder and removing it take one level at a time.
const MAX_DEPTH: usize = 64;

/// A resolved path: one name in one open folder. What is done to the name there follows no link, so it is done at this place or
/// fails.
#[derive(Debug)]
pub struct ResolvedPath {
    pub(super) folder: Dir,
    pub(super) name: String,
    pub(super) names: Vec<String>,
    /// Root of the grant; `None` in the empty folder.
    pub(super) root: Option<Root>,
    /// Whether the path ended with `/`.
    pub(super) is_folder_wanted: bool,
    pub(super) access: Access,
    pub(super) is_reserved: bool,
    pub(super) grant: Option<usize>,
    /// Number of `names` that lead to the granted folder.
    pub(super) n_above: usize,
    pub(super) usage: Option<Arc<Usage>>,
    pub(super) before: Option<Metadata>,
}

impl ResolvedPath {
    /// The folder that the name is in.
    #[must_use]
    pub fn folder(&self) -> &Dir {
        &self.folder
    }

    /// The name: one, without `/`; `.` when the path led to the folder itself.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Names from the root of the grant.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The count that is charged for what is written here.
    #[must_use]
    pub fn usage(&self) -> Option<&Arc<Usage>> {
        self.usage.as_ref()
    }

    /// Returns the access that is allowed here.
    #[must_use]
    pub fn access(&self) -> Access {
        if self.is_reserved {
            Access::Read
        } else {
            self.access
        }
    }

    /// Returns the metadata; of a link itself, not of its target.
    pub fn metadata(&self) -> io::Result<Metadata> {
        self.folder.symlink_metadata(&self.name)
    }

    /// Keeps what is there now, for an operation that takes it away. Blocks.
    pub fn look(&mut self) -> Result<(), FolderError> {
        match self.metadata() {
            Ok(metadata) => self.before = Some(metadata),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// The metadata that [`Self::look`] found.
    #[must_use]
    pub fn before(&self) -> Option<&Metadata> {
        self.before.as_ref()
    }

    /// Refuses what may not be changed.
    pub fn check_write(&self) -> Result<(), FolderError> {
        if self.root.is_none() {
            return Err(FolderError::NotGranted);
        }
        if self.is_reserved {
            return Err(FolderError::Reserved);
        }
        if self.access == Access::Read {
            return Err(FolderError::ReadOnly);
        }
        if self.names.len() > MAX_DEPTH {
            return Err(Errno::NAMETOOLONG.into());
        }
        Ok(())
    }

    /// Refuses a path that ended with `/` and led to something that is not a folder.
    pub fn check_folder(&self) -> Result<(), FolderError> {
        if !self.is_folder_wanted {
            return Ok(());
        }
        match self.metadata() {
            Ok(metadata) if !metadata.is_dir() => Err(Errno::NOTDIR.into()),
            _ => Ok(()),
        }
    }

    /// Refuses a link here that would lead out of the granted folder, whoever follows it. `target` is judged by its names.
    pub fn check_link(&self, target: &str) -> Result<(), FolderError> {
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

    /// Gives room back for what was there before and is gone now.
    pub fn removed(&self, before: Option<&Metadata>) {
        if let (Some(usage), Some(before)) = (&self.usage, before) {
            usage.credit(usage.frees(before), 1);
        }
    }

    /// Refuses what would lead from one grant to another.
    pub fn check_same_grant(&self, other: &Self) -> Result<(), FolderError> {
        if self.grant == other.grant {
            Ok(())
        } else {
            Err(FolderError::Crosses)
        }
    }

    /// Whether this may get the name `new`. Says what would be replaced. Both were [looked](Self::look) at.
    pub fn check_rename<'a>(&self, new: &'a Self) -> Result<Option<&'a Metadata>, FolderError> {
        self.check_same_grant(new)?;
        let old = self.before().ok_or(Errno::NOENT)?;
        if new.is_folder_wanted && !old.is_dir() {
            return Err(Errno::NOTDIR.into());
        }
        let is_other = |there: &&Metadata| (there.dev(), there.ino()) != (old.dev(), old.ino());
        Ok(new.before().filter(is_other))
    }
}

/// Displays the path as messages and traces show it.
impl std::fmt::Display for ResolvedPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.root {
            Some(Root::Workspace) => "workspace",
            Some(Root::Data) => "data",
            None => "",
        })?;
        self.names.iter().try_for_each(|name| write!(f, "/{name}"))
    }
}
