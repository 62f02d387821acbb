//! Walks a path to the folder that holds its last name, without ever leaving the folder where the walk began.
//!
//! Every step opens one name without following links, from the folder that the step before opened; links are read and
//! walked like the rest of the path. So what comes out is where a path really leads: no link is left in it that could be
//! swapped between a check and its use. The system's own `openat2` resolves beneath a folder too, but does not tell where it
//! came out, and that is what decides who may write there. Start from [`walk`].

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, openat, readlinkat, statat};
use rustix::io::Errno;

use super::FolderError;

/// Links on one path; as many as Linux follows.
const MAX_LINKS: usize = 40;

/// Longest path, in bytes: `PATH_MAX` of Linux.
const MAX_PATH_BYTES: usize = 4096;

/// Flags for opening a folder to go through it: without asking to read it, where the system can do that.
#[cfg(target_os = "linux")]
const THROUGH: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const THROUGH: OFlags = OFlags::RDONLY;

/// End of a walk along a path.
#[derive(Debug)]
pub(super) struct Walked {
    /// The folder that the last name is in.
    pub(super) folder: OwnedFd,
    /// The last name; `.` when the path led to the folder itself.
    pub(super) name: String,
    /// Names from where the walk began; empty when it led there.
    pub(super) names: Vec<String>,
    /// Whether the path ended with `/`, so that only a folder may be there.
    pub(super) is_folder_wanted: bool,
}

/// Walks `path` from `start`. A link at the end is followed if `follow`, or if a `/` stands behind it. The last name need not
/// be there.
pub(super) fn walk(start: BorrowedFd<'_>, path: &str, follow: bool) -> Result<Walked, FolderError> {
    check(path)?;
    let mut walk = Walk {
        start,
        inside: Vec::new(),
        ahead: VecDeque::new(),
        is_folder_wanted: false,
        n_links: 0,
    };
    walk.put_ahead(path)?;
    walk.run(follow)
}

/// Opens a folder by one name, never through a link.
pub(super) fn open_folder(at: BorrowedFd<'_>, name: &str) -> Result<OwnedFd, Errno> {
    let flags = THROUGH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(at, name, flags, Mode::empty())
}

fn check(path: &str) -> Result<(), FolderError> {
    if path.is_empty() {
        return Err(Errno::NOENT.into());
    }
    if path.len() > MAX_PATH_BYTES {
        return Err(Errno::NAMETOOLONG.into());
    }
    if path.contains('\0') {
        return Err(FolderError::Invalid("a path cannot contain NUL"));
    }
    Ok(())
}

struct Walk<'a> {
    start: BorrowedFd<'a>,
    /// Folders that were gone into, outermost first; `..` comes back out of the last one and never asks the disk for it.
    inside: Vec<(String, OwnedFd)>,
    /// Names that are left to walk.
    ahead: VecDeque<String>,
    is_folder_wanted: bool,
    n_links: usize,
}

impl Walk<'_> {
    /// Puts the names of a path, or of a link's target, before what is left.
    fn put_ahead(&mut self, path: &str) -> Result<(), FolderError> {
        if path.starts_with('/') {
            return Err(FolderError::Escape);
        }
        let is_last = self.ahead.is_empty();
        if is_last && (path.ends_with('/') || path.ends_with("/.")) {
            self.is_folder_wanted = true;
        }
        let names = path.split('/').filter(|name| !matches!(*name, "" | "."));
        for name in names.rev() {
            self.ahead.push_front(name.to_owned());
        }
        Ok(())
    }

    fn here(&self) -> BorrowedFd<'_> {
        self.inside
            .last()
            .map_or(self.start, |(_, folder)| folder.as_fd())
    }

    fn run(mut self, follow: bool) -> Result<Walked, FolderError> {
        while let Some(name) = self.ahead.pop_front() {
            if name == ".." {
                self.inside.pop().ok_or(FolderError::Escape)?;
                continue;
            }
            let is_last = self.ahead.is_empty();
            if !is_last {
                self.enter(name)?;
                continue;
            }
            if (follow || self.is_folder_wanted) && self.is_link(&name) {
                self.follow(&name)?;
                continue;
            }
            return self.arrived(Some(name));
        }
        self.arrived(None)
    }

    fn enter(&mut self, name: String) -> Result<(), FolderError> {
        match open_folder(self.here(), &name) {
            Ok(folder) => {
                self.inside.push((name, folder));
                Ok(())
            }
            // What a link is reported as differs between systems and flags.
            Err(Errno::NOTDIR | Errno::LOOP | Errno::MLINK) if self.is_link(&name) => {
                self.follow(&name)
            }
            Err(errno) => Err(errno.into()),
        }
    }

    fn is_link(&self, name: &str) -> bool {
        statat(self.here(), name, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
    }

    fn follow(&mut self, name: &str) -> Result<(), FolderError> {
        self.n_links += 1;
        if self.n_links > MAX_LINKS {
            return Err(FolderError::Loop);
        }
        let target = readlinkat(self.here(), name, Vec::new())?;
        let target = target.into_string().map_err(|_| Errno::ILSEQ)?;
        self.put_ahead(&target)
    }

    fn arrived(mut self, last: Option<String>) -> Result<Walked, FolderError> {
        let mut names: Vec<String> = self.inside.iter().map(|(name, _)| name.clone()).collect();
        let folder = match self.inside.pop() {
            Some((_, folder)) => folder,
            None => self.start.try_clone_to_owned().map_err(FolderError::Io)?,
        };
        names.extend(last.clone());
        Ok(Walked {
            folder,
            is_folder_wanted: self.is_folder_wanted || last.is_none(),
            name: last.unwrap_or_else(|| ".".to_owned()),
            names,
        })
    }
}
