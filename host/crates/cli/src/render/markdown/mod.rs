//! Renders Markdown that models write as rows of a terminal.
//!
//! All text is escaped by one function after parsing, because an entity such as `&#27;` becomes a
//! control character only then. Must not know about streaming: `stream` passes complete blocks, or
//! lines of one code block. Start from [`render_rows`].

mod table;
mod words;

use anstyle::{AnsiColor, Style};
use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use unicode_width::UnicodeWidthStr;

use super::highlight::CodeHighlighter;
use super::wrap::break_styled_line_anywhere;
use super::{
    BOLD_STYLE, DIM_STYLE, ERROR_STYLE, SUCCESS_STYLE, escape_prose_for_display, look,
    strip_styles, style_text,
};
use table::MarkdownTable;
use words::{StyledText, wrap_styled_text};

const INLINE_CODE_STYLE: Style = AnsiColor::Cyan.on_default();

/// Minimum width for text, in columns, after the marks and the indentation of a block.
const MIN_TEXT_COLUMNS: usize = 8;

const CODE_BLOCK_INDENT: &str = "  ";

/// Additional indentation of the rows in which a long line of code continues.
const WRAPPED_CODE_LINE_INDENT: &str = "  ";

/// Renders Markdown in rows of at most `columns` columns, but at least [`MIN_TEXT_COLUMNS`] after
/// the indentation.
pub(in super::super) fn render_rows(source: &str, columns: usize) -> Vec<String> {
    let mut page = MarkdownRenderer {
        columns,
        ..MarkdownRenderer::default()
    };
    page.render_source(source);
    page.rows
}

/// Renders Markdown without coloring code, because that takes longer than the rest of the
/// rendering.
pub(super) fn render_without_code_highlighting(source: &str, columns: usize) -> Vec<String> {
    let mut page = MarkdownRenderer {
        columns,
        is_plain: true,
        ..MarkdownRenderer::default()
    };
    page.render_source(source);
    page.rows
}

/// Renders a part of one code block. `open` is the highlighter after the previous part, and is
/// replaced by the one after this part.
pub(super) fn render_code(
    source: &str,
    columns: usize,
    open: &mut Option<CodeHighlighter>,
) -> Vec<String> {
    let mut page = MarkdownRenderer {
        columns,
        colors: open.take(),
        ..MarkdownRenderer::default()
    };
    page.render_source(source);
    *open = page.colors;
    page.rows
}

#[derive(Default)]
struct MarkdownBlockIndent {
    /// Text in front of the first row of the block, such as a list marker; `None` once that row was
    /// added.
    mark: Option<String>,
    /// Text in front of all rows after the first.
    rest: String,
}

#[derive(Default)]
struct MarkdownRenderer {
    columns: usize,
    rows: Vec<String>,
    indents: Vec<MarkdownBlockIndent>,
    /// Next number of each open list; `None` for a bulleted list.
    lists: Vec<Option<u64>>,
    styles: Vec<Style>,
    line: Vec<StyledText>,
    /// Language of the open code block; `None` outside of code.
    code: Option<String>,
    /// Highlighter of the open code block, or of the last one.
    colors: Option<CodeHighlighter>,
    /// Whether a code block has already begun in this Markdown source.
    has_code: bool,
    /// Whether code is shown without colors.
    is_plain: bool,
    link: String,
    table: Option<MarkdownTable>,
    /// Whether a blank row must separate the next block from the rows before it.
    is_apart: bool,
}

impl MarkdownRenderer {
    fn render_source(&mut self, source: &str) {
        let options =
            Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
        for event in Parser::new_ext(source, options) {
            self.handle_event(event);
        }
        self.flush_line_as_wrapped_rows();
    }

    fn handle_event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.handle_start_tag(tag),
            Event::End(tag) => self.handle_end_tag(tag),
            Event::Text(text) => match self.code.clone() {
                Some(language) => self.render_code_rows(&language, &text),
                None => self.add_escaped_text(self.current_style(), &text),
            },
            // Keep the backticks, so that code is recognizable without colors.
            Event::Code(text) => self.add_escaped_text(INLINE_CODE_STYLE, &format!("`{text}`")),
            Event::Html(text) | Event::InlineHtml(text) => self.add_escaped_text(DIM_STYLE, &text),
            Event::SoftBreak => self.add_escaped_text(self.current_style(), " "),
            Event::HardBreak => self.flush_line_as_wrapped_rows(),
            Event::Rule => {
                self.begin_block();
                let width = self.columns.min(40);
                self.add_row(style_text(DIM_STYLE, "─".repeat(width)));
                self.is_apart = true;
            }
            Event::TaskListMarker(is_done) => {
                self.add_escaped_text(self.current_style(), if is_done { "[x] " } else { "[ ] " });
            }
            Event::InlineMath(text) | Event::DisplayMath(text) => {
                self.add_escaped_text(INLINE_CODE_STYLE, &text)
            }
            Event::FootnoteReference(_) => {}
        }
    }

    fn handle_start_tag(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph => self.begin_block(),
            Tag::Heading { level, .. } => {
                self.begin_block();
                self.styles.push(BOLD_STYLE);
                let marks = "#".repeat(heading_depth(level));
                self.add_escaped_text(BOLD_STYLE, &format!("{marks} "));
            }
            Tag::BlockQuote(_) => {
                self.begin_block();
                self.push_indent(None, &style_text(DIM_STYLE, "│ "));
            }
            Tag::CodeBlock(kind) => {
                self.begin_block();
                let language = match kind {
                    CodeBlockKind::Fenced(language) => language.to_string(),
                    CodeBlockKind::Indented => String::new(),
                };
                // The first code block of this source may continue the code block at the end of the
                // part that was rendered before.
                let goes_on = !std::mem::replace(&mut self.has_code, true) && self.colors.is_some();
                if !goes_on && !self.is_plain {
                    self.colors = CodeHighlighter::for_language(&language);
                }
                self.code = Some(language);
            }
            Tag::List(first) => {
                if self.lists.is_empty() {
                    self.begin_block();
                } else {
                    self.flush_line_as_wrapped_rows();
                }
                self.lists.push(first);
            }
            Tag::Item => {
                self.flush_line_as_wrapped_rows();
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
            Tag::Emphasis => self.styles.push(self.current_style().italic()),
            Tag::Strong => self.styles.push(self.current_style().bold()),
            Tag::Strikethrough => self.styles.push(self.current_style().strikethrough()),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.link = dest_url.to_string();
                self.styles.push(self.current_style().underline());
            }
            Tag::Table(alignments) => {
                self.begin_block();
                self.table = Some(MarkdownTable::new(alignments));
            }
            Tag::TableHead | Tag::TableRow => {
                if let Some(table) = &mut self.table {
                    table.begin_row();
                }
            }
            _ => {}
        }
    }

    fn handle_end_tag(&mut self, tag: TagEnd) {
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
                self.flush_line_as_wrapped_rows();
                self.indents.pop();
            }
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => {
                self.styles.pop();
            }
            TagEnd::Link | TagEnd::Image => {
                self.styles.pop();
                let target = std::mem::take(&mut self.link);
                // Always show the target, because a link whose text looks like one address could
                // lead to another. For the same reason only the target itself is clickable.
                match self.line.last_mut() {
                    Some(last) if last.text == target => last.is_link = is_safe_link(&target),
                    _ if target.is_empty() => {}
                    _ => {
                        self.add_escaped_text(DIM_STYLE, " (");
                        self.add_escaped_text(DIM_STYLE, &target);
                        if let Some(last) = self.line.last_mut() {
                            last.is_link = is_safe_link(&target);
                        }
                        self.add_escaped_text(DIM_STYLE, ")");
                    }
                }
            }
            TagEnd::TableCell => {
                let cell = std::mem::take(&mut self.line);
                if let Some(table) = &mut self.table {
                    table.add_cell(cell);
                }
            }
            TagEnd::Table => {
                let table = self.table.take().unwrap_or_default();
                for row in table.layout_rows(self.count_columns_left()) {
                    self.add_row(row);
                }
                self.is_apart = true;
            }
            TagEnd::HtmlBlock => self.end_block(),
            _ => {}
        }
    }

    fn current_style(&self) -> Style {
        self.styles.last().copied().unwrap_or_default()
    }

    fn push_indent(&mut self, mark: Option<String>, rest: &str) {
        let rest = rest.to_owned();
        self.indents.push(MarkdownBlockIndent { mark, rest });
    }

    /// Adds text to the line. All text except code blocks passes here, so that control characters
    /// are escaped.
    fn add_escaped_text(&mut self, style: Style, text: &str) {
        self.line
            .push(StyledText::new(style, escape_prose_for_display(text)));
    }

    fn begin_block(&mut self) {
        self.flush_line_as_wrapped_rows();
        if std::mem::take(&mut self.is_apart) {
            self.add_row(String::new());
        }
    }

    fn end_block(&mut self) {
        self.flush_line_as_wrapped_rows();
        self.is_apart = true;
    }

    /// Ends the line, and wraps it into rows between words.
    fn flush_line_as_wrapped_rows(&mut self) {
        let line = std::mem::take(&mut self.line);
        if line.iter().all(|part| part.text.trim().is_empty()) {
            return;
        }
        for row in wrap_styled_text(&line, self.count_columns_left()) {
            self.add_row(row);
        }
    }

    /// Returns the number of columns that the indentation leaves for text.
    fn count_columns_left(&self) -> usize {
        let indents = self.indents.iter().map(|indent| match &indent.mark {
            Some(mark) => mark.width(),
            None => strip_styles(&indent.rest).width(),
        });
        let taken: usize = indents.sum();
        self.columns.saturating_sub(taken).max(MIN_TEXT_COLUMNS)
    }

    fn add_row(&mut self, text: String) {
        let mut row = String::new();
        for indent in &mut self.indents {
            row.push_str(&indent.mark.take().unwrap_or_else(|| indent.rest.clone()));
        }
        row.push_str(&text);
        self.rows.push(row.trim_end().to_owned());
    }

    fn render_code_rows(&mut self, language: &str, text: &str) {
        for line in text.trim_end_matches('\n').split('\n') {
            let style = match (language, line.as_bytes().first()) {
                ("diff" | "patch", Some(b'+')) => SUCCESS_STYLE,
                ("diff" | "patch", Some(b'-')) => ERROR_STYLE,
                _ => INLINE_CODE_STYLE,
            };
            let line = escape_prose_for_display(&line.replace('\t', "    "));
            let styled = match &mut self.colors {
                Some(colors) if style == INLINE_CODE_STYLE => {
                    colors.highlight_next_line_to_string(&line)
                }
                _ => style_text(style, &line),
            };
            if line.is_empty() {
                self.add_row(String::new());
                continue;
            }
            // Break the line here: the terminal would continue it at the first column, outside of
            // the block.
            let room = self
                .count_columns_left()
                .saturating_sub(CODE_BLOCK_INDENT.len());
            let mut indent = CODE_BLOCK_INDENT.to_owned();
            for row in break_styled_line_anywhere(&styled, room, WRAPPED_CODE_LINE_INDENT.len()) {
                self.add_row(format!("{indent}{row}"));
                indent = format!("{CODE_BLOCK_INDENT}{WRAPPED_CODE_LINE_INDENT}");
            }
        }
    }
}

fn heading_depth(level: HeadingLevel) -> usize {
    level as usize
}

/// Whether a terminal may make the target clickable. It must be a web address in visible ASCII. A
/// user name before the host is refused, because it may look like another host.
fn is_safe_link(target: &str) -> bool {
    let rest = ["https://", "http://"]
        .iter()
        .find_map(|scheme| target.strip_prefix(scheme));
    let host = rest.and_then(|rest| rest.split(['/', '?', '#']).next());
    look::has_hyperlink_support()
        && target.bytes().all(|byte| byte.is_ascii_graphic())
        && host.is_some_and(|host| !host.is_empty() && !host.contains(['@', '\\']))
}

#[cfg(test)]
mod tests;
