//! Implements the `files` import: operations on complete files, at paths that begin with a root,
//! such as `workspace/…` or `data/…`.
//!
//! Each call resolves the path, checks access and quota, and works relative to the granted
//! directory. Start from [`GrantedFolders::read_file_range`].

use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;

use cap_std::fs::Metadata;
use rustix::io::Errno;

use super::{
    DataFolderUsage, FolderError, FolderOpenOptions, GrantedFolders, OpenedFileOrFolder,
    PathBaseFolder, ResolvedPath,
};
use crate::beneath::replace_file;
use crate::clock::new_uuid_v7;
use crate::grant::{FolderAccess, RootFolderKind};

/// Maximum number of bytes read or written in one call.
pub const MAX_READ_OR_WRITE_BYTES: usize = 16 << 20;

/// Maximum number of directory entries listed in one call.
pub const MAX_LISTED_FOLDER_ENTRIES: usize = 10_000;

/// Kind of an entry of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FolderEntryKind {
    File,
    Folder,
    /// A symlink, or any other type.
    Other,
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderEntry {
    /// Name of the entry. Bytes that are not UTF-8 are replaced.
    pub name: String,
    /// Kind of the entry: file, directory or other.
    pub kind: FolderEntryKind,
    /// Size in bytes if the entry is a file; otherwise 0.
    pub size: u64,
}

impl GrantedFolders {
    /// Reads at most `length` bytes of a file from `offset`. Returns fewer only at the end of the
    /// file.
    pub fn read_file_range(
        &self,
        path: &str,
        offset: u64,
        length: u32,
    ) -> Result<Vec<u8>, FolderError> {
        if usize::try_from(length).is_ok_and(|length| length > MAX_READ_OR_WRITE_BYTES) {
            return Err(FolderError::TooMuch(format!(
                "at most {MAX_READ_OR_WRITE_BYTES} bytes are read in one call; read the file in parts"
            )));
        }
        let how = FolderOpenOptions {
            read: true,
            ..FolderOpenOptions::default()
        };
        let OpenedFileOrFolder {
            mut file,
            is_folder,
        } = self.resolve_path(path, true)?.open_file_or_folder(how)?;
        if is_folder {
            return Err(Errno::ISDIR.into());
        }
        file.seek(SeekFrom::Start(offset))?;
        let mut content = Vec::new();
        file.take(length.into()).read_to_end(&mut content)?;
        Ok(content)
    }

    /// Writes a complete file atomically. The directory must exist. The permissions of an existing
    /// file are kept.
    pub fn write(&self, path: &str, content: &[u8]) -> Result<(), FolderError> {
        if content.len() > MAX_READ_OR_WRITE_BYTES {
            return Err(FolderError::TooMuch(format!(
                "at most {MAX_READ_OR_WRITE_BYTES} bytes are written in one call"
            )));
        }
        let place = self.resolve_path(path, true)?;
        place.check_write_allowed()?;
        if place.is_folder_wanted {
            return Err(Errno::ISDIR.into());
        }
        let old = match place.metadata() {
            Ok(metadata) if metadata.is_dir() => return Err(Errno::ISDIR.into()),
            Ok(metadata) if metadata.is_symlink() => return Err(FolderError::Loop),
            Ok(metadata) if !metadata.is_file() => return Err(FolderError::Special),
            Ok(metadata) if metadata.permissions().readonly() => {
                return Err(Errno::ACCESS.into());
            }
            Ok(metadata) => Some(metadata),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error.into()),
        };
        let charge = PendingFolderUsageChange::new(&place, content.len() as u64, old.as_ref())?;
        let permissions = old.map(|old| old.permissions());
        let (folder, name, id) = (place.parent_folder(), place.name(), new_uuid_v7());
        let put = replace_file(folder, name, content, permissions, false, &id);
        charge.finish_or_revert_charge(put.is_ok());
        Ok(put?)
    }

    /// Lists the entries of a directory, sorted by name.
    pub fn list(&self, path: &str) -> Result<Vec<FolderEntry>, FolderError> {
        let how = FolderOpenOptions {
            read: true,
            folder: true,
            ..FolderOpenOptions::default()
        };
        let opened = self.resolve_path(path, true)?.open_file_or_folder(how)?;
        let folder = cap_std::fs::Dir::from_std_file(opened.file.try_clone()?);
        let mut entries = Vec::new();
        for entry in folder.entries()? {
            if entries.len() == MAX_LISTED_FOLDER_ENTRIES {
                return Err(FolderError::TooMuch(format!(
                    "the folder has more than {MAX_LISTED_FOLDER_ENTRIES} entries"
                )));
            }
            let entry = entry?;
            // The entry may have been removed meanwhile.
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            let (kind, size) = if metadata.is_file() {
                (FolderEntryKind::File, metadata.len())
            } else if metadata.is_dir() {
                (FolderEntryKind::Folder, 0)
            } else {
                (FolderEntryKind::Other, 0)
            };
            let name = entry.file_name().to_string_lossy().into_owned();
            entries.push(FolderEntry { name, kind, size });
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    /// Creates a directory and its missing parents, including the granted directory. Succeeds if
    /// the directory already exists.
    pub fn create_folder(&self, path: &str) -> Result<(), FolderError> {
        let (root, names) = parse_plugin_path(path)?;
        let number = self
            .find_grant(root, &names)
            .ok_or(FolderError::NotGranted)?;
        let base = PathBaseFolder::Granted(number);
        self.create_missing_granted_folder(&base)?;
        let above = self.grants[number].folder.below.len();
        for n in above + 1..=names.len() {
            let place = self.resolve_path_components(root, &names[..n], true)?;
            match place.metadata() {
                Ok(metadata) if metadata.is_dir() => continue,
                Ok(_) => return Err(Errno::NOTDIR.into()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
            place.check_write_allowed()?;
            if let Some(usage) = place.data_folder_usage_counter() {
                usage.charge_quota(0, 1)?;
            }
            if let Err(error) = place.parent_folder().create_dir(place.name()) {
                if let Some(usage) = place.data_folder_usage_counter() {
                    usage.subtract_freed_usage(0, 1);
                }
                // Ignore the error if another process created the directory meanwhile.
                if error.kind() != io::ErrorKind::AlreadyExists {
                    return Err(error.into());
                }
            }
        }
        Ok(())
    }

    /// Removes a file, a symlink or an empty directory.
    pub fn remove_path(&self, path: &str) -> Result<(), FolderError> {
        let place = self.resolve_path(path, false)?;
        place.check_write_allowed()?;
        place.check_trailing_slash()?;
        if self.has_granted_folder_inside(&place) {
            return Err(FolderError::ReadOnly);
        }
        if place.name() == "." {
            return Err(FolderError::Invalid(
                "the granted folder itself cannot be removed",
            ));
        }
        let before = place.metadata()?;
        if before.is_dir() {
            place.parent_folder().remove_dir(place.name())?;
        } else {
            place.parent_folder().remove_file(place.name())?;
        }
        place.release_removed_file_quota(Some(&before));
        Ok(())
    }

    /// Whether the plugin may change anything in the workspace.
    #[must_use]
    pub fn can_change_workspace(&self) -> bool {
        let mut grants = self.grants.iter();
        grants.any(|grant| {
            grant.folder.root == RootFolderKind::Workspace && grant.access != FolderAccess::Read
        })
    }

    /// Returns the path in the workspace that a write to `path` changes, with symlinks resolved;
    /// `None` if that path is outside the workspace or must not be written. With `makes_parents`, a
    /// path that cannot be resolved, such as one in a missing directory, is returned unchanged.
    #[must_use]
    pub fn resolve_workspace_path(
        &self,
        path: &str,
        follow: bool,
        makes_parents: bool,
    ) -> Option<String> {
        let (root, names) = parse_plugin_path(path).ok()?;
        let number = self.find_grant(root, &names)?;
        if root != RootFolderKind::Workspace || self.grants[number].access == FolderAccess::Read {
            return None;
        }
        let names = match self.resolve_path(path, follow) {
            Ok(place) => place.check_write_allowed().is_ok().then_some(place.names)?,
            Err(_) => makes_parents.then_some(names)?,
        };
        (!names.is_empty()).then(|| names.join("/"))
    }

    pub(super) fn resolve_path(
        &self,
        path: &str,
        follow: bool,
    ) -> Result<ResolvedPath, FolderError> {
        let (root, names) = parse_plugin_path(path)?;
        let mut place =
            self.resolve_path_components(root, &names, follow || path.ends_with('/'))?;
        place.is_folder_wanted |= path.ends_with('/');
        Ok(place)
    }

    fn resolve_path_components(
        &self,
        root: RootFolderKind,
        names: &[String],
        follow: bool,
    ) -> Result<ResolvedPath, FolderError> {
        let number = self
            .find_grant(root, names)
            .ok_or(FolderError::NotGranted)?;
        let below = &names[self.grants[number].folder.below.len()..];
        let path = match below.join("/") {
            path if path.is_empty() => ".".to_owned(),
            path => path,
        };
        self.resolve_path_from_base(&PathBaseFolder::Granted(number), &path, follow)
    }
}

/// Counts the entries of an open directory; fails if there are more than `limit`.
pub fn count_entries(folder: &std::fs::File, limit: usize) -> Result<usize, FolderError> {
    let folder = cap_std::fs::Dir::from_std_file(folder.try_clone()?);
    let n_entries = folder.entries()?.take(limit.saturating_add(1)).count();
    if n_entries > limit {
        return Err(FolderError::TooMuch(format!(
            "the folders of one listing have more than {limit} entries together"
        )));
    }
    Ok(n_entries)
}

/// Parses a path. A path does not show which of its components are the granted directory, so every
/// component must be a plain name, not `.` or `..`.
fn parse_plugin_path(path: &str) -> Result<(RootFolderKind, Vec<String>), FolderError> {
    if path.is_empty() {
        return Err(FolderError::Invalid("the path is empty"));
    }
    if path.contains(['\0', '\\']) {
        return Err(FolderError::Invalid(
            "a path cannot contain NUL or a `\\`; write `/` between names",
        ));
    }
    if path.starts_with('/') {
        return Err(FolderError::Invalid(
            "the path is absolute; write `workspace/` or `data/` in front",
        ));
    }
    let path = path.strip_suffix('/').unwrap_or(path);
    let mut names = path.split('/');
    let root = match names.next() {
        Some("workspace") => RootFolderKind::Workspace,
        Some("data") => RootFolderKind::Data,
        _ => {
            return Err(FolderError::Invalid(
                "the path does not start with `workspace/` or `data/`",
            ));
        }
    };
    let names: Vec<String> = names.map(str::to_owned).collect();
    if names.iter().any(|name| name == "..") {
        return Err(FolderError::Escape);
    }
    if names.iter().any(|name| name.is_empty() || name == ".") {
        return Err(FolderError::Invalid(
            "a name in the path is empty or `.`; write it without",
        ));
    }
    Ok((root, names))
}

/// Change of the usage when a file is replaced. Only the difference of the sizes counts, although
/// both versions exist for a moment.
struct PendingFolderUsageChange<'a> {
    usage: Option<&'a DataFolderUsage>,
    grows: u64,
    shrinks: u64,
    files: u64,
}

impl<'a> PendingFolderUsageChange<'a> {
    fn new(
        place: &'a ResolvedPath,
        bytes: u64,
        old: Option<&Metadata>,
    ) -> Result<Self, FolderError> {
        let usage = place.data_folder_usage_counter().map(Arc::as_ref);
        let frees = match (usage, old) {
            (Some(usage), Some(old)) => usage.bytes_freed_by_removal(old),
            _ => 0,
        };
        let charge = Self {
            usage,
            grows: bytes.saturating_sub(frees),
            shrinks: frees.saturating_sub(bytes),
            files: u64::from(old.is_none()),
        };
        if let Some(usage) = usage {
            usage.charge_quota(charge.grows, charge.files)?;
        }
        Ok(charge)
    }

    fn finish_or_revert_charge(self, is_done: bool) {
        match self.usage {
            Some(usage) if is_done => usage.subtract_freed_usage(self.shrinks, 0),
            Some(usage) => usage.subtract_freed_usage(self.grows, self.files),
            None => {}
        }
    }
}
