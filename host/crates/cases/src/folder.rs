//! Directory `tests` of a plugin or a skill: reads, writes and removes files in it.
//!
//! The author of the plugin or skill may have put symlinks into the directory. Therefore every path
//! is opened one name at a time, without following symlinks; only two directories may be symlinks:
//! that of the plugin or skill itself, because people install plugins as symlinks, and `tests`, if
//! the caller of [`TestCaseFolder::open_tests_of_bundle`] allows it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use cap_std::fs::Dir;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, mkdirat, open, openat, statat};
use rustix::io::Errno;

use rind_lib::beneath;
use rind_lib::clock::new_uuid_v7;

/// Name of the directory, in a plugin or skill, with its test cases.
const TESTS_FOLDER: &str = "tests";

/// Maximum size of a fixture file, in bytes.
const MAX_FIXTURE_BYTES: u64 = 64 << 20;

/// Maximum number of files in one directory of test cases, snapshots or fixtures.
const MAX_FILES_PER_FOLDER: usize = 1_000;

/// Open directory with test cases, snapshots or fixtures.
pub(super) struct TestCaseFolder {
    path: PathBuf,
    dir: Dir,
}

impl TestCaseFolder {
    /// Opens the directory `tests` of a plugin or skill; `None` if it does not exist. If `tests` is
    /// a symlink, it is followed only if `may_be_linked` is set.
    ///
    /// # Errors
    /// The directory cannot be opened, or is a symlink that must not be followed.
    pub(super) fn open_tests_of_bundle(
        bundle: &Path,
        may_be_linked: bool,
    ) -> io::Result<Option<Self>> {
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
        let (path, name) = (bundle.to_owned(), OsStr::new(TESTS_FOLDER));
        let bundle = Self { path, dir };
        if may_be_linked && bundle.read_file_type(name)? == Some(FileType::Symlink) {
            let dir = openat(&bundle.dir, name, flags, Mode::empty())?;
            return Ok(Some(Self {
                path: bundle.path.join(name),
                dir: Dir::from_std_file(dir.into()),
            }));
        }
        bundle.open_subfolder(name, false)
    }

    /// Opens a subdirectory. A missing subdirectory is created if `is_made` is set; otherwise the
    /// result is `None`.
    ///
    /// # Errors
    /// The directory cannot be opened or created, or is a symlink.
    pub(super) fn open_subfolder(&self, name: &OsStr, is_made: bool) -> io::Result<Option<Self>> {
        if is_made {
            match mkdirat(&self.dir, name, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        match self.read_file_type(name)? {
            None => return Ok(None),
            Some(FileType::Directory) => {}
            Some(kind) => return Err(self.wrong_file_type_error(name, kind, "folder")),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = openat(&self.dir, name, flags, Mode::empty())?;
        Ok(Some(Self {
            path: self.path.join(name),
            dir: Dir::from_std_file(dir.into()),
        }))
    }

    /// Returns the names of the files that end with `.toml`, sorted.
    ///
    /// # Errors
    /// The directory cannot be read, or has too many files.
    pub(super) fn list_toml_file_names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in self.dir.entries()? {
            let name = entry?.file_name();
            if Path::new(&name).extension().is_none_or(|end| end != "toml") {
                continue;
            }
            names.push(name);
            if names.len() > MAX_FILES_PER_FOLDER {
                return Err(io::Error::other(format!(
                    "it has more than {MAX_FILES_PER_FOLDER} files whose names end in .toml"
                )));
            }
        }
        names.sort();
        Ok(names)
    }

    /// Reads a text file of at most `max_bytes`; `None` if it does not exist.
    ///
    /// # Errors
    /// The file is not a regular file, is larger, is not UTF-8, or cannot be read.
    pub(super) fn read_text(&self, name: &OsStr, max_bytes: u64) -> io::Result<Option<String>> {
        let Some(bytes) = self.read_bytes(name, max_bytes)? else {
            return Ok(None);
        };
        let text = String::from_utf8(bytes);
        text.map(Some)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.utf8_error()))
    }

    /// Reads a file of at most `max_bytes`, whose content need not be text; `None` if it does not
    /// exist.
    ///
    /// # Errors
    /// The file is not a regular file, is larger, or cannot be read.
    fn read_bytes(&self, name: &OsStr, max_bytes: u64) -> io::Result<Option<Vec<u8>>> {
        // Check the type before opening: opening a device or a pipe may have side effects.
        match self.read_file_type(name)? {
            None => return Ok(None),
            Some(FileType::RegularFile) => {}
            Some(kind) => return Err(self.wrong_file_type_error(name, kind, "file")),
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(&self.dir, name, flags, Mode::empty())?;
        // Check the type again on the open descriptor, because the file may have been replaced
        // after the first check.
        let kind = FileType::from_raw_mode(fstat(&file)?.st_mode);
        if kind != FileType::RegularFile {
            return Err(self.wrong_file_type_error(name, kind, "file"));
        }
        let mut bytes = Vec::new();
        let n_read = File::from(file)
            .take(max_bytes.saturating_add(1))
            .read_to_end(&mut bytes)?;
        if n_read as u64 > max_bytes {
            return Err(io::Error::other(format!(
                "it has more than {} MiB",
                max_bytes >> 20
            )));
        }
        Ok(Some(bytes))
    }

    /// Reads a fixture file from the directory or a subdirectory. `path` must be relative and
    /// without `..`.
    ///
    /// # Errors
    /// The path leads out of the directory or through a symlink, or its file cannot be read.
    pub(super) fn read_fixture(&self, path: &str) -> io::Result<Vec<u8>> {
        let mut names: Vec<&OsStr> = Vec::new();
        for part in Path::new(path).components() {
            let Component::Normal(name) = part else {
                return Err(io::Error::other("it is not a path inside `tests`"));
            };
            names.push(name);
        }
        let missing = || io::Error::from(io::ErrorKind::NotFound);
        let file = names.pop().ok_or_else(missing)?;
        let mut folder: Option<Self> = None;
        for name in names {
            let above = folder.as_ref().unwrap_or(self);
            folder = Some(above.open_subfolder(name, false)?.ok_or_else(missing)?);
        }
        let folder = folder.as_ref().unwrap_or(self);
        folder
            .read_bytes(file, MAX_FIXTURE_BYTES)?
            .ok_or_else(missing)
    }

    /// Writes a file atomically. Replaces an existing regular file.
    ///
    /// # Errors
    /// The name belongs to something other than a regular file, or the file cannot be written.
    pub(super) fn write_text(&self, name: &str, text: &str) -> io::Result<()> {
        match self.read_file_type(OsStr::new(name))? {
            None | Some(FileType::RegularFile) => {}
            Some(kind) => return Err(self.wrong_file_type_error(OsStr::new(name), kind, "file")),
        }
        beneath::replace_file(
            &self.dir,
            name,
            text.as_bytes(),
            None,
            false,
            &new_uuid_v7(),
        )
    }

    /// Removes a file. If it is a symlink, the symlink is removed and not its target.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub(super) fn remove_file(&self, name: &OsStr) -> io::Result<()> {
        self.dir.remove_file(name)
    }

    /// Returns the full path of a name in the directory.
    pub(super) fn file_path(&self, name: &OsStr) -> PathBuf {
        self.path.join(name)
    }

    fn read_file_type(&self, name: &OsStr) -> io::Result<Option<FileType>> {
        match statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => Ok(Some(FileType::from_raw_mode(found.st_mode))),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    fn wrong_file_type_error(&self, name: &OsStr, kind: FileType, wanted: &str) -> io::Error {
        let path = self.file_path(name);
        let fault = match kind {
            FileType::Symlink => "is a symlink, and symlinks are not followed here".to_owned(),
            _ => format!("is not a {wanted}"),
        };
        io::Error::other(format!(
            "{} {fault}; replace it with a {wanted}",
            path.display()
        ))
    }
}
