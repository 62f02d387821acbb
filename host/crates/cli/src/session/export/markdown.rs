//! Renders a session as Markdown. Each text is in a fence longer than any fence in the text, so
//! that it is never interpreted as Markdown or HTML.

use std::fmt::Write as _;

use super::blocks::ExportPageBlock;

pub(super) fn render_markdown_page(title: &str, blocks: &[ExportPageBlock]) -> String {
    let mut page = format!("# {}\n", escape_markdown(title));
    for block in blocks {
        // Writing to a `String` cannot fail.
        let _ = match block {
            ExportPageBlock::Session(id, facts) => {
                let facts = facts
                    .iter()
                    .map(|fact| format!("- {}\n", escape_markdown(fact)));
                write!(
                    page,
                    "\n## Session {}\n\n{}",
                    escape_markdown(id),
                    facts.collect::<String>()
                )
            }
            ExportPageBlock::Turn(name, about) => {
                write!(
                    page,
                    "\n### {}\n\n{}\n",
                    escape_markdown(name),
                    escape_markdown(about)
                )
            }
            ExportPageBlock::Text(name, text) => {
                let fence = code_fence_for(text);
                let text = text.trim_end_matches('\n');
                write!(
                    page,
                    "\n**{}**\n\n{fence}text\n{text}\n{fence}\n",
                    escape_markdown(name)
                )
            }
            ExportPageBlock::Line(text)
            | ExportPageBlock::Blob {
                words: text,
                is_in_text: false,
                ..
            } => write!(page, "\n{}\n", escape_markdown(text)),
            ExportPageBlock::Blob { .. } => Ok(()),
        };
    }
    page
}

/// Returns a fence that is longer than every run of backticks in a text.
fn code_fence_for(text: &str) -> String {
    let runs = text.split(|character| character != '`').map(str::len);
    "`".repeat(runs.max().unwrap_or_default().max(2) + 1)
}

/// Escapes the characters of a line that Markdown or HTML would interpret.
fn escape_markdown(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '#' | '!' | '|' | '~' | '>' => {
                escaped.push('\\');
                escaped.push(character);
            }
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_leaves_its_fence() {
        let text = "a\n````\n# b <script>\n";
        let page = render_markdown_page(
            "x <y> *z*",
            &[ExportPageBlock::Text("n".to_owned(), text.to_owned())],
        );
        let expected = "# x &lt;y\\> \\*z\\*\n\n**n**\n\n`````text\na\n````\n# b <script>\n`````\n";
        assert_eq!(page, expected);
    }
}
