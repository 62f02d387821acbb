//! The folder `tests` of a plugin or a skill: its files are read, written and removed where they lie.
//!
//! Whoever wrote a bundle may have put links into it. What is named here is therefore opened one name at a time, and never through
//! a link; the folder of the bundle itself may be one, because people install bundles so.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use cap_std::fs::Dir;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, mkdirat, open, openat, statat};
use rustix::io::Errno;

use crate::beneath;
use crate::clock::new_id;

/// Name of the folder.
const TESTS: &str = "tests";

/// Most files of one folder.
const MAX_FILES: usize = 1_000;

/// An open folder of cases or snapshots.
pub(super) struct TestFolder {
    path: PathBuf,
    dir: Dir,
}

impl TestFolder {
    /// Opens the folder `tests` of a bundle; `None` when there is none. `may_be_linked`: a link in its place is followed.
    ///
    /// # Errors
    /// It cannot be opened, or is a link that is not followed.
    pub(super) fn open(bundle: &Path, may_be_linked: bool) -> io::Result<Option<Self>> {
        let named = match bundle.as_os_str().is_empty() {
            true => Path::new("."),
            false => bundle,
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = match open(named, flags, Mode::empty()) {
            Ok(dir) => Dir::from_std_file(dir.into()),
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        };
        let (path, name) = (bundle.to_owned(), OsStr::new(TESTS));
        let bundle = Self { path, dir };
        if may_be_linked && bundle.kind(name)? == Some(FileType::Symlink) {
            let dir = openat(&bundle.dir, name, flags, Mode::empty())?;
            return Ok(Some(Self {
                path: bundle.path.join(name),
                dir: Dir::from_std_file(dir.into()),
            }));
        }
        bundle.folder(name, false)
    }

    /// Opens a folder in this one, which is made if `is_made` and it is not there.
    ///
    /// # Errors
    /// It cannot be opened or made, or is a link.
    pub(super) fn folder(&self, name: &OsStr, is_made: bool) -> io::Result<Option<Self>> {
        if is_made {
            match mkdirat(&self.dir, name, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        match self.kind(name)? {
            None => return Ok(None),
            Some(FileType::Directory) => {}
            Some(kind) => return Err(self.other_kind(name, kind, "folder")),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = openat(&self.dir, name, flags, Mode::empty())?;
        Ok(Some(Self {
            path: self.path.join(name),
            dir: Dir::from_std_file(dir.into()),
        }))
    }

    /// Names of what is in it and ends with `.toml`, sorted.
    ///
    /// # Errors
    /// It cannot be read, or there is too much in it.
    pub(super) fn names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in self.dir.entries()? {
            let name = entry?.file_name();
            if Path::new(&name).extension().is_none_or(|end| end != "toml") {
                continue;
            }
            names.push(name);
            if names.len() > MAX_FILES {
                return Err(io::Error::other(format!(
                    "it has more than {MAX_FILES} files"
                )));
            }
        }
        names.sort();
        Ok(names)
    }

    /// Reads a file of at most so many bytes; `None` when there is none.
    ///
    /// # Errors
    /// It is no plain file, has more bytes, is not UTF-8, or cannot be read.
    pub(super) fn read(&self, name: &OsStr, max_bytes: u64) -> io::Result<Option<String>> {
        // Before it is opened: opening a device or a pipe may do something.
        match self.kind(name)? {
            None => return Ok(None),
            Some(FileType::RegularFile) => {}
            Some(kind) => return Err(self.other_kind(name, kind, "file")),
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(&self.dir, name, flags, Mode::empty())?;
        // Of what was opened: something else may have taken its place.
        let kind = FileType::from_raw_mode(fstat(&file)?.st_mode);
        if kind != FileType::RegularFile {
            return Err(self.other_kind(name, kind, "file"));
        }
        let mut text = String::new();
        let n_read = File::from(file)
            .take(max_bytes.saturating_add(1))
            .read_to_string(&mut text)?;
        if n_read as u64 > max_bytes {
            return Err(io::Error::other(format!(
                "it has more than {} MiB",
                max_bytes >> 20
            )));
        }
        Ok(Some(text))
    }

    /// Puts a whole file in place of the plain one of this name, or of none.
    ///
    /// # Errors
    /// Something else has the name, or the file cannot be written.
    pub(super) fn write(&self, name: &str, text: &str) -> io::Result<()> {
        match self.kind(OsStr::new(name))? {
            None | Some(FileType::RegularFile) => {}
            Some(kind) => return Err(self.other_kind(OsStr::new(name), kind, "file")),
        }
        beneath::replace(&self.dir, name, text.as_bytes(), None, false, &new_id())
    }

    /// Removes a file, or a link and not what it leads to.
    ///
    /// # Errors
    /// It cannot be removed.
    pub(super) fn remove(&self, name: &OsStr) -> io::Result<()> {
        self.dir.remove_file(name)
    }

    /// Whole path of something in it.
    pub(super) fn path(&self, name: &OsStr) -> PathBuf {
        self.path.join(name)
    }

    fn kind(&self, name: &OsStr) -> io::Result<Option<FileType>> {
        match statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => Ok(Some(FileType::from_raw_mode(found.st_mode))),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    fn other_kind(&self, name: &OsStr, kind: FileType, wanted: &str) -> io::Error {
        let path = self.path(name);
        let is = match kind {
            FileType::Symlink => "is a link, and none is followed here".to_owned(),
            _ => format!("is no {wanted}"),
        };
        io::Error::other(format!(
            "{} {is}: put a {wanted} in its place",
            path.display()
        ))
    }
}
