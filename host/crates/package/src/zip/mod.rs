//! Reads zip archives such as wheels into memory, and writes reproducible ones.
//!
//! An archive is refused if other programs could read it differently, because the files that a user
//! reviewed must be the ones that are installed: the central directory and the local file headers
//! must agree, the files must follow one another without gaps, and no data may come before the
//! first file or after the central directory.

mod read;
mod write;

pub(crate) use read::read_zip;
pub(crate) use write::write_zip;

/// Magic number of a local file header, with which an archive begins.
pub(crate) const MAGIC: &[u8] = b"PK\x03\x04";

/// Magic number of an entry in the central directory.
const ENTRY_MAGIC: &[u8] = b"PK\x01\x02";

/// Magic number of the record at the end of the central directory.
const END_MAGIC: &[u8] = b"PK\x05\x06";

/// Compression methods.
const STORED: u16 = 0;
const DEFLATED: u16 = 8;

/// Flag of an entry whose name is in UTF-8.
const UTF8: u16 = 1 << 11;
