//! Breaks styled text into rows of a terminal: between words, or within a word that is wider than a
//! row.
//!
//! Does not parse Markdown. Start from [`wrap_styled_text`].

use anstyle::Style;
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use super::super::style_text;

/// Piece of text in one style, with control characters already escaped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StyledText {
    pub(super) style: Style,
    pub(super) text: String,
    /// Whether the text is a URL that is shown as a link.
    pub(super) is_link: bool,
}

impl StyledText {
    pub(super) fn new(style: Style, text: impl Into<String>) -> Self {
        let text = text.into();
        Self {
            style,
            text,
            is_link: false,
        }
    }

    /// Returns `part`, a piece of the text, in its style; if the text is an address, the piece is a
    /// hyperlink to the complete address.
    fn style_and_link_part(&self, part: &str) -> String {
        let styled = style_text(self.style, part);
        match self.is_link && !part.is_empty() {
            true => format!("\x1b]8;;{}\x1b\\{styled}\x1b]8;;\x1b\\", self.text),
            false => styled,
        }
    }
}

/// Returns the width of a line in terminal columns, summed over its graphemes.
pub(super) fn line_width(line: &[StyledText]) -> usize {
    line.iter().map(|part| text_width(&part.text)).sum()
}

/// Returns the width of the widest word in terminal columns.
pub(super) fn widest_word_width(line: &[StyledText]) -> usize {
    // Join the parts first: a word may continue in the next part, in another style.
    let text: String = line.iter().map(|part| part.text.as_str()).collect();
    text.split(' ').map(text_width).max().unwrap_or(0)
}

fn text_width(text: &str) -> usize {
    text.graphemes(true).map(UnicodeWidthStr::width).sum()
}

/// Breaks styled text into rows at blanks, and within a word that is wider than a row.
pub(super) fn wrap_styled_text(line: &[StyledText], columns: usize) -> Vec<String> {
    let mut rows = WrappedTextRows {
        columns,
        rows: vec![String::new()],
        width: 0,
    };
    for word in split_styled_words(line) {
        let parts = word.parts.iter();
        let n: usize = parts.map(|(_, text)| text_width(text)).sum();
        if rows.width > 0 && rows.width + word.n_blanks + n > columns {
            rows.begin_row();
        } else if rows.width > 0 {
            let blanks = " ".repeat(word.n_blanks);
            rows.push_text(&style_text(word.blank_style, blanks), word.n_blanks);
        }
        for (of, text) in word.parts {
            rows.push_word(of, text);
        }
    }
    rows.rows
}

/// A word without blanks, in one or more styles, and the blanks before it.
#[derive(Default)]
struct StyledWord<'a> {
    n_blanks: usize,
    blank_style: Style,
    parts: Vec<(&'a StyledText, &'a str)>,
}

fn split_styled_words(line: &[StyledText]) -> Vec<StyledWord<'_>> {
    let (mut words, mut open) = (Vec::new(), StyledWord::default());
    for part in line {
        for piece in part.text.split_inclusive(' ') {
            let text = piece.trim_end_matches(' ');
            if !text.is_empty() {
                open.parts.push((part, text));
            }
            let n_blanks = piece.len() - text.len();
            if n_blanks > 0 && !open.parts.is_empty() {
                words.push(std::mem::take(&mut open));
            }
            open.n_blanks += n_blanks;
            open.blank_style = part.style;
        }
    }
    if !open.parts.is_empty() {
        words.push(open);
    }
    words
}

struct WrappedTextRows {
    columns: usize,
    rows: Vec<String>,
    /// Width of the last row so far, in terminal columns.
    width: usize,
}

impl WrappedTextRows {
    fn begin_row(&mut self) {
        self.rows.push(String::new());
        self.width = 0;
    }

    fn push_text(&mut self, text: &str, width: usize) {
        if let Some(row) = self.rows.last_mut() {
            row.push_str(text);
        }
        self.width += width;
    }

    /// Appends a word, broken over several rows if needed.
    fn push_word(&mut self, of: &StyledText, word: &str) {
        let (mut part, mut width) = (String::new(), 0);
        for letter in word.graphemes(true) {
            let wide = letter.width();
            if self.width + width + wide > self.columns && wide > 0 {
                self.push_text(&of.style_and_link_part(&part), width);
                self.begin_row();
                (part, width) = (String::new(), 0);
            }
            part.push_str(letter);
            width += wide;
        }
        self.push_text(&of.style_and_link_part(&part), width);
    }
}
