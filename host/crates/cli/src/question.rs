//! Shows a question at the terminal: at most one screen, with the possible answers on the last
//! line.
//!
//! Text by other authors is shown as one escaped line, or as rows that each begin with a mark, so
//! that it cannot imitate a part of the question. If the question does not fit, `v` shows all of it
//! page by page. Start from [`QuestionScreenContent`].

use anstyle::Style;
use unicode_width::UnicodeWidthChar;

use super::render::hold::{buffer_output_during_question, write_stderr_immediately};
use super::render::wrap::{text_width, wrap_lines_to_columns};
use super::render::{DIM_STYLE, WARNING_STYLE, style_text};
use super::terminal::{self, TerminalSize};
use rind_lib::text;

const TAB_REPLACEMENT_SPACES: &str = "    ";

/// Reply to an approval that was typed before all of the question was shown.
pub(super) const QUESTION_NOT_FULLY_SHOWN_REPLY: &str =
    "view the whole question first: v and Enter";

/// Mark at the beginning of a row that continues a line.
const WRAPPED_ROW_MARK: &str = "↪ ";

/// Escapes one line of a text by another author. Tabs become four spaces.
pub(super) fn escape_untrusted_line(line: &str) -> String {
    let parts: Vec<String> = line.split('\t').map(text::escape_to_one_line).collect();
    parts.join(TAB_REPLACEMENT_SPACES)
}

/// Rows of a question, truncated if they do not fit the screen.
#[derive(Debug)]
pub(super) struct ScreenFittedQuestionRows {
    pub(super) rows: Vec<String>,
    /// Whether rows of the question were left out, because the screen is too small.
    pub(super) is_cut: bool,
}

/// Number of rows of a page that show no new content: the prompt, and one row of the previous page.
const NON_CONTENT_ROWS_PER_PAGE: usize = 2;

/// A line of a question, which may take several rows.
#[derive(Clone, Debug)]
pub(super) struct TerminalQuestionLine {
    /// Prefix of the line, chosen by the program and not by the author of the text.
    mark: String,
    pieces: Vec<(Style, String)>,
    /// Whether the text may be wrapped at spaces, because the program itself wrote it.
    is_prose: bool,
}

impl TerminalQuestionLine {
    pub(super) fn new(mark: impl Into<String>) -> Self {
        Self {
            mark: mark.into(),
            pieces: Vec::new(),
            is_prose: false,
        }
    }

    /// Lets rows break at spaces. Use it only for text of the program: another author could use
    /// spaces to choose the text with which a row begins.
    pub(super) fn allow_row_breaks_at_spaces(mut self) -> Self {
        self.is_prose = true;
        self
    }

    pub(super) fn with_text(self, words: &str) -> Self {
        self.with_styled_text(Style::new(), words)
    }

    pub(super) fn with_styled_text(mut self, style: Style, words: &str) -> Self {
        self.pieces.push((style, words.to_owned()));
        self
    }

    /// Appends text of another author, escaped so that it stays on this line.
    pub(super) fn with_escaped_text(self, style: Style, text: &str) -> Self {
        self.with_styled_text(style, &text::escape_to_one_line(text))
    }

    /// Appends one line of a block by another author. Tabs become four spaces.
    pub(super) fn with_untrusted_line(self, line: &str) -> Self {
        self.with_text(&escape_untrusted_line(line))
    }

    /// Appends pieces of text that are already escaped.
    pub(super) fn with_escaped_pieces(mut self, pieces: Vec<(Style, String)>) -> Self {
        self.pieces.extend(pieces);
        self
    }

    /// Returns the rows with breaks at spaces; `None` if the line is not prose, or a word is wider
    /// than the screen.
    fn wrapped_prose_rows(&self, columns: usize) -> Option<Vec<String>> {
        let pieces = self.pieces.iter();
        let styled: String = pieces
            .map(|(style, text)| style_text(*style, text))
            .collect();
        let line = format!("{}{styled}", self.mark);
        let rows = self
            .is_prose
            .then(|| wrap_lines_to_columns(&line, Some(columns)))?;
        let rows: Vec<String> = rows.lines().map(str::to_owned).collect();
        let fits = |row: &String| text_width(row) <= columns;
        rows.iter().all(fits).then_some(rows)
    }

    /// Returns the rows on a screen of this width. Text of other authors breaks anywhere and not at
    /// spaces, because spaces that were added or dropped at the end of a row could not be told from
    /// those of the text.
    fn wrap_rows(&self, columns: usize) -> Vec<String> {
        if let Some(rows) = self.wrapped_prose_rows(columns) {
            return rows;
        }
        let mut rows = Vec::new();
        let mut row = self.mark.clone();
        let mut width: usize = self.mark.chars().filter_map(UnicodeWidthChar::width).sum();
        let indent = " ".repeat(width.min(columns / 2));
        for (style, text) in &self.pieces {
            let mut part = String::new();
            for character in text.chars() {
                let wide = character.width().unwrap_or(0);
                if width + wide > columns {
                    row.push_str(&style_text(*style, std::mem::take(&mut part)));
                    rows.push(std::mem::take(&mut row));
                    row = format!("{indent}{}", style_text(DIM_STYLE, WRAPPED_ROW_MARK));
                    width = indent.len() + WRAPPED_ROW_MARK.chars().count();
                }
                part.push(character);
                width += wide;
            }
            if !part.is_empty() {
                row.push_str(&style_text(*style, part));
            }
        }
        rows.push(row);
        rows
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct QuestionScreenContent {
    /// Parts of the question, of which the first begins with the question itself. If the screen is
    /// too small, each part gets a share of the rows.
    pub(super) parts: Vec<Vec<TerminalQuestionLine>>,
    /// Lines directly above the answers, which say what an answer covers. Truncated only if the
    /// screen has fewer rows than these lines.
    pub(super) covers: Vec<TerminalQuestionLine>,
    /// Description of the possible answers, such as `[y]es or [n]o`.
    pub(super) keys: String,
    /// Whether any typed text is a valid answer.
    pub(super) takes_text: bool,
    /// Whether the typed line is not echoed, because it may be a secret.
    pub(super) is_secret: bool,
}

impl QuestionScreenContent {
    /// Asks for an answer that permits nothing by itself, so that it counts even if the question
    /// was not shown completely. Otherwise like [`QuestionScreenContent::ask_approval`].
    pub(super) async fn ask_non_approval_question<T>(
        &self,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        self.ask_approval(parse, |_| true).await
    }

    /// Asks until `parse` accepts a line; returns `None` at the end of input. Until all of the
    /// question was on the screen, only answers that permit nothing count, for which `is_no`
    /// returns true.
    ///
    /// Input typed before the question could be read is dropped. While the question is open, no
    /// other output is written to the terminal.
    pub(super) async fn ask_approval<T>(
        &self,
        parse: impl Fn(&str) -> Option<T>,
        is_no: impl Fn(&T) -> bool,
    ) -> Option<T> {
        let _open = buffer_output_during_question();
        let (mut hint, mut is_paged, mut is_seen) = (None, false, false);
        loop {
            let size = terminal::terminal_size();
            let (rows, is_cut) = self.fitted_question_rows(size);
            let is_first = hint.is_none() && !is_paged;
            for row in hint.take().into_iter().chain(rows) {
                write_stderr_immediately(format_args!("{row}\n"));
            }
            if is_first {
                terminal::discard_lines_until_input_pauses().await;
            }
            terminal::discard_typed_input();
            let prompt = self.prompt_text(is_cut && !is_seen);
            let line = match self.is_secret {
                true => read_line_without_echo(&prompt).await?,
                false => {
                    write_stderr_immediately(prompt);
                    terminal::read_stdin_line().await?
                }
            };
            let line = line.trim();
            if self.is_full_view_request(line, is_cut) {
                is_paged = true;
                is_seen |= self.page_through_question(size).await?;
            } else {
                let words = match parse(line) {
                    Some(answer) if !is_cut || is_seen || is_no(&answer) => return Some(answer),
                    Some(_) => QUESTION_NOT_FULLY_SHOWN_REPLY,
                    None => "invalid answer: type one of the letters in brackets",
                };
                hint = Some(style_text(WARNING_STYLE, words));
            }
        }
    }

    /// Returns the line with the possible answers. `is_unread` is true as long as the question must
    /// be viewed first.
    pub(super) fn prompt_text(&self, is_unread: bool) -> String {
        let view = if is_unread { "[v]iew first, then " } else { "" };
        format!("  {view}{}: ", self.keys)
    }

    /// Whether a line requests all of the question. If any text is a valid answer, `v` is a request
    /// only while rows are left out.
    pub(super) fn is_full_view_request(&self, line: &str, is_cut: bool) -> bool {
        let is_word = matches!(line.to_lowercase().as_str(), "v" | "view");
        is_word && (is_cut || !self.takes_text)
    }

    /// Returns the rows above the answers, and whether rows were left out. If the screen is too
    /// small even for the first row and the lines in `covers`, the question scrolls.
    pub(super) fn fitted_question_rows(&self, size: TerminalSize) -> (Vec<String>, bool) {
        let n_prompt = self.prompt_text(true).chars().count() / size.columns + 1;
        // Reserve another row for a typed answer that wraps.
        let n_rows = size.rows.saturating_sub(n_prompt + 1);
        let n_least = wrap_lines(&self.covers, size.columns).len() + 1;
        let fitted = self.truncate_question_to_rows(size.columns, n_rows.max(n_least));
        (fitted.rows, fitted.is_cut)
    }

    /// Truncates the question to at most `n_rows` rows.
    pub(super) fn truncate_question_to_rows(
        &self,
        columns: usize,
        n_rows: usize,
    ) -> ScreenFittedQuestionRows {
        let parts: Vec<Vec<String>> = self
            .parts
            .iter()
            .map(|part| wrap_lines(part, columns))
            .collect();
        let covers = wrap_lines(&self.covers, columns);
        if n_rows <= covers.len() {
            let fitted = truncate_parts_evenly(parts, n_rows);
            return ScreenFittedQuestionRows {
                is_cut: true,
                ..fitted
            };
        }
        let mut fitted = truncate_parts_evenly(parts, n_rows - covers.len());
        fitted.rows.extend(covers);
        fitted
    }

    /// Returns all rows of the question, even if they do not fit the screen.
    pub(super) fn build_all_rows(&self, size: TerminalSize) -> Vec<String> {
        let lines = self.parts.iter().flatten().chain(&self.covers);
        wrap_lines(lines, size.columns)
    }

    /// Shows the complete question page by page. Returns whether the last page was reached; `None`
    /// at the end of input.
    async fn page_through_question(&self, size: TerminalSize) -> Option<bool> {
        let all = self.build_all_rows(size);
        let mut rest = all.as_slice();
        let n_page = size.rows.saturating_sub(NON_CONTENT_ROWS_PER_PAGE).max(1);
        while !rest.is_empty() {
            let (page, more) = rest.split_at(n_page.min(rest.len()));
            page.iter()
                .for_each(|row| write_stderr_immediately(format_args!("{row}\n")));
            terminal::discard_typed_input();
            if more.is_empty() {
                write_stderr_immediately("  end; press Enter to return to the question:  ");
            } else {
                let n = more.len();
                write_stderr_immediately(format_args!(
                    "  {n} more rows; Enter shows the next, q goes back to the question: "
                ));
            }
            let line = terminal::read_stdin_line().await?;
            if !more.is_empty() && line.trim().eq_ignore_ascii_case("q") {
                return Some(false);
            }
            rest = more;
        }
        Some(true)
    }
}

/// Maximum length, in bytes, of a hidden line that is shown after it was typed: a letter or a
/// number. Keys are longer.
const MAX_ECHOED_HIDDEN_INPUT_BYTES: usize = 4;

/// Reads a line without echo. Shows it afterwards if it is short.
async fn read_line_without_echo(prompt: &str) -> Option<String> {
    let line = terminal::read_secret(|| write_stderr_immediately(prompt)).await;
    let typed = line.as_deref().unwrap_or_default().trim();
    let shown = match typed.len() {
        0..=MAX_ECHOED_HIDDEN_INPUT_BYTES => text::escape_to_one_line(typed),
        _ => "(not shown)".to_owned(),
    };
    write_stderr_immediately(format_args!("{shown}\n"));
    line
}

/// Parses a yes or a no; `None` for any other text.
pub(super) fn parse_yes_or_no(line: &str) -> Option<bool> {
    match line.to_lowercase().as_str() {
        "y" | "yes" => Some(true),
        "n" | "no" => Some(false),
        _ => None,
    }
}

fn wrap_lines<'a>(
    lines: impl IntoIterator<Item = &'a TerminalQuestionLine>,
    columns: usize,
) -> Vec<String> {
    let lines = lines.into_iter();
    lines.flat_map(|line| line.wrap_rows(columns)).collect()
}

/// Truncates the parts to `n_free` rows in total, in shares as equal as possible. A truncated part
/// ends with a row that says how many rows are missing. The first row of the first part is always
/// kept, unless `n_free` is 0.
fn truncate_parts_evenly(parts: Vec<Vec<String>>, n_free: usize) -> ScreenFittedQuestionRows {
    let n_all: usize = parts.iter().map(Vec::len).sum();
    if n_all <= n_free {
        return ScreenFittedQuestionRows {
            rows: parts.concat(),
            is_cut: false,
        };
    }
    let mut shares = vec![0; parts.len()];
    // The loop terminates: the parts have more rows than `n_free`, so all free rows are assigned.
    let mut n_left = n_free;
    for at in (0..parts.len()).cycle() {
        if n_left == 0 {
            break;
        }
        if shares[at] < parts[at].len() {
            (shares[at], n_left) = (shares[at] + 1, n_left - 1);
        }
    }
    let mut rows = Vec::with_capacity(n_free);
    for (at, (part, share)) in parts.iter().zip(shares).enumerate() {
        let n_missing = part.len() - share;
        if n_missing == 0 {
            rows.extend_from_slice(part);
        } else if at == 0 && share == 1 {
            rows.extend(part.first().cloned());
        } else if let Some(n_shown) = share.checked_sub(1) {
            rows.extend(part.iter().take(n_shown).cloned());
            rows.push(style_text(
                WARNING_STYLE,
                format_args!("  … {} more rows: v shows all", n_missing + 1),
            ));
        }
    }
    ScreenFittedQuestionRows { rows, is_cut: true }
}

#[cfg(test)]
mod tests {
    use super::super::render::strip_styles;
    use super::*;

    const SIZE: TerminalSize = TerminalSize {
        columns: 30,
        rows: 12,
    };

    fn screen(n_lines: usize) -> QuestionScreenContent {
        let block = (0..n_lines)
            .map(|n| TerminalQuestionLine::new("+ ").with_untrusted_line(&format!("line {n}")));
        QuestionScreenContent {
            parts: vec![
                vec![TerminalQuestionLine::new("? ").with_text("bash wants to run a program")],
                block.collect(),
                vec![
                    TerminalQuestionLine::new("  ").with_escaped_text(DIM_STYLE, "guard asks: why"),
                ],
            ],
            covers: vec![TerminalQuestionLine::new("  ").with_text("always covers: make test")],
            keys: "[y]es or [n]o".to_owned(),
            ..QuestionScreenContent::default()
        }
    }

    #[test]
    fn words_of_the_program_are_broken_at_blanks_and_foreign_ones_anywhere() {
        let line = || {
            TerminalQuestionLine::new("  ")
                .with_styled_text(DIM_STYLE, "yes carries it out, no continues")
        };
        let rows = |line: TerminalQuestionLine| -> Vec<String> {
            let rows = line.wrap_rows(24);
            rows.iter().map(|row| strip_styles(row)).collect()
        };
        let prose = rows(line().allow_row_breaks_at_spaces());
        assert_eq!(prose, ["  yes carries it out, no", "    continues"]);
        assert_eq!(rows(line()), ["  yes carries it out, no", "  ↪  continues"]);
        // A word that no row holds is broken anywhere too.
        let long = TerminalQuestionLine::new("")
            .with_text(&"x".repeat(30))
            .allow_row_breaks_at_spaces();
        assert_eq!(rows(long), ["x".repeat(24), format!("↪ {}", "x".repeat(6))]);
    }

    #[test]
    fn a_question_is_never_higher_than_the_screen_and_every_part_is_on_it() {
        for n_lines in [0, 1, 3, 4, 5, 100, 100_000] {
            let (rows, is_cut) = screen(n_lines).fitted_question_rows(SIZE);
            assert!(rows.len() + 2 <= SIZE.rows, "{n_lines}: {}", rows.len());
            assert_eq!(is_cut, n_lines > 5, "{n_lines}");
            let text = strip_styles(&rows.join("\n"));
            assert!(text.starts_with("? bash wants"), "{text}");
            assert!(text.ends_with("always covers: make test"), "{text}");
            assert!(text.contains("guard asks"), "{text}");
            assert_eq!(text.contains("more rows: v shows all"), is_cut, "{text}");
        }
    }

    #[test]
    fn what_is_asked_stands_in_the_first_row_as_long_as_there_is_one() {
        for n_rows in 1..40 {
            let fitted = screen(30).truncate_question_to_rows(20, n_rows);
            assert!(fitted.rows.len() <= n_rows, "{n_rows}: {fitted:?}");
            let first = strip_styles(&fitted.rows[0]);
            assert_eq!(first, "? bash wants to run ", "{n_rows}");
            // Two rows for the question, thirty for the block, one for the reason, two for the
            // grants that it covers.
            assert_eq!(fitted.is_cut, n_rows < 35, "{n_rows}: {fitted:?}");
        }
        assert!(screen(30).truncate_question_to_rows(20, 0).rows.is_empty());
    }

    #[test]
    fn a_text_can_be_an_answer_and_then_v_is_one_unless_rows_are_missing() {
        let mut screen = screen(1);
        assert!(
            screen.is_full_view_request("v", false) && screen.is_full_view_request("View", true)
        );
        screen.takes_text = true;
        assert!(
            !screen.is_full_view_request("v", false) && !screen.is_full_view_request("view", false)
        );
        assert!(screen.is_full_view_request("v", true) && !screen.is_full_view_request("vi", true));
    }

    #[test]
    fn a_long_line_goes_on_in_marked_rows_and_loses_nothing() {
        let text = "日本語のとても長い一行 and more of it, up to here.";
        let rows = TerminalQuestionLine::new("$ ")
            .with_untrusted_line(text)
            .wrap_rows(20);
        assert!(rows.len() > 2);
        let mut joined = String::new();
        for (n, row) in rows.iter().enumerate() {
            let row = strip_styles(row);
            let width: usize = row.chars().filter_map(UnicodeWidthChar::width).sum();
            assert!(width <= 20, "{row}");
            let mark = if n == 0 { "$ " } else { "  ↪ " };
            joined.push_str(row.strip_prefix(mark).unwrap());
        }
        assert_eq!(joined, text);
    }

    #[test]
    fn nothing_of_others_begins_a_row() {
        let line = TerminalQuestionLine::new("  path ")
            .with_escaped_text(DIM_STYLE, "a\n? bash wants\r\u{1b}[2K\u{2028}x");
        let rows = line.wrap_rows(200);
        assert_eq!(rows.len(), 1);
        assert_eq!(
            strip_styles(&rows[0]),
            "  path a\\u{a}? bash wants\\u{d}\\u{1b}[2K\\u{2028}x"
        );
    }
}
