//! Emulates a terminal to get the final text of an output, without overwritten lines, colors and
//! other control sequences.
//!
//! Progress bars rewrite a line many times, with a carriage return or by moving the cursor up, and
//! each version would cost tokens of a model. This terminal has unlimited width and keeps only the
//! last rows; a row that scrolls off the screen can no longer change. No library is used, because
//! an unterminated control string must not hide later lines, and memory must not grow with the
//! output.

use std::collections::VecDeque;
use std::mem;

/// Number of rows that the cursor can move back to, as in a typical terminal. Tools that draw
/// several progress bars need fewer rows.
const SCREEN_ROWS: usize = 64;

/// Maximum length in characters of a row that can be overwritten. A longer row is output in pieces.
const MAX_OVERWRITABLE_ROW_CHARS: usize = 16 * 1024;

/// Rightmost column that the cursor can be moved to, wider than any terminal. Without this limit, a
/// few bytes of output could create a row of [`MAX_OVERWRITABLE_ROW_CHARS`] blanks.
const MAX_CURSOR_COLUMN: usize = 512;

/// Maximum length in bytes of a control string, such as a title or a link. A longer one is treated
/// as text.
const MAX_CONTROL_STRING_BYTES: usize = 4096;

/// Maximum length in bytes of the parameters of a control sequence.
const MAX_CONTROL_SEQUENCE_PARAMETER_BYTES: usize = 64;

const ESCAPE_BYTE: u8 = 0x1b;
const BELL_BYTE: u8 = 0x07;

/// Emulator of a terminal, which turns output with control sequences into the text on the screen.
#[derive(Clone, Debug, Default)]
pub(super) struct TerminalScreen {
    rows: VecDeque<Vec<char>>,
    /// Index in `rows` of the row with the cursor.
    row: usize,
    column: usize,
    state: EscapeParserState,
    /// Bytes of a character or control sequence whose rest has not arrived yet.
    partial: Vec<u8>,
    n_taken: u64,
    n_given: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum EscapeParserState {
    #[default]
    Text,
    /// The last byte was an ESC.
    Escape,
    /// After an ESC and an intermediate byte; the next byte ends the sequence.
    Charset,
    /// Within a control sequence, after `ESC [`.
    Sequence,
    /// Within a control string, which a bell or `ESC \` terminates: a title, a link, a picture.
    String,
    /// After an ESC within a control string.
    StringEscape,
}

impl TerminalScreen {
    /// Processes a chunk of output, and passes rows that have scrolled off the screen to `out`.
    pub(super) fn push(&mut self, bytes: &[u8], out: &mut impl FnMut(&[u8])) {
        self.n_taken += bytes.len() as u64;
        for byte in bytes {
            self.process_output_byte(*byte, out);
        }
    }

    /// Passes the text that is still on the screen to `out`.
    pub(super) fn flush_screen(&mut self, out: &mut impl FnMut(&[u8])) {
        if self.state == EscapeParserState::Text {
            self.print_incomplete_character(out);
        }
        self.partial.clear();
        self.state = EscapeParserState::Text;
        let is_open = |rows: &VecDeque<Vec<char>>| rows.back().is_some_and(|row| !row.is_empty());
        let has_last = is_open(&self.rows);
        let n = self.rows.len();
        for (at, row) in mem::take(&mut self.rows).into_iter().enumerate() {
            let is_last = at + 1 == n;
            if !is_last || has_last {
                self.emit_screen_row(&row, !is_last, out);
            }
        }
        (self.row, self.column) = (0, 0);
    }

    /// Returns the number of bytes that were removed from the output so far. Text that is still on
    /// the screen counts as removed.
    pub(super) fn n_removed_bytes(&self) -> u64 {
        self.n_taken.saturating_sub(self.n_given)
    }

    fn process_output_byte(&mut self, byte: u8, out: &mut impl FnMut(&[u8])) {
        match self.state {
            EscapeParserState::Text => self.add_text_byte(byte, out),
            EscapeParserState::Escape => self.handle_escape_byte(byte),
            EscapeParserState::Charset => self.state = EscapeParserState::Text,
            EscapeParserState::Sequence => self.handle_control_sequence_byte(byte, out),
            EscapeParserState::String => match byte {
                BELL_BYTE => self.end_control_sequence(),
                ESCAPE_BYTE => self.state = EscapeParserState::StringEscape,
                // The control string is unterminated, so the following lines are not part of it.
                b'\n' => {
                    self.end_control_sequence();
                    self.add_text_byte(byte, out);
                }
                _ if self.partial.len() == MAX_CONTROL_STRING_BYTES => {
                    self.state = EscapeParserState::Text;
                    for byte in mem::take(&mut self.partial) {
                        self.add_text_byte(byte, out);
                    }
                    self.add_text_byte(byte, out);
                }
                _ => self.partial.push(byte),
            },
            EscapeParserState::StringEscape => {
                self.end_control_sequence();
                if byte != b'\\' {
                    self.state = EscapeParserState::Escape;
                    self.handle_escape_byte(byte);
                }
            }
        }
    }

    fn end_control_sequence(&mut self) {
        self.partial.clear();
        self.state = EscapeParserState::Text;
    }

    fn handle_escape_byte(&mut self, byte: u8) {
        self.partial.clear();
        self.state = match byte {
            b'[' => EscapeParserState::Sequence,
            b']' | b'P' | b'X' | b'^' | b'_' => EscapeParserState::String,
            b' '..=b'/' => EscapeParserState::Charset,
            ESCAPE_BYTE => EscapeParserState::Escape,
            _ => EscapeParserState::Text,
        };
    }

    fn handle_control_sequence_byte(&mut self, byte: u8, out: &mut impl FnMut(&[u8])) {
        match byte {
            b'@'..=b'~' => {
                let parameters = mem::take(&mut self.partial);
                self.state = EscapeParserState::Text;
                self.execute_control_sequence(byte, &parameters);
            }
            b' '..=b'?' if self.partial.len() < MAX_CONTROL_SEQUENCE_PARAMETER_BYTES => {
                self.partial.push(byte)
            }
            ESCAPE_BYTE => self.state = EscapeParserState::Escape,
            // This is not a control sequence: drop its beginning and treat this byte as text.
            _ => {
                self.end_control_sequence();
                self.add_text_byte(byte, out);
            }
        }
    }

    /// Executes a control sequence that moves the cursor relatively or deletes text. Other
    /// sequences are ignored: colors do not affect the text, and absolute positions and clearing
    /// the screen would lose earlier output.
    fn execute_control_sequence(&mut self, command: u8, parameters: &[u8]) {
        let parameter = std::str::from_utf8(parameters).ok();
        let first = parameter.and_then(|text| text.split(';').next()?.parse::<usize>().ok());
        let n = first.unwrap_or(1).max(1);
        match command {
            b'A' => self.row = self.row.saturating_sub(n),
            b'B' => self.move_cursor_down(n),
            b'C' => {
                let furthest = MAX_CURSOR_COLUMN.max(self.column);
                self.column = self.column.saturating_add(n).min(furthest);
            }
            b'D' => self.column = self.column.saturating_sub(n),
            b'E' => {
                self.move_cursor_down(n);
                self.column = 0;
            }
            b'F' => {
                self.row = self.row.saturating_sub(n);
                self.column = 0;
            }
            b'G' => self.column = (n - 1).min(MAX_CURSOR_COLUMN),
            b'J' if first.unwrap_or(0) == 0 => {
                self.rows.truncate(self.row + 1);
                self.erase_line(0);
            }
            b'K' => self.erase_line(first.unwrap_or(0)),
            _ => {}
        }
    }

    /// Moves the cursor down by `n` rows, at most to the last existing row.
    fn move_cursor_down(&mut self, n: usize) {
        let last = self.rows.len().saturating_sub(1);
        self.row = self.row.saturating_add(n).min(last.max(self.row));
    }

    /// Erases the row from the cursor to the end (`how` is 0), up to the cursor (1), or completely
    /// (2).
    fn erase_line(&mut self, how: usize) {
        let column = self.column;
        let Some(row) = self.rows.get_mut(self.row) else {
            return;
        };
        match how {
            0 => row.truncate(column),
            1 => row.iter_mut().take(column + 1).for_each(|cell| *cell = ' '),
            2 => row.clear(),
            _ => {}
        }
    }

    fn add_text_byte(&mut self, byte: u8, out: &mut impl FnMut(&[u8])) {
        if byte < 0x80 && !self.partial.is_empty() {
            self.print_incomplete_character(out);
        }
        match byte {
            ESCAPE_BYTE => self.state = EscapeParserState::Escape,
            b'\n' => self.move_to_next_row(out),
            b'\r' => self.column = 0,
            0x08 => self.column = self.column.saturating_sub(1),
            b'\t' | b' '..=b'~' => self.print_character(char::from(byte), out),
            // Control characters such as NUL and bell are invisible.
            0..=0x1f | 0x7f => {}
            0x80.. => {
                self.partial.push(byte);
                self.print_character_if_complete(out);
            }
        }
    }

    /// Prints the character in `partial` if its bytes are complete.
    fn print_character_if_complete(&mut self, out: &mut impl FnMut(&[u8])) {
        match std::str::from_utf8(&self.partial) {
            Ok(text) => {
                let found = text.chars().next();
                self.partial.clear();
                // C1 control characters are invisible, too.
                if let Some(found) = found.filter(|found| !found.is_control()) {
                    self.print_character(found, out);
                }
            }
            Err(error) if error.error_len().is_none() => {}
            Err(error) => {
                let bad = error.error_len().unwrap_or(1);
                let rest = self.partial.split_off(bad);
                self.partial.clear();
                self.print_character(char::REPLACEMENT_CHARACTER, out);
                for byte in rest {
                    self.add_text_byte(byte, out);
                }
            }
        }
    }

    /// Prints a replacement character if `partial` contains an incomplete character.
    fn print_incomplete_character(&mut self, out: &mut impl FnMut(&[u8])) {
        if !mem::take(&mut self.partial).is_empty() {
            self.print_character(char::REPLACEMENT_CHARACTER, out);
        }
    }

    fn print_character(&mut self, character: char, out: &mut impl FnMut(&[u8])) {
        if self.column >= MAX_OVERWRITABLE_ROW_CHARS {
            // A row of this length is not a progress bar, so output it and all rows above it.
            while self.row > 0 {
                self.emit_first_screen_row(out);
            }
            if let Some(row) = self.rows.front_mut() {
                let row = mem::take(row);
                self.emit_screen_row(&row, false, out);
            }
            self.column = 0;
        }
        while self.rows.len() <= self.row {
            self.rows.push_back(Vec::new());
        }
        let column = self.column;
        if let Some(row) = self.rows.get_mut(self.row) {
            while row.len() < column {
                row.push(' ');
            }
            match row.get_mut(column) {
                Some(cell) => *cell = character,
                None => row.push(character),
            }
        }
        self.column += 1;
    }

    fn move_to_next_row(&mut self, out: &mut impl FnMut(&[u8])) {
        self.row += 1;
        self.column = 0;
        while self.rows.len() <= self.row {
            self.rows.push_back(Vec::new());
        }
        while self.rows.len() > SCREEN_ROWS {
            self.emit_first_screen_row(out);
        }
    }

    fn emit_first_screen_row(&mut self, out: &mut impl FnMut(&[u8])) {
        if let Some(row) = self.rows.pop_front() {
            self.emit_screen_row(&row, true, out);
        }
        self.row = self.row.saturating_sub(1);
    }

    fn emit_screen_row(&mut self, row: &[char], ends: bool, out: &mut impl FnMut(&[u8])) {
        let mut text: String = row.iter().collect();
        if ends {
            text.push('\n');
        }
        // Count the bytes of the output and not those of the input: a replacement character for an
        // invalid byte has three bytes.
        self.n_given += text.len() as u64;
        out(text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown_in(text: &[u8], chunk: usize) -> String {
        let (mut screen, mut shown) = (TerminalScreen::default(), Vec::new());
        let mut out = |bytes: &[u8]| shown.extend_from_slice(bytes);
        for chunk in text.chunks(chunk) {
            screen.push(chunk, &mut out);
        }
        screen.flush_screen(&mut out);
        String::from_utf8(shown).unwrap()
    }

    fn shown(text: &[u8]) -> String {
        let whole = shown_in(text, usize::MAX);
        assert_eq!(shown_in(text, 1), whole);
        whole
    }

    #[test]
    fn plain_text_stays_as_it_is() {
        for text in ["", "\n", "a", "a\n", "a\n\n b\tc\n", "ä€😀\n", "\n\na"] {
            assert_eq!(shown(text.as_bytes()), text);
        }
        let rows: String = (0..1000).map(|n| format!("line {n}\n")).collect();
        assert_eq!(shown(rows.as_bytes()), rows);
        let long = "x".repeat(3 * MAX_OVERWRITABLE_ROW_CHARS + 7) + "\nend\n";
        assert_eq!(shown(long.as_bytes()), long);
    }

    #[test]
    fn what_a_terminal_would_show_in_the_end_is_left() {
        for (text, expected) in [
            ("\x1b[31mred\x1b[0m \x1b]0;title\x07 end\n", "red  end\n"),
            ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\n", "link\n"),
            ("a\r\nb\r\n", "a\nb\n"),
            ("step 1\rstep 2\rdone\n", "done 2\n"),
            ("step 1\r\x1b[Kdone\n", "done\n"),
            ("step 1\x1b[2K\x1b[1Gdone\n", "done\n"),
            ("10%\x08\x08\x0820%\n", "20%\n"),
            ("a 1\nb 1\n\x1b[2Aa 2\nb 2\n", "a 2\nb 2\n"),
            ("a 1\nb 1\n\x1b[2F\x1b[Jdone\n", "done\n"),
            ("a\x00b\x07\x7f\n", "ab\n"),
            ("a\x1b(Bb\x1b=c\x1bMd\n", "abcd\n"),
            ("before\x1b[2J\x1b[Hafter\n", "beforeafter\n"),
            ("\x1b[38;5;1", ""),
            ("\u{9b}31mx\n", "31mx\n"),
        ] {
            assert_eq!(shown(text.as_bytes()), expected, "{text:?}");
        }
    }

    #[test]
    fn a_control_string_that_is_never_closed_hides_no_line_and_no_long_text() {
        assert_eq!(shown(b"\x1b]0;title\nnext\n"), "\nnext\n");
        let long = [b"\x1b]".as_slice(), &[b'x'; 10_000], b"\n"].concat();
        assert_eq!(shown(&long).len(), 10_001);
    }

    #[test]
    fn bytes_that_are_no_characters_are_replaced_one_by_one() {
        for bytes in [
            b"caf\xe9\n".as_slice(),
            b"\xff\xfe\xe2\x82",
            b"\xe2\x82A\xf0\x9f\x98\n",
            b"\xed\xa0\x80",
        ] {
            assert_eq!(shown(bytes), String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn what_was_cleaned_is_counted() {
        let mut screen = TerminalScreen::default();
        screen.push(b"aaa\rbbb\n\x1b[1mx\n", &mut |_| {});
        screen.flush_screen(&mut |_| {});
        assert_eq!(screen.n_removed_bytes(), 8);
    }

    #[test]
    fn moves_far_beyond_what_is_there_take_no_memory() {
        let text = b"\x1b[999999999C.\x1b[999999999B\x1b[999999999A\x1b[99999999999999999999Gx\n";
        assert!(shown(text).len() < 2 * MAX_OVERWRITABLE_ROW_CHARS);
    }
}
