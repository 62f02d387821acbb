//! Reads one context file, up to the maximum size.

use std::borrow::Cow;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::MAX_CONTEXT_FILE_BYTES;

/// Text of a context file, and facts about how it was read.
pub(super) struct ContextFileText {
    pub(super) text: String,
    /// Path of the file, with symlinks resolved.
    pub(super) real: PathBuf,
    /// Whether the text was truncated because the file was longer than the limit.
    is_cut: bool,
    /// Whether invalid UTF-8 in the file was replaced.
    is_mended: bool,
}

impl ContextFileText {
    /// Returns the problems of the file, as messages for the user.
    pub(super) fn describe_faults(&self) -> impl Iterator<Item = String> {
        let cut = format!("longer than {MAX_CONTEXT_FILE_BYTES} bytes; the rest is left out");
        let mended = "not valid UTF-8; invalid bytes are replaced by \u{fffd}".to_owned();
        let faults = [self.is_cut.then_some(cut), self.is_mended.then_some(mended)];
        faults.into_iter().flatten()
    }

    /// Returns the text for the model as a `<file>` block with the path `name`.
    pub(super) fn context_block(&self, name: &str) -> String {
        let more = if self.is_cut { "\n[cut here]" } else { "" };
        // Escape closing tags in the text, and special characters in the name. Otherwise either
        // could end the block and continue with a forged block or text in the name of the host.
        // Repositories choose the names of their directories.
        let text = escape_closing_tags(self.text.trim());
        let name = name
            .replace(['\n', '\r'], " ")
            .replace('"', "&quot;")
            .replace('<', "&lt;")
            .replace('>', "&gt;");
        format!("<file path=\"{name}\">\n{text}{more}\n</file>")
    }
}

/// Escapes the closing tags of context blocks in a text, regardless of case.
fn escape_closing_tags(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("</") {
        let (before, tag) = rest.split_at(at);
        let word = tag.get(2..6).unwrap_or_default();
        escaped.push_str(before);
        escaped.push_str(match word.eq_ignore_ascii_case("file") {
            true => "<\\/",
            false => "</",
        });
        rest = tag.get(2..).unwrap_or_default();
    }
    escaped + rest
}

/// Reads a file if it is, after resolving symlinks, a Markdown file in the folder `boundary`.
///
/// # Errors
/// The file must not be used. The error is the reason, as a message for the user.
pub(super) fn read_markdown_in_folder(
    boundary: &Path,
    path: &Path,
) -> Result<ContextFileText, String> {
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
            true => format!("{leads}, but only links to Markdown files are followed"),
            false => {
                "it is not a Markdown file (`.md`); the model can read it with its tools".to_owned()
            }
        });
    }
    // Accept only regular files: reading a pipe or a device could block or never end.
    if !fs::metadata(&real).is_ok_and(|meta| meta.is_file()) {
        return Err("the path is not a file".to_owned());
    }
    let mut bytes = Vec::new();
    fs::File::open(&real)
        .and_then(|file| {
            file.take(MAX_CONTEXT_FILE_BYTES as u64 + 1)
                .read_to_end(&mut bytes)
        })
        .map_err(|e| e.to_string())?;
    if bytes.contains(&0) {
        return Err("the file is not text".to_owned());
    }
    let is_long = bytes.len() > MAX_CONTEXT_FILE_BYTES;
    if is_long {
        // Remove a character that truncation has split: it is valid UTF-8 in the file, so it must
        // not be reported.
        let in_character = |byte: &u8| (0x80..0xc0).contains(byte);
        let mut end = MAX_CONTEXT_FILE_BYTES;
        while end > MAX_CONTEXT_FILE_BYTES - 4 && bytes.get(end).is_some_and(in_character) {
            end -= 1;
        }
        bytes.truncate(end);
    }
    let text = String::from_utf8_lossy(&bytes);
    let is_mended = matches!(text, Cow::Owned(_));
    let mut text = text.trim_start_matches('\u{feff}').to_owned();
    // Check the length again: the replacement character is longer than the byte that it replaces.
    let is_cut = is_long || text.len() > MAX_CONTEXT_FILE_BYTES;
    text.truncate(text.floor_char_boundary(MAX_CONTEXT_FILE_BYTES));
    Ok(ContextFileText {
        text,
        real,
        is_cut,
        is_mended,
    })
}
