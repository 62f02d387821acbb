//! Lays out Markdown tables within the width of a terminal.
//!
//! Columns are as wide as their widest cell if all of them fit. Otherwise the cells of the widest
//! columns wrap, and if even the words do not fit, each row becomes a list of its cells. Start from
//! [`MarkdownTable::layout_rows`].

use pulldown_cmark::Alignment;

use super::super::{BOLD_STYLE, DIM_STYLE, style_text};
use super::words::{StyledText, line_width, widest_word_width, wrap_styled_text};

/// Width in columns of the separator between two cells: `│` with a blank on each side.
const CELL_SEPARATOR_COLUMNS: usize = 3;

/// Maximum width, in terminal columns, that a long word can force on a table column; longer words
/// may be broken.
const MAX_UNBROKEN_WORD_COLUMNS: usize = 24;

/// Indentation of the continuation lines of a cell in the list layout.
const WRAPPED_CELL_LINE_INDENT: &str = "  ";

type MarkdownTableCell = Vec<StyledText>;

#[derive(Default)]
pub(super) struct MarkdownTable {
    alignments: Vec<Alignment>,
    /// Header row of the table, followed by its body rows.
    rows: Vec<Vec<MarkdownTableCell>>,
}

impl MarkdownTable {
    pub(super) fn new(alignments: Vec<Alignment>) -> Self {
        let rows = Vec::new();
        Self { alignments, rows }
    }

    pub(super) fn begin_row(&mut self) {
        self.rows.push(Vec::new());
    }

    pub(super) fn add_cell(&mut self, cell: MarkdownTableCell) {
        if let Some(row) = self.rows.last_mut() {
            row.push(cell);
        }
    }

    /// Lays out the table for a screen that is `room` columns wide, and returns the rows.
    pub(super) fn layout_rows(mut self, room: usize) -> Vec<String> {
        for part in self.rows.iter_mut().take(1).flatten().flatten() {
            part.style = part.style.bold();
        }
        match self.compute_column_widths(room) {
            Some(widths) => self.layout_in_columns(&widths),
            None => self.layout_rows_as_lists(room),
        }
    }

    /// Returns the widths of the columns of a table that is at most `room` characters wide; `None`
    /// if the longest words do not fit, even when they are broken at [`MAX_UNBROKEN_WORD_COLUMNS`].
    fn compute_column_widths(&self, room: usize) -> Option<Vec<usize>> {
        let n_columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let room = room.checked_sub(CELL_SEPARATOR_COLUMNS * n_columns.saturating_sub(1))?;
        let widest = |at: usize, measure: fn(&[StyledText]) -> usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(at));
            cells.map(|cell| measure(cell)).max().unwrap_or(0).max(1)
        };
        let wanted: Vec<usize> = (0..n_columns).map(|at| widest(at, line_width)).collect();
        if wanted.iter().sum::<usize>() <= room {
            return Some(wanted);
        }
        // Do not break words if all of them fit.
        let least = |most: usize| -> Vec<usize> {
            let width = |at: usize| widest(at, widest_word_width).min(most).min(wanted[at]);
            (0..n_columns).map(width).collect()
        };
        let (whole, broken) = (least(usize::MAX), least(MAX_UNBROKEN_WORD_COLUMNS));
        let mut widths = match whole.iter().sum::<usize>() <= room {
            true => whole,
            false => broken,
        };
        let n_free = room.checked_sub(widths.iter().sum())?;
        for _ in 0..n_free {
            // Widen by one the column that lacks most of its desired width.
            let missing = |at: &usize| wanted[*at].saturating_sub(widths[*at]);
            if let Some(at) = (0..n_columns).max_by_key(missing) {
                widths[at] += 1;
            }
        }
        Some(widths)
    }

    fn layout_in_columns(&self, widths: &[usize]) -> Vec<String> {
        let line = widths.iter().map(|width| "─".repeat(*width));
        let line = style_text(DIM_STYLE, line.collect::<Vec<_>>().join("─┼─"));
        let blocks: Vec<Vec<String>> = self
            .rows
            .iter()
            .map(|row| self.layout_row(row, widths))
            .collect();
        // Draw separators between the rows if any body row has several lines.
        let is_high = blocks.iter().skip(1).any(|block| block.len() > 1);
        let mut rows = Vec::new();
        for (n, block) in blocks.into_iter().enumerate() {
            if n == 1 || n > 1 && is_high {
                rows.push(line.clone());
            }
            rows.extend(block);
        }
        if self.rows.len() == 1 {
            rows.push(line);
        }
        rows
    }

    /// Returns the screen lines that show one row of the table.
    fn layout_row(&self, row: &[MarkdownTableCell], widths: &[usize]) -> Vec<String> {
        let cells: Vec<Vec<String>> = row
            .iter()
            .zip(widths)
            .map(|(cell, width)| wrap_styled_text(cell, *width))
            .collect();
        let n_lines = cells.iter().map(Vec::len).max().unwrap_or(0);
        let line = |n: usize| {
            let parts = widths.iter().enumerate().map(|(at, width)| {
                let text = cells.get(at).and_then(|cell| cell.get(n));
                let text = text.map_or("", String::as_str);
                self.align_text(text, at, *width)
            });
            let line = parts.collect::<Vec<_>>().join(" │ ");
            line.trim_end().to_owned()
        };
        (0..n_lines).map(line).collect()
    }

    fn align_text(&self, text: &str, at: usize, width: usize) -> String {
        let own = super::super::wrap::text_width(text);
        let n_blanks = width.saturating_sub(own);
        let n_before = match self.alignments.get(at) {
            Some(Alignment::Right) => n_blanks,
            Some(Alignment::Center) => n_blanks / 2,
            _ => 0,
        };
        let (before, after) = (" ".repeat(n_before), " ".repeat(n_blanks - n_before));
        format!("{before}{text}{after}")
    }

    /// Renders each row as a list of `header: cell` entries, with a blank line between two rows.
    fn layout_rows_as_lists(&self, room: usize) -> Vec<String> {
        let mut rows = Vec::new();
        let heads = self.rows.first().map_or(&[][..], Vec::as_slice);
        for (n, row) in self.rows.iter().skip(1).enumerate() {
            if n > 0 {
                rows.push(String::new());
            }
            for (at, cell) in row.iter().enumerate() {
                let mut line: MarkdownTableCell = heads.get(at).cloned().unwrap_or_default();
                if !line.is_empty() {
                    line.push(StyledText::new(BOLD_STYLE, ": "));
                }
                line.extend(cell.iter().cloned());
                let parts = wrap_styled_text(
                    &line,
                    room.saturating_sub(WRAPPED_CELL_LINE_INDENT.len()).max(1),
                );
                let parts = parts.into_iter().enumerate().map(|(n, part)| match n {
                    0 => part,
                    _ => format!("{WRAPPED_CELL_LINE_INDENT}{part}"),
                });
                rows.extend(parts);
            }
        }
        if self.rows.len() < 2 {
            rows.extend(heads.iter().flat_map(|head| wrap_styled_text(head, room)));
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::strip_styles;
    use super::super::render_rows;
    use unicode_width::UnicodeWidthStr;

    fn shown(source: &str, columns: usize) -> Vec<String> {
        let rows = render_rows(source, columns);
        rows.iter().map(|row| strip_styles(row)).collect()
    }

    const TABLE: &str = "| part | where | lines |\n|:--|:-:|--:|\n| the `server` | src/serve/mod.rs | 1200 |\n| 日本語の説明 | x | 7 |\n";

    #[test]
    fn cells_are_broken_where_a_table_is_wider_than_the_screen() {
        assert_eq!(
            shown(TABLE, 60),
            [
                "part         │      where       │ lines",
                "─────────────┼──────────────────┼──────",
                "the `server` │ src/serve/mod.rs │  1200",
                "日本語の説明 │        x         │     7",
            ]
        );
        let words = "| name | what it does |\n|---|---|\n| serve | answers requests of other programs |\n| run | one turn |\n";
        assert_eq!(
            shown(words, 30),
            [
                "name  │ what it does",
                "──────┼───────────────────────",
                "serve │ answers requests of",
                "      │ other programs",
                "──────┼───────────────────────",
                "run   │ one turn",
            ]
        );
        assert_eq!(
            shown(TABLE, 30),
            [
                "part: the `server`",
                "where: src/serve/mod.rs",
                "lines: 1200",
                "",
                "part: 日本語の説明",
                "where: x",
                "lines: 7",
            ]
        );
    }

    #[test]
    fn no_row_of_a_table_is_wider_than_the_screen() {
        let wide = "| a | 👨‍👩‍👧 family 日本 | `code` and **bold** |\n|---|---|---|\n| word | wordwithoutanyblanksatallthatgoeson | e\u{301}e\u{301} |\n";
        for columns in 12..60 {
            for source in [TABLE, wide] {
                for row in render_rows(source, columns) {
                    let row = strip_styles(&row);
                    assert!(row.width() <= columns, "{columns}: {row}");
                }
            }
        }
        let many = format!(
            "|{}\n|{}\n|{}\n",
            " a |".repeat(500),
            "---|".repeat(500),
            " b |".repeat(500)
        );
        assert_eq!(render_rows(&many, 80).len(), 500);
    }

    #[test]
    fn what_is_in_a_cell_keeps_its_style() {
        let rows = render_rows("| a |\n|---|\n| **b** |\n", 40);
        let bold = super::style_text(anstyle::Style::new().bold(), "b");
        assert!(rows[2].contains(&bold), "{rows:?}");
    }
}
