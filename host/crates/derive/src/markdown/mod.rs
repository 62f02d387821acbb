//! Sanitizes a package's Markdown documentation, so that it cannot break out of its place in a
//! skill.
//!
//! The text is parsed and written again: headings cannot be mistaken for those of the skill, code
//! stays in its fence, tags, comments and images are removed, and only links to URLs are kept.

mod writer;

use pulldown_cmark::{BrokenLink, CodeBlockKind, CowStr, Event, Options, Parser, Tag, TagEnd};

use super::text::first_sentence;
use writer::MarkdownWriter;

/// Maximum number of bytes of a model's text that are read.
const MAX_MODEL_TEXT_BYTES: usize = 64 << 10;

/// Enabled Markdown extensions. Tables must be parsed here because other Markdown readers parse
/// them, and would see a table where this parser sees plain text.
const MARKDOWN_PARSER_OPTIONS: Options =
    Options::ENABLE_TABLES.union(Options::ENABLE_STRIKETHROUGH);

#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum MarkdownBlockKind {
    /// Text inside a section with its own heading: headings become bold lines.
    #[default]
    Plain,
    /// Like `Plain`, and code blocks without a language are Rust, as in rustdoc.
    Rust,
    /// Complete document: drops the title, keeps the other headings.
    Document,
}

/// Sanitizes documentation. Keeps complete blocks up to about `limit` bytes; only a first block
/// that is longer is truncated.
pub(super) fn sanitize_docs_markdown(text: &str, kind: MarkdownBlockKind, limit: usize) -> String {
    sanitize_markdown_to_limit(text, kind, limit).0
}

/// Sanitizes the text of a model so that it cannot break out of its section, up to about `limit`
/// bytes. Also returns whether it was truncated.
pub fn sanitize_model_written_summary(text: &str, limit: usize) -> (String, bool) {
    let end = text.floor_char_boundary(MAX_MODEL_TEXT_BYTES);
    let (summary, is_cut) = sanitize_markdown_to_limit(
        text.get(..end).unwrap_or_default(),
        MarkdownBlockKind::Plain,
        limit,
    );
    (summary, is_cut || end < text.len())
}

fn sanitize_markdown_to_limit(text: &str, kind: MarkdownBlockKind, limit: usize) -> (String, bool) {
    // An unresolved `[`Name`]` is a rustdoc link to an item: treat it as a link with an empty
    // target, which is dropped.
    let resolve = |link: BrokenLink<'_>| {
        let is_item = link.reference.starts_with('`');
        is_item.then_some((CowStr::Borrowed(""), CowStr::Borrowed("")))
    };
    let parser =
        Parser::new_with_broken_link_callback(text, MARKDOWN_PARSER_OPTIONS, Some(resolve));
    let mut writer = MarkdownWriter::new(kind);
    let mut end = 0;
    for event in parser {
        // `end` is the end of the last complete block before this event. A code block is written
        // whole, at its closing event.
        end = writer.end;
        writer.write_event(event);
        if writer.out.len() > limit {
            break;
        }
    }
    let is_cut = writer.out.len() > limit;
    if is_cut {
        match end {
            0 => writer.truncate_output(limit),
            end => {
                writer.out.truncate(end);
                writer.out.push_str("\n\n…");
            }
        }
    }
    (writer.out.trim().to_owned(), is_cut)
}

/// Returns the first sentence of documentation as one line of Markdown, of about `limit` bytes.
pub(super) fn sanitized_first_sentence(
    text: &str,
    kind: MarkdownBlockKind,
    limit: usize,
) -> String {
    // `sanitize_docs_markdown` truncates only between blocks. Therefore pass a limit that no first
    // sentence exceeds; `first_sentence_within_limit` then applies `limit`.
    let docs = sanitize_docs_markdown(text, kind, 8 << 10);
    first_sentence_within_limit(&docs, limit)
}

/// Returns the first sentence of sanitized documentation, of about `limit` bytes.
pub(super) fn first_sentence_within_limit(docs: &str, limit: usize) -> String {
    let text = first_paragraph(docs).unwrap_or_default();
    let mut line = String::new();
    let mut is_cut = false;
    for word in first_sentence(text).split_whitespace() {
        if line.len() + word.len() > limit {
            is_cut = true;
            break;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if is_cut {
        // Drop inline code that was truncated in the middle.
        if line.matches('`').count() % 2 == 1 {
            line.truncate(line.rfind('`').unwrap_or_default());
        }
        line = format!("{} …", line.trim_end());
    }
    line
}

/// Returns the first block of sanitized documentation that is plain text: no heading, list, quote,
/// table or code.
pub(super) fn first_paragraph(docs: &str) -> Option<&str> {
    let is_text = |block: &&str| {
        let is_other = block.starts_with(['#', '-', '>', '|']) || block.starts_with("```");
        !is_other && !block.trim().is_empty()
    };
    docs.split("\n\n").find(is_text)
}

/// Whether rustdoc treats a code block with this info string as Rust.
fn is_rust_code_block(info: &str) -> bool {
    const RUST_CODE_BLOCK_INFO_STRINGS: [&str; 8] = [
        "",
        "rust",
        "ignore",
        "no_run",
        "should_panic",
        "compile_fail",
        "edition2021",
        "edition2024",
    ];
    let first = info.split([',', ' ']).next().unwrap_or_default();
    RUST_CODE_BLOCK_INFO_STRINGS.contains(&first)
}

/// Removes the lines that rustdoc hides: they only make an example compile.
fn remove_hidden_lines(text: &str) -> String {
    let is_hidden = |line: &&str| {
        let line = line.trim_start();
        line == "#" || line.starts_with("# ")
    };
    let lines: Vec<&str> = text.lines().filter(|line| !is_hidden(line)).collect();
    lines.join("\n")
}

/// Returns the first Rust code block in documentation; `None` if it is empty or has more than
/// `max_lines` lines.
pub(super) fn first_rust_code_block(text: &str, max_lines: usize) -> Option<String> {
    let mut code: Option<String> = None;
    for event in Parser::new_ext(text, MARKDOWN_PARSER_OPTIONS) {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info)))
                if is_rust_code_block(&info) =>
            {
                code = Some(String::new());
            }
            Event::Text(text) => {
                if let Some(code) = &mut code {
                    code.push_str(&text);
                }
            }
            Event::End(TagEnd::CodeBlock) => {
                let Some(code) = code.take() else { continue };
                let code = remove_hidden_lines(&code);
                let is_short = code.lines().count() <= max_lines && !code.trim().is_empty();
                return is_short.then_some(code);
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documentation_keeps_its_shape_and_loses_what_would_act() {
        let text = "# Title\n\nSee [`Foo`] and [the book](https://example.com/a) or [here](../x.md).\n\n- one\n  more\n- two\n  1. \
                    a\n  2. b\n\n> said\n\n```rust,no_run\n# use x;\nlet a = 1;\n```\n\n<p align=\"center\">hi</p>\n\nVec<String> \
                    <!-- x -->end\n";
        let expected = "**Title**\n\nSee `Foo` and [the book](https://example.com/a) or here.\n\n- one\n  more\n- two\n  1. a\n  2. \
                        b\n\n> said\n\n```rust\nlet a = 1;\n```\n\nVec&lt;String> end";
        assert_eq!(
            sanitize_docs_markdown(text, MarkdownBlockKind::Rust, 4000),
            expected
        );
        assert_eq!(
            sanitize_docs_markdown("# T\n\n## U\n\nx", MarkdownBlockKind::Document, 4000),
            "## U\n\nx"
        );
    }

    #[test]
    fn a_fence_cannot_be_closed_and_a_cut_text_ends_with_a_whole_block() {
        let text = "````\n```\n# not a heading\n````\n";
        assert_eq!(
            sanitize_docs_markdown(text, MarkdownBlockKind::Plain, 400),
            "````\n```\n# not a heading\n````"
        );
        let long = format!("first\n\n{}", "second ".repeat(100));
        assert_eq!(
            sanitize_docs_markdown(&long, MarkdownBlockKind::Rust, 100),
            "first\n\n…"
        );
        let deep = format!("{}x", "> ".repeat(5_000));
        assert!(sanitize_docs_markdown(&deep, MarkdownBlockKind::Rust, 1_000).len() < 1_100);
    }

    #[test]
    fn a_table_stays_a_table() {
        let text = "| a | b |\n|---|:-:|\n| `x\\|y` | one \\| [two](https://example.com) |\n| <b>z</b> | ~~no~~ |\n\n- in a \
                    list\n\n  | c |\n  |---|\n  | d |\n";
        let expected = "| a | b |\n| --- | --- |\n| `x\\|y` | one \\| [two](https://example.com) |\n| z | ~~no~~ |\n\n- in a \
                        list\n\n  | c |\n  | --- |\n  | d |";
        assert_eq!(
            sanitize_docs_markdown(text, MarkdownBlockKind::Plain, 4000),
            expected
        );
        assert_eq!(
            sanitize_docs_markdown(expected, MarkdownBlockKind::Plain, 4000),
            expected
        );
    }

    #[test]
    fn a_first_block_that_is_too_long_is_cut_at_a_word() {
        let long = "some words ".repeat(2_000);
        assert_eq!(
            sanitize_docs_markdown(&long, MarkdownBlockKind::Plain, 24),
            "some words some words …"
        );
        assert_eq!(
            sanitize_model_written_summary(&long, 24),
            ("some words some words …".to_owned(), true)
        );
        assert_eq!(
            sanitize_model_written_summary(" \n", 24),
            (String::new(), false)
        );
        let code = format!("```text\n{}```\n", "line\n".repeat(1_000));
        assert_eq!(
            sanitize_docs_markdown(&code, MarkdownBlockKind::Plain, 20),
            "```text\nline\nline\n```\n\n…"
        );
        let inline = format!("before `{}` after", "x ".repeat(150));
        assert_eq!(
            sanitize_docs_markdown(&inline, MarkdownBlockKind::Plain, 40),
            "before …"
        );
        assert_eq!(
            sanitize_docs_markdown(&"é".repeat(100), MarkdownBlockKind::Plain, 11),
            format!("{} …", "é".repeat(5))
        );
    }

    #[test]
    fn what_is_written_is_read_the_same_again() {
        let sources = [
            "| a |\n|---|\n| b |\n\nc",
            "\\# no heading\n\n\\- no list\n\n1\\. no number",
            "a `b` *c* **d**\ne",
            "- a\n\n  b\n- c\n\n      code\n",
            "> - x\n>   y\n\nz",
        ];
        for source in sources {
            let once = sanitize_docs_markdown(source, MarkdownBlockKind::Rust, 4000);
            assert_eq!(
                sanitize_docs_markdown(&once, MarkdownBlockKind::Rust, 4000),
                once,
                "{source:?}"
            );
        }
    }
}
