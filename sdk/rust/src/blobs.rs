//! Reads content that is not text, such as images: the blobs that the running hook or tool
//! received, or, with the side effect `session`, all blobs of the session.

use crate::types::{Blob, Error};

#[cfg(target_family = "wasm")]
use crate::bindings::rind::plugin::blobs as host;
#[cfg(not(target_family = "wasm"))]
use crate::testing::blobs as host;

/// Reads part of a blob: at most `length` bytes from `offset` on, and at most 8 MiB.
///
/// # Errors
/// When the plugin may not read the blob, or its bytes are missing.
pub fn read(id: &str, offset: u64, length: u64) -> Result<Vec<u8>, Error> {
    host::read(id, offset, length)
}

/// Reads a complete blob. One read always suffices.
///
/// # Errors
/// When the plugin may not read the blob, or its bytes are missing.
pub fn read_all(blob: &Blob) -> Result<Vec<u8>, Error> {
    read(&blob.id, 0, blob.size)
}
