//! Reads and writes files in the folders that the plugin was granted. Needs the side effect
//! `filesystem`.
//!
//! Paths start with the name of a grant, `workspace/` or `data/`.

pub use crate::bindings::rind::plugin::files::{Entry, Kind};
use crate::types::Error;

#[cfg(target_family = "wasm")]
use crate::bindings::rind::plugin::files as host;
#[cfg(not(target_family = "wasm"))]
use crate::testing::files_host as host;

/// Number of bytes per read in [`read_all`].
const CHUNK: u32 = 1 << 20;

/// Reads at most `length` bytes of a file from `offset` on; fewer at the end of the file.
///
/// # Errors
/// The host refused the read, or could not read the file.
pub fn read(path: &str, offset: u64, length: u32) -> Result<Vec<u8>, Error> {
    host::read(path, offset, length)
}

/// Writes a complete file atomically, and creates it if needed. Its folder must exist.
///
/// # Errors
/// The host refused the write, or could not write the file.
pub fn write(path: &str, content: &[u8]) -> Result<(), Error> {
    host::write(path, content)
}

/// Appends to a file, and creates it if needed. Its folder must exist.
///
/// # Errors
/// The host refused the write, or could not write the file.
pub fn append(path: &str, content: &[u8]) -> Result<(), Error> {
    host::append(path, content)
}

/// Returns the entries of a folder.
///
/// # Errors
/// The host refused the read, or could not read the folder.
pub fn list(path: &str) -> Result<Vec<Entry>, Error> {
    host::list(path)
}

/// Creates a folder. An existing folder is no error.
///
/// # Errors
/// The host refused to create the folder, or could not create it.
pub fn create_folder(path: &str) -> Result<(), Error> {
    host::create_folder(path)
}

/// Removes a file or an empty folder.
///
/// # Errors
/// The host refused the removal, or could not remove the file or folder.
pub fn remove(path: &str) -> Result<(), Error> {
    host::remove(path)
}

/// Reads a complete file.
///
/// # Errors
/// The host refused the read, or could not read the file.
pub fn read_all(path: &str) -> Result<Vec<u8>, Error> {
    let mut content = Vec::new();
    loop {
        let part = read(path, content.len() as u64, CHUNK)?;
        if part.is_empty() {
            return Ok(content);
        }
        content.extend_from_slice(&part);
    }
}

/// Reads a complete file of UTF-8 text.
///
/// # Errors
/// As [`read_all`], and when the file is not UTF-8.
pub fn read_to_string(path: &str) -> Result<String, Error> {
    Ok(String::from_utf8(read_all(path)?)?)
}
