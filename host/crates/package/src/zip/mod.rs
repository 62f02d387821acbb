//! Zip archives, as wheels use them: read into memory, and written with the same bytes each time.
//!
//! An archive is refused if other programs could read it differently, because the files that a
//! person reviewed must be the ones that are installed: the directory at the end and the headers
//! before the files have to agree, the files follow each other without gaps, and nothing stands
//! before the first or after the directory.

mod read;
mod write;

pub(crate) use read::read_zip;
pub(crate) use write::write_zip;

/// Magic number of the header before a file, with which an archive begins.
pub(crate) const MAGIC: &[u8] = b"PK\x03\x04";

/// Magic number of an entry of the directory.
const ENTRY_MAGIC: &[u8] = b"PK\x01\x02";

/// Magic number of the end of the directory.
const END_MAGIC: &[u8] = b"PK\x05\x06";

/// Methods of compression.
const STORED: u16 = 0;
const DEFLATED: u16 = 8;

/// Flag for names in UTF-8.
const UTF8: u16 = 1 << 11;
