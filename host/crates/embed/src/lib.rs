//! Packs the files that are embedded in the program, and unpacks them.
//!
//! Build scripts pack; the program unpacks what it needs in memory. Core plugins share most of
//! their code, so their files are packed together, and native code is packed relative to other
//! native code. The result has a third of the size that gzip reaches, whose window is only 32 KiB.
//! The crate knows nothing about plugins. Start from [`build::pack_files_into_out_dir`] and
//! [`EmbeddedPackedFolder`].

pub mod build;
mod folder;

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use zstd::stream::write;
use zstd::zstd_safe;

pub use folder::EmbeddedPackedFolder;

/// Compression level for a program that is distributed. Compression is slow at this level,
/// decompression is not.
pub const RELEASE_COMPRESSION_LEVEL: i32 = 19;

/// Compression level for a program that is compiled only to try it.
pub const FAST_COMPRESSION_LEVEL: i32 = 3;

/// Base-2 logarithm of the compression window in bytes: the window must exceed the size of all
/// embedded files together.
const ZSTD_WINDOW_LOG2_BYTES: u32 = 25;

/// Maximum size of the unpacked data, in bytes. Corrupt data could otherwise declare a size that
/// exhausts memory.
const MAX_UNPACKED_BYTES: u64 = 1 << 28;

/// Path of a file, separated by `/`, and its content.
pub type PackedFilePathAndContent = (String, Vec<u8>);

/// Reads every file below a folder, in the order of their paths, which are relative to that folder.
///
/// # Errors
/// A folder or file cannot be read, or has a name that is not UTF-8.
pub fn read_folder_files(root: &Path) -> io::Result<Vec<PackedFilePathAndContent>> {
    let mut entries: Vec<_> = fs::read_dir(root)?.collect::<Result<_, _>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    let mut files = Vec::new();
    for entry in entries {
        let name = entry.file_name();
        let name = name.to_str().ok_or(io::ErrorKind::InvalidFilename)?;
        if entry.file_type()?.is_dir() {
            let below = read_folder_files(&entry.path())?.into_iter();
            files.extend(below.map(|(path, content)| (format!("{name}/{path}"), content)));
        } else {
            files.push((name.to_owned(), fs::read(entry.path())?));
        }
    }
    Ok(files)
}

/// Packs files into a tar archive compressed with zstd. The output is deterministic: it depends
/// only on the files and the level.
///
/// # Errors
/// A path is too long for tar, or memory is exhausted.
pub fn pack_files(files: &[PackedFilePathAndContent], level: i32) -> io::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    for (path, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, path, content.as_slice())?;
    }
    compress_with_dictionary(&[], &archive.into_inner()?, level)
}

/// Packs bytes relative to `base`, which may be empty: parts that also occur in `base` take almost
/// no space.
///
/// # Errors
/// Memory is exhausted.
pub fn compress_with_dictionary(base: &[u8], bytes: &[u8], level: i32) -> io::Result<Vec<u8>> {
    let mut encoder = write::Encoder::with_ref_prefix(Vec::new(), level, base)?;
    encoder.window_log(ZSTD_WINDOW_LOG2_BYTES)?;
    encoder.long_distance_matching(true)?;
    encoder.set_pledged_src_size(Some(bytes.len() as u64))?;
    encoder.include_contentsize(true)?;
    encoder.include_checksum(true)?;
    encoder.write_all(bytes)?;
    encoder.finish()
}

/// Unpacks the output of [`compress_with_dictionary`], with the same `base`. Needs almost no memory
/// besides the result.
///
/// # Errors
/// The bytes are not compressed with zstd, do not declare their size or declare too large a one, or
/// do not match their checksum, for example because `base` differs.
pub fn decompress_with_dictionary(base: &[u8], packed: &[u8]) -> io::Result<Vec<u8>> {
    let refused = |code| io::Error::other(zstd_safe::get_error_name(code));
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    let size = zstd_safe::get_frame_content_size(packed).map_err(|_| invalid())?;
    let size = size
        .filter(|size| *size <= MAX_UNPACKED_BYTES)
        .ok_or_else(invalid)?;
    let mut bytes = Vec::with_capacity(usize::try_from(size).map_err(|_| invalid())?);
    let mut context = zstd_safe::DCtx::create();
    context.ref_prefix(base).map_err(refused)?;
    context.decompress(&mut bytes, packed).map_err(refused)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(seed: u64, length: usize) -> Vec<u8> {
        let mut state = seed;
        let mut bytes = Vec::with_capacity(length);
        while bytes.len() < length {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            bytes.push(state.to_be_bytes()[0]);
        }
        bytes
    }

    #[test]
    fn packed_files_are_unpacked_as_they_were() {
        let long = "a/".repeat(60) + "file";
        let files = [
            ("plugin.toml".to_owned(), b"name = \"a\"".to_vec()),
            (long, noise(1, 100_000)),
            ("empty".to_owned(), Vec::new()),
        ];
        for level in [FAST_COMPRESSION_LEVEL, RELEASE_COMPRESSION_LEVEL] {
            let packed = pack_files(&files, level).unwrap();
            let folder = EmbeddedPackedFolder::new(packed.leak());
            let found = folder
                .files()
                .map(|(path, content)| (path.to_owned(), content.to_vec()));
            assert_eq!(found.collect::<Vec<_>>(), files);
            assert_eq!(folder.file_text("plugin.toml"), "name = \"a\"");
            assert_eq!(folder.file_text("another"), "");
        }
    }

    #[test]
    fn bytes_that_resemble_their_base_are_packed_small() {
        let base = noise(1, 700_000);
        let mut bytes = base.clone();
        bytes.splice(1000..2000, noise(2, 300));
        let packed = compress_with_dictionary(&base, &bytes, RELEASE_COMPRESSION_LEVEL).unwrap();
        assert!(packed.len() < 2000, "{}", packed.len());
        assert_eq!(decompress_with_dictionary(&base, &packed).unwrap(), bytes);
    }

    #[test]
    fn damaged_bytes_and_another_base_are_an_error() {
        let base = noise(1, 1000);
        let packed = compress_with_dictionary(&base, &base, FAST_COMPRESSION_LEVEL).unwrap();
        assert_eq!(decompress_with_dictionary(&base, &packed).unwrap(), base);
        assert!(decompress_with_dictionary(&noise(2, 1000), &packed).is_err());
        let packed = pack_files(&[("a".to_owned(), base)], FAST_COMPRESSION_LEVEL).unwrap();
        let whole = decompress_with_dictionary(&[], &packed).unwrap();
        for length in 0..packed.len() {
            assert!(
                decompress_with_dictionary(&[], &packed[..length]).is_err(),
                "{length}"
            );
            let mut changed = packed.clone();
            changed[length] ^= 0x10;
            // One bit of the head of a frame has no meaning.
            let found = decompress_with_dictionary(&[], &changed);
            assert!(
                found.is_err() || found.is_ok_and(|found| found == whole),
                "{length}"
            );
        }
        // A frame that says that it has 4 GiB.
        assert!(decompress_with_dictionary(&[], b"\x28\xb5\x2f\xfd\xa0\xff\xff\xff\xff").is_err());
    }

    #[test]
    #[should_panic(expected = "this program is damaged")]
    fn a_program_with_a_damaged_folder_does_not_go_on_without_it() {
        assert_eq!(EmbeddedPackedFolder::new(&[]).files().count(), 0);
        let no_tar =
            compress_with_dictionary(&[], &noise(1, 2000), FAST_COMPRESSION_LEVEL).unwrap();
        EmbeddedPackedFolder::new(no_tar.leak()).files().count();
    }
}
