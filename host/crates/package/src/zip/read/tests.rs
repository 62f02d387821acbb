//! Tests of reading zip archives: valid archives, and archives whose headers contain false values.

use super::super::write_zip;
use super::*;

/// Returns an archive with two files.
fn valid_archive() -> Vec<u8> {
    let files = [
        ("a/one.txt".to_owned(), b"one".to_vec()),
        ("a/two.txt".to_owned(), vec![b'2'; 5000]),
    ];
    write_zip(&files).unwrap()
}

/// Returns the offset of the occurrence of `text` with the index `n`, counted from 0.
fn find_offset(bytes: &[u8], text: &[u8], n: usize) -> usize {
    let mut places = bytes
        .windows(text.len())
        .enumerate()
        .filter(|(_, window)| *window == text);
    places.nth(n).unwrap().0
}

/// Returns the valid archive after overwriting bytes with `new`, `offset` bytes after the start of
/// the occurrence of `text` with the index `n`.
fn archive_with_change(text: &[u8], n: usize, offset: usize, new: &[u8]) -> Vec<u8> {
    let mut bytes = valid_archive();
    let at = find_offset(&bytes, text, n) + offset;
    bytes[at..at + new.len()].copy_from_slice(new);
    bytes
}

/// Overwrites the same field in the local file header and in the directory entry of the first file.
fn archive_with_both_headers_changed(offset: usize, new: &[u8]) -> Vec<u8> {
    let mut bytes = archive_with_change(LOCAL_FILE_HEADER_MAGIC, 0, offset, new);
    let at = find_offset(&bytes, CENTRAL_DIRECTORY_ENTRY_MAGIC, 0) + offset + 2;
    bytes[at..at + new.len()].copy_from_slice(new);
    bytes
}

fn read_error_text(bytes: &[u8]) -> String {
    format!("{:#}", read_zip_files(bytes).unwrap_err())
}

#[test]
fn written_archives_can_be_read_and_are_reproducible() {
    let files = read_zip_files(&valid_archive()).unwrap();
    let names: Vec<String> = files.keys().map(|names| names.join("/")).collect();
    assert_eq!(names, ["a/one.txt", "a/two.txt"]);
    assert_eq!(
        files[&vec!["a".to_owned(), "two.txt".to_owned()]].len(),
        5000
    );
    assert_eq!(valid_archive(), valid_archive());
    assert!(read_zip_files(&write_zip(&[]).unwrap()).unwrap().is_empty());
}

#[test]
fn archives_that_tools_may_unpack_differently_are_refused() {
    let whole = valid_archive();
    let behind = [&whole[..], b"x"].concat();
    let before = [b"#!/bin/sh\n", &whole[..]].concat();
    let table: Vec<(Vec<u8>, &str)> = vec![
        (behind, "trailing data"),
        (before, "not at the stated offset"),
        (whole[..whole.len() - 30].to_vec(), "truncated"),
        (Vec::new(), "truncated"),
        (whole[..40].to_vec(), "truncated"),
        // The first occurrence of the name is in the local file header, right after its 30 fixed
        // bytes.
        (
            archive_with_change(b"a/one.txt", 0, 0, b"b"),
            "header and the directory differ",
        ),
        (
            archive_with_change(b"a/one.txt", 1, 0, b"b"),
            "header and the directory differ",
        ),
        (
            archive_with_change(b"one", 1, 0, b"two"),
            "checksum is wrong",
        ),
        // Local file headers have the checksum at offset 14 and the two sizes at 18 and 22.
        (
            archive_with_change(LOCAL_FILE_HEADER_MAGIC, 0, 14, &[1]),
            "header and the directory differ",
        ),
        (
            archive_with_change(LOCAL_FILE_HEADER_MAGIC, 0, 22, &[9]),
            "header and the directory differ",
        ),
        (
            archive_with_both_headers_changed(22, &[9]),
            "and the directory says 9",
        ),
        (archive_with_both_headers_changed(18, &[0xff; 4]), "zip64"),
        (archive_with_both_headers_changed(6, &[1, 8]), "encrypted"),
        (archive_with_both_headers_changed(8, &[14]), "method 14"),
        // Directory entries have the file type in the upper half of the attributes, at offset 40.
        (
            archive_with_change(CENTRAL_DIRECTORY_ENTRY_MAGIC, 0, 40, &[0xed, 0xa1]),
            "is a link",
        ),
        (
            archive_with_change(CENTRAL_DIRECTORY_ENTRY_MAGIC, 0, 40, &[0xed, 0x89]),
            "setuid",
        ),
        (
            archive_with_change(CENTRAL_DIRECTORY_ENTRY_MAGIC, 0, 40, &[0, 0x10]),
            "neither a file nor a folder",
        ),
        (
            archive_with_change(CENTRAL_DIRECTORY_ENTRY_MAGIC, 0, 42, &[1]),
            "does not follow the file before it",
        ),
        (
            archive_with_change(END_OF_CENTRAL_DIRECTORY_MAGIC, 0, 10, &[1]),
            "part of an archive",
        ),
        (
            archive_with_change(END_OF_CENTRAL_DIRECTORY_MAGIC, 0, 8, &[1, 0, 1, 0]),
            "more entries than stated",
        ),
        (
            archive_with_change(END_OF_CENTRAL_DIRECTORY_MAGIC, 0, 8, &[0xff; 4]),
            "more than 10000 entries",
        ),
        (
            archive_with_change(END_OF_CENTRAL_DIRECTORY_MAGIC, 0, 16, &[0xff, 0xff]),
            "not at the stated offset",
        ),
    ];
    for (number, (bytes, what)) in table.into_iter().enumerate() {
        let said = read_error_text(&bytes);
        assert!(said.contains(what), "{number} {what}: {said}");
    }
}

#[test]
fn paths_outside_the_archive_and_duplicate_names_are_refused() {
    for (name, what) in [
        ("../a", "a path with `..` is not allowed"),
        ("/etc/passwd", "an absolute path is not allowed"),
        ("a\\b", "has a `\\` in it"),
        ("a\nb", "control characters"),
        ("", "is empty"),
        (&"a/".repeat(20), "deeper than"),
    ] {
        let said = read_error_text(&write_zip(&[(name.to_owned(), Vec::new())]).unwrap());
        assert!(said.contains(what), "{name}: {said}");
    }
    let twice = [
        ("a".to_owned(), b"1".to_vec()),
        ("./a".to_owned(), b"2".to_vec()),
    ];
    let said = read_error_text(&write_zip(&twice).unwrap());
    assert!(said.contains("twice"), "{said}");
    // Names without the UTF-8 flag are in the encoding of DOS.
    let mut bytes = write_zip(&[("é".to_owned(), Vec::new())]).unwrap();
    for (magic, offset) in [
        (LOCAL_FILE_HEADER_MAGIC, 6),
        (CENTRAL_DIRECTORY_ENTRY_MAGIC, 8),
    ] {
        let at = find_offset(&bytes, magic, 0) + offset;
        bytes[at..at + 2].copy_from_slice(&[0, 0]);
    }
    assert!(read_error_text(&bytes).contains("in an ambiguous encoding"));
}

#[test]
fn decompression_stops_at_the_announced_size() {
    // The headers announce 10 bytes, but the content has 1 MiB.
    let mut bytes = write_zip(&[("bomb".to_owned(), vec![0; 1 << 20])]).unwrap();
    for (magic, offset) in [
        (LOCAL_FILE_HEADER_MAGIC, 22),
        (CENTRAL_DIRECTORY_ENTRY_MAGIC, 24),
    ] {
        let at = find_offset(&bytes, magic, 0) + offset;
        bytes[at..at + 4].copy_from_slice(&10_u32.to_le_bytes());
    }
    let said = read_error_text(&bytes);
    assert!(
        said.contains("the directory says 10") || said.contains("that its header states"),
        "{said}"
    );
    // The headers announce more bytes than the limit.
    for (magic, offset) in [
        (LOCAL_FILE_HEADER_MAGIC, 22),
        (CENTRAL_DIRECTORY_ENTRY_MAGIC, 24),
    ] {
        let at = find_offset(&bytes, magic, 0) + offset;
        bytes[at..at + 4].copy_from_slice(&(300_u32 << 20).to_le_bytes());
    }
    assert!(read_error_text(&bytes).contains("more than 256 MiB"));
    // Two files share the same bytes: the second entry has the offset of the first.
    let mut bytes = write_zip(&[
        ("a".to_owned(), b"one".to_vec()),
        ("b".to_owned(), b"one".to_vec()),
    ])
    .unwrap();
    let at = find_offset(&bytes, CENTRAL_DIRECTORY_ENTRY_MAGIC, 1) + 42;
    bytes[at..at + 4].copy_from_slice(&[0; 4]);
    assert!(read_error_text(&bytes).contains("does not follow"));
}

#[test]
fn correct_sizes_in_a_data_descriptor_are_accepted() {
    let mut bytes = write_zip(&[("a".to_owned(), b"one".to_vec())]).unwrap();
    let directory = find_offset(&bytes, CENTRAL_DIRECTORY_ENTRY_MAGIC, 0);
    let sizes: Vec<u8> = bytes[14..26].to_vec();
    bytes[6] = 8;
    bytes[14..26].copy_from_slice(&[0; 12]);
    bytes[directory + 8] = 8;
    let descriptor = [b"PK\x07\x08", &sizes[..]].concat();
    let end = find_offset(&bytes, END_OF_CENTRAL_DIRECTORY_MAGIC, 0) + 16;
    let moved = u32::try_from(directory + descriptor.len()).unwrap();
    bytes[end..end + 4].copy_from_slice(&moved.to_le_bytes());
    bytes.splice(directory..directory, descriptor);
    assert_eq!(read_zip_files(&bytes).unwrap().len(), 1);
    bytes[directory + 4] ^= 1;
    assert!(read_error_text(&bytes).contains("the sizes after it"));
}
