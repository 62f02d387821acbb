//! Opens files and directories at a resolved path. Never follows a symlink, never opens a pipe or
//! device, and counts new files toward the quota.
//!
//! Start from [`ResolvedPath::open_file_or_folder`].

use std::fs::File;
use std::os::fd::AsFd;

use cap_std::fs::Metadata;
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;

use super::{FolderError, ResolvedPath};

/// Options for opening a file or directory in a granted directory.
#[derive(Clone, Copy, Debug, Default)]
pub struct FolderOpenOptions {
    /// Whether the file is opened for reading.
    pub read: bool,
    /// Whether the file is opened for writing.
    pub write: bool,
    /// Whether the file is created if it does not exist.
    pub create: bool,
    /// Whether opening fails if the file already exists.
    pub exclusive: bool,
    /// Whether the content of the file is removed on opening.
    pub truncate: bool,
    /// Whether every write appends to the end of the file.
    pub append: bool,
    /// Whether opening fails if the path is not a directory.
    pub folder: bool,
}

/// File or directory that was opened for a plugin.
#[derive(Debug)]
pub struct OpenedFileOrFolder {
    /// Handle of the file. If it stays open for writing, report it to
    /// [`super::DataFolderUsage::register_open_file`].
    pub file: File,
    /// Whether `file` is a directory.
    pub is_folder: bool,
}

/// Maximum number of attempts to create a file. An attempt fails if another process creates the
/// file between the check and the open.
const MAX_FILE_CREATE_ATTEMPTS: usize = 3;

impl ResolvedPath {
    /// Opens the file or directory. Blocks the calling thread.
    pub fn open_file_or_folder(
        &self,
        how: FolderOpenOptions,
    ) -> Result<OpenedFileOrFolder, FolderError> {
        if how.write || how.create || how.truncate {
            self.check_write_allowed()?;
        }
        let mut tries = MAX_FILE_CREATE_ATTEMPTS;
        loop {
            tries -= 1;
            match self.try_open_file_or_folder(how) {
                Err(FolderError::Io(error))
                    if tries > 0
                        && how.create
                        && !how.exclusive
                        && error.kind() == std::io::ErrorKind::AlreadyExists => {}
                result => return result,
            }
        }
    }

    fn try_open_file_or_folder(
        &self,
        how: FolderOpenOptions,
    ) -> Result<OpenedFileOrFolder, FolderError> {
        let before = match self.metadata() {
            Ok(metadata) => Some(check_file_type(&metadata, self, how).map(|()| metadata)?),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(error.into()),
        };
        let is_new = before.is_none();
        if is_new && !how.create {
            return Err(Errno::NOENT.into());
        }
        if is_new && self.is_folder_wanted {
            return Err(Errno::ISDIR.into());
        }
        let usage = self.usage.as_ref();
        if is_new {
            usage.map_or(Ok(()), |usage| usage.charge_quota(0, 1))?;
        }
        let file = openat(
            self.folder.as_fd(),
            self.name.as_str(),
            open_flags(how, before.as_ref()),
            Mode::from_raw_mode(0o666),
        )
        .map(File::from);
        let file = match file {
            Ok(file) => file,
            Err(errno) => {
                if let Some(usage) = usage.filter(|_| is_new) {
                    usage.subtract_freed_usage(0, 1);
                }
                return Err(errno.into());
            }
        };
        let metadata = file.metadata()?;
        if !metadata.is_file() && !metadata.is_dir() {
            return Err(FolderError::Special);
        }
        if let Some(usage) = usage.filter(|_| metadata.is_file()) {
            // Count the usage of the directory now, on this blocking thread, so that later writes
            // need not read the directory.
            usage.charge_quota(0, 0)?;
        }
        if how.truncate && metadata.is_file() && metadata.len() > 0 {
            file.set_len(0)?;
            if let Some(usage) = usage {
                usage.credit_truncation(&file, metadata.len());
            }
        }
        Ok(OpenedFileOrFolder {
            is_folder: metadata.is_dir(),
            file,
        })
    }
}

/// Checks the type of a file before it is opened: opening a pipe waits for its other end, and
/// opening a device can have side effects.
fn check_file_type(
    metadata: &Metadata,
    place: &ResolvedPath,
    how: FolderOpenOptions,
) -> Result<(), FolderError> {
    if how.create && how.exclusive {
        return Err(Errno::EXIST.into());
    }
    if metadata.is_symlink() {
        return Err(FolderError::Loop);
    }
    if metadata.is_dir() {
        let is_changed = how.write || how.create || how.truncate;
        return if is_changed {
            Err(Errno::ISDIR.into())
        } else {
            Ok(())
        };
    }
    if !metadata.is_file() {
        return Err(FolderError::Special);
    }
    if how.folder || place.is_folder_wanted {
        return Err(Errno::NOTDIR.into());
    }
    Ok(())
}

/// Returns the flags for `open`. `O_TRUNC` is left out, because the type of the file must be
/// checked before it is truncated. With `O_NONBLOCK`, the call does not wait if a pipe has replaced
/// the file.
fn open_flags(how: FolderOpenOptions, before: Option<&Metadata>) -> OFlags {
    let common = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let is_written = how.write || how.truncate || how.create;
    let mode = match (how.read, is_written) {
        (_, false) => OFlags::RDONLY,
        (true, true) => OFlags::RDWR,
        (false, true) => OFlags::WRONLY,
    };
    let kind = match before {
        Some(metadata) if metadata.is_dir() => OFlags::DIRECTORY,
        Some(_) => OFlags::empty(),
        None => OFlags::CREATE | OFlags::EXCL,
    };
    let end = if how.append {
        OFlags::APPEND
    } else {
        OFlags::empty()
    };
    common | mode | kind | end
}
