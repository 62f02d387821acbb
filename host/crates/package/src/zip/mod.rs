//! Reads zip archives such as wheels into memory, and writes reproducible ones.
//!
//! An archive is refused if other programs could read it differently, because the files that a user
//! reviewed must be the ones that are installed: the central directory and the local file headers
//! must agree, the files must follow one another without gaps, and no data may come before the
//! first file or after the central directory.

mod read;
mod write;

pub(crate) use read::read_zip_files;
pub(crate) use write::write_zip;

/// Magic number of a local file header, with which an archive begins.
pub(crate) const LOCAL_FILE_HEADER_MAGIC: &[u8] = b"PK\x03\x04";

/// Magic bytes of an entry in the central directory of a zip archive.
const CENTRAL_DIRECTORY_ENTRY_MAGIC: &[u8] = b"PK\x01\x02";

/// Magic number of the record at the end of the central directory.
const END_OF_CENTRAL_DIRECTORY_MAGIC: &[u8] = b"PK\x05\x06";

/// Compression methods of zip entries that are supported.
const STORED_COMPRESSION_METHOD: u16 = 0;
const DEFLATE_COMPRESSION_METHOD: u16 = 8;

/// Flag of a zip entry whose name is encoded in UTF-8.
const UTF8_NAME_FLAG: u16 = 1 << 11;
