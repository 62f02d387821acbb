//! Opens and reads session files that may have been tampered with, or that another program created.
//!
//! Owns how such a file is opened (never through a symlink, and without waiting for the other end
//! of a pipe) and how its lines are read (with a maximum length, so that a file without line feeds
//! does not fill the memory). It must not know what a line means. Start from [`open_regular_file`]
//! and [`LimitedLineReader`].

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

use super::Error;
use super::log::set_private_permissions;

/// Maximum length of a line in bytes; a longer line is skipped and reported. The longest line that
/// the program writes is a message with the results of a step.
pub const MAX_SESSION_LINE_BYTES: usize = 64 << 20;

/// Maximum length of the id of a session, in bytes.
const MAX_SESSION_ID_BYTES: usize = 96;

/// Whether a text has the form of a session id: a single path component that cannot lead out of its
/// parent folder.
#[must_use]
pub fn is_session_id(text: &str) -> bool {
    let is_in_id = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=MAX_SESSION_ID_BYTES).contains(&text.len())
        && !text.starts_with('.')
        && text.bytes().all(is_in_id)
}

/// Whether a new session may get this id. `last` is reserved: users write it for the last session.
#[must_use]
pub(super) fn is_assignable_session_id(text: &str) -> bool {
    is_session_id(text) && text != "last"
}

/// Opens a regular file for reading. See [`open_regular_file_with_options`].
pub(super) fn open_regular_file(path: &Path) -> io::Result<(File, Metadata)> {
    open_regular_file_with_options(path, OpenOptions::new().read(true))
}

/// Opens a regular file with these options. The options must not truncate the file, because the
/// type of the file is checked only after it is open.
///
/// # Errors
/// The last component of the path is a symlink, or the file is not a regular one, such as a pipe.
pub(crate) fn open_regular_file_with_options(
    path: &Path,
    options: &mut OpenOptions,
) -> io::Result<(File, Metadata)> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = options
        .custom_flags(flags.bits().cast_signed())
        .open(path)
        .map_err(|error| match error.raw_os_error() {
            Some(code) if code == rustix::io::Errno::LOOP.raw_os_error() => {
                io::Error::other("it is a link, and links are not followed here")
            }
            _ => error,
        })?;
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    Ok((file, meta))
}

/// Reads the content of a regular file. Does not follow a symlink.
pub(super) fn read_regular_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular_file(path)?.0.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Copies a regular file to a new file that only its owner can read.
pub(super) fn copy_regular_file(from: &Path, to: &Path) -> Result<(), Error> {
    let (mut file, _) =
        open_regular_file(from).map_err(|source| Error::read_error(from, source))?;
    let mut options = OpenOptions::new();
    set_private_permissions(options.write(true).create_new(true))
        .open(to)
        .and_then(|mut copy| io::copy(&mut file, &mut copy))
        .map(drop)
        .map_err(|source| Error::write_error(to, source))
}

/// Whether a path is an existing folder and not a symlink.
pub(super) fn is_real_folder(path: &Path) -> io::Result<bool> {
    match path.symlink_metadata() {
        Ok(meta) => Ok(meta.is_dir()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Line of a file, read with a limit on its length.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LimitedFileLine<'a> {
    /// Content of the line without its line feed.
    Whole(&'a [u8]),
    /// Content after the last line feed: a line that was not written completely.
    Torn(&'a [u8]),
    /// Length in bytes of a line that exceeds the limit and was not kept.
    TooLong(u64),
}

/// Reader of the lines of a file, with a limit for the length of each.
pub(super) struct LimitedLineReader<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
    limit: usize,
    /// Number of the line that was returned last, from 1.
    pub(super) number: u64,
    /// Offset in the file, in bytes, just after the last line feed that was read.
    pub(super) ended_at: u64,
}

impl<R: Read> LimitedLineReader<R> {
    pub(super) fn new(reader: R, limit: usize) -> Self {
        Self {
            reader: BufReader::with_capacity(256 << 10, reader),
            line: Vec::new(),
            limit,
            number: 0,
            ended_at: 0,
        }
    }

    /// Returns the next line that is not blank; `None` at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<LimitedFileLine<'_>>> {
        loop {
            self.line.clear();
            let mut n_dropped = 0_u64;
            let mut n_read = 0_u64;
            let mut is_ended = false;
            while !is_ended {
                let buffer = self.reader.fill_buf()?;
                if buffer.is_empty() {
                    break;
                }
                let end = memchr::memchr(b'\n', buffer);
                is_ended = end.is_some();
                let part = buffer
                    .get(..end.unwrap_or(buffer.len()))
                    .unwrap_or_default();
                if n_dropped > 0 || self.line.len() + part.len() > self.limit {
                    n_dropped += (self.line.len() + part.len()) as u64;
                    self.line.clear();
                } else {
                    self.line.extend_from_slice(part);
                }
                let n_used = part.len() + usize::from(is_ended);
                self.reader.consume(n_used);
                n_read += n_used as u64;
            }
            if is_ended {
                self.ended_at += n_read;
            }
            let is_blank = n_dropped == 0 && self.line.iter().all(u8::is_ascii_whitespace);
            if is_blank && !is_ended {
                return Ok(None);
            }
            self.number += 1;
            if n_dropped > 0 {
                return Ok(Some(LimitedFileLine::TooLong(n_dropped)));
            }
            if is_blank {
                continue;
            }
            return Ok(Some(match is_ended {
                true => LimitedFileLine::Whole(&self.line),
                false => LimitedFileLine::Torn(&self.line),
            }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_whatever_a_file_holds() {
        let mut lines = LimitedLineReader::new(&b"one\n\n \ntoo long\ntwo\n\xff"[..], 4);
        let mut read = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            let shown = match line {
                LimitedFileLine::Whole(text) => String::from_utf8_lossy(text).into_owned(),
                LimitedFileLine::Torn(text) => format!("torn {}", text.len()),
                LimitedFileLine::TooLong(n) => format!("{n} bytes"),
            };
            read.push((lines.number, shown));
        }
        let read: Vec<String> = read.iter().map(|(n, text)| format!("{n} {text}")).collect();
        assert_eq!(read, ["1 one", "4 8 bytes", "5 two", "6 torn 1"]);
    }

    #[test]
    fn only_names_of_one_folder_are_ids() {
        for good in ["20261125-151444-c12d70", "a", "A_1.b"] {
            assert!(is_session_id(good), "{good}");
        }
        for bad in [
            "",
            ".",
            "..",
            "../x",
            "a/b",
            ".heads.json",
            "a\u{202e}b",
            "a b",
            "a\n",
        ] {
            assert!(!is_session_id(bad), "{bad:?}");
        }
        assert!(!is_session_id(&"a".repeat(97)));
    }

    #[test]
    fn links_pipes_and_folders_are_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("file"), "x").unwrap();
        std::os::unix::fs::symlink(at("file"), at("link")).unwrap();
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        let fifo = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, at("pipe"), fifo, mode, 0).unwrap();
        assert!(open_regular_file(&at("file")).is_ok());
        for (name, words) in [
            ("link", "links are not followed"),
            ("pipe", "not a regular file"),
            (".", "not a regular file"),
        ] {
            assert!(
                open_regular_file(&at(name))
                    .unwrap_err()
                    .to_string()
                    .contains(words),
                "{name}"
            );
        }
    }
}
