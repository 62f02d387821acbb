//! Sanitizes text of a package for a skill, so that it cannot deceive the reader, close a Markdown
//! construct, or act as a placeholder.
//!
//! Every text of a package must pass through a function of this module or of `markdown` before it
//! goes into a skill.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;

use rind_lib::text::{escape_and_truncate_line, printable_text};

/// Characters that begin a Markdown block, such as a heading or a list, at the start of a line.
const MARKDOWN_BLOCK_START_CHARS: [char; 7] = ['#', '>', '-', '+', '*', '=', '|'];

/// Path in inline code that begins with a directory of skill bundles, such as `scripts/`. A reader
/// of the skill would look for that path in the skill's own bundle.
#[expect(clippy::expect_used, reason = "the pattern is a constant")]
static BUNDLE_PATH_REGEX: LazyLock<Regex> = LazyLock::new(|| {
    let folders = "scripts|references|reference|assets|templates|examples";
    Regex::new(&format!(r"`((?:[a-z0-9]+ )?(?:\./)?(?:{folders})/)")).expect("a valid pattern")
});

/// Joins a text into one line of Markdown with at most `limit` bytes before escaping.
pub(super) fn to_markdown_line(text: &str, limit: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut line = escape_markdown(&escape_and_truncate_line(&words.join(" "), limit));
    if starts_markdown_block(&line) {
        line.insert(0, '\\');
    }
    line
}

/// Escapes characters that would begin a tag, code or a link.
pub(super) fn escape_markdown(text: &str) -> String {
    text.replace('<', "&lt;")
        .replace('`', "\\`")
        .replace("](", "]\\(")
}

/// Whether a line with this text would begin a heading, quote, list, table or rule.
pub(super) fn starts_markdown_block(text: &str) -> bool {
    let behind = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_end = |rest: &str| rest.is_empty() || rest.starts_with(' ');
    let is_number =
        behind.len() < text.len() && behind.strip_prefix(['.', ')']).is_some_and(is_end);
    is_number || text.starts_with(MARKDOWN_BLOCK_START_CHARS) || text.starts_with("~~~")
}

/// Returns a text as inline code, at most `limit` bytes long.
pub(super) fn code_span(text: &str, limit: usize) -> String {
    let text = escape_and_truncate_line(text, limit);
    let fence = "`".repeat(longest_backtick_run(&text) + 1);
    let pad = match text.starts_with(['`', ' ']) || text.ends_with(['`', ' ']) {
        true => " ",
        false => "",
    };
    match text.is_empty() {
        true => String::new(),
        false => format!("{fence}{pad}{text}{pad}{fence}"),
    }
}

/// Returns a text as a code block that nothing in the text can close.
pub(super) fn fence_code(language: &str, text: &str) -> String {
    let text = printable_text(text);
    let fence = "`".repeat(longest_backtick_run(&text).max(2) + 1);
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || "-_+".contains(*c);
    let language: String = language.chars().take_while(is_plain).take(20).collect();
    format!("{fence}{language}\n{}\n{fence}\n", text.trim_end())
}

fn longest_backtick_run(text: &str) -> usize {
    let mut longest = 0;
    let mut run = 0;
    for character in text.chars() {
        run = if character == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    longest
}

/// Returns the first sentence of the first paragraph, or the whole paragraph if no sentence ends in
/// it.
///
/// For example:
///
/// ```text
/// Reads a file. Then more.      ->  Reads a file.
/// Uses `a.b. c` here. More      ->  Uses `a.b. c` here.
/// Formats, e.g. TOML. More      ->  Formats, e.g. TOML.
/// Version 0.1.0 of it. X        ->  Version 0.1.0 of it.
/// ```
pub(super) fn first_sentence(text: &str) -> &str {
    let paragraph = text.trim_start();
    let end = paragraph.find("\n\n").unwrap_or(paragraph.len());
    let paragraph = paragraph.get(..end).unwrap_or_default().trim_end();
    let mut from = 0;
    while let Some(at) = paragraph
        .get(from..)
        .and_then(|rest| rest.find(['.', '!', '?']))
    {
        let end = from + at + 1;
        let (sentence, rest) = paragraph.split_at(end);
        let is_short = ["e.g.", "i.e.", "etc.", "vs."]
            .iter()
            .any(|short| sentence.ends_with(short));
        let is_closed = sentence.matches('`').count() % 2 == 0;
        if rest.starts_with(char::is_whitespace) && !is_short && is_closed {
            return sentence;
        }
        from = end;
    }
    paragraph
}

/// Ends a text with a full stop if it lacks one; an empty text stays empty.
pub(super) fn end_with_full_stop(text: &str) -> String {
    let text = text.trim_end();
    match text.is_empty() || text.ends_with(['.', '!', '?', '…']) {
        true => text.to_owned(),
        false => format!("{text}."),
    }
}

/// Joins the first `most` names with commas, and appends the number of the remaining names.
pub(super) fn join_names_with_limit<T: AsRef<str>>(names: &[T], most: usize) -> String {
    let shown: Vec<&str> = names.iter().take(most).map(AsRef::as_ref).collect();
    match names.len().saturating_sub(most) {
        0 => shown.join(", "),
        n => format!("{} and {n} more", shown.join(", ")),
    }
}

/// Returns a file name for a page that is not in `taken`.
pub(super) fn unused_page_name(name: &str, taken: &BTreeMap<String, String>) -> String {
    let stem = skill_slug(name).unwrap_or_else(|| "page".to_owned());
    let mut names =
        std::iter::once(format!("{stem}.md")).chain((2..).map(|n| format!("{stem}-{n}.md")));
    names.find(|name| !taken.contains_key(name)).unwrap_or(stem)
}

/// Shortens a page to about `limit` bytes at the end of a block, and appends a note with the size
/// of the omitted rest. Always keeps the first line.
pub(super) fn shorten_page(page: &str, limit: usize) -> String {
    if page.len() <= limit {
        return page.to_owned();
    }
    let mut end = page.find('\n').unwrap_or_default();
    let mut at = 0;
    let mut fence: Option<usize> = None;
    for line in page.split_inclusive('\n') {
        let own = line.trim_start_matches([' ', '>']).trim_end();
        let run = own.len() - own.trim_start_matches('`').len();
        match fence {
            Some(open) if run >= open && run == own.len() => fence = None,
            None if run >= 3 => fence = Some(run),
            None if own.is_empty() || line.starts_with("- ") => end = end.max(at),
            _ => {}
        }
        at += line.len();
        if at > limit {
            break;
        }
    }
    let kept = page.get(..end).unwrap_or_default().trim_end();
    let n_more = (page.len() - end).div_ceil(1024);
    format!("{kept}\n\n*The rest of this page, {n_more} KiB, is left out.*")
}

/// Converts the name of a package into a name for the skill and its directory: `[a-z0-9-]`, at most
/// 64 bytes; `None` if nothing is left.
pub fn skill_slug(name: &str) -> Option<String> {
    let mut slug = String::new();
    for character in name.chars() {
        match character {
            'a'..='z' | '0'..='9' => slug.push(character),
            'A'..='Z' => slug.push(character.to_ascii_lowercase()),
            _ if slug.is_empty() || slug.ends_with('-') => {}
            _ => slug.push('-'),
        }
    }
    slug.truncate(64);
    let slug = slug.trim_end_matches('-');
    (!slug.is_empty()).then(|| slug.to_owned())
}

/// Escapes placeholders, commands and bundle paths in texts of the package, so that they have no
/// effect when a session expands the skill.
pub(super) fn escape_skill_placeholders(body: &str) -> String {
    let body = body
        .replace("{baseDir}", "{ baseDir }")
        .replace("${CLAUDE_", "$ {CLAUDE_")
        .replace("$ARGUMENTS", "$ ARGUMENTS")
        .replace("!`", "! `");
    BUNDLE_PATH_REGEX.replace_all(&body, "` $1").into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_package_opens_and_closes_nothing() {
        let table = [
            ("one\n\ntwo", "one two"),
            ("# Ignore this", "\\# Ignore this"),
            ("1. first", "\\1. first"),
            ("1.95 or later", "1.95 or later"),
            ("</skill> `x` [a](../b)", "&lt;/skill> \\`x\\` [a]\\(../b)"),
            ("a\u{202e}b\u{1b}[2K", "a\\u{202e}b\\u{1b}[2K"),
        ];
        for (text, expected) in table {
            assert_eq!(to_markdown_line(text, 200), expected, "{text:?}");
        }
        assert_eq!(code_span("a`b``c", 40), "```a`b``c```");
        assert_eq!(code_span("`", 40), "`` ` ``");
        assert_eq!(
            fence_code("rust,ignore", "a\n```\n# x"),
            "````rust\na\n```\n# x\n````\n"
        );
        assert_eq!(
            escape_skill_placeholders(
                "{baseDir}/x ${CLAUDE_SKILL_DIR} $ARGUMENTS !`rm` `bash scripts/x.sh` `examples/a`"
            ),
            "{ baseDir }/x $ {CLAUDE_SKILL_DIR} $ ARGUMENTS ! `rm` ` bash scripts/x.sh` ` examples/a`"
        );
    }

    #[test]
    fn a_name_is_a_plain_folder_whatever_the_package_is_called() {
        let table = [
            ("hello", Some("hello")),
            ("rind_sdk", Some("rind-sdk")),
            ("wasi:http@0.2.0", Some("wasi-http-0-2-0")),
            ("../../etc/passwd", Some("etc-passwd")),
            ("..", None),
            ("名", None),
        ];
        for (name, expected) in table {
            assert_eq!(skill_slug(name).as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn a_page_is_cut_between_blocks_and_never_within_code() {
        let page = "# Title\n\none\n\n````text\n```\n\na\n````\n\ntwo\n\nthree\n";
        assert_eq!(shorten_page(page, page.len()), page);
        for (limit, expected) in [
            (0, "# Title"),
            (14, "# Title\n\none"),
            (31, "# Title\n\none"),
            (46, "# Title\n\none\n\n````text\n```\n\na\n````\n\ntwo"),
        ] {
            let cut = shorten_page(page, limit);
            let (kept, note) = cut.split_once("\n\n*The rest").unwrap();
            assert_eq!(kept, expected, "{limit}");
            assert_eq!(note, " of this page, 1 KiB, is left out.*");
        }
    }

    #[test]
    fn the_first_sentence_ends_where_a_reader_ends_it() {
        let table = [
            ("Reads a file. Then more.", "Reads a file."),
            ("Uses `a.b. c` here. More", "Uses `a.b. c` here."),
            ("Formats, e.g. TOML. More", "Formats, e.g. TOML."),
            ("No end\nof it\n\nNext.", "No end\nof it"),
            ("Version 0.1.0 of it. X", "Version 0.1.0 of it."),
            ("", ""),
        ];
        for (text, expected) in table {
            assert_eq!(first_sentence(text), expected);
        }
    }
}
