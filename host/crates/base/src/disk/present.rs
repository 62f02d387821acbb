//! Reads files that may be absent: settings, policies, lock files, answers.
//!
//! Decides when a file counts as absent. A file with rules that is wrongly treated as absent would
//! disable these rules. Start from [`read_if_present`].

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// Opens a regular file for reading; `None` if the path does not exist.
///
/// # Errors
/// The path, or a directory on the way to it, is a symlink whose target is missing: the target may
/// be on a file system that is not mounted, and the rules in the file would silently not apply.
/// Anything but a regular file is an error as well, because opening a named pipe would wait for a
/// writer.
pub fn open_if_present(path: &Path) -> io::Result<Option<File>> {
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
        .open(path);
    let file = match opened {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return match path.ancestors().find(|path| is_dangling_symlink(path)) {
                Some(link) => Err(io::Error::other(format!(
                    "the link `{}` is dangling: its target does not exist",
                    link.display()
                ))),
                None => Ok(None),
            };
        }
        opened => opened?,
    };
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    Ok(Some(file))
}

/// Reads a regular text file of at most `max_bytes`; `None` if it does not exist.
///
/// # Errors
/// The errors of [`open_if_present`], and a file that is larger or is not UTF-8.
pub fn read_if_present(path: &Path, max_bytes: u64) -> io::Result<Option<String>> {
    let Some(file) = open_if_present(path)? else {
        return Ok(None);
    };
    let size = file.metadata()?.len();
    let mut bytes = Vec::new();
    file.take(max_bytes.saturating_add(1))
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        return Err(io::Error::other(format!(
            "the file has {size} bytes, at most {max_bytes} are supported"
        )));
    }
    let text = String::from_utf8(bytes).map_err(|e| io::Error::new(ErrorKind::InvalidData, e))?;
    Ok(Some(text))
}

/// Whether a path is a symlink whose target is missing.
pub fn is_dangling_symlink(path: &Path) -> bool {
    path.is_symlink()
        && path
            .metadata()
            .is_err_and(|e| e.kind() == ErrorKind::NotFound)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_a_name_that_nothing_has_is_absent() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let read = |name: &str| read_if_present(&at(name), 4).map_err(|error| error.to_string());
        std::fs::write(at("file"), "text").unwrap();
        // Reading stops within a character.
        std::fs::write(at("large"), "äöü").unwrap();
        std::fs::write(at("binary"), [0xff]).unwrap();
        symlink("file", at("link")).unwrap();
        symlink("nothing", at("dangling")).unwrap();
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(
            rustix::fs::CWD,
            at("pipe"),
            rustix::fs::FileType::Fifo,
            mode,
            0,
        )
        .unwrap();
        assert_eq!(read("file"), Ok(Some("text".to_owned())));
        assert_eq!(read("link"), Ok(Some("text".to_owned())));
        assert_eq!(read("missing"), Ok(None));
        assert_eq!(read("missing/file"), Ok(None));
        for (name, words) in [
            ("large", "the file has 6 bytes, at most 4 are supported"),
            ("binary", "invalid utf-8"),
            (
                "dangling",
                "dangling` is dangling: its target does not exist",
            ),
            (
                "dangling/file",
                "dangling` is dangling: its target does not exist",
            ),
            ("pipe", "not a regular file"),
            ("", "not a regular file"),
        ] {
            let refusal = read(name).unwrap_err();
            assert!(refusal.contains(words), "{name}: {refusal}");
        }
    }
}
