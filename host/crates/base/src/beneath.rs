//! Resolves paths within a folder, for tools and plugins: a resolved path never leaves the folder.
//!
//! Every step of a [`walk_path_beneath`] opens one name relative to the folder opened by the
//! previous step, without following symlinks. Symlinks are read and their targets walked like the
//! rest of the path, so the result is the resolved path, without any symlink that could be replaced
//! between a check and the use (a TOCTOU race). Linux's `openat2` with `RESOLVE_BENEATH` would
//! resolve safely too, but does not report the resolved path, which decides whether the caller may
//! write there.
//!
//! The module must not know which paths are allowed: callers decide this from the names in
//! [`PathWalkResult`]. All functions block. Start from [`walk_path_beneath`].

mod hidden;

use std::collections::VecDeque;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use cap_std::fs::{Dir, File, Metadata, OpenOptions, OpenOptionsExt, Permissions};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, mkdirat, openat, readlinkat, statat};
use rustix::io::Errno;

pub use hidden::HiddenFolders;
pub use hidden::{real_path, select_folders_below_root};

/// Maximum number of symlinks on one path; the limit of Linux.
const MAX_SYMLINKS_PER_PATH: usize = 40;

/// Maximum length of a path, in bytes: `PATH_MAX` of Linux.
const MAX_PATH_BYTES: usize = 4096;

/// Flags for opening a folder to traverse it. On Linux, `O_PATH` allows this without read
/// permission for the folder.
#[cfg(target_os = "linux")]
const FOLDER_TRAVERSAL_OPEN_FLAGS: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const FOLDER_TRAVERSAL_OPEN_FLAGS: OFlags = OFlags::RDONLY;

/// Error for a path that leads out of the folder; the same error that `openat2` returns.
pub const PATH_ESCAPE_ERROR: Errno = Errno::XDEV;

/// Way to handle parent folders that do not exist while a path is walked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum MissingParentFolderHandling {
    /// A missing folder is an error.
    Refused,
    /// Missing folders are reported as plain names in [`PathWalkResult::names`] and not created. A
    /// dangling symlink is an error, because its target may be created anywhere later.
    Named,
    /// Missing folders are created. A dangling symlink is an error.
    Made,
}

/// Place that a walk along a path reached.
#[derive(Debug)]
pub struct PathWalkResult {
    /// Open folder that contains the last name; if folders are missing, the last folder that
    /// exists.
    pub folder: Dir,
    /// Last component of the path, relative to `folder`; `.` if the path ends at `folder` itself,
    /// for example after `..`.
    pub name: String,
    /// Components of the resolved path, relative to the folder where the walk started; empty if
    /// the path leads to that folder itself.
    pub names: Vec<String>,
    /// Whether the path is valid only for a folder, for example because it ends with `/`.
    pub is_folder_wanted: bool,
}

/// Walks `path` from the folder `start`. If the last name is a symlink, it is followed if `follow`
/// is set or if the path ends with `/`. The last name does not need to exist.
pub fn walk_path_beneath(
    start: &impl AsFd,
    path: &str,
    follow: bool,
    missing: MissingParentFolderHandling,
) -> Result<PathWalkResult, Errno> {
    if path.is_empty() {
        return Err(Errno::NOENT);
    }
    if path.len() > MAX_PATH_BYTES {
        return Err(Errno::NAMETOOLONG);
    }
    let mut walk = PathWalker {
        start: start.as_fd(),
        inside: Vec::new(),
        beyond: Vec::new(),
        ahead: VecDeque::new(),
        is_folder_wanted: false,
        n_links: 0,
        missing,
    };
    walk.prepend_unwalked_names(path, false)?;
    walk.walk_remaining_components(follow)
}

/// Opens a regular file for reading; `None` for any other type of file. Symlinks are followed
/// within the folder.
pub fn open_regular_file(folder: &Dir, path: &Path) -> io::Result<Option<(File, Metadata)>> {
    let mut options = OpenOptions::new();
    // Without this flag, opening a named pipe would block until another process opens it for
    // writing.
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0);
    let file = folder.open_with(path, options.read(true).custom_flags(flags))?;
    let metadata = file.metadata()?;
    Ok(metadata.is_file().then_some((file, metadata)))
}

/// Replaces the file `name` in `folder` atomically. The file gets `permissions`, if set. If `name`
/// is or becomes a symlink, the symlink is replaced and not followed. `id` becomes part of the
/// temporary file's name and must be unique. If `is_kept` is set, the content is synced to disk
/// before the rename, so that a power failure loses neither the old nor the new file.
pub fn replace_file(
    folder: &Dir,
    name: &str,
    content: &[u8],
    permissions: Option<Permissions>,
    is_kept: bool,
    id: &str,
) -> io::Result<()> {
    let temporary = format!(".rind-{id}.tmp");
    let write = || {
        let mut options = OpenOptions::new();
        let mut file = folder.open_with(&temporary, options.write(true).create_new(true))?;
        if let Some(permissions) = permissions {
            // Set before the first byte is written, so that the content of a private file is never
            // readable by others.
            file.set_permissions(permissions)?;
        }
        file.write_all(content)?;
        if is_kept { file.sync_all() } else { Ok(()) }
    };
    write()
        .and_then(|()| folder.rename(&temporary, folder, name))
        .inspect_err(|_| {
            let _ = folder.remove_file(&temporary);
        })
}

/// Returns the current path of an open folder, if the system can report it.
#[cfg(target_os = "linux")]
fn path_of_open_folder(folder: BorrowedFd<'_>) -> Option<PathBuf> {
    let number = std::os::fd::AsRawFd::as_raw_fd(&folder);
    std::fs::read_link(format!("/proc/self/fd/{number}")).ok()
}

#[cfg(target_os = "macos")]
fn path_of_open_folder(folder: BorrowedFd<'_>) -> Option<PathBuf> {
    let path = rustix::fs::getpath(folder).ok()?;
    path.into_string().ok().map(PathBuf::from)
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
fn path_of_open_folder(_: BorrowedFd<'_>) -> Option<PathBuf> {
    None
}

/// A component of the path that was not walked yet. `is_of_link` tells whether it comes from the
/// target of a symlink.
struct UnwalkedPathComponent {
    text: String,
    is_of_link: bool,
}

struct PathWalker<'a> {
    start: BorrowedFd<'a>,
    /// Names and descriptors of the entered folders, outermost first. `..` removes the last entry.
    /// The file system is not asked for the parent, because a folder may have been moved.
    inside: Vec<(String, OwnedFd)>,
    /// Names of the folders on the path that do not exist, below the last folder in `inside`.
    beyond: Vec<String>,
    ahead: VecDeque<UnwalkedPathComponent>,
    is_folder_wanted: bool,
    n_links: usize,
    missing: MissingParentFolderHandling,
}

impl PathWalker<'_> {
    /// Prepends the names of a path or of a symlink's target to the remaining names.
    fn prepend_unwalked_names(&mut self, path: &str, is_of_link: bool) -> Result<(), Errno> {
        if path.starts_with('/') {
            return Err(PATH_ESCAPE_ERROR);
        }
        let is_last = self.ahead.is_empty();
        if is_last && (path.ends_with('/') || path.ends_with("/.")) {
            self.is_folder_wanted = true;
        }
        let names = path.split('/').filter(|name| !matches!(*name, "" | "."));
        for name in names.rev() {
            self.ahead.push_front(UnwalkedPathComponent {
                text: name.to_owned(),
                is_of_link,
            });
        }
        Ok(())
    }

    fn current_folder(&self) -> BorrowedFd<'_> {
        self.inside
            .last()
            .map_or(self.start, |(_, folder)| folder.as_fd())
    }

    fn walk_remaining_components(mut self, follow: bool) -> Result<PathWalkResult, Errno> {
        while let Some(name) = self.ahead.pop_front() {
            if name.text == ".." {
                if !self.beyond.is_empty() {
                    return Err(Errno::NOENT);
                }
                self.inside.pop().ok_or(PATH_ESCAPE_ERROR)?;
            } else if !self.ahead.is_empty() {
                self.enter_path_component(name)?;
            } else if (follow || self.is_folder_wanted) && self.is_symlink(&name.text) {
                self.follow_symlink(&name.text)?;
            } else {
                if self.missing != MissingParentFolderHandling::Refused && name.is_of_link {
                    statat(
                        self.current_folder(),
                        name.text.as_str(),
                        AtFlags::SYMLINK_NOFOLLOW,
                    )?;
                }
                return self.into_walk_result(Some(name.text));
            }
        }
        self.into_walk_result(None)
    }

    fn enter_path_component(&mut self, name: UnwalkedPathComponent) -> Result<(), Errno> {
        if !self.beyond.is_empty() {
            self.beyond.push(name.text);
            return Ok(());
        }
        match self.open_path_component(&name.text) {
            // The error for a symlink differs between systems and flags, so the type is checked as
            // well.
            Err(Errno::NOTDIR | Errno::LOOP | Errno::MLINK) if self.is_symlink(&name.text) => {
                return self.follow_symlink(&name.text);
            }
            Err(Errno::NOENT)
                if !name.is_of_link && self.missing == MissingParentFolderHandling::Named =>
            {
                self.beyond.push(name.text);
                return Ok(());
            }
            Err(Errno::NOENT)
                if !name.is_of_link && self.missing == MissingParentFolderHandling::Made =>
            {
                match mkdirat(
                    self.current_folder(),
                    name.text.as_str(),
                    Mode::from_raw_mode(0o777),
                ) {
                    // Another process may have created the folder meanwhile.
                    Ok(()) | Err(Errno::EXIST) => self.open_path_component(&name.text),
                    Err(errno) => Err(errno),
                }
            }
            opened => opened,
        }
        .map(|folder| self.inside.push((name.text, folder)))
    }

    /// Opens a folder by a single name. Fails if the name is a symlink.
    fn open_path_component(&self, name: &str) -> Result<OwnedFd, Errno> {
        let flags =
            FOLDER_TRAVERSAL_OPEN_FLAGS | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat(self.current_folder(), name, flags, Mode::empty())
    }

    fn is_symlink(&self, name: &str) -> bool {
        self.beyond.is_empty()
            && statat(self.current_folder(), name, AtFlags::SYMLINK_NOFOLLOW)
                .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
    }

    fn follow_symlink(&mut self, name: &str) -> Result<(), Errno> {
        self.n_links += 1;
        if self.n_links > MAX_SYMLINKS_PER_PATH {
            return Err(Errno::LOOP);
        }
        let target = readlinkat(self.current_folder(), name, Vec::new())?;
        let target = target.into_string().map_err(|_| Errno::ILSEQ)?;
        let Some(below) = self.symlink_target_below_start(&target) else {
            return self.prepend_unwalked_names(&target, true);
        };
        // Walk the remaining path from the start folder again, so that it stays within that folder
        // even if another folder was moved meanwhile.
        self.inside.clear();
        self.prepend_unwalked_names(&below, true)
    }

    /// Returns a symlink's target relative to the start folder, if the target is an absolute path
    /// below that folder. The start folder's current path is used for the comparison.
    fn symlink_target_below_start(&self, target: &str) -> Option<String> {
        let absolute = Path::new(target).is_absolute().then(|| Path::new(target))?;
        let start = path_of_open_folder(self.start)?;
        let below = absolute.strip_prefix(start).ok()?.to_str()?;
        let slash = if target.ends_with('/') { "/" } else { "" };
        Some(match below {
            "" => "./".to_owned(),
            below => format!("{below}{slash}"),
        })
    }

    fn into_walk_result(mut self, last: Option<String>) -> Result<PathWalkResult, Errno> {
        let inside = self.inside.iter().map(|(name, _)| name.clone());
        let names = inside.chain(self.beyond).chain(last.clone()).collect();
        let folder = match self.inside.pop() {
            Some((_, folder)) => folder,
            None => rustix::io::fcntl_dupfd_cloexec(self.start, 3)?,
        };
        Ok(PathWalkResult {
            folder: Dir::from_std_file(folder.into()),
            is_folder_wanted: self.is_folder_wanted || last.is_none(),
            name: last.unwrap_or_else(|| ".".to_owned()),
            names,
        })
    }
}
