//! Arguments of a call in colors: commands as those of a shell, files by their names, all else as JSON.
//!
//! The module must not know who displays them, or how lines are escaped. Start from [`CallColors`].

use anstyle::Style;

use super::highlight::CodeHighlighter;
use rind_lib::tool::preview::ShownLine;

/// Colors of the lines of a call, which follow from their marks.
pub(in super::super) struct CallColors<'a> {
    /// Path of the file that is written.
    path: &'a str,
    /// Mark of the last line.
    mark: &'static str,
    code: Option<CodeHighlighter>,
}

impl<'a> CallColors<'a> {
    /// Creates the colors for a call with these lines.
    pub(in super::super) fn of_lines(lines: &'a [ShownLine]) -> Self {
        let file = lines.iter().find(|own| own.mark == "file: ");
        Self {
            path: file.map_or("", |own| &own.text),
            mark: "",
            code: None,
        }
    }

    /// Returns the pieces of the next line with this mark, whose text is escaped.
    pub(in super::super) fn pieces(
        &mut self,
        mark: &'static str,
        line: &str,
    ) -> Vec<(Style, String)> {
        // A command continues in lines with another mark.
        let goes_on = self.mark == mark || (self.mark, mark) == ("$ ", "> ");
        if !goes_on {
            self.code = match mark {
                "$ " => CodeHighlighter::of_language("sh"),
                "| " => CodeHighlighter::of_language("json"),
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
