//! Files in the folders that the plugin was granted. Needs the side effect `filesystem`.
//!
//! Paths start with the name of a grant, `workspace/` or `data/`.

pub use crate::bindings::rind::plugin::files::{
    Entry, Kind, append, create_folder, list, read, remove, write,
};
use crate::types::Error;

/// How much is asked for at once.
const CHUNK: u32 = 1 << 20;

/// Reads a whole file.
///
/// # Errors
/// When the host refused it or could not read it.
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

/// Reads a whole file of UTF-8 text.
///
/// # Errors
/// As [`read_all`], and when the file is not UTF-8.
pub fn read_to_string(path: &str) -> Result<String, Error> {
    Ok(String::from_utf8(read_all(path)?)?)
}
