//! Stores the texts that a person sent, in this chat and in earlier ones, in a history file.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::editor::EditorPiece;

/// Name of the history file in the data folder. Each line is one text: a JSON string, or an array
/// of pieces if a part was pasted.
const HISTORY_FILE: &str = "history";

/// Maximum number of texts that are read from the file.
const MAX_HISTORY_ENTRIES: usize = 1_000;

/// Size of the file, in bytes, above which it is rewritten with only the last texts.
const HISTORY_FILE_REWRITE_THRESHOLD_BYTES: u64 = 4 << 20;

/// Maximum size of a text that the history stores, in bytes.
const MAX_HISTORY_ENTRY_BYTES: usize = 64 << 10;

#[derive(Debug, Default)]
pub(super) struct ChatInputHistory {
    path: PathBuf,
    texts: Vec<HistoryEntry>,
    /// Index of the text that the editor shows, counted back from the newest. `None` if the editor
    /// shows the unsent text.
    at: Option<usize>,
    /// Unsent text that was in the editor when the person began to browse the history.
    begun: Vec<EditorPiece>,
}

/// Input of the chat as one line of the history file stores it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
enum HistoryEntry {
    Own(String),
    Pieces(Vec<EditorPiece>),
}

impl HistoryEntry {
    fn from_pieces(pieces: &[EditorPiece]) -> Self {
        match pieces {
            [EditorPiece::Own(text)] => Self::Own(text.trim_end().to_owned()),
            pieces => Self::Pieces(pieces.to_vec()),
        }
    }

    fn typed_and_pasted_pieces(&self) -> Vec<EditorPiece> {
        match self {
            Self::Own(text) => vec![EditorPiece::Own(text.clone())],
            Self::Pieces(pieces) => pieces.clone(),
        }
    }

    /// Whether a typed part contains `text`, which must be in lower case. Ignores the case of the
    /// part.
    fn has_typed_part_containing(&self, text: &str) -> bool {
        let has = |own: &str| own.to_lowercase().contains(text);
        match self {
            Self::Own(own) => has(own),
            Self::Pieces(pieces) => pieces.iter().any(|piece| match piece {
                EditorPiece::Own(own) => has(own),
                EditorPiece::Pasted(_) => false,
            }),
        }
    }
}

impl ChatInputHistory {
    /// Reads the history. If the file is missing, the history is empty.
    pub(super) fn read_history_file(data: &Path) -> Self {
        let path = data.join(HISTORY_FILE);
        let mut texts = Vec::new();
        if let Ok(file) = File::open(&path) {
            let lines = BufReader::new(file).lines().map_while(Result::ok);
            // Skip a line of the history file that is incomplete or damaged.
            texts.extend(lines.filter_map(|line| serde_json::from_str::<HistoryEntry>(&line).ok()));
        }
        let n_old = texts.len().saturating_sub(MAX_HISTORY_ENTRIES);
        texts.drain(..n_old);
        let history = Self {
            path,
            texts,
            ..Self::default()
        };
        history.trim_history_file();
        history
    }

    /// Adds a text. Skips a text that begins with a blank, as shells do, and a very long one.
    /// Returns whether the text is now in the history.
    pub(super) fn add_text(&mut self, text: &str) -> bool {
        self.add_sent_text_pieces(&[EditorPiece::Own(text.to_owned())])
    }

    /// Adds a text that consists of typed and pasted pieces, under the conditions of
    /// [`Self::add_text`].
    pub(super) fn add_sent_text_pieces(&mut self, pieces: &[EditorPiece]) -> bool {
        (self.at, self.begun) = (None, Vec::new());
        let whole = join_editor_pieces_to_text(pieces);
        let text = whole.trim_end();
        let is_kept =
            !text.is_empty() && !text.starts_with(' ') && text.len() <= MAX_HISTORY_ENTRY_BYTES;
        let added = HistoryEntry::from_pieces(pieces);
        if !is_kept || self.texts.last() == Some(&added) {
            return is_kept;
        }
        if let (Ok(mut file), Ok(line)) = (
            self.open_history_file_for_writing(false),
            serde_json::to_string(&added),
        ) {
            // Append with a single write, so that concurrent chats do not mix their lines. Ignore
            // an error: only this entry is lost.
            let _ = file.write_all((line + "\n").as_bytes());
        }
        self.texts.push(added);
        true
    }

    /// Returns the next older text. `now` is the current text of the editor, which
    /// [`Self::move_to_newer_text`] returns after the newest text.
    pub(super) fn move_to_older_text(&mut self, now: &[EditorPiece]) -> Option<Vec<EditorPiece>> {
        let at = self.at.map_or(0, |at| at + 1);
        let text = self.texts.len().checked_sub(at + 1)?;
        if self.at.is_none() {
            self.begun = now.to_vec();
        }
        self.at = Some(at);
        self.texts
            .get(text)
            .map(HistoryEntry::typed_and_pasted_pieces)
    }

    /// Returns the next newer text of the history or, after the newest one, the text that was not
    /// sent yet.
    pub(super) fn move_to_newer_text(&mut self) -> Option<Vec<EditorPiece>> {
        let at = self.at?;
        self.at = at.checked_sub(1);
        match self.at {
            Some(at) => {
                let text = self.texts.len().checked_sub(at + 1)?;
                self.texts
                    .get(text)
                    .map(HistoryEntry::typed_and_pasted_pieces)
            }
            None => Some(std::mem::take(&mut self.begun)),
        }
    }

    /// Returns the newest text that contains `letters` in any case, and its index, counted back
    /// from the newest. Searches only texts older than the index `before`.
    pub(super) fn find_newest_text_containing(
        &self,
        letters: &str,
        before: Option<usize>,
    ) -> Option<(usize, Vec<EditorPiece>)> {
        let letters = letters.to_lowercase();
        let from = before.map_or(0, |at| at + 1);
        let mut texts = self.texts.iter().rev().enumerate().skip(from);
        let (at, found) = texts.find(|(_, text)| text.has_typed_part_containing(&letters))?;
        Some((at, found.typed_and_pasted_pieces()))
    }

    /// Opens the history file to append to it or, if `is_new` is set, to rewrite it. A new file
    /// gets mode 0600.
    fn open_history_file_for_writing(&self, is_new: bool) -> std::io::Result<File> {
        let mut options = OpenOptions::new();
        options.create(true).mode(0o600);
        options.append(!is_new).write(is_new).truncate(is_new);
        options.open(&self.path)
    }

    fn trim_history_file(&self) {
        if std::fs::metadata(&self.path)
            .is_ok_and(|file| file.len() > HISTORY_FILE_REWRITE_THRESHOLD_BYTES)
        {
            let lines = self
                .texts
                .iter()
                .filter_map(|text| serde_json::to_string(text).ok());
            let text: String = lines.map(|line| line + "\n").collect();
            if let Ok(mut file) = self.open_history_file_for_writing(true) {
                let _ = file.write_all(text.as_bytes());
            }
        }
    }
}

fn join_editor_pieces_to_text(pieces: &[EditorPiece]) -> String {
    let texts = pieces.iter().map(|piece| match piece {
        EditorPiece::Own(text) | EditorPiece::Pasted(text) => text.as_str(),
    });
    texts.collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_was_said_is_there_in_the_next_chat_and_for_nobody_else() {
        let folder = tempfile::tempdir().unwrap();
        let mut history = ChatInputHistory::read_history_file(folder.path());
        for (text, is_kept) in [
            ("one", true),
            ("two\nlines", true),
            ("two\nlines", true),
            (" secret", false),
            (&"x".repeat(MAX_HISTORY_ENTRY_BYTES + 1), false),
            ("", false),
        ] {
            assert_eq!(history.add_text(text), is_kept);
        }
        let path = folder.path().join(HISTORY_FILE);
        assert_eq!(
            std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        std::fs::write(&path, std::fs::read_to_string(&path).unwrap() + "\"torn").unwrap();
        let mut history = ChatInputHistory::read_history_file(folder.path());
        let own = |text: &str| vec![EditorPiece::Own(text.to_owned())];
        assert_eq!(
            history.move_to_older_text(&own("begun")),
            Some(own("two\nlines"))
        );
        assert_eq!(history.move_to_older_text(&[]), Some(own("one")));
        assert_eq!(history.move_to_older_text(&[]), None);
        assert_eq!(history.move_to_newer_text(), Some(own("two\nlines")));
        assert_eq!(history.move_to_newer_text(), Some(own("begun")));
        assert_eq!(history.move_to_newer_text(), None);
    }

    #[test]
    fn a_paste_comes_back_as_a_paste_and_letters_find_what_was_typed() {
        let folder = tempfile::tempdir().unwrap();
        let own = |text: &str| EditorPiece::Own(text.to_owned());
        let pasted = vec![own("explain "), EditorPiece::Pasted("secret\n".repeat(40))];
        let mut history = ChatInputHistory::read_history_file(folder.path());
        for pieces in [vec![own("make Test")], pasted.clone(), vec![own("test it")]] {
            assert!(history.add_sent_text_pieces(&pieces));
            assert!(
                history.add_sent_text_pieces(&pieces),
                "the same twice is kept once"
            );
        }
        let mut history = ChatInputHistory::read_history_file(folder.path());
        assert_eq!(
            history.find_newest_text_containing("TEST", None),
            Some((0, vec![own("test it")]))
        );
        assert_eq!(
            history.find_newest_text_containing("test", Some(0)),
            Some((2, vec![own("make Test")]))
        );
        assert_eq!(history.find_newest_text_containing("test", Some(2)), None);
        assert_eq!(
            history.find_newest_text_containing("secret", None),
            None,
            "it was not typed"
        );
        history.move_to_older_text(&[]);
        assert_eq!(history.move_to_older_text(&[]), Some(pasted));
    }
}
