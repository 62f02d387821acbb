//! Pins files of a script to the content that a person allowed.
//!
//! A project's hooks run programs in the workspace, where the agent can change them. This module
//! must not know who allowed a script, nor where the answer is stored. Start from
//! [`DigestPinnedFile`].

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Maximum size of a pinned file, in bytes. Scripts usually have a few kilobytes.
const MAX_PINNED_FILE_BYTES: u64 = 16 << 20;

/// Path of a file, and the digest of the content that the file must still have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DigestPinnedFile {
    path: PathBuf,
    digest: String,
}

impl DigestPinnedFile {
    /// Pins a file to its current content.
    ///
    /// # Errors
    /// The file cannot be read, or has more than 16 MiB.
    pub fn pin_file(path: PathBuf) -> Result<Self, String> {
        let digest = file_digest(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self { path, digest })
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the BLAKE3 digest of the pinned content, in hexadecimal digits.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Checks that the file still has the content that was pinned.
    ///
    /// # Errors
    /// A sentence: the file has changed, or cannot be read.
    pub(super) fn check_unchanged(&self) -> Result<(), String> {
        let shown = self.path.display();
        match file_digest(&self.path) {
            Ok(digest) if digest == self.digest => Ok(()),
            Ok(_) => Err(format!(
                "{shown} has changed since this hook was allowed; restart Rind to be asked about it again"
            )),
            Err(error) => Err(format!(
                "{shown}, which this hook runs, cannot be read: {error}"
            )),
        }
    }
}

fn file_digest(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?
        .take(MAX_PINNED_FILE_BYTES + 1)
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_PINNED_FILE_BYTES {
        return Err(io::Error::other(format!(
            "it has more than {MAX_PINNED_FILE_BYTES} bytes, too many to be checked before each call"
        )));
    }
    Ok(blake3::hash(&bytes).to_hex().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_file_that_changes_or_goes_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("check.sh");
        std::fs::write(&path, "exit 0").unwrap();
        let pin = DigestPinnedFile::pin_file(path.clone()).unwrap();
        pin.check_unchanged().unwrap();
        std::fs::write(&path, "exit 2").unwrap();
        let why = pin.check_unchanged().unwrap_err();
        assert!(why.contains("check.sh has changed since"), "{why}");
        std::fs::remove_file(&path).unwrap();
        let why = pin.check_unchanged().unwrap_err();
        assert!(why.contains("cannot be read"), "{why}");
        DigestPinnedFile::pin_file(path).unwrap_err();
    }
}
