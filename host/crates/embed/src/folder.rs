//! Unpacks a folder that is embedded in the program, on the first access to one of the files.

use std::io;
use std::ops::Range;
use std::sync::OnceLock;

use super::decompress_with_dictionary;

/// Packed files embedded in the program. They are unpacked once, and stay in memory until the
/// program ends.
///
/// # Panics
/// If the bytes are corrupt, which happens only in a program file that was modified or truncated.
/// Without its embedded files, among them the guards, the program must not continue.
#[derive(Debug)]
pub struct EmbeddedPackedFolder {
    packed: &'static [u8],
    unpacked: OnceLock<UnpackedEmbeddedFiles>,
}

#[derive(Debug, Default)]
struct UnpackedEmbeddedFiles {
    archive: Vec<u8>,
    /// Paths of the files, each with the range of its content in `archive`.
    files: Vec<(String, Range<usize>)>,
}

impl EmbeddedPackedFolder {
    /// Creates a folder from the output of [`pack_files`](super::pack_files). Empty bytes are a
    /// folder without files.
    #[must_use]
    pub const fn new(packed: &'static [u8]) -> Self {
        Self {
            packed,
            unpacked: OnceLock::new(),
        }
    }

    /// Returns the files with their paths, in the order in which they were packed.
    pub fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let unpacked = self.unpacked.get_or_init(|| {
            #[expect(clippy::expect_used, reason = "the bytes are a part of the program")]
            UnpackedEmbeddedFiles::unpack(self.packed)
                .expect("this program is damaged, and has to be installed again")
        });
        unpacked.files.iter().filter_map(|(path, place)| {
            let content = unpacked.archive.get(place.clone())?;
            Some((&**path, content))
        })
    }

    /// Returns a file's text; empty if there is no such file or its content is not UTF-8.
    pub fn file_text(&self, path: &str) -> &str {
        let file = self.files().find(|(name, _)| *name == path);
        let text = file.and_then(|(_, content)| std::str::from_utf8(content).ok());
        text.unwrap_or_default()
    }
}

impl UnpackedEmbeddedFiles {
    fn unpack(packed: &[u8]) -> io::Result<Self> {
        if packed.is_empty() {
            return Ok(Self::default());
        }
        let archive = decompress_with_dictionary(&[], packed)?;
        let mut files = Vec::new();
        for entry in tar::Archive::new(archive.as_slice()).entries()? {
            let entry = entry?;
            let (start, size) = (entry.raw_file_position(), entry.size());
            let place = usize::try_from(start).ok().zip(usize::try_from(size).ok());
            let (start, size) = place.ok_or(io::ErrorKind::InvalidData)?;
            let path = entry.path()?.to_string_lossy().into_owned();
            files.push((path, start..start.saturating_add(size)));
        }
        Ok(Self { archive, files })
    }
}
