//! Reads the relevant source files of packages, with limits on number and size. Paths outside the
//! package's directory are refused.

mod package;
mod wit;

use std::io::{self, Read};
use std::path::Path;

use cap_std::ambient_authority;
use cap_std::fs::Dir;

pub use package::read_crate;
use rind_lib::beneath::open_regular_file;
pub use wit::{contains_wit_files, read_wit_package};

/// Maximum size of a source file that is read, in bytes.
const MAX_SOURCE_FILE_BYTES: u64 = 2 << 20;

/// Maximum total size of the source files of a package, in bytes.
const MAX_PACKAGE_BYTES: usize = 16 << 20;

/// Maximum number of source files per package.
const MAX_FILES_PER_PACKAGE: usize = 4_000;

/// Maximum depth of the directories that are searched for source files.
const MAX_SOURCE_FOLDER_DEPTH: usize = 16;

/// File name of the manifest of a Rust crate.
pub const CARGO_MANIFEST_FILE_NAME: &str = "Cargo.toml";

/// File name of the README of a package.
const README_FILE_NAME: &str = "README.md";

/// Error while reading the sources of a package: the path and the reason.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {why}")]
pub struct PackageSourceReadError {
    path: String,
    why: String,
}

fn package_source_error(path: impl Into<String>, why: impl Into<String>) -> PackageSourceReadError {
    PackageSourceReadError {
        path: path.into(),
        why: why.into(),
    }
}

/// Directory of a package, with the number and total size of the files read from it so far.
struct PackageSourceFolder {
    dir: Dir,
    n_files: usize,
    n_bytes: usize,
}

impl PackageSourceFolder {
    fn open_folder(path: &Path) -> Result<Self, PackageSourceReadError> {
        let dir = Dir::open_ambient_dir(path, ambient_authority());
        let dir = dir
            .map_err(|error| package_source_error(path.display().to_string(), error.to_string()))?;
        Ok(Self {
            dir,
            n_files: 0,
            n_bytes: 0,
        })
    }

    /// Reads a text file. Refuses a path outside the directory, also through a symlink.
    fn read_text(&mut self, path: &str) -> Result<String, PackageSourceReadError> {
        let bytes = self.read_bytes(path)?;
        String::from_utf8(bytes).map_err(|_| package_source_error(path, "it is not UTF-8"))
    }

    fn read_bytes(&mut self, path: &str) -> Result<Vec<u8>, PackageSourceReadError> {
        self.n_files += 1;
        if self.n_files > MAX_FILES_PER_PACKAGE {
            return Err(package_source_error(
                path,
                format!("the package has more than {MAX_FILES_PER_PACKAGE} files"),
            ));
        }
        let found = open_regular_file(&self.dir, Path::new(path)).map_err(|error| {
            let why = match error.kind() {
                io::ErrorKind::PermissionDenied => {
                    "it cannot be read, or leads out of the package".to_owned()
                }
                _ => error.to_string(),
            };
            package_source_error(path, why)
        })?;
        let (file, _) =
            found.ok_or_else(|| package_source_error(path, "it is not a regular file"))?;
        let mut bytes = Vec::new();
        let read = file.take(MAX_SOURCE_FILE_BYTES + 1).read_to_end(&mut bytes);
        read.map_err(|error| package_source_error(path, error.to_string()))?;
        if bytes.len() as u64 > MAX_SOURCE_FILE_BYTES {
            return Err(package_source_error(
                path,
                format!("it has more than {} MiB", MAX_SOURCE_FILE_BYTES >> 20),
            ));
        }
        self.n_bytes += bytes.len();
        if self.n_bytes > MAX_PACKAGE_BYTES {
            return Err(package_source_error(
                path,
                format!("the package has more than {} MiB", MAX_PACKAGE_BYTES >> 20),
            ));
        }
        Ok(bytes)
    }

    /// Reads a text file; `None` if it is missing or outside the directory.
    fn read_text_if_present(&mut self, path: &str) -> Option<String> {
        self.dir.symlink_metadata(path).ok()?;
        self.read_text(path).ok()
    }

    fn is_file(&self, path: &str) -> bool {
        self.dir.metadata(path).is_ok_and(|found| found.is_file())
    }

    fn is_folder(&self, path: &str) -> bool {
        self.dir.metadata(path).is_ok_and(|found| found.is_dir())
    }

    /// Returns the sorted names of a directory's entries, each with `true` if the entry is a
    /// directory. A symlink to a directory does not count as a directory.
    fn list_entries(&self, path: &str) -> Result<Vec<(String, bool)>, PackageSourceReadError> {
        let shown = if path.is_empty() { "." } else { path };
        let failed = |error: io::Error| package_source_error(shown, error.to_string());
        let mut names = Vec::new();
        for entry in self.dir.read_dir(shown).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let is_folder = entry.file_type().map_err(failed)?.is_dir();
            if let Ok(name) = entry.file_name().into_string() {
                names.push((name, is_folder));
            }
            if names.len() > MAX_FILES_PER_PACKAGE {
                return Err(package_source_error(
                    shown,
                    format!("the folder has more than {MAX_FILES_PER_PACKAGE} entries"),
                ));
            }
        }
        names.sort();
        Ok(names)
    }
}
