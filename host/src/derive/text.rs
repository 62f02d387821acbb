//! Text of a package as it may stand in a skill: it deceives nobody, closes nothing, and is no placeholder.

use std::sync::LazyLock;

use regex::Regex;

use crate::text::{clean, printable};

/// Characters that have a meaning where a line begins.
const LINE_MARKS: [char; 7] = ['#', '>', '-', '+', '*', '=', '|'];

/// A path in code that begins with a folder of a bundle, which would be looked for in this one.
#[expect(clippy::expect_used, reason = "the pattern is a constant")]
static BUNDLE_PATH: LazyLock<Regex> = LazyLock::new(|| {
    let folders = "scripts|references|reference|assets|templates|examples";
    Regex::new(&format!(r"`((?:[a-z0-9]+ )?(?:\./)?(?:{folders})/)")).expect("a valid pattern")
});

/// Returns a text on one line of Markdown, at most `limit` bytes before it is escaped.
pub(super) fn line(text: &str, limit: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut line = escaped(&clean(&words.join(" "), limit));
    if starts_with_mark(&line) {
        line.insert(0, '\\');
    }
    line
}

/// Escapes what would be a tag, begin code or make a link.
pub(super) fn escaped(text: &str) -> String {
    text.replace('<', "&lt;")
        .replace('`', "\\`")
        .replace("](", "]\\(")
}

/// Whether a line that begins like this would be a heading, a quote, a list or a rule.
pub(super) fn starts_with_mark(text: &str) -> bool {
    let behind = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_end = |rest: &str| rest.is_empty() || rest.starts_with(' ');
    let is_number =
        behind.len() < text.len() && behind.strip_prefix(['.', ')']).is_some_and(is_end);
    is_number || text.starts_with(LINE_MARKS) || text.starts_with("~~~")
}

/// Returns a text as code within a line, at most `limit` bytes long.
pub(super) fn code(text: &str, limit: usize) -> String {
    let text = clean(text, limit);
    let fence = "`".repeat(longest_run(&text) + 1);
    let pad = match text.starts_with(['`', ' ']) || text.ends_with(['`', ' ']) {
        true => " ",
        false => "",
    };
    match text.is_empty() {
        true => String::new(),
        false => format!("{fence}{pad}{text}{pad}{fence}"),
    }
}

/// Returns a text as a block of code that nothing in it can close.
pub(super) fn fenced(language: &str, text: &str) -> String {
    let text = printable(text);
    let fence = "`".repeat(longest_run(&text).max(2) + 1);
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || "-_+".contains(*c);
    let language: String = language.chars().take_while(is_plain).take(20).collect();
    format!("{fence}{language}\n{}\n{fence}\n", text.trim_end())
}

fn longest_run(text: &str) -> usize {
    let mut longest = 0;
    let mut run = 0;
    for character in text.chars() {
        run = if character == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    longest
}

/// Returns the first sentence of a text in Markdown.
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

/// Makes a name of a package the name of a skill and of a folder: `[a-z0-9-]`, at most 64 bytes; `None` when nothing is left.
pub(crate) fn slug(name: &str) -> Option<String> {
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

/// Makes texts of the package mean nothing to the reader of skills: its placeholders, commands and paths into the bundle are
/// for those who write skills.
pub(super) fn inert(body: &str) -> String {
    let body = body
        .replace("{baseDir}", "{ baseDir }")
        .replace("${CLAUDE_", "$ {CLAUDE_")
        .replace("$ARGUMENTS", "$ ARGUMENTS")
        .replace("!`", "! `");
    BUNDLE_PATH.replace_all(&body, "` $1").into_owned()
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
            assert_eq!(line(text, 200), expected, "{text:?}");
        }
        assert_eq!(code("a`b``c", 40), "```a`b``c```");
        assert_eq!(code("`", 40), "`` ` ``");
        assert_eq!(
            fenced("rust,ignore", "a\n```\n# x"),
            "````rust\na\n```\n# x\n````\n"
        );
        assert_eq!(
            inert(
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
            assert_eq!(slug(name).as_deref(), expected, "{name}");
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
