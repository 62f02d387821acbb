//! Colors the arguments of a call: commands as shell code, file contents by the file's name,
//! everything else as JSON.
//!
//! Neither displays lines nor escapes them. Start from [`CallHighlighter`].

use anstyle::Style;

use super::highlight::CodeHighlighter;
use rind_lib::tool::preview::ShownLine;

/// Colors the lines that show a tool call's arguments. The mark of a line determines its language.
pub(in super::super) struct CallHighlighter<'a> {
    /// Path of the file that the call writes; empty if it writes none.
    path: &'a str,
    /// Mark of the previous line.
    mark: &'static str,
    code: Option<CodeHighlighter>,
}

impl<'a> CallHighlighter<'a> {
    /// Prepares to color the lines of a call.
    pub(in super::super) fn for_shown_lines(lines: &'a [ShownLine]) -> Self {
        let file = lines.iter().find(|own| own.mark == "file: ");
        Self {
            path: file.map_or("", |own| &own.text),
            mark: "",
            code: None,
        }
    }

    /// Returns the styled pieces of the next line, whose text must be escaped already.
    pub(in super::super) fn pieces(
        &mut self,
        mark: &'static str,
        line: &str,
    ) -> Vec<(Style, String)> {
        // Further lines of a command have another mark than its first line.
        let goes_on = self.mark == mark || (self.mark, mark) == ("$ ", "> ");
        if !goes_on {
            self.code = match mark {
                "$ " => CodeHighlighter::for_language("sh"),
                "| " => CodeHighlighter::for_language("json"),
                "- " | "+ " => CodeHighlighter::of_path(self.path),
                _ => None,
            };
        }
        self.mark = mark;
        match &mut self.code {
            Some(code) => code.line_pieces(line, Style::new()),
            None => vec![(Style::new(), line.to_owned())],
        }
    }
}
