//! Edits the text that a person is writing: the position of the cursor, the effect of keys, the
//! layout in rows.
//!
//! A long paste is a single placeholder character in the text, shown as a note, until the text is
//! sent. The module must not know terminals or turns. Start from [`ChatInputEditor`].

use serde::{Deserialize, Serialize};
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use super::super::render::escape_prose_for_display;

/// Maximum number of lines of a paste that the editor shows in full; it shows a short note in place
/// of a longer paste.
const MAX_FULLY_SHOWN_PASTE_LINES: usize = 8;

/// Maximum size in bytes of a paste that is shown in full; a larger one is shown as a note.
const MAX_FULLY_SHOWN_PASTE_BYTES: usize = 1_000;

/// First placeholder character for pastes, from a private use area of Unicode.
const FIRST_PASTE_PLACEHOLDER_CHAR: u32 = 0xf_0000;

/// Maximum number of pasted texts in one input.
const MAX_PASTES: u32 = 0xfff;

/// Maximum number of edits that can be undone.
const MAX_UNDO_STEPS: usize = 100;

/// Maximum size of a text of the user that is shown in full when it is inserted at once, in bytes:
/// from the history, from an external editor or from the command line. A larger text is inserted as
/// a paste, because each key press redraws all text.
const MAX_FULLY_SHOWN_INSERT_BYTES: usize = 64 << 10;

const TAB_REPLACEMENT_SPACES: &str = "    ";

/// Prefix of the first row. The next constant is the prefix of all other rows.
pub(super) const FIRST_EDITOR_ROW_PREFIX: &str = "› ";
const NEXT_EDITOR_ROW_PREFIX: &str = "  ";

#[derive(Clone, Debug, Default)]
pub(super) struct ChatInputEditor {
    text: String,
    /// Offset of the cursor in `text`, in bytes, always between two letters.
    at: usize,
    pastes: Vec<String>,
    /// Text of the last deletion, which Ctrl-Y inserts again.
    killed: String,
    undo: Vec<(String, usize)>,
    /// Whether the last change was a typed letter. Letters that are typed one after another are
    /// undone together.
    is_typing: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum EditorPiece {
    Own(String),
    /// A long paste, which the editor shows as a short note, because the person has not read its
    /// text.
    Pasted(String),
}

/// Rows of the text as they are drawn, with the position of the cursor.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct EditorTextLayout {
    pub(super) rows: Vec<String>,
    /// Row and column of the cursor, both counted from 0.
    pub(super) cursor: (usize, usize),
}

/// Position to which the cursor moves, or up to which text is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EditorCursorTarget {
    Left,
    Right,
    WordLeft,
    WordRight,
    LineStart,
    LineEnd,
}

impl ChatInputEditor {
    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    pub(super) fn full_text(&self) -> String {
        self.expand_paste_placeholders(&self.text)
    }

    /// Returns the text as the editor shows it, with notes in place of pastes.
    pub(super) fn text_with_paste_placeholders_shown(&self) -> String {
        let letters = self
            .text
            .graphemes(true)
            .map(|letter| self.display_text_of_character(letter));
        letters.collect()
    }

    pub(super) fn typed_and_pasted_pieces(&self) -> Vec<EditorPiece> {
        let mut pieces = Vec::new();
        for character in self.text.chars() {
            match (
                self.pasted_text_for_placeholder(character),
                pieces.last_mut(),
            ) {
                (Some(paste), _) => pieces.push(EditorPiece::Pasted(paste.to_owned())),
                (None, Some(EditorPiece::Own(own))) => own.push(character),
                (None, _) => pieces.push(EditorPiece::Own(character.into())),
            }
        }
        pieces
    }

    /// Returns the text before the cursor, in which a single character stands for each pasted text.
    pub(super) fn text_before_cursor(&self) -> &str {
        self.text.get(..self.at).unwrap_or_default()
    }

    /// Removes the text from the editor and returns it, with the pastes in full.
    pub(super) fn take_text(&mut self) -> String {
        let whole = self.full_text();
        self.clear_text();
        whole
    }

    /// Empties the editor in a way that can be undone.
    pub(super) fn clear_text_with_undo(&mut self) {
        self.save_undo_state();
        self.text.clear();
        self.at = 0;
    }

    pub(super) fn clear_text(&mut self) {
        self.text.clear();
        self.pastes.clear();
        self.undo.clear();
        self.at = 0;
        self.is_typing = false;
    }

    /// Replaces the text of the editor with another text, and moves the cursor to the end.
    pub(super) fn set_text(&mut self, text: &str) {
        self.save_undo_state();
        self.text.clear();
        self.at = 0;
        self.insert_text_up_to_limit(text);
    }

    /// Replaces the text of the editor with a text from the history, whose pastes are shown as
    /// notes again. Moves the cursor to the end.
    pub(super) fn set_text_pieces(&mut self, pieces: &[EditorPiece]) {
        self.save_undo_state();
        self.text.clear();
        self.at = 0;
        self.insert_text_pieces(pieces);
    }

    fn insert_text_pieces(&mut self, pieces: &[EditorPiece]) {
        for piece in pieces {
            match piece {
                EditorPiece::Own(text) => self.insert_text_up_to_limit(text),
                EditorPiece::Pasted(text) => self.insert_paste_placeholder(text),
            }
        }
    }

    /// Inserts pieces in lines of their own before the current text, and moves the cursor to the
    /// end.
    pub(super) fn prepend_text_pieces(&mut self, pieces: &[EditorPiece]) {
        self.save_undo_state();
        let rest = std::mem::take(&mut self.text);
        self.at = 0;
        self.insert_text_pieces(pieces);
        if !rest.is_empty() {
            self.insert_character('\n');
            self.text.push_str(&rest);
            self.at = self.text.len();
        }
    }

    pub(super) fn insert_typed_character(&mut self, letter: char) {
        if !self.is_typing {
            self.save_undo_state();
        }
        self.is_typing = !letter.is_whitespace();
        self.insert_character(letter);
    }

    pub(super) fn paste_text(&mut self, text: &str) {
        self.save_undo_state();
        self.insert_paste_placeholder(text);
    }

    /// Replaces the text between the byte offset `from` and the cursor by `text`.
    pub(super) fn replace_text_before_cursor(&mut self, from: usize, text: &str) {
        self.save_undo_state();
        if self.text.is_char_boundary(from) && from <= self.at {
            self.text.replace_range(from..self.at, "");
            self.at = from;
        }
        text.chars()
            .for_each(|letter| self.insert_character(letter));
    }

    pub(super) fn move_cursor(&mut self, to: EditorCursorTarget) {
        self.is_typing = false;
        self.at = self.byte_offset_of_cursor_target(to);
    }

    /// Moves the cursor a line up or down, to the same column or to the end of a shorter line.
    /// Returns false if there is no line above or below.
    pub(super) fn move_cursor_vertically(&mut self, is_up: bool) -> bool {
        self.is_typing = false;
        let start = self.byte_offset_of_cursor_target(EditorCursorTarget::LineStart);
        let column = self.text_before_cursor()[start..].graphemes(true).count();
        let target = if is_up {
            let Some(end) = start.checked_sub(1) else {
                return false;
            };
            self.text[..end].rfind('\n').map_or(0, |at| at + 1)
        } else {
            match self.text[self.at..].find('\n') {
                Some(at) => self.at + at + 1,
                None => return false,
            }
        };
        let line = self.text[target..].lines().next().unwrap_or_default();
        let ahead: usize = line.graphemes(true).take(column).map(str::len).sum();
        self.at = target + ahead;
        true
    }

    /// Deletes the text between the cursor and a target. Keeps the deleted text of words and lines
    /// for [`yank_deleted_text`](Self::yank_deleted_text).
    pub(super) fn delete_from_cursor_to(&mut self, to: EditorCursorTarget) {
        self.save_undo_state();
        let mut target = self.byte_offset_of_cursor_target(to);
        // If the cursor is already at the end or start of its line, delete the line break there.
        if target == self.at && to == EditorCursorTarget::LineEnd {
            target = self.byte_offset_of_cursor_target(EditorCursorTarget::Right);
        } else if target == self.at && to == EditorCursorTarget::LineStart {
            target = self.byte_offset_of_cursor_target(EditorCursorTarget::Left);
        }
        let (from, until) = (target.min(self.at), target.max(self.at));
        let deleted: String = self.text.drain(from..until).collect();
        self.at = from;
        if !matches!(to, EditorCursorTarget::Left | EditorCursorTarget::Right)
            && !deleted.is_empty()
        {
            self.killed = self.expand_paste_placeholders(&deleted);
        }
    }

    /// Inserts the text that was deleted last at the cursor (Ctrl-Y).
    pub(super) fn yank_deleted_text(&mut self) {
        self.save_undo_state();
        let killed = std::mem::take(&mut self.killed);
        self.insert_paste_placeholder(&killed);
        self.killed = killed;
    }

    pub(super) fn undo_edit(&mut self) {
        if let Some((text, at)) = self.undo.pop() {
            (self.text, self.at) = (text, at);
        }
        self.is_typing = false;
    }

    /// Wraps the text into rows of at most `columns` columns. Returns at most `max_rows` of them,
    /// including the row with the cursor.
    pub(super) fn layout_rows(&self, columns: usize, max_rows: usize) -> EditorTextLayout {
        let mut rows = vec![FIRST_EDITOR_ROW_PREFIX.to_owned()];
        let mut width = FIRST_EDITOR_ROW_PREFIX.width();
        let mut cursor = (0, width);
        let mut offset = 0;
        let columns = columns.max(FIRST_EDITOR_ROW_PREFIX.len() + 2);
        for letter in self.text.graphemes(true) {
            if offset == self.at {
                cursor = (rows.len() - 1, width);
            }
            offset += letter.len();
            if letter == "\n" || letter == "\r\n" {
                rows.push(NEXT_EDITOR_ROW_PREFIX.to_owned());
                width = NEXT_EDITOR_ROW_PREFIX.len();
                continue;
            }
            let shown = self.display_text_of_character(letter);
            for part in shown.graphemes(true) {
                // Keep the last column free for the cursor.
                if width + part.width() >= columns {
                    rows.push(NEXT_EDITOR_ROW_PREFIX.to_owned());
                    width = NEXT_EDITOR_ROW_PREFIX.len();
                }
                if let Some(row) = rows.last_mut() {
                    row.push_str(part);
                }
                width += part.width();
            }
        }
        if offset == self.at {
            cursor = (rows.len() - 1, width);
        }
        let max_rows = max_rows.max(1);
        let first = (cursor.0 + 1).saturating_sub(max_rows);
        let rows: Vec<String> = rows.into_iter().skip(first).take(max_rows).collect();
        EditorTextLayout {
            rows,
            cursor: (cursor.0 - first, cursor.1),
        }
    }

    fn display_text_of_character(&self, letter: &str) -> String {
        let mut characters = letter.chars();
        match (characters.next(), characters.next()) {
            (Some(character), None) if self.pasted_text_for_placeholder(character).is_some() => {
                let paste = self
                    .pasted_text_for_placeholder(character)
                    .unwrap_or_default();
                let number = u32::from(character) - FIRST_PASTE_PLACEHOLDER_CHAR + 1;
                format!("[paste {number}: {} lines]", paste.lines().count())
            }
            (Some('\t'), None) => TAB_REPLACEMENT_SPACES.to_owned(),
            _ => escape_prose_for_display(letter),
        }
    }

    /// Returns the paste that a placeholder character represents; `None` for other characters.
    fn pasted_text_for_placeholder(&self, character: char) -> Option<&str> {
        let number = u32::from(character).checked_sub(FIRST_PASTE_PLACEHOLDER_CHAR)?;
        let paste = self.pastes.get(usize::try_from(number).ok()?);
        paste.map(String::as_str)
    }

    fn expand_paste_placeholders(&self, text: &str) -> String {
        let mut whole = String::with_capacity(text.len());
        for character in text.chars() {
            match self.pasted_text_for_placeholder(character) {
                Some(paste) => whole.push_str(paste),
                None => whole.push(character),
            }
        }
        whole
    }

    fn insert_character(&mut self, letter: char) {
        let is_ours = (FIRST_PASTE_PLACEHOLDER_CHAR..=FIRST_PASTE_PLACEHOLDER_CHAR + MAX_PASTES)
            .contains(&u32::from(letter));
        self.insert_raw_character(if is_ours {
            char::REPLACEMENT_CHARACTER
        } else {
            letter
        });
    }

    fn insert_raw_character(&mut self, letter: char) {
        self.text.insert(self.at, letter);
        self.at += letter.len_utf8();
    }

    /// Inserts text of the user, which is shown in full up to [`MAX_FULLY_SHOWN_INSERT_BYTES`].
    fn insert_text_up_to_limit(&mut self, text: &str) {
        if text.len() > MAX_FULLY_SHOWN_INSERT_BYTES {
            return self.insert_paste_placeholder(text);
        }
        normalize_line_breaks(text)
            .chars()
            .for_each(|letter| self.insert_character(letter));
        self.is_typing = false;
    }

    fn insert_paste_placeholder(&mut self, text: &str) {
        let text = normalize_line_breaks(text);
        let n_pastes = u32::try_from(self.pastes.len()).unwrap_or(MAX_PASTES);
        let is_long = text.lines().count() > MAX_FULLY_SHOWN_PASTE_LINES
            || text.len() > MAX_FULLY_SHOWN_PASTE_BYTES;
        match char::from_u32(FIRST_PASTE_PLACEHOLDER_CHAR + n_pastes) {
            Some(character) if is_long && n_pastes < MAX_PASTES => {
                self.pastes.push(text);
                self.insert_raw_character(character);
            }
            _ => text
                .chars()
                .for_each(|letter| self.insert_character(letter)),
        }
        self.is_typing = false;
    }

    /// Saves text and cursor, so that [`Self::undo_edit`] can restore them.
    fn save_undo_state(&mut self) {
        self.is_typing = false;
        if self.undo.last().is_none_or(|(text, _)| *text != self.text) {
            self.undo.push((self.text.clone(), self.at));
        }
        if self.undo.len() > MAX_UNDO_STEPS {
            self.undo.remove(0);
        }
    }

    fn byte_offset_of_cursor_target(&self, to: EditorCursorTarget) -> usize {
        let (before, after) = self.text.split_at(self.at);
        let first = |text: &str| text.graphemes(true).next().map_or(0, str::len);
        match to {
            EditorCursorTarget::Left => {
                self.at - before.graphemes(true).next_back().map_or(0, str::len)
            }
            EditorCursorTarget::Right => self.at + first(after),
            EditorCursorTarget::LineStart => before.rfind('\n').map_or(0, |at| at + 1),
            EditorCursorTarget::LineEnd => {
                after.find('\n').map_or(self.text.len(), |at| self.at + at)
            }
            EditorCursorTarget::WordLeft => {
                let words = before.split_word_bound_indices().rev();
                let mut words = words.filter(|(_, word)| !word.trim().is_empty());
                words.next().map_or(0, |(at, _)| at)
            }
            EditorCursorTarget::WordRight => {
                let mut words = after.split_word_bound_indices();
                let word = words.find(|(_, word)| !word.trim().is_empty());
                word.map_or(self.text.len(), |(at, word)| self.at + at + word.len())
            }
        }
    }
}

/// Replaces the line breaks CR LF and CR by LF.
fn normalize_line_breaks(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(text: &str) -> ChatInputEditor {
        let mut editor = ChatInputEditor::default();
        text.chars()
            .for_each(|letter| editor.insert_typed_character(letter));
        editor
    }

    #[test]
    fn keys_move_over_and_delete_whole_letters_and_words() {
        let mut editor = typed("one 👩\u{200d}🔬 e\u{301} two");
        editor.move_cursor(EditorCursorTarget::WordLeft);
        assert_eq!(editor.text_before_cursor(), "one 👩\u{200d}🔬 e\u{301} ");
        editor.delete_from_cursor_to(EditorCursorTarget::Left);
        editor.delete_from_cursor_to(EditorCursorTarget::Left);
        editor.delete_from_cursor_to(EditorCursorTarget::Left);
        editor.delete_from_cursor_to(EditorCursorTarget::Left);
        assert_eq!(editor.full_text(), "one two");
        editor.delete_from_cursor_to(EditorCursorTarget::LineEnd);
        assert_eq!(editor.full_text(), "one ");
        editor.yank_deleted_text();
        editor.yank_deleted_text();
        assert_eq!(editor.full_text(), "one twotwo");
        editor.delete_from_cursor_to(EditorCursorTarget::LineStart);
        assert!(editor.is_empty());
        editor.undo_edit();
        assert_eq!(editor.full_text(), "one twotwo");
    }

    #[test]
    fn what_was_discarded_comes_back_with_its_pastes() {
        let mut editor = typed("see ");
        let paste = "x".repeat(100_000);
        editor.paste_text(&paste);
        editor.clear_text_with_undo();
        assert!(editor.is_empty());
        editor.undo_edit();
        assert_eq!(editor.full_text(), format!("see {paste}"));
        editor.clear_text();
        editor.undo_edit();
        assert!(editor.is_empty(), "what was sent is gone");
    }

    #[test]
    fn lines_are_gone_through_as_long_as_there_are_some() {
        let mut editor = typed("long line\nb\nlast one");
        assert!(
            editor.move_cursor_vertically(true) && editor.text_before_cursor().ends_with("\nb")
        );
        assert!(editor.move_cursor_vertically(true));
        assert_eq!(editor.text_before_cursor(), "l");
        assert!(!editor.move_cursor_vertically(true));
        assert!(
            editor.move_cursor_vertically(false)
                && editor.move_cursor_vertically(false)
                && !editor.move_cursor_vertically(false)
        );
        assert_eq!(editor.text_before_cursor(), "long line\nb\nl");
    }

    #[test]
    fn a_long_paste_is_one_letter_until_it_is_taken() {
        let lines: Vec<String> = (0..500).map(|n| format!("line {n}\r\n")).collect();
        let mut editor = typed("see ");
        editor.paste_text(&lines.concat());
        editor.insert_typed_character('!');
        assert_eq!(
            editor.text_with_paste_placeholders_shown(),
            "see [paste 1: 500 lines]!"
        );
        let laid = editor.layout_rows(16, 10);
        assert_eq!(laid.rows, ["› see [paste 1:", "   500 lines]!"]);
        let whole = editor.full_text();
        assert!(whole.starts_with("see line 0\nline 1\n") && whole.ends_with("line 499\n!"));
        editor.delete_from_cursor_to(EditorCursorTarget::Left);
        editor.delete_from_cursor_to(EditorCursorTarget::Left);
        assert_eq!(editor.take_text(), "see ");
        // A typed placeholder character is replaced: only a paste may create one.
        assert_eq!(typed("\u{f0000}").full_text(), "\u{fffd}");
    }

    #[test]
    fn words_of_ones_own_are_typed_however_long_and_pastes_stay_pastes() {
        let long = "line with @a.png\n".repeat(40);
        let mut editor = ChatInputEditor::default();
        editor.set_text(&long);
        assert_eq!(editor.text_with_paste_placeholders_shown(), long);
        editor.set_text("see ");
        editor.paste_text(&long);
        let pieces = editor.typed_and_pasted_pieces();
        let parts = [
            EditorPiece::Own("see ".to_owned()),
            EditorPiece::Pasted(long.clone()),
        ];
        assert_eq!(pieces, parts);
        let mut other = typed("rest ");
        other.paste_text(&long);
        other.prepend_text_pieces(&pieces);
        assert_eq!(
            other.text_with_paste_placeholders_shown(),
            "see [paste 2: 40 lines]\nrest [paste 1: 40 lines]"
        );
        assert_eq!(other.full_text(), format!("see {long}\nrest {long}"));
        assert_eq!(other.text_before_cursor().len(), other.text.len());
        other.undo_edit();
        assert_eq!(other.full_text(), format!("rest {long}"));
        // A text that is too long to redraw at each key is shown as a note only.
        other.set_text(&"x".repeat(MAX_FULLY_SHOWN_INSERT_BYTES + 1));
        assert!(
            other
                .text_with_paste_placeholders_shown()
                .starts_with("[paste 3"),
            "{}",
            other.text_with_paste_placeholders_shown()
        );
    }

    #[test]
    fn rows_are_never_wider_than_the_screen_and_the_cursor_is_among_them() {
        let editor = typed("日本語 and more of it\n\ttabbed\u{1b}[2J");
        for columns in 6..60 {
            for max_rows in 1..6 {
                let laid = editor.layout_rows(columns, max_rows);
                assert!(laid.rows.len() <= max_rows);
                assert!(
                    laid.rows.iter().all(|row| row.width() <= columns),
                    "{laid:?}"
                );
                assert!(laid.rows.iter().all(|row| !row.contains('\u{1b}')));
                let (row, column) = laid.cursor;
                assert!(
                    row < laid.rows.len() && column < columns,
                    "{columns} {laid:?}"
                );
                assert_eq!(column, laid.rows[row].width(), "the cursor is at the end");
            }
        }
    }
}
