//! Renders a session as Markdown. Each text is in a fence longer than any fence in the text, so
//! that it is never interpreted as Markdown or HTML.

use std::fmt::Write as _;

use super::blocks::Block;

pub(super) fn page(title: &str, blocks: &[Block]) -> String {
    let mut page = format!("# {}\n", escaped(title));
    for block in blocks {
        // Writing to a `String` cannot fail.
        let _ = match block {
            Block::Session(id, facts) => {
                let facts = facts.iter().map(|fact| format!("- {}\n", escaped(fact)));
                write!(
                    page,
                    "\n## Session {}\n\n{}",
                    escaped(id),
                    facts.collect::<String>()
                )
            }
            Block::Turn(name, about) => {
                write!(page, "\n### {}\n\n{}\n", escaped(name), escaped(about))
            }
            Block::Text(name, text) => {
                let fence = fence(text);
                let text = text.trim_end_matches('\n');
                write!(
                    page,
                    "\n**{}**\n\n{fence}text\n{text}\n{fence}\n",
                    escaped(name)
                )
            }
            Block::Line(text)
            | Block::Blob {
                words: text,
                is_in_text: false,
                ..
            } => write!(page, "\n{}\n", escaped(text)),
            Block::Blob { .. } => Ok(()),
        };
    }
    page
}

/// Returns a fence that is longer than every run of backticks in a text.
fn fence(text: &str) -> String {
    let runs = text.split(|character| character != '`').map(str::len);
    "`".repeat(runs.max().unwrap_or_default().max(2) + 1)
}

/// Escapes the characters of a line that Markdown or HTML would interpret.
fn escaped(text: &str) -> String {
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
        let page = page("x <y> *z*", &[Block::Text("n".to_owned(), text.to_owned())]);
        let expected = "# x &lt;y\\> \\*z\\*\n\n**n**\n\n`````text\na\n````\n# b <script>\n`````\n";
        assert_eq!(page, expected);
    }
}
