//! Builds the lines about a turn from styled pieces. Lines are indented; those of the trace have
//! aligned columns and are truncated or wrapped at [`LINE_WIDTH_COLUMNS`].

use anstyle::Style;

use super::{DIM_STYLE, PLUGIN_NAME_STYLE, style_text, to_escaped_single_line, truncate_text};

/// Width of a line in columns, whatever the size of the terminal.
const LINE_WIDTH_COLUMNS: usize = 100;

/// Column at which plugin names begin, in lines whose indentation leaves room for that.
const PLUGIN_NAME_START_COLUMN: usize = 29;

const PLUGIN_NAME_COLUMNS: usize = 24;

/// Width of the right-aligned column of times, in characters.
const TIME_COLUMN_WIDTH: usize = 9;

/// Free columns that a wrapped text needs to begin on the current line; with fewer, the text begins
/// on the next line.
const MIN_COLUMNS_TO_BEGIN_TEXT: usize = 40;

const INDENT_COLUMNS_PER_LEVEL: usize = 2;

/// Treatment of a text that is too long for its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LongTextOverflow {
    Cut,
    Wrap,
}

pub(in super::super) struct OutputRowBuilder {
    indent: usize,
    text: String,
    width: usize,
}

impl OutputRowBuilder {
    /// Begins a line that is indented by `level`, counted from 0.
    pub(super) fn with_indent_level(level: usize) -> Self {
        let indent = level * INDENT_COLUMNS_PER_LEVEL;
        Self {
            indent,
            text: " ".repeat(indent),
            width: indent,
        }
    }

    pub(super) fn with_styled_text(mut self, style: Style, text: &str) -> Self {
        self.text.push_str(&style_text(style, text));
        self.width += text.chars().count();
        self
    }

    /// Appends a space and a piece of text in this style.
    pub(in super::super) fn with_space_and_styled_text(self, style: Style, text: &str) -> Self {
        self.add_spaces(1).with_styled_text(style, text)
    }

    pub(super) fn with_plugin_name(self, name: &Option<String>) -> Self {
        match name {
            Some(name) => self.with_space_and_styled_text(PLUGIN_NAME_STYLE, name),
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
        let n = PLUGIN_NAME_START_COLUMN.saturating_sub(self.width).max(1);
        self.add_spaces(n)
    }

    pub(super) fn with_right_aligned_duration(self, took: &str) -> Self {
        let end = PLUGIN_NAME_START_COLUMN + PLUGIN_NAME_COLUMNS + 1 + TIME_COLUMN_WIDTH;
        let n = end.saturating_sub(self.width + took.chars().count()).max(1);
        self.add_spaces(n)
            .with_styled_text(DIM_STYLE, took)
            .add_spaces(1)
    }

    /// Returns the number of columns that are left in the row before the column with times.
    pub(super) fn columns_left_before_time_column(&self) -> usize {
        (PLUGIN_NAME_START_COLUMN + PLUGIN_NAME_COLUMNS).saturating_sub(self.width)
    }

    pub(in super::super) fn into_line(self) -> String {
        self.text
    }

    /// Returns the line with `text` appended to it, as several lines if `text` is wrapped.
    pub(super) fn with_trailing_text(
        self,
        style: Style,
        text: &str,
        long: LongTextOverflow,
    ) -> Vec<String> {
        let text = to_escaped_single_line(text);
        let n_chars = text.chars().count();
        if n_chars == 0 {
            return vec![self.into_line()];
        }
        let is_first = self.width == self.indent;
        let space = usize::from(!is_first);
        let left = LINE_WIDTH_COLUMNS.saturating_sub(self.width + space);
        if long == LongTextOverflow::Wrap && n_chars > left && left < MIN_COLUMNS_TO_BEGIN_TEXT {
            let indent = self.indent + 2 * INDENT_COLUMNS_PER_LEVEL;
            let below = wrap_indented(indent, style, &text);
            return std::iter::once(self.into_line()).chain(below).collect();
        }
        let row = self.add_spaces(space);
        if n_chars <= left {
            return vec![row.with_styled_text(style, &text).into_line()];
        }
        match long {
            LongTextOverflow::Cut if left < 8 => vec![row.into_line()],
            LongTextOverflow::Cut => vec![
                row.with_styled_text(style, &truncate_text(text, left))
                    .into_line(),
            ],
            LongTextOverflow::Wrap => {
                let indent = row.indent + 2 * INDENT_COLUMNS_PER_LEVEL;
                let (first, rest) = split_at_width(&text, left);
                let below = wrap_indented(indent, style, rest);
                std::iter::once(row.with_styled_text(style, first).into_line())
                    .chain(below)
                    .collect()
            }
        }
    }
}

/// Wraps a text into lines that are indented by `indent` columns.
fn wrap_indented(indent: usize, style: Style, text: &str) -> Vec<String> {
    let lines = wrap_text_after_indent(text, indent);
    lines
        .map(|line| " ".repeat(indent) + &style_text(style, line))
        .collect()
}

/// Renders a text of several lines, each indented by `level`.
pub(super) fn render_paragraph(level: usize, style: Style, text: &str) -> Vec<String> {
    let lines = text.trim().lines();
    lines
        .flat_map(|line| {
            wrap_indented(
                level * INDENT_COLUMNS_PER_LEVEL,
                style,
                &to_escaped_single_line(line),
            )
        })
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
fn wrap_text_after_indent(text: &str, indent: usize) -> impl Iterator<Item = String> {
    let room = LINE_WIDTH_COLUMNS.saturating_sub(indent).max(20);
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
    use super::super::strip_styles;
    use super::*;

    const PLAIN: Style = Style::new();

    #[test]
    fn what_does_not_fit_is_cut_or_goes_on_below_and_nothing_is_wider_than_a_terminal() {
        let long = "word ".repeat(60) + &"x".repeat(250);
        let row = || OutputRowBuilder::with_indent_level(2).with_styled_text(PLAIN, "head");
        let cut = row().with_trailing_text(PLAIN, &long, LongTextOverflow::Cut);
        assert_eq!(cut.len(), 1);
        assert_eq!(strip_styles(&cut[0]).chars().count(), LINE_WIDTH_COLUMNS);
        assert!(strip_styles(&cut[0]).ends_with('…'));
        let wrapped = row().with_trailing_text(PLAIN, &long, LongTextOverflow::Wrap);
        assert!(
            wrapped
                .iter()
                .all(|line| strip_styles(line).chars().count() <= LINE_WIDTH_COLUMNS)
        );
        let words: String = wrapped.iter().map(|line| strip_styles(line)).collect();
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
            row().with_trailing_text(PLAIN, "end", LongTextOverflow::Cut),
            ["    head end"]
        );
        assert_eq!(
            row().with_trailing_text(PLAIN, "", LongTextOverflow::Wrap),
            ["    head"]
        );
    }

    #[test]
    fn columns_stay_where_they_are_as_long_as_there_is_room() {
        let line = |level, point: &str| {
            let row = OutputRowBuilder::with_indent_level(level)
                .with_styled_text(PLAIN, point)
                .pad_to_plugin_column();
            strip_styles(
                &row.with_styled_text(PLAIN, "guard")
                    .with_right_aligned_duration("12 µs")
                    .into_line(),
            )
        };
        for (level, point) in [(1, "pre-tool"), (2, "after-provider-response"), (3, "x")] {
            let line = line(level, point);
            assert_eq!(line.find("guard"), Some(PLUGIN_NAME_START_COLUMN), "{line}");
            assert_eq!(line.chars().count(), 64, "{line}");
        }
        assert!(line(6, "after-provider-response").contains("response guard"));
    }
}
