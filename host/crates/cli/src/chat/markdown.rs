//! Markdown of models as rows of a terminal.
//!
//! Every piece of text goes through one function that escapes it after parsing, because an entity
//! such as `&#27;` becomes a control character only then. It must not know about streaming:
//! `stream` passes complete blocks. Start from [`render_rows`].

use anstyle::{AnsiColor, Style};
use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use unicode_width::UnicodeWidthStr;

use super::super::render::{BAD, BOLD, DIM, GOOD, bare_text, printable_prose, style_text};

const CODE: Style = AnsiColor::Cyan.on_default();

/// Minimum width of text after marks and indentation.
const MIN_COLUMNS: usize = 8;

const CODE_INDENT: &str = "  ";

/// Renders Markdown in rows of at most so many columns; only code is not broken.
pub(super) fn render_rows(source: &str, columns: usize) -> Vec<String> {
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut page = MarkdownPage {
        columns,
        ..MarkdownPage::default()
    };
    for event in Parser::new_ext(source, options) {
        page.take_event(event);
    }
    page.flush_row();
    page.rows
}

#[derive(Default)]
struct MarkdownIndent {
    /// Mark before the next row, once.
    mark: Option<String>,
    /// Text before the others.
    rest: String,
}

#[derive(Default)]
struct MarkdownPage {
    columns: usize,
    rows: Vec<String>,
    indents: Vec<MarkdownIndent>,
    /// Numbers of the open lists; `None` is a list of bullets.
    lists: Vec<Option<u64>>,
    styles: Vec<Style>,
    line: Vec<(Style, String)>,
    /// Language of the open block of code.
    code: Option<String>,
    link: String,
    table: Option<Vec<Vec<String>>>,
    /// Whether a blank row comes before the next block.
    is_apart: bool,
}

impl MarkdownPage {
    fn take_event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start_tag(tag),
            Event::End(tag) => self.end_tag(tag),
            Event::Text(text) => match self.code.clone() {
                Some(language) => self.code_rows(&language, &text),
                None => self.add_text(self.style(), &text),
            },
            // Keep the backticks, so that code is recognizable without color.
            Event::Code(text) => self.add_text(CODE, &format!("`{text}`")),
            Event::Html(text) | Event::InlineHtml(text) => self.add_text(DIM, &text),
            Event::SoftBreak => self.add_text(self.style(), " "),
            Event::HardBreak => self.flush_row(),
            Event::Rule => {
                self.begin_block();
                let width = self.columns.min(40);
                self.add_row(style_text(DIM, "─".repeat(width)));
                self.is_apart = true;
            }
            Event::TaskListMarker(is_done) => {
                self.add_text(self.style(), if is_done { "[x] " } else { "[ ] " });
            }
            Event::InlineMath(text) | Event::DisplayMath(text) => self.add_text(CODE, &text),
            Event::FootnoteReference(_) => {}
        }
    }

    fn start_tag(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph => self.begin_block(),
            Tag::Heading { level, .. } => {
                self.begin_block();
                self.styles.push(BOLD);
                let marks = "#".repeat(heading_depth(level));
                self.add_text(BOLD, &format!("{marks} "));
            }
            Tag::BlockQuote(_) => {
                self.begin_block();
                self.push_indent(None, &style_text(DIM, "│ "));
            }
            Tag::CodeBlock(kind) => {
                self.begin_block();
                self.code = Some(match kind {
                    CodeBlockKind::Fenced(language) => language.to_string(),
                    CodeBlockKind::Indented => String::new(),
                });
            }
            Tag::List(first) => {
                if self.lists.is_empty() {
                    self.begin_block();
                } else {
                    self.flush_row();
                }
                self.lists.push(first);
            }
            Tag::Item => {
                self.flush_row();
                self.is_apart = false;
                let mark = match self.lists.last_mut() {
                    Some(Some(number)) => {
                        *number += 1;
                        format!("{}. ", *number - 1)
                    }
                    _ => "• ".to_owned(),
                };
                let rest = " ".repeat(mark.width());
                self.push_indent(Some(mark), &rest);
            }
            Tag::Emphasis => self.styles.push(self.style().italic()),
            Tag::Strong => self.styles.push(self.style().bold()),
            Tag::Strikethrough => self.styles.push(self.style().strikethrough()),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.link = dest_url.to_string();
                self.styles.push(self.style().underline());
            }
            Tag::Table(_) => {
                self.begin_block();
                self.table = Some(Vec::new());
            }
            Tag::TableHead | Tag::TableRow => {
                if let Some(table) = &mut self.table {
                    table.push(Vec::new());
                }
            }
            _ => {}
        }
    }

    fn end_tag(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph => self.end_block(),
            TagEnd::Heading(_) => {
                self.styles.pop();
                self.end_block();
            }
            TagEnd::BlockQuote(_) => {
                self.indents.pop();
                self.is_apart = true;
            }
            TagEnd::CodeBlock => {
                self.code = None;
                self.is_apart = true;
            }
            TagEnd::List(_) => {
                self.lists.pop();
                self.is_apart = self.lists.is_empty();
            }
            TagEnd::Item => {
                self.flush_row();
                self.indents.pop();
            }
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => {
                self.styles.pop();
            }
            TagEnd::Link | TagEnd::Image => {
                self.styles.pop();
                let target = std::mem::take(&mut self.link);
                let is_told = self.line.last().is_some_and(|(_, text)| *text == target);
                if !is_told && !target.is_empty() {
                    // Always show the target: link text that looks like one address must not lead
                    // to another.
                    self.add_text(DIM, &format!(" ({target})"));
                }
            }
            TagEnd::TableCell => {
                let line = std::mem::take(&mut self.line);
                let cell = line.into_iter().map(|(_, text)| text).collect();
                if let Some(row) = self.table.as_mut().and_then(|table| table.last_mut()) {
                    row.push(cell);
                }
            }
            TagEnd::Table => self.table_rows(),
            TagEnd::HtmlBlock => self.end_block(),
            _ => {}
        }
    }

    fn style(&self) -> Style {
        self.styles.last().copied().unwrap_or_default()
    }

    fn push_indent(&mut self, mark: Option<String>, rest: &str) {
        let rest = rest.to_owned();
        self.indents.push(MarkdownIndent { mark, rest });
    }

    /// Adds text to the line. All text passes here, so that control characters are escaped.
    fn add_text(&mut self, style: Style, text: &str) {
        self.line.push((style, printable_prose(text)));
    }

    fn begin_block(&mut self) {
        self.flush_row();
        if std::mem::take(&mut self.is_apart) {
            self.add_row(String::new());
        }
    }

    fn end_block(&mut self) {
        self.flush_row();
        self.is_apart = true;
    }

    /// Ends the line and wraps its words into rows.
    fn flush_row(&mut self) {
        let line = std::mem::take(&mut self.line);
        if line.iter().all(|(_, text)| text.trim().is_empty()) {
            return;
        }
        for row in words_in_rows(&line, self.room()) {
            self.add_row(row);
        }
    }

    /// Returns the columns left after the indentation.
    fn room(&self) -> usize {
        let indents = self.indents.iter().map(|indent| match &indent.mark {
            Some(mark) => mark.width(),
            None => bare_text(&indent.rest).width(),
        });
        let taken: usize = indents.sum();
        self.columns.saturating_sub(taken).max(MIN_COLUMNS)
    }

    fn add_row(&mut self, text: String) {
        let mut row = String::new();
        for indent in &mut self.indents {
            row.push_str(&indent.mark.take().unwrap_or_else(|| indent.rest.clone()));
        }
        row.push_str(&text);
        self.rows.push(row.trim_end().to_owned());
    }

    fn code_rows(&mut self, language: &str, text: &str) {
        for line in text.trim_end_matches('\n').split('\n') {
            let style = match (language, line.as_bytes().first()) {
                ("diff" | "patch", Some(b'+')) => GOOD,
                ("diff" | "patch", Some(b'-')) => BAD,
                _ => CODE,
            };
            let line = printable_prose(&line.replace('\t', "    "));
            self.add_row(match line.is_empty() {
                true => String::new(),
                false => format!("{CODE_INDENT}{}", style_text(style, line)),
            });
        }
    }

    /// Columns as wide as their widest cell, as long as they fit; else a row for each cell.
    fn table_rows(&mut self) {
        let table = self.table.take().unwrap_or_default();
        let n_columns = table.iter().map(Vec::len).max().unwrap_or(0);
        let width = |at: usize| {
            let cells = table.iter().filter_map(|row| row.get(at));
            cells.map(|cell| cell.width()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..n_columns).map(width).collect();
        let total = widths.iter().sum::<usize>() + 3 * n_columns.saturating_sub(1);
        let fits = total <= self.room();
        for (n, row) in table.iter().enumerate() {
            let style = if n == 0 { BOLD } else { Style::new() };
            if fits {
                let cells = row.iter().zip(&widths).map(|(cell, width)| {
                    let n_blanks = width.saturating_sub(cell.width());
                    style_text(style, cell) + &" ".repeat(n_blanks)
                });
                let row = cells.collect::<Vec<_>>().join(" │ ");
                self.add_row(row);
                if n == 0 {
                    let lines = widths.iter().map(|width| "─".repeat(*width));
                    let line = lines.collect::<Vec<_>>().join("─┼─");
                    self.add_row(style_text(DIM, line));
                }
            } else if n > 0 {
                let heads = table.first().into_iter().flatten();
                for (head, cell) in heads.zip(row) {
                    let line = [(BOLD, format!("{head}: ")), (Style::new(), cell.clone())];
                    for row in words_in_rows(&line, self.room()) {
                        self.add_row(row);
                    }
                }
                self.add_row(String::new());
            }
        }
        self.is_apart = fits;
    }
}

fn heading_depth(level: HeadingLevel) -> usize {
    level as usize
}

/// Styled text in rows, broken at blanks; a word that is wider than a row is broken anywhere.
fn words_in_rows(line: &[(Style, String)], columns: usize) -> Vec<String> {
    let mut rows = vec![String::new()];
    let mut width = 0;
    let mut blanks = 0;
    for (style, text) in line {
        for piece in text.split_inclusive(' ') {
            let word = piece.trim_end_matches(' ');
            let n = word.width();
            if n > 0 {
                if width > 0 && width + blanks + n > columns {
                    rows.push(String::new());
                    width = 0;
                } else if let Some(row) = rows.last_mut()
                    && width > 0
                {
                    row.push_str(&style_text(*style, " ".repeat(blanks)));
                    width += blanks;
                }
                blanks = 0;
                width = put_word(&mut rows, *style, word, width, columns);
            }
            blanks += piece.len() - word.len();
        }
    }
    rows
}

/// Appends a word, wrapping if needed, and returns the new width of the last row.
fn put_word(
    rows: &mut Vec<String>,
    style: Style,
    word: &str,
    mut width: usize,
    columns: usize,
) -> usize {
    let mut part = String::new();
    for letter in word.chars() {
        let wide = unicode_width::UnicodeWidthChar::width(letter).unwrap_or(0);
        if width + wide > columns && wide > 0 {
            if let Some(row) = rows.last_mut() {
                row.push_str(&style_text(style, std::mem::take(&mut part)));
            }
            rows.push(String::new());
            width = 0;
        }
        part.push(letter);
        width += wide;
    }
    if let Some(row) = rows.last_mut() {
        row.push_str(&style_text(style, part));
    }
    width
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(source: &str, columns: usize) -> Vec<String> {
        render_rows(source, columns)
            .iter()
            .map(|row| bare_text(row))
            .collect()
    }

    #[test]
    fn blocks_are_laid_out_in_rows() {
        let source = "# Title\n\nSome *plain* words that go on with `code`.\n\n1. one\n2. two\n   - in\n\n> said\n\n```rust\nfn main() {\n\n}\n```\n\nend [here](http://a.b)\n";
        assert_eq!(
            plain(source, 24),
            [
                "# Title",
                "",
                "Some plain words that go",
                "on with `code`.",
                "",
                "1. one",
                "2. two",
                "   • in",
                "",
                "│ said",
                "",
                "  fn main() {",
                "",
                "  }",
                "",
                "end here (http://a.b)",
            ]
        );
    }

    #[test]
    fn a_table_stands_in_columns_or_cell_by_cell() {
        let source = "| name | what |\n|---|---|\n| a | the first |\n| bb | 日本 |\n";
        assert_eq!(
            plain(source, 40),
            [
                "name │ what",
                "─────┼──────────",
                "a    │ the first",
                "bb   │ 日本",
            ]
        );
        assert_eq!(
            plain(source, 12),
            [
                "name: a",
                "what: the",
                "first",
                "",
                "name: bb",
                "what: 日本",
                "",
            ]
        );
    }

    #[test]
    fn nothing_that_a_terminal_obeys_comes_through() {
        let source = "a\u{1b}[2J &#27;[2J `\u{1b}]0;x\u{7}`\n\n```\n\u{1b}[1A\n```\n\n[x](http://a\u{202e}b)";
        for row in plain(source, 60) {
            assert!(
                !row.contains('\u{1b}') && !row.contains('\u{202e}'),
                "{row:?}"
            );
        }
        // The rows contain no foreign escape sequence, even with the styles of the program in them.
        let all = render_rows(source, 60).join("\n");
        assert!(
            !all.contains("\u{1b}[2J") && !all.contains("\u{1b}]"),
            "{all:?}"
        );
    }

    #[test]
    fn no_row_is_wider_than_the_screen() {
        let source = "# A title of several words\n\nwordswithoutanyblanks日本語日本語日本語 **bold**text and more\n\n- item with words\n  - 日本語 nested item\n\n> quoted words go on and on";
        for columns in 10..50 {
            for row in plain(source, columns) {
                assert!(row.width() <= columns, "{columns}: {row}");
            }
        }
    }
}
