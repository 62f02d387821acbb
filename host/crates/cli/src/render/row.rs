//! Lines about a turn, put together of pieces: indented, and those of the trace in columns and no
//! wider than a terminal.

use anstyle::Style;

use super::{DIM, PLUGIN, cut, flat, styled};

/// Columns of a terminal that is not narrow.
const WIDTH: usize = 100;

/// First column of plugin names, for lines whose indentation leaves room for it.
const PLUGIN_AT: usize = 29;

const PLUGIN_WIDTH: usize = 24;

/// Width of the column of times, which are aligned to the right.
const TIME_WIDTH: usize = 9;

/// Columns that must be left for a text to begin on a line that it does not fit into.
const FIRST_WIDTH: usize = 40;

const LEVEL: usize = 2;

/// Handling of a text that does not fit into its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Long {
    Cut,
    Wrap,
}

pub(in super::super) struct Row {
    indent: usize,
    text: String,
    width: usize,
}

impl Row {
    /// A line at a level, from 0.
    pub(super) fn at(level: usize) -> Self {
        let indent = level * LEVEL;
        Self {
            indent,
            text: " ".repeat(indent),
            width: indent,
        }
    }

    pub(super) fn add(mut self, style: Style, text: &str) -> Self {
        self.text.push_str(&styled(style, text));
        self.width += text.chars().count();
        self
    }

    /// A piece, and a space before it.
    pub(in super::super) fn then(self, style: Style, text: &str) -> Self {
        self.pad(1).add(style, text)
    }

    pub(super) fn plugin(self, name: &Option<String>) -> Self {
        match name {
            Some(name) => self.then(PLUGIN, name),
            None => self,
        }
    }

    fn pad(mut self, n: usize) -> Self {
        self.text.push_str(&" ".repeat(n));
        self.width += n;
        self
    }

    /// Spaces up to the column of plugins, at least one.
    pub(super) fn at_plugin(self) -> Self {
        let n = PLUGIN_AT.saturating_sub(self.width).max(1);
        self.pad(n)
    }

    pub(super) fn time(self, took: &str) -> Self {
        let end = PLUGIN_AT + PLUGIN_WIDTH + 1 + TIME_WIDTH;
        let n = end.saturating_sub(self.width + took.chars().count()).max(1);
        self.pad(n).add(DIM, took).pad(1)
    }

    /// Returns the columns that are left before the column of times.
    pub(super) fn before_time(&self) -> usize {
        (PLUGIN_AT + PLUGIN_WIDTH).saturating_sub(self.width)
    }

    pub(in super::super) fn line(self) -> String {
        self.text
    }

    /// The line with a text at its end.
    pub(super) fn tail(self, style: Style, text: &str, long: Long) -> Vec<String> {
        let text = flat(text);
        let n_chars = text.chars().count();
        if n_chars == 0 {
            return vec![self.line()];
        }
        let is_first = self.width == self.indent;
        let space = usize::from(!is_first);
        let left = WIDTH.saturating_sub(self.width + space);
        if long == Long::Wrap && n_chars > left && left < FIRST_WIDTH {
            let indent = self.indent + 2 * LEVEL;
            let below = lines_at(indent, style, &text);
            return std::iter::once(self.line()).chain(below).collect();
        }
        let row = self.pad(space);
        if n_chars <= left {
            return vec![row.add(style, &text).line()];
        }
        match long {
            Long::Cut if left < 8 => vec![row.line()],
            Long::Cut => vec![row.add(style, &cut(text, left)).line()],
            Long::Wrap => {
                let indent = row.indent + 2 * LEVEL;
                let (first, rest) = split(&text, left);
                let below = lines_at(indent, style, rest);
                std::iter::once(row.add(style, first).line())
                    .chain(below)
                    .collect()
            }
        }
    }
}

/// The text in lines that begin at a column.
fn lines_at(indent: usize, style: Style, text: &str) -> Vec<String> {
    let lines = wrapped(text, indent);
    lines
        .map(|line| " ".repeat(indent) + &styled(style, line))
        .collect()
}

/// A text of several lines, each at the level.
pub(super) fn paragraph(level: usize, style: Style, text: &str) -> Vec<String> {
    let lines = text.trim().lines();
    lines
        .flat_map(|line| lines_at(level * LEVEL, style, &flat(line)))
        .collect()
}

/// Splits a text into the part that fits into `room` columns, at a word boundary if there is one,
/// and the rest.
fn split(text: &str, room: usize) -> (&str, &str) {
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

/// Wraps a text to the width left after an indentation. Words that are longer than a line are cut
/// into pieces.
fn wrapped(text: &str, indent: usize) -> impl Iterator<Item = String> {
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
    use super::super::bare;
    use super::*;

    const PLAIN: Style = Style::new();

    #[test]
    fn what_does_not_fit_is_cut_or_goes_on_below_and_nothing_is_wider_than_a_terminal() {
        let long = "word ".repeat(60) + &"x".repeat(250);
        let row = || Row::at(2).add(PLAIN, "head");
        let cut = row().tail(PLAIN, &long, Long::Cut);
        assert_eq!(cut.len(), 1);
        assert_eq!(bare(&cut[0]).chars().count(), WIDTH);
        assert!(bare(&cut[0]).ends_with('…'));
        let wrapped = row().tail(PLAIN, &long, Long::Wrap);
        assert!(
            wrapped
                .iter()
                .all(|line| bare(line).chars().count() <= WIDTH)
        );
        let words: String = wrapped.iter().map(|line| bare(line)).collect();
        assert_eq!(
            words.replace(' ', ""),
            format!("head{}", long.replace(' ', ""))
        );
        assert!(
            wrapped[0].len() > 80,
            "it begins on the first line: {}",
            wrapped[0]
        );
        assert_eq!(row().tail(PLAIN, "end", Long::Cut), ["    head end"]);
        assert_eq!(row().tail(PLAIN, "", Long::Wrap), ["    head"]);
    }

    #[test]
    fn columns_stay_where_they_are_as_long_as_there_is_room() {
        let line = |level, point: &str| {
            let row = Row::at(level).add(PLAIN, point).at_plugin();
            bare(&row.add(PLAIN, "guard").time("12 µs").line())
        };
        for (level, point) in [(1, "pre-tool"), (2, "after-provider-response"), (3, "x")] {
            let line = line(level, point);
            assert_eq!(line.find("guard"), Some(PLUGIN_AT), "{line}");
            assert_eq!(line.chars().count(), 64, "{line}");
        }
        assert!(line(6, "after-provider-response").contains("response guard"));
    }
}
