//! Builds the lines about a turn from styled pieces. Lines are indented; those of the trace have
//! aligned columns and are truncated or wrapped at [`WIDTH`].

use anstyle::Style;

use super::{DIM, PLUGIN, join_printable_words, style_text, truncate_text};

/// Width of a line in columns, whatever the size of the terminal.
const WIDTH: usize = 100;

/// Column at which plugin names begin, in lines whose indentation leaves room for that.
const PLUGIN_AT: usize = 29;

const PLUGIN_WIDTH: usize = 24;

/// Width of the right-aligned column of times.
const TIME_WIDTH: usize = 9;

/// Free columns that a wrapped text needs to begin on the current line; with fewer, the text begins
/// on the next line.
const FIRST_WIDTH: usize = 40;

const LEVEL: usize = 2;

/// Treatment of a text that is too long for its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LongTextMode {
    Cut,
    Wrap,
}

pub(in super::super) struct TableRow {
    indent: usize,
    text: String,
    width: usize,
}

impl TableRow {
    /// Begins a line that is indented by `level`, counted from 0.
    pub(super) fn at_level(level: usize) -> Self {
        let indent = level * LEVEL;
        Self {
            indent,
            text: " ".repeat(indent),
            width: indent,
        }
    }

    pub(super) fn add_text(mut self, style: Style, text: &str) -> Self {
        self.text.push_str(&style_text(style, text));
        self.width += text.chars().count();
        self
    }

    /// Appends a space and a piece of text.
    pub(in super::super) fn append_styled_text(self, style: Style, text: &str) -> Self {
        self.add_spaces(1).add_text(style, text)
    }

    pub(super) fn with_plugin(self, name: &Option<String>) -> Self {
        match name {
            Some(name) => self.append_styled_text(PLUGIN, name),
            None => self,
        }
    }

    fn add_spaces(mut self, n: usize) -> Self {
        self.text.push_str(&" ".repeat(n));
        self.width += n;
        self
    }

    /// Pads with spaces up to the column of plugin names, with at least one.
    pub(super) fn pad_to_plugin_column(self) -> Self {
        let n = PLUGIN_AT.saturating_sub(self.width).max(1);
        self.add_spaces(n)
    }

    pub(super) fn with_duration(self, took: &str) -> Self {
        let end = PLUGIN_AT + PLUGIN_WIDTH + 1 + TIME_WIDTH;
        let n = end.saturating_sub(self.width + took.chars().count()).max(1);
        self.add_spaces(n).add_text(DIM, took).add_spaces(1)
    }

    /// Returns the number of columns that are left in the row before the column with times.
    pub(super) fn columns_before_time(&self) -> usize {
        (PLUGIN_AT + PLUGIN_WIDTH).saturating_sub(self.width)
    }

    pub(in super::super) fn into_line(self) -> String {
        self.text
    }

    /// Returns the line with `text` appended to it, as several lines if `text` is wrapped.
    pub(super) fn with_trailing_text(
        self,
        style: Style,
        text: &str,
        long: LongTextMode,
    ) -> Vec<String> {
        let text = join_printable_words(text);
        let n_chars = text.chars().count();
        if n_chars == 0 {
            return vec![self.into_line()];
        }
        let is_first = self.width == self.indent;
        let space = usize::from(!is_first);
        let left = WIDTH.saturating_sub(self.width + space);
        if long == LongTextMode::Wrap && n_chars > left && left < FIRST_WIDTH {
            let indent = self.indent + 2 * LEVEL;
            let below = wrap_indented(indent, style, &text);
            return std::iter::once(self.into_line()).chain(below).collect();
        }
        let row = self.add_spaces(space);
        if n_chars <= left {
            return vec![row.add_text(style, &text).into_line()];
        }
        match long {
            LongTextMode::Cut if left < 8 => vec![row.into_line()],
            LongTextMode::Cut => vec![row.add_text(style, &truncate_text(text, left)).into_line()],
            LongTextMode::Wrap => {
                let indent = row.indent + 2 * LEVEL;
                let (first, rest) = split_at_width(&text, left);
                let below = wrap_indented(indent, style, rest);
                std::iter::once(row.add_text(style, first).into_line())
                    .chain(below)
                    .collect()
            }
        }
    }
}

/// Wraps a text into lines that are indented by `indent` columns.
fn wrap_indented(indent: usize, style: Style, text: &str) -> Vec<String> {
    let lines = wrap_text(text, indent);
    lines
        .map(|line| " ".repeat(indent) + &style_text(style, line))
        .collect()
}

/// Renders a text of several lines, each indented by `level`.
pub(super) fn render_paragraph(level: usize, style: Style, text: &str) -> Vec<String> {
    let lines = text.trim().lines();
    lines
        .flat_map(|line| wrap_indented(level * LEVEL, style, &join_printable_words(line)))
        .collect()
}

/// Splits a text into the part that fits into `room` columns, at a word boundary if there is one,
/// and the rest.
fn split_at_width(text: &str, room: usize) -> (&str, &str) {
    let end = text
        .char_indices()
        .nth(room)
        .map_or(text.len(), |(at, _)| at);
    let (head, _) = text.split_at(end);
    match head.rsplit_once(' ') {
        Some((first, _)) => (first, text.get(first.len() + 1..).unwrap_or_default()),
        None => text.split_at(end),
    }
}

/// Wraps a text to the width left after an indentation. Words that are longer than a line are
/// broken.
fn wrap_text(text: &str, indent: usize) -> impl Iterator<Item = String> {
    let room = WIDTH.saturating_sub(indent).max(20);
    let mut lines = vec![String::new()];
    let mut width = 0;
    for word in text.split(' ') {
        let letters: Vec<char> = word.chars().collect();
        for (n, piece) in letters.chunks(room).enumerate() {
            let has_space = n == 0 && width > 0;
            if width + usize::from(has_space) + piece.len() > room {
                lines.push(String::new());
                width = 0;
            }
            if let Some(line) = lines.last_mut() {
                if width > 0 && n == 0 {
                    line.push(' ');
                    width += 1;
                }
                line.extend(piece);
                width += piece.len();
            }
        }
    }
    lines.into_iter()
}

#[cfg(test)]
mod tests {
    use super::super::bare_text;
    use super::*;

    const PLAIN: Style = Style::new();

    #[test]
    fn what_does_not_fit_is_cut_or_goes_on_below_and_nothing_is_wider_than_a_terminal() {
        let long = "word ".repeat(60) + &"x".repeat(250);
        let row = || TableRow::at_level(2).add_text(PLAIN, "head");
        let cut = row().with_trailing_text(PLAIN, &long, LongTextMode::Cut);
        assert_eq!(cut.len(), 1);
        assert_eq!(bare_text(&cut[0]).chars().count(), WIDTH);
        assert!(bare_text(&cut[0]).ends_with('…'));
        let wrapped = row().with_trailing_text(PLAIN, &long, LongTextMode::Wrap);
        assert!(
            wrapped
                .iter()
                .all(|line| bare_text(line).chars().count() <= WIDTH)
        );
        let words: String = wrapped.iter().map(|line| bare_text(line)).collect();
        assert_eq!(
            words.replace(' ', ""),
            format!("head{}", long.replace(' ', ""))
        );
        assert!(
            wrapped[0].len() > 80,
            "it begins on the first line: {}",
            wrapped[0]
        );
        assert_eq!(
            row().with_trailing_text(PLAIN, "end", LongTextMode::Cut),
            ["    head end"]
        );
        assert_eq!(
            row().with_trailing_text(PLAIN, "", LongTextMode::Wrap),
            ["    head"]
        );
    }

    #[test]
    fn columns_stay_where_they_are_as_long_as_there_is_room() {
        let line = |level, point: &str| {
            let row = TableRow::at_level(level)
                .add_text(PLAIN, point)
                .pad_to_plugin_column();
            bare_text(
                &row.add_text(PLAIN, "guard")
                    .with_duration("12 µs")
                    .into_line(),
            )
        };
        for (level, point) in [(1, "pre-tool"), (2, "after-provider-response"), (3, "x")] {
            let line = line(level, point);
            assert_eq!(line.find("guard"), Some(PLUGIN_AT), "{line}");
            assert_eq!(line.chars().count(), 64, "{line}");
        }
        assert!(line(6, "after-provider-response").contains("response guard"));
    }
}
