//! Writes a zip archive. The same files in the same order produce the same bytes, because times and
//! modes are fixed.

use std::io::Write;

use anyhow::Context;
use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};

use super::{
    CENTRAL_DIRECTORY_ENTRY_MAGIC, DEFLATE_COMPRESSION_METHOD, END_OF_CENTRAL_DIRECTORY_MAGIC,
    LOCAL_FILE_HEADER_MAGIC, STORED_COMPRESSION_METHOD, UTF8_NAME_FLAG,
};

/// Zip version that is needed to read the archive: 2.0, the first with DEFLATE compression.
const ZIP_VERSION_NEEDED: u16 = 20;

/// Header field "version made by": zip version 2.0 on Unix, so that readers interpret the
/// attributes as a Unix mode.
const ZIP_VERSION_MADE_BY: u16 = 3 << 8 | ZIP_VERSION_NEEDED;

/// First date that the format can express, 1 January 1980.
const ENTRY_MODIFICATION_DATE: u16 = 1 << 5 | 1;

/// External attributes of all entries: a regular file that all users can read.
const ENTRY_EXTERNAL_ATTRIBUTES: u32 = 0o100_644 << 16;

/// Creates a zip archive with these files, in the given order.
pub(crate) fn write_zip(files: &[(String, Vec<u8>)]) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut directory = Vec::new();
    for (path, content) in files {
        let offset = u32::try_from(bytes.len()).context("the archive is too large")?;
        let packed = compress_with_deflate(content)?;
        let (method, packed) = match packed.len() < content.len() {
            true => (DEFLATE_COMPRESSION_METHOD, packed.as_slice()),
            false => (STORED_COMPRESSION_METHOD, content.as_slice()),
        };
        let common = encode_common_entry_fields(path, method, content, packed)?;
        bytes.extend_from_slice(LOCAL_FILE_HEADER_MAGIC);
        bytes.extend_from_slice(&common);
        bytes.extend_from_slice(path.as_bytes());
        bytes.extend_from_slice(packed);

        directory.extend_from_slice(CENTRAL_DIRECTORY_ENTRY_MAGIC);
        directory.extend_from_slice(&ZIP_VERSION_MADE_BY.to_le_bytes());
        directory.extend_from_slice(&common);
        // Length of the comment, number of the disk, and internal attributes.
        directory.extend_from_slice(&[0; 6]);
        directory.extend_from_slice(&ENTRY_EXTERNAL_ATTRIBUTES.to_le_bytes());
        directory.extend_from_slice(&offset.to_le_bytes());
        directory.extend_from_slice(path.as_bytes());
    }
    let offset = u32::try_from(bytes.len()).context("the archive is too large")?;
    let size = u32::try_from(directory.len()).context("the archive is too large")?;
    let n_files = u16::try_from(files.len()).context("the archive has too many files")?;
    bytes.append(&mut directory);
    bytes.extend_from_slice(END_OF_CENTRAL_DIRECTORY_MAGIC);
    // Number of this disk, and of the disk on which the central directory begins.
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&n_files.to_le_bytes());
    bytes.extend_from_slice(&n_files.to_le_bytes());
    bytes.extend_from_slice(&size.to_le_bytes());
    bytes.extend_from_slice(&offset.to_le_bytes());
    // The archive's comment has length 0.
    bytes.extend_from_slice(&[0; 2]);
    Ok(bytes)
}

/// Returns the fields that a local file header and an entry in the central directory have in
/// common, from the needed version to the lengths.
fn encode_common_entry_fields(
    path: &str,
    method: u16,
    content: &[u8],
    packed: &[u8],
) -> anyhow::Result<Vec<u8>> {
    let too_large = || format!("`{path}` is too large for the archive");
    let mut crc = Crc::new();
    crc.update(content);
    let n_name = u16::try_from(path.len()).with_context(too_large)?;
    let mut fields = Vec::new();
    for number in [
        ZIP_VERSION_NEEDED,
        UTF8_NAME_FLAG,
        method,
        0,
        ENTRY_MODIFICATION_DATE,
    ] {
        fields.extend_from_slice(&number.to_le_bytes());
    }
    let n_packed = u32::try_from(packed.len()).with_context(too_large)?;
    let n_bytes = u32::try_from(content.len()).with_context(too_large)?;
    for number in [crc.sum(), n_packed, n_bytes] {
        fields.extend_from_slice(&number.to_le_bytes());
    }
    // Length of the name; 0 for the length of the extra fields, of which there are none.
    for number in [n_name, 0] {
        fields.extend_from_slice(&number.to_le_bytes());
    }
    Ok(fields)
}

fn compress_with_deflate(content: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(content)?;
    Ok(encoder.finish()?)
}
