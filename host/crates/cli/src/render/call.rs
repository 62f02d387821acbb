//! Colors the arguments of a call: commands as shell code, file contents by the file's name,
//! everything else as JSON.
//!
//! Neither displays lines nor escapes them. Start from [`ToolCallPreviewHighlighter`].

use anstyle::Style;

use super::highlight::CodeHighlighter;
use rind_lib::tool::preview::FileChangePreviewLine;

/// Colors the preview lines of a tool call's arguments. The mark at the beginning of a line
/// determines the language of its text.
pub(in super::super) struct ToolCallPreviewHighlighter<'a> {
    /// Path of the file that the call writes; empty if it writes none.
    path: &'a str,
    /// Mark at the beginning of the previous line.
    mark: &'static str,
    code: Option<CodeHighlighter>,
}

impl<'a> ToolCallPreviewHighlighter<'a> {
    /// Creates a highlighter for the preview of a tool call. The path in the line `file: `
    /// determines the language.
    pub(in super::super) fn for_preview_lines(lines: &'a [FileChangePreviewLine]) -> Self {
        let file = lines.iter().find(|own| own.mark == "file: ");
        Self {
            path: file.map_or("", |own| &own.text),
            mark: "",
            code: None,
        }
    }

    /// Returns the styled pieces of the preview's next line, without its mark. `line` must be
    /// escaped already.
    pub(in super::super) fn highlight_next_line(
        &mut self,
        mark: &'static str,
        line: &str,
    ) -> Vec<(Style, String)> {
        // The first line of a command has the mark `$ ` and its further lines have `> `, but they
        // are one piece of code.
        let goes_on = self.mark == mark || (self.mark, mark) == ("$ ", "> ");
        if !goes_on {
            self.code = match mark {
                "$ " => CodeHighlighter::for_language("sh"),
                "| " => CodeHighlighter::for_language("json"),
                "- " | "+ " => CodeHighlighter::for_path(self.path),
                _ => None,
            };
        }
        self.mark = mark;
        match &mut self.code {
            Some(code) => code.highlight_next_line_to_pieces(line, Style::new()),
            None => vec![(Style::new(), line.to_owned())],
        }
    }
}
