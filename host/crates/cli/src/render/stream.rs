//! Renders an answer while it streams: complete blocks go into the scrollback; the rest is shown
//! below them and may still change.
//!
//! Finds the offsets at which Markdown can be split so that the parts, rendered one by one, equal
//! the rendered complete text. Start from [`StreamedAnswerRenderer`].

use super::highlight::CodeHighlighter;
use super::markdown::{render_code, render_rows, render_without_code_highlighting};

/// Maximum length, in bytes, of an unfinished block whose code is highlighted at each redraw.
const MAX_HIGHLIGHTED_BLOCK_BYTES: usize = 2_000;

/// Renders an answer while it is streamed. `rest` is the text that is not in the scrollback yet.
#[derive(Default)]
pub(in super::super) struct StreamedAnswerRenderer {
    rest: String,
    /// All text of the answer that was received so far, for comparison with the final answer.
    all: String,
    /// Fence that closes the code block that is open, without surrounding blanks; `None` outside
    /// code.
    fence: Option<String>,
    /// State of the highlighter after the last complete line of the open code block.
    colors: Option<CodeHighlighter>,
    /// Kind of the last block of this answer that went into the scrollback.
    last: Option<StreamBlockKind>,
}

/// Kind of a Markdown block, which determines whether a blank row is printed between the block and
/// the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StreamBlockKind {
    Item,
    Other,
}

impl StreamedAnswerRenderer {
    pub(in super::super) fn push(&mut self, text: &str) {
        self.rest.push_str(text);
        self.all.push_str(text);
    }

    pub(in super::super) fn full_text(&self) -> &str {
        &self.all
    }

    pub(in super::super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Removes the complete Markdown blocks from the text that is not in the scrollback yet, and
    /// returns their rows.
    pub(in super::super) fn take_complete_blocks(&mut self, columns: usize) -> Vec<String> {
        let mut rows = Vec::new();
        loop {
            let n = self.next_complete_chunk_len();
            if n == 0 {
                return rows;
            }
            let block: String = self.rest.drain(..n).collect();
            self.push_block_rows(&mut rows, &block, columns);
        }
    }

    /// Returns the rows of the part of the answer that is not in the scrollback yet.
    pub(in super::super) fn render_unfinished_tail_rows(&self, columns: usize) -> Vec<String> {
        let mut rows = Vec::new();
        self.push_blank_row_between_blocks(&mut rows, &self.rest);
        let text = self.prepend_code_fence(&self.rest);
        rows.extend(match self.fence {
            Some(_) => render_code(&text, columns, &mut self.colors.clone()),
            None if text.len() <= MAX_HIGHLIGHTED_BLOCK_BYTES => render_rows(&text, columns),
            None => render_without_code_highlighting(&text, columns),
        });
        rows
    }

    /// Ends the answer, returns its remaining rows, and resets the state for the next answer.
    pub(in super::super) fn finish_and_take_rows(&mut self, columns: usize) -> Vec<String> {
        let mut rows = self.take_complete_blocks(columns);
        let rest = std::mem::take(&mut self.rest);
        self.push_block_rows(&mut rows, &rest, columns);
        *self = Self::default();
        rows
    }

    fn push_block_rows(&mut self, rows: &mut Vec<String>, block: &str, columns: usize) {
        let text = self.prepend_code_fence(block);
        let shown = match self.fence {
            Some(_) => render_code(&text, columns, &mut self.colors),
            None => render_rows(&text, columns),
        };
        let opens_code = self.fence.is_none()
            && block
                .lines()
                .last()
                .is_some_and(|l| find_opening_fence(l).is_some());
        if !shown.is_empty() || opens_code {
            self.push_blank_row_between_blocks(rows, block);
            rows.extend(shown);
            self.last = Some(match is_list_item_start(block.trim_start_matches('\n')) {
                true => StreamBlockKind::Item,
                false => StreamBlockKind::Other,
            });
        }
        self.update_open_fence(block);
    }

    /// Appends a blank row if this block needs one after the block before it.
    fn push_blank_row_between_blocks(&self, rows: &mut Vec<String>, block: &str) {
        let is_item = is_list_item_start(block.trim_start_matches('\n'));
        let is_blank = block.trim().is_empty();
        let is_tight = is_item && self.last == Some(StreamBlockKind::Item);
        if self.last.is_some() && self.fence.is_none() && !is_tight && !is_blank {
            rows.push(String::new());
        }
    }

    /// Prepends the opening fence to a piece of a code block, so that it renders as code on its
    /// own.
    fn prepend_code_fence(&self, text: &str) -> String {
        match &self.fence {
            Some(fence) => format!("{fence}\n{text}"),
            None => text.to_owned(),
        }
    }

    /// Returns the length in bytes of the next complete piece: a line of code, or a block with the
    /// blank line after it. 0 if no piece is complete.
    fn next_complete_chunk_len(&self) -> usize {
        if self.fence.is_some() {
            return self.rest.find('\n').map_or(0, |at| at + 1);
        }
        let mut at = 0;
        let mut is_blank = false;
        let mut has_text = false;
        for line in self.rest.split_inclusive('\n') {
            let is_whole = line.ends_with('\n');
            if has_text && !line.starts_with([' ', '\t']) && is_whole {
                // A Markdown block ends where the next one begins. Each item of a top-level list is
                // a separate piece.
                if is_blank && !line.trim().is_empty() || is_list_item_start(line) {
                    return at;
                }
            }
            if find_opening_fence(line).is_some() && !line.starts_with([' ', '\t']) && is_whole {
                // Each line of code is a piece: end this piece before the opening fence if text
                // precedes it, else after it.
                return if has_text { at } else { at + line.len() };
            }
            is_blank = is_whole && line.trim().is_empty();
            has_text |= !line.trim().is_empty();
            at += line.len();
        }
        0
    }

    /// Updates whether a code block is open at the end of this block.
    fn update_open_fence(&mut self, block: &str) {
        for line in block.lines() {
            match &self.fence {
                Some(fence) => {
                    let mark: String = fence.chars().take_while(|c| "`~".contains(*c)).collect();
                    let line = line.trim();
                    let is_end =
                        line.starts_with(&mark) && line.chars().all(|c| mark.starts_with(c));
                    if is_end {
                        (self.fence, self.colors) = (None, None);
                    }
                }
                None if !line.starts_with([' ', '\t']) => {
                    self.fence = find_opening_fence(line).map(str::to_owned);
                }
                None => {}
            }
        }
    }
}

/// Returns the line, without surrounding blanks, if it opens a fenced code block.
fn find_opening_fence(line: &str) -> Option<&str> {
    let line = line.trim();
    (line.starts_with("```") && !line.trim_start_matches('`').contains('`')
        || line.starts_with("~~~"))
    .then_some(line)
}

/// Whether a line begins an item of a list.
fn is_list_item_start(line: &str) -> bool {
    let bullet = ["- ", "* ", "+ "].iter().any(|mark| line.starts_with(mark));
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let after = line.get(digits..).unwrap_or_default();
    bullet || (1..=9).contains(&digits) && (after.starts_with(". ") || after.starts_with(") "))
}

#[cfg(test)]
mod tests {
    use super::super as render;
    use super::super::markdown;
    use super::*;

    const ANSWER: &str = "Some words\nthat go on.\n\n- one\n- two\n  more of two\n\n1. first\n\n   in first\n2. second\n\n```rust\nfn a() {\n\n    b();\n}\n```\n\n# End\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nlast *words*";

    fn streamed(source: &str, n: usize) -> Vec<String> {
        let mut stream = StreamedAnswerRenderer::default();
        let mut rows = Vec::new();
        let letters: Vec<char> = source.chars().collect();
        for piece in letters.chunks(n) {
            stream.push(&piece.iter().collect::<String>());
            rows.extend(stream.take_complete_blocks(40));
            stream.render_unfinished_tail_rows(40);
        }
        assert_eq!(stream.full_text(), source);
        rows.extend(stream.finish_and_take_rows(40));
        rows
    }

    fn bare(rows: &[String]) -> Vec<String> {
        let rows = rows.iter().map(|row| render::strip_styles(row));
        rows.filter(|row| !row.is_empty()).collect()
    }

    #[test]
    fn an_answer_looks_the_same_however_it_comes() {
        let whole = streamed(ANSWER, ANSWER.len());
        assert_eq!(bare(&whole), bare(&markdown::render_rows(ANSWER, 40)));
        for n in 1..30 {
            assert_eq!(streamed(ANSWER, n), whole, "in pieces of {n}");
        }
    }

    #[test]
    fn what_is_whole_does_not_wait_for_the_rest() {
        let mut stream = StreamedAnswerRenderer::default();
        stream.push("```sh\nls\ncd");
        assert_eq!(bare(&stream.take_complete_blocks(40)), ["  ls"]);
        assert_eq!(bare(&stream.render_unfinished_tail_rows(40)), ["  cd"]);
        stream.push(" x\n```\n\nAnd th");
        assert_eq!(bare(&stream.take_complete_blocks(40)), ["  cd x"]);
        assert_eq!(bare(&stream.render_unfinished_tail_rows(40)), ["And th"]);
        assert_eq!(bare(&stream.finish_and_take_rows(40)), ["And th"]);
        assert!(stream.is_empty());
    }
}
