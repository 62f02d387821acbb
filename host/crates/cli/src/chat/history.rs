//! History of the texts that a person sent, in this chat and in earlier ones, kept in a file.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Name of the file in the folder for data. A line is one text as a JSON string.
const FILE: &str = "history";

/// Most texts that are read.
const MAX_TEXTS: usize = 1_000;

/// Size from which on the file is written anew with its last texts.
const MAX_BYTES: u64 = 4 << 20;

/// Longest text that is kept.
const MAX_TEXT_BYTES: usize = 64 << 10;

#[derive(Debug, Default)]
pub(super) struct ChatHistory {
    path: PathBuf,
    texts: Vec<String>,
    /// The shown entry, counted from the last one; `None` is the text being written.
    at: Option<usize>,
    /// The text that was being written when the first older one was asked for.
    begun: String,
}

impl ChatHistory {
    /// Reads the history. Without one it is empty: nothing depends on it.
    pub(super) fn open_history(data: &Path) -> Self {
        let path = data.join(FILE);
        let mut texts = Vec::new();
        if let Ok(file) = File::open(&path) {
            let lines = BufReader::new(file).lines().map_while(Result::ok);
            // Skip a torn line.
            texts.extend(lines.filter_map(|line| serde_json::from_str::<String>(&line).ok()));
        }
        let n_old = texts.len().saturating_sub(MAX_TEXTS);
        texts.drain(..n_old);
        let history = Self {
            path,
            texts,
            ..Self::default()
        };
        history.shorten_file();
        history
    }

    /// Adds a text. Skips a text that begins with a blank, as shells do, and a very long one.
    /// Returns whether the text is in the history.
    pub(super) fn add_line(&mut self, text: &str) -> bool {
        (self.at, self.begun) = (None, String::new());
        let text = text.trim_end();
        let is_kept = !text.is_empty() && !text.starts_with(' ') && text.len() <= MAX_TEXT_BYTES;
        if !is_kept || self.texts.last().is_some_and(|last| last == text) {
            return is_kept;
        }
        self.texts.push(text.to_owned());
        if let (Ok(mut file), Ok(line)) = (self.open_file(false), serde_json::to_string(text)) {
            // Append with a single write, so that concurrent chats do not mix their lines. A
            // failure only loses a history entry.
            let _ = file.write_all((line + "\n").as_bytes());
        }
        true
    }

    /// Returns the text before the one that is shown; `now` is shown again after the newest.
    pub(super) fn older_line(&mut self, now: &str) -> Option<String> {
        let at = self.at.map_or(0, |at| at + 1);
        let text = self.texts.len().checked_sub(at + 1)?;
        if self.at.is_none() {
            self.begun = now.to_owned();
        }
        self.at = Some(at);
        self.texts.get(text).cloned()
    }

    /// Returns the text after the one that is shown.
    pub(super) fn newer_line(&mut self) -> Option<String> {
        let at = self.at?;
        self.at = at.checked_sub(1);
        match self.at {
            Some(at) => self
                .texts
                .get(self.texts.len().checked_sub(at + 1)?)
                .cloned(),
            None => Some(std::mem::take(&mut self.begun)),
        }
    }

    /// Opens the file with mode 0600.
    fn open_file(&self, is_new: bool) -> std::io::Result<File> {
        let mut options = OpenOptions::new();
        options.create(true).mode(0o600);
        options.append(!is_new).write(is_new).truncate(is_new);
        options.open(&self.path)
    }

    fn shorten_file(&self) {
        if std::fs::metadata(&self.path).is_ok_and(|file| file.len() > MAX_BYTES) {
            let lines = self
                .texts
                .iter()
                .filter_map(|text| serde_json::to_string(text).ok());
            let text: String = lines.map(|line| line + "\n").collect();
            if let Ok(mut file) = self.open_file(true) {
                let _ = file.write_all(text.as_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_was_said_is_there_in_the_next_chat_and_for_nobody_else() {
        let folder = tempfile::tempdir().unwrap();
        let mut history = ChatHistory::open_history(folder.path());
        for (text, is_kept) in [
            ("one", true),
            ("two\nlines", true),
            ("two\nlines", true),
            (" secret", false),
            (&"x".repeat(MAX_TEXT_BYTES + 1), false),
            ("", false),
        ] {
            assert_eq!(history.add_line(text), is_kept);
        }
        let path = folder.path().join(FILE);
        assert_eq!(
            std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        std::fs::write(&path, std::fs::read_to_string(&path).unwrap() + "\"torn").unwrap();
        let mut history = ChatHistory::open_history(folder.path());
        assert_eq!(history.older_line("begun").as_deref(), Some("two\nlines"));
        assert_eq!(history.older_line("").as_deref(), Some("one"));
        assert_eq!(history.older_line(""), None);
        assert_eq!(history.newer_line().as_deref(), Some("two\nlines"));
        assert_eq!(history.newer_line().as_deref(), Some("begun"));
        assert_eq!(history.newer_line(), None);
    }
}
