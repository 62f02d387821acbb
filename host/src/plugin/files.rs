//! The files of plugins: from memory where their folder is held, from the disk elsewhere.
//!
//! Discovery, questions and loading all read through here, so that what one of them saw is what the others get. Start from
//! [`read`].

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::grant::held::HeldFolder;

/// Whether there is a regular file.
pub(super) fn is_there(path: &Path, held: Option<&HeldFolder>) -> bool {
    match covering(path, held) {
        Some(held) => held.file(path).is_some(),
        None => path.is_file(),
    }
}

/// Reads at most `limit` bytes of a file and one more, which shows that it is larger. The size is not asked for first: a file
/// may grow between the question and the reading.
pub(super) fn read(path: &Path, held: Option<&HeldFolder>, limit: u64) -> io::Result<Vec<u8>> {
    let file: Box<dyn Read> = match covering(path, held) {
        Some(held) => Box::new(held.file(path).ok_or(io::ErrorKind::NotFound)?),
        None => Box::new(std::fs::File::open(path)?),
    };
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

pub(super) fn folders_in(path: &Path, held: Option<&HeldFolder>) -> Vec<PathBuf> {
    match covering(path, held) {
        Some(held) => held.folders_in(path),
        None => {
            let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
            entries.map(|entry| entry.path()).collect()
        }
    }
}

/// Returns the error for a folder that is there and cannot be read. One that is not there is none.
pub(super) fn unreadable(path: &Path, held: Option<&HeldFolder>) -> Option<io::Error> {
    if covering(path, held).is_some() {
        return None;
    }
    let error = std::fs::read_dir(path).err()?;
    // A link that leads nowhere is there.
    let is_missing = error.kind() == io::ErrorKind::NotFound && path.symlink_metadata().is_err();
    (!is_missing).then_some(error)
}

/// Names of the regular files that are directly in a folder, in order.
pub(super) fn file_names_in(path: &Path, held: Option<&HeldFolder>) -> Vec<String> {
    let mut names = match covering(path, held) {
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

fn covering<'a>(path: &Path, held: Option<&'a HeldFolder>) -> Option<&'a HeldFolder> {
    held.filter(|held| held.covers(path))
}
