//! Finds imports in a context file: `@docs/rules.md` in its text imports another file.
//!
//! Claude Code uses the same syntax. Code spans, code blocks and HTML are skipped, and so are words
//! with `@` that are not file names, such as `@someone` and e-mail addresses. The module must not
//! depend on the rules for which files may be read. Start from [`find_import_paths`].

use std::ops::Range;

use pulldown_cmark::{Event, Parser, Tag};

/// Returns the imported paths of a text in order, without duplicates.
pub(super) fn find_import_paths(text: &str) -> Vec<String> {
    let code = markdown_code_ranges(text);
    let mut found: Vec<String> = Vec::new();
    for (at, _) in text.match_indices('@') {
        let is_word_start = text[..at]
            .chars()
            .next_back()
            .is_none_or(|before| before.is_whitespace() || "([{<\"'*".contains(before));
        if !is_word_start || code.iter().any(|range| range.contains(&at)) {
            continue;
        }
        let path = parse_import_path(&text[at + 1..]);
        if !path.is_empty() && !path.starts_with('@') && !found.contains(&path) {
            found.push(path);
        }
    }
    found
}

/// Returns the path at the beginning of a text, up to the first unescaped white space and without
/// trailing punctuation.
fn parse_import_path(text: &str) -> String {
    let mut path = String::new();
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' if letters.peek() == Some(&' ') => {
                letters.next();
                path.push(' ');
            }
            _ if letter.is_whitespace() || letter.is_control() => break,
            _ => path.push(letter),
        }
    }
    let end = |c: char| ".,;:!?)]}>\"'*`".contains(c);
    path.trim_end_matches(end).to_owned()
}

/// Returns the ranges of the text that are code or HTML.
fn markdown_code_ranges(text: &str) -> Vec<Range<usize>> {
    let events = Parser::new(text).into_offset_iter();
    let code = events.filter(|(event, _)| {
        matches!(
            event,
            Event::Code(_)
                | Event::Start(Tag::CodeBlock(_))
                | Event::Html(_)
                | Event::InlineHtml(_)
        )
    });
    code.map(|(_, range)| range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_begin_with_an_at_sign_are_imports_unless_they_are_code() {
        for (text, expected) in [
            ("@docs/rules.md", &["docs/rules.md"][..]),
            (
                "See @a.md, (@b_c_d.md) and **@e.md**.",
                &["a.md", "b_c_d.md", "e.md"],
            ),
            (
                "- @~/x.md\n- @../up.md\n@a.md @a.md",
                &["~/x.md", "../up.md", "a.md"],
            ),
            ("@my\\ rules.md", &["my rules.md"]),
            ("mail a@b.c, `@not/this.md` and `` `@nor.md` ``", &[]),
            (
                "```\n@not/this.md\n```\n~~~~\n@nor.md\n~~~\n~~~~\n@yes.md",
                &["yes.md"],
            ),
            ("text\n\n    @code.md\n", &[]),
            ("- item\n\n  @in/list.md\n", &["in/list.md"]),
            ("<!-- @hidden.md -->\n\n@seen.md", &["seen.md"]),
            ("@", &[]),
            ("@ @. @@x.md", &[]),
        ] {
            assert_eq!(find_import_paths(text), expected, "{text:?}");
        }
    }
}
