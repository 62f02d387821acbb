//! Resolves paths beneath a folder, for tools and plugins alike: nothing that is named here lies outside of it.
//!
//! Every step of a [`walk`] opens one name without following links, from the folder that the step before opened; links are
//! read and walked like the rest of the path. So what comes out is where a path really leads: no link is left in it that could
//! be swapped between a check and its use. The system's own `openat2` resolves beneath a folder too, but does not tell where it
//! came out, and that is what decides who may write there. Everything here blocks.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use cap_std::fs::{Dir, File, Metadata, OpenOptions, OpenOptionsExt, Permissions};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, mkdirat, openat, readlinkat, statat};
use rustix::io::Errno;

/// Links on one path; as many as Linux follows.
const MAX_LINKS: usize = 40;

/// Longest path, in bytes: `PATH_MAX` of Linux.
const MAX_PATH_BYTES: usize = 4096;

/// Flags for opening a folder to go through it: without asking to read it, where the system can do that.
#[cfg(target_os = "linux")]
const THROUGH: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const THROUGH: OFlags = OFlags::RDONLY;

/// Error of a path that leads out of the folder, as the system's own resolution says it.
pub(crate) const ESCAPE: Errno = Errno::XDEV;

/// Treatment of folders on the way that are not there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    Refused,
    /// Names them, as plain names. A link that leads nowhere yet may lead anywhere later: it is an error.
    Named,
    /// Makes them; a link that leads nowhere is an error.
    Made,
}

/// End of a walk along a path.
#[derive(Debug)]
pub(crate) struct Walked {
    /// The folder that the last name is in; of a path with missing folders the last that is there.
    pub(crate) folder: Dir,
    /// The last name; `.` when the path led to the folder itself.
    pub(crate) name: String,
    /// Names from where the walk began; empty when it led there.
    pub(crate) names: Vec<String>,
    /// Whether the path ended with `/`, so that only a folder may be there.
    pub(crate) is_folder_wanted: bool,
}

/// Walks `path` from `start`. A link at the end is followed if `follow`, or if a `/` stands behind it. The last name need not
/// be there.
pub(crate) fn walk(
    start: &impl AsFd,
    path: &str,
    follow: bool,
    missing: Missing,
) -> Result<Walked, Errno> {
    if path.is_empty() {
        return Err(Errno::NOENT);
    }
    if path.len() > MAX_PATH_BYTES {
        return Err(Errno::NAMETOOLONG);
    }
    let mut walk = Walk {
        start: start.as_fd(),
        inside: Vec::new(),
        beyond: Vec::new(),
        ahead: VecDeque::new(),
        is_folder_wanted: false,
        n_links: 0,
        missing,
    };
    walk.put_ahead(path, false)?;
    walk.run(follow)
}

/// Opens a regular file for reading; `None` for anything else. A link is followed within the folder.
pub(crate) fn open_regular(folder: &Dir, path: &Path) -> io::Result<Option<(File, Metadata)>> {
    let mut options = OpenOptions::new();
    // Opening a pipe that nobody writes to would wait for ever.
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0);
    let file = folder.open_with(path, options.read(true).custom_flags(flags))?;
    let metadata = file.metadata()?;
    Ok(metadata.is_file().then_some((file, metadata)))
}

/// Puts a whole file in place of `name` in one step, with these permissions. The rename takes the place of a link that was
/// swapped in meanwhile; it does not follow it. `id` is one of a kind. `is_kept`: it is on the disk before that, so that a power cut loses neither.
pub(crate) fn replace(
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
            // Before the first byte, so that a private file's content is never readable by others.
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

/// The path of an open folder, where the system tells it.
#[cfg(target_os = "linux")]
fn path_of(folder: BorrowedFd<'_>) -> Option<PathBuf> {
    let number = std::os::fd::AsRawFd::as_raw_fd(&folder);
    std::fs::read_link(format!("/proc/self/fd/{number}")).ok()
}

#[cfg(target_os = "macos")]
fn path_of(folder: BorrowedFd<'_>) -> Option<PathBuf> {
    let path = rustix::fs::getpath(folder).ok()?;
    path.into_string().ok().map(PathBuf::from)
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
fn path_of(_: BorrowedFd<'_>) -> Option<PathBuf> {
    None
}

/// A name that is left to walk.
struct Name {
    text: String,
    is_of_link: bool,
}

struct Walk<'a> {
    start: BorrowedFd<'a>,
    /// Folders that were gone into, outermost first; `..` comes back out of the last one and never asks the disk for it.
    inside: Vec<(String, OwnedFd)>,
    /// Missing folders after them.
    beyond: Vec<String>,
    ahead: VecDeque<Name>,
    is_folder_wanted: bool,
    n_links: usize,
    missing: Missing,
}

impl Walk<'_> {
    /// Puts the names of a path, or of a link's target, before what is left.
    fn put_ahead(&mut self, path: &str, is_of_link: bool) -> Result<(), Errno> {
        if path.starts_with('/') {
            return Err(ESCAPE);
        }
        let is_last = self.ahead.is_empty();
        if is_last && (path.ends_with('/') || path.ends_with("/.")) {
            self.is_folder_wanted = true;
        }
        let names = path.split('/').filter(|name| !matches!(*name, "" | "."));
        for name in names.rev() {
            self.ahead.push_front(Name {
                text: name.to_owned(),
                is_of_link,
            });
        }
        Ok(())
    }

    fn here(&self) -> BorrowedFd<'_> {
        self.inside
            .last()
            .map_or(self.start, |(_, folder)| folder.as_fd())
    }

    fn run(mut self, follow: bool) -> Result<Walked, Errno> {
        while let Some(name) = self.ahead.pop_front() {
            if name.text == ".." {
                if !self.beyond.is_empty() {
                    return Err(Errno::NOENT);
                }
                self.inside.pop().ok_or(ESCAPE)?;
            } else if !self.ahead.is_empty() {
                self.enter(name)?;
            } else if (follow || self.is_folder_wanted) && self.is_link(&name.text) {
                self.follow(&name.text)?;
            } else {
                if self.missing != Missing::Refused && name.is_of_link {
                    statat(self.here(), name.text.as_str(), AtFlags::SYMLINK_NOFOLLOW)?;
                }
                return self.arrived(Some(name.text));
            }
        }
        self.arrived(None)
    }

    fn enter(&mut self, name: Name) -> Result<(), Errno> {
        if !self.beyond.is_empty() {
            self.beyond.push(name.text);
            return Ok(());
        }
        match self.open(&name.text) {
            // What a link is reported as differs between systems and flags.
            Err(Errno::NOTDIR | Errno::LOOP | Errno::MLINK) if self.is_link(&name.text) => {
                return self.follow(&name.text);
            }
            Err(Errno::NOENT) if !name.is_of_link && self.missing == Missing::Named => {
                self.beyond.push(name.text);
                return Ok(());
            }
            Err(Errno::NOENT) if !name.is_of_link && self.missing == Missing::Made => {
                match mkdirat(self.here(), name.text.as_str(), Mode::from_raw_mode(0o777)) {
                    // Somebody else may have made it meanwhile.
                    Ok(()) | Err(Errno::EXIST) => self.open(&name.text),
                    Err(errno) => Err(errno),
                }
            }
            opened => opened,
        }
        .map(|folder| self.inside.push((name.text, folder)))
    }

    /// Opens a folder by one name, never through a link.
    fn open(&self, name: &str) -> Result<OwnedFd, Errno> {
        let flags = THROUGH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat(self.here(), name, flags, Mode::empty())
    }

    fn is_link(&self, name: &str) -> bool {
        self.beyond.is_empty()
            && statat(self.here(), name, AtFlags::SYMLINK_NOFOLLOW)
                .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
    }

    fn follow(&mut self, name: &str) -> Result<(), Errno> {
        self.n_links += 1;
        if self.n_links > MAX_LINKS {
            return Err(Errno::LOOP);
        }
        let target = readlinkat(self.here(), name, Vec::new())?;
        let target = target.into_string().map_err(|_| Errno::ILSEQ)?;
        let Some(below) = self.below_start(&target) else {
            return self.put_ahead(&target, true);
        };
        // The rest is walked from where the walk began, so it leads nowhere else even if that folder was moved meanwhile.
        self.inside.clear();
        self.put_ahead(&below, true)
    }

    /// The rest of an absolute target that lies within the folder where the walk began, as its path is now.
    fn below_start(&self, target: &str) -> Option<String> {
        let absolute = Path::new(target).is_absolute().then(|| Path::new(target))?;
        let start = path_of(self.start)?;
        let below = absolute.strip_prefix(start).ok()?.to_str()?;
        let slash = if target.ends_with('/') { "/" } else { "" };
        Some(match below {
            "" => "./".to_owned(),
            below => format!("{below}{slash}"),
        })
    }

    fn arrived(mut self, last: Option<String>) -> Result<Walked, Errno> {
        let inside = self.inside.iter().map(|(name, _)| name.clone());
        let names = inside.chain(self.beyond).chain(last.clone()).collect();
        let folder = match self.inside.pop() {
            Some((_, folder)) => folder,
            None => rustix::io::fcntl_dupfd_cloexec(self.start, 3)?,
        };
        Ok(Walked {
            folder: Dir::from_std_file(folder.into()),
            is_folder_wanted: self.is_folder_wanted || last.is_none(),
            name: last.unwrap_or_else(|| ".".to_owned()),
            names,
        })
    }
}
