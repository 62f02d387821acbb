//! Reads a zip archive into memory.
//!
//! Start from [`read_zip_files`].

use std::collections::BTreeSet;
use std::io::Read;

use anyhow::{Context, bail, ensure};
use flate2::Crc;
use flate2::bufread::DeflateDecoder;

use super::{
    CENTRAL_DIRECTORY_ENTRY_MAGIC, DEFLATE_COMPRESSION_METHOD, END_OF_CENTRAL_DIRECTORY_MAGIC,
    LOCAL_FILE_HEADER_MAGIC, STORED_COMPRESSION_METHOD, UTF8_NAME_FLAG,
};
use crate::contents::{
    FileContentsByPath, MAX_PACKAGE_SOURCE_BYTES, MAX_PACKAGE_SOURCE_FILES, split_relative_path,
};

/// Size in bytes of the end-of-central-directory record, without a comment.
const MIN_END_OF_CENTRAL_DIRECTORY_BYTES: usize = 22;

/// Flag of an entry whose sizes are in a data descriptor after the file; the sizes in its header
/// may be 0.
const DATA_DESCRIPTOR_FLAG: u16 = 1 << 3;

/// Flags for the compression level, which have no effect on reading.
const COMPRESSION_LEVEL_FLAGS: u16 = 3 << 1;

/// Kinds of extra fields that override names or sizes: zip64 sizes, and Info-ZIP's Unicode path.
const OVERRIDING_EXTRA_FIELD_KINDS: [u16; 2] = [0x0001, 0x7075];

/// Mask for the file type in a Unix mode, and the types. The mode is the upper half of an entry's
/// external attributes.
const UNIX_FILE_TYPE_MASK: u32 = 0o170_000;
const UNIX_FOLDER_FILE_TYPE: u32 = 0o040_000;
const UNIX_REGULAR_FILE_TYPE: u32 = 0o100_000;
const UNIX_SYMLINK_FILE_TYPE: u32 = 0o120_000;

/// Reads little-endian numbers from a header of a zip archive.
struct ZipHeaderReader<'a> {
    rest: &'a [u8],
}

impl<'a> ZipHeaderReader<'a> {
    fn take_header_bytes(&mut self, n_bytes: usize) -> anyhow::Result<&'a [u8]> {
        let (head, rest) = self
            .rest
            .split_at_checked(n_bytes)
            .context("the archive is truncated")?;
        self.rest = rest;
        Ok(head)
    }

    fn take_u16(&mut self) -> anyhow::Result<u16> {
        let bytes = self
            .take_header_bytes(2)?
            .try_into()
            .context("the archive is truncated")?;
        Ok(u16::from_le_bytes(bytes))
    }

    fn take_u32(&mut self) -> anyhow::Result<u32> {
        let bytes = self
            .take_header_bytes(4)?
            .try_into()
            .context("the archive is truncated")?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn take_size_or_offset(&mut self) -> anyhow::Result<usize> {
        let size = self.take_u32()?;
        ensure!(
            size != u32::MAX,
            "it is in zip64 format, which is not supported"
        );
        Ok(usize::try_from(size)?)
    }

    fn expect_zip_magic(&mut self, magic: &[u8]) -> anyhow::Result<()> {
        ensure!(
            self.take_header_bytes(magic.len())? == magic,
            "the archive is truncated"
        );
        Ok(())
    }
}

/// Fields that occur both in an entry of the central directory and in a local file header.
#[derive(Debug, PartialEq)]
struct CommonZipEntryFields {
    flags: u16,
    method: u16,
    crc: u32,
    packed_bytes: usize,
    bytes: usize,
}

/// Entry in the central directory of a zip archive.
#[derive(Debug)]
struct ZipCentralDirectoryEntry<'a> {
    common: CommonZipEntryFields,
    name: &'a [u8],
    attributes: u32,
    /// Offset of the local file header in the archive.
    offset: usize,
}

/// Reads the contents of all files of a zip archive, by path.
pub(crate) fn read_zip_files(bytes: &[u8]) -> anyhow::Result<FileContentsByPath> {
    let (entries, directory_at) = read_central_directory(bytes)?;
    let mut files = FileContentsByPath::new();
    let mut names_seen = BTreeSet::new();
    let mut bytes_left = MAX_PACKAGE_SOURCE_BYTES;
    let mut at = 0;
    for entry in &entries {
        let name = std::str::from_utf8(entry.name)
            .context("the archive contains an entry whose name is not UTF-8")?;
        let shown = name.escape_debug();
        ensure!(
            name.is_ascii() || entry.common.flags & UTF8_NAME_FLAG != 0,
            "the name `{shown}` is in an ambiguous encoding"
        );
        ensure!(
            !name.contains('\\'),
            "the path `{shown}` is refused: it has a `\\` in it"
        );
        let names = split_relative_path(name)?;
        ensure!(names_seen.insert(names.clone()), "it has `{shown}` twice");
        ensure!(
            entry.offset == at,
            "`{shown}` does not follow the file before it, so other programs may read different bytes"
        );
        let about = || format!("`{shown}` cannot be read");
        let (packed, end) =
            find_compressed_bytes(bytes, entry, directory_at).with_context(about)?;
        at = end;
        let is_folder = name.ends_with('/');
        check_entry_type(entry, is_folder).with_context(about)?;
        let n_bytes = u64::try_from(entry.common.bytes)?;
        let too_large = || format!("it has more than {} MiB", MAX_PACKAGE_SOURCE_BYTES >> 20);
        bytes_left = bytes_left.checked_sub(n_bytes).with_context(too_large)?;
        let content = decompress_entry(&entry.common, packed).with_context(about)?;
        if !is_folder {
            files.insert(names, content);
        }
    }
    ensure!(
        at == directory_at,
        "it has data before its directory, which other programs do not show; pack it again"
    );
    Ok(files)
}

/// Reads the central directory of the archive. Returns its entries, and the offset at which it
/// begins.
fn read_central_directory(
    bytes: &[u8],
) -> anyhow::Result<(Vec<ZipCentralDirectoryEntry<'_>>, usize)> {
    let end_at = bytes
        .len()
        .checked_sub(MIN_END_OF_CENTRAL_DIRECTORY_BYTES)
        .context("the archive is truncated")?;
    let mut end = ZipHeaderReader {
        rest: bytes.get(end_at..).unwrap_or_default(),
    };
    ensure!(
        end.take_header_bytes(END_OF_CENTRAL_DIRECTORY_MAGIC.len())?
            == END_OF_CENTRAL_DIRECTORY_MAGIC,
        "the archive does not end with its directory: it is truncated, or has trailing data"
    );
    let disks = (end.take_u16()?, end.take_u16()?);
    let n_here = usize::from(end.take_u16()?);
    let n_entries = usize::from(end.take_u16()?);
    let (size, offset) = (end.take_size_or_offset()?, end.take_size_or_offset()?);
    let n_comment = end.take_u16()?;
    ensure!(
        disks == (0, 0) && n_here == n_entries && n_comment == 0,
        "it is a part of an archive, or has a comment"
    );
    ensure!(
        n_entries <= MAX_PACKAGE_SOURCE_FILES,
        "it has more than {MAX_PACKAGE_SOURCE_FILES} entries"
    );
    ensure!(
        offset.checked_add(size) == Some(end_at),
        "its directory is not at the stated offset"
    );
    let mut reader = ZipHeaderReader {
        rest: bytes
            .get(offset..end_at)
            .context("the archive is truncated")?,
    };
    let entries = (0..n_entries).map(|_| read_central_directory_entry(&mut reader));
    let entries = entries.collect::<anyhow::Result<Vec<_>>>()?;
    ensure!(
        reader.rest.is_empty(),
        "its directory has more entries than stated"
    );
    Ok((entries, offset))
}

fn read_central_directory_entry<'a>(
    reader: &mut ZipHeaderReader<'a>,
) -> anyhow::Result<ZipCentralDirectoryEntry<'a>> {
    reader.expect_zip_magic(CENTRAL_DIRECTORY_ENTRY_MAGIC)?;
    // Skip the version of the program that wrote the entry, and the version that is needed to read
    // it.
    reader.take_header_bytes(4)?;
    let (common, lengths) = read_common_entry_fields(reader)?;
    let n_comment = usize::from(reader.take_u16()?);
    let disk = reader.take_u16()?;
    ensure!(disk == 0, "it is a part of an archive");
    // Skip the internal attributes, which contain whether the file is text.
    reader.take_header_bytes(2)?;
    let attributes = reader.take_u32()?;
    let offset = reader.take_size_or_offset()?;
    let name = reader.take_header_bytes(lengths.0)?;
    check_extra_fields(reader.take_header_bytes(lengths.1)?)?;
    reader.take_header_bytes(n_comment)?;
    Ok(ZipCentralDirectoryEntry {
        common,
        name,
        attributes,
        offset,
    })
}

/// Reads the common fields, from the flags to the sizes. Also returns the lengths of the name and
/// of the extra fields, which follow in the archive.
fn read_common_entry_fields(
    reader: &mut ZipHeaderReader<'_>,
) -> anyhow::Result<(CommonZipEntryFields, (usize, usize))> {
    let (flags, method) = (reader.take_u16()?, reader.take_u16()?);
    // Skip the time and date.
    reader.take_header_bytes(4)?;
    let common = CommonZipEntryFields {
        flags,
        method,
        crc: reader.take_u32()?,
        packed_bytes: reader.take_size_or_offset()?,
        bytes: reader.take_size_or_offset()?,
    };
    let lengths = (
        usize::from(reader.take_u16()?),
        usize::from(reader.take_u16()?),
    );
    Ok((common, lengths))
}

/// Refuses extra fields that override the name or the size of a file.
fn check_extra_fields(extras: &[u8]) -> anyhow::Result<()> {
    let mut reader = ZipHeaderReader { rest: extras };
    while !reader.rest.is_empty() {
        let kind = reader.take_u16()?;
        ensure!(
            !OVERRIDING_EXTRA_FIELD_KINDS.contains(&kind),
            "it has zip64 sizes or alternative names, which programs interpret differently"
        );
        let n_bytes = usize::from(reader.take_u16()?);
        reader.take_header_bytes(n_bytes)?;
    }
    Ok(())
}

/// Checks that the local file header of an entry agrees with the central directory. Returns the
/// compressed bytes and the offset of the end of the entry.
fn find_compressed_bytes<'a>(
    bytes: &'a [u8],
    entry: &ZipCentralDirectoryEntry<'_>,
    directory_at: usize,
) -> anyhow::Result<(&'a [u8], usize)> {
    let before = bytes
        .get(..directory_at)
        .context("the archive is truncated")?;
    let mut reader = ZipHeaderReader {
        rest: before
            .get(entry.offset..)
            .context("the archive is truncated")?,
    };
    reader.expect_zip_magic(LOCAL_FILE_HEADER_MAGIC)?;
    reader.take_header_bytes(2)?;
    let (own, lengths) = read_common_entry_fields(&mut reader)?;
    let name = reader.take_header_bytes(lengths.0)?;
    check_extra_fields(reader.take_header_bytes(lengths.1)?)?;
    let common = &entry.common;
    let follow = common.flags & DATA_DESCRIPTOR_FLAG != 0;
    let are_left_out = follow && (own.crc, own.packed_bytes, own.bytes) == (0, 0, 0);
    let is_same = own == *common
        || (are_left_out && (own.flags, own.method) == (common.flags, common.method));
    ensure!(
        is_same && name == entry.name,
        "its header and the directory differ"
    );
    let known = UTF8_NAME_FLAG | DATA_DESCRIPTOR_FLAG | COMPRESSION_LEVEL_FLAGS;
    ensure!(
        common.flags & !known == 0,
        "it is encrypted or has an unknown flag"
    );
    let packed = reader.take_header_bytes(common.packed_bytes)?;
    if follow {
        // The magic number of a data descriptor is optional.
        if reader.rest.starts_with(b"PK\x07\x08") {
            reader.take_header_bytes(4)?;
        }
        let sizes = (
            reader.take_u32()?,
            reader.take_size_or_offset()?,
            reader.take_size_or_offset()?,
        );
        ensure!(
            sizes == (common.crc, common.packed_bytes, common.bytes),
            "the sizes after it differ from the directory"
        );
    }
    Ok((packed, directory_at - reader.rest.len()))
}

/// Refuses an entry that is neither a plain file nor a directory.
fn check_entry_type(entry: &ZipCentralDirectoryEntry<'_>, is_folder: bool) -> anyhow::Result<()> {
    let mode = entry.attributes >> 16;
    let kind = mode & UNIX_FILE_TYPE_MASK;
    ensure!(kind != UNIX_SYMLINK_FILE_TYPE, "it is a link");
    let is_plain = match is_folder {
        true => kind == 0 || kind == UNIX_FOLDER_FILE_TYPE,
        false => kind == 0 || kind == UNIX_REGULAR_FILE_TYPE,
    };
    ensure!(is_plain, "it is neither a file nor a folder");
    ensure!(
        is_folder || mode & crate::archive::SETUID_SETGID_MODE_BITS == 0,
        "it is a setuid or setgid file"
    );
    ensure!(
        !is_folder || entry.common.bytes == 0,
        "it is a folder with content"
    );
    Ok(())
}

/// Decompresses the bytes of an entry, and stops as soon as they exceed the announced size.
fn decompress_entry(common: &CommonZipEntryFields, packed: &[u8]) -> anyhow::Result<Vec<u8>> {
    let content = match common.method {
        STORED_COMPRESSION_METHOD => packed.to_vec(),
        DEFLATE_COMPRESSION_METHOD => {
            let mut decoder = DeflateDecoder::new(packed);
            let mut content = Vec::new();
            let limit = u64::try_from(common.bytes)?.saturating_add(1);
            decoder
                .by_ref()
                .take(limit)
                .read_to_end(&mut content)
                .context("the compressed data is truncated")?;
            ensure!(
                decoder.into_inner().is_empty(),
                "it does not have the size that its header states"
            );
            content
        }
        other => bail!("the compression method {other} is not supported"),
    };
    ensure!(
        content.len() == common.bytes,
        "it has {} bytes or more, and the directory says {}",
        content.len(),
        common.bytes
    );
    let mut crc = Crc::new();
    crc.update(&content);
    ensure!(
        crc.sum() == common.crc,
        "its checksum is wrong: it is corrupt or truncated"
    );
    Ok(content)
}

#[cfg(test)]
mod tests;
