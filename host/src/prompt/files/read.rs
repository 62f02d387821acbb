//! Reading of one context file, within its bounds.

use std::borrow::Cow;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::MAX_FILE_BYTES;

/// A context file that was read.
pub(super) struct ReadFile {
    pub(super) text: String,
    /// Path without links.
    pub(super) real: PathBuf,
    /// Whether there is more in the file.
    is_cut: bool,
    /// Whether there were bytes that are no text.
    is_mended: bool,
}

impl ReadFile {
    /// Faults of the file that the user is told about.
    pub(super) fn faults(&self) -> impl Iterator<Item = String> {
        let cut = format!("longer than {MAX_FILE_BYTES} bytes; the rest is left out");
        let mended = "not all UTF-8; what is not is replaced by \u{fffd}".to_owned();
        let faults = [self.is_cut.then_some(cut), self.is_mended.then_some(mended)];
        faults.into_iter().flatten()
    }

    /// The text as the model gets it, under this name.
    pub(super) fn block(&self, name: &str) -> String {
        let more = if self.is_cut { "\n[cut here]" } else { "" };
        format!(
            "<file path=\"{name}\">\n{}{more}\n</file>",
            self.text.trim()
        )
    }
}

/// Reads a file that is a Markdown file in the folder `boundary`, wherever links lead.
///
/// # Errors
/// The reason why the file is left out, in words for the user.
pub(super) fn read(boundary: &Path, path: &Path) -> Result<ReadFile, String> {
    let real = path.canonicalize().map_err(|e| e.to_string())?;
    let is_link = path.symlink_metadata().is_ok_and(|meta| meta.is_symlink());
    let leads = match is_link {
        true => format!("it is a link to {}", real.display()),
        false => format!("it leads to {}", real.display()),
    };
    if !real.starts_with(boundary) {
        return Err(format!("{leads}, outside the project"));
    }
    if real.extension().is_none_or(|extension| extension != "md") {
        return Err(match is_link {
            true => format!("{leads}, and only links to Markdown files are followed"),
            false => {
                "it is not a Markdown file (`.md`); the model can read it with its tools".to_owned()
            }
        });
    }
    // A pipe or a device would block or never end.
    if !fs::metadata(&real).is_ok_and(|meta| meta.is_file()) {
        return Err("it is not a file".to_owned());
    }
    let mut bytes = Vec::new();
    fs::File::open(&real)
        .and_then(|file| file.take(MAX_FILE_BYTES as u64 + 1).read_to_end(&mut bytes))
        .map_err(|e| e.to_string())?;
    if bytes.contains(&0) {
        return Err("it is not text".to_owned());
    }
    let is_long = bytes.len() > MAX_FILE_BYTES;
    if is_long {
        // The cut may go through a character, which is no fault of the file's.
        let in_character = |byte: &u8| (0x80..0xc0).contains(byte);
        let mut end = MAX_FILE_BYTES;
        while end > MAX_FILE_BYTES - 4 && bytes.get(end).is_some_and(in_character) {
            end -= 1;
        }
        bytes.truncate(end);
    }
    let text = String::from_utf8_lossy(&bytes);
    let is_mended = matches!(text, Cow::Owned(_));
    let mut text = text.trim_start_matches('\u{feff}').to_owned();
    // The replacement character is longer than a bad byte.
    let is_cut = is_long || text.len() > MAX_FILE_BYTES;
    text.truncate(text.floor_char_boundary(MAX_FILE_BYTES));
    Ok(ReadFile {
        text,
        real,
        is_cut,
        is_mended,
    })
}
