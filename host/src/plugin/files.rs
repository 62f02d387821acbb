//! Reads files of plugins: from memory if the path is inside the directory of an
//! [`InMemoryFolder`], otherwise from disk.
//!
//! Discovery, grant questions and loading all read through this module, so that all three see the
//! same content. Start from [`read_plugin_file`].

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::disk::is_dangling_symlink;
use crate::grant::held::InMemoryFolder;

/// Whether there is a regular file at the path: in `held` if that folder contains the path,
/// otherwise on disk.
pub(super) fn is_regular_file(path: &Path, held: Option<&InMemoryFolder>) -> bool {
    match enclosing_in_memory_folder(path, held) {
        Some(held) => held.file_content(path).is_some(),
        None => path.is_file(),
    }
}

/// Reads at most `limit + 1` bytes of a file; the extra byte shows that the file is larger than
/// `limit`. The size in the metadata is not used as the limit, because the file may grow before it
/// is read.
pub(super) fn read_plugin_file(
    path: &Path,
    held: Option<&InMemoryFolder>,
    limit: u64,
) -> io::Result<Vec<u8>> {
    let file: Box<dyn Read> = match enclosing_in_memory_folder(path, held) {
        Some(held) => Box::new(held.file_content(path).ok_or(io::ErrorKind::NotFound)?),
        None => Box::new(std::fs::File::open(path)?),
    };
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

pub(super) fn list_subfolders(path: &Path, held: Option<&InMemoryFolder>) -> Vec<PathBuf> {
    match enclosing_in_memory_folder(path, held) {
        Some(held) => held.subfolders_in(path),
        None => {
            let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
            entries.map(|entry| entry.path()).collect()
        }
    }
}

/// Returns the error for a directory that exists but cannot be read; `None` if the directory is
/// readable or missing.
pub(super) fn find_folder_read_error(
    path: &Path,
    held: Option<&InMemoryFolder>,
) -> Option<io::Error> {
    if let Some(held) = enclosing_in_memory_folder(path, held) {
        return held
            .file_content(path)
            .map(|_| io::ErrorKind::NotADirectory.into());
    }
    let error = std::fs::read_dir(path).err()?;
    // A symlink without a target counts as an existing directory that cannot be read.
    let is_missing = error.kind() == io::ErrorKind::NotFound && path.symlink_metadata().is_err();
    (!is_missing).then_some(error)
}

/// Returns the sorted names of the symlinks directly in a directory whose targets are missing. A
/// directory in memory has no symlinks.
pub(super) fn list_dangling_symlinks(path: &Path, held: Option<&InMemoryFolder>) -> Vec<String> {
    if enclosing_in_memory_folder(path, held).is_some() {
        return Vec::new();
    }
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let dangling = entries.filter(|entry| is_dangling_symlink(&entry.path()));
    let mut names: Vec<String> = dangling
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Returns the sorted names of the regular files directly in a directory.
pub(super) fn list_regular_file_names(path: &Path, held: Option<&InMemoryFolder>) -> Vec<String> {
    let mut names = match enclosing_in_memory_folder(path, held) {
        Some(held) => held.file_names_in(path),
        None => {
            let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
            let files = entries.filter(|entry| entry.path().is_file());
            files
                .map(|entry| entry.file_name().to_string_lossy().into_owned())
                .collect()
        }
    };
    names.sort();
    names
}

fn enclosing_in_memory_folder<'a>(
    path: &Path,
    held: Option<&'a InMemoryFolder>,
) -> Option<&'a InMemoryFolder> {
    held.filter(|held| held.is_path_inside(path))
}
