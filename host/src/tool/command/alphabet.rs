//! Checks that a command that a rule allows has only permitted characters. The check is independent
//! of the parser, so that a mistake in `read.rs` cannot let other characters through.

/// Whether a line consists only of characters that every shell reads alike: no expansion, glob,
/// escape, background operator or here-document, regardless of the rest of the line.
pub(super) fn has_only_portable_shell_characters(text: &str) -> bool {
    let text: Vec<char> = text.chars().collect();
    let mut rest = &*text;
    // The previous character, which decides the meaning of `#`, `~`, `[` and `]`.
    let mut before = ' ';
    while let Some(first) = rest.first() {
        let after = match rest {
            ['\'', after @ ..] => skip_quoted_text(after, '\'', ""),
            ['"', after @ ..] => skip_quoted_text(after, '"', "$`\\!"),
            ['&', '&', after @ ..] => Some(after),
            ['>', '&', digit, after @ ..] if digit.is_ascii_digit() => Some(after),
            ['<', '<' | '>', ..] => None,
            ['#', after @ ..] if is_plain_word_character(before) => Some(after),
            ['~', after @ ..] if before.is_ascii_alphanumeric() => Some(after),
            // A bracket is permitted as a separate word, as in `[ -f x ]`.
            ['[' | ']', after @ ..]
                if is_word_end_character(before)
                    && after.first().is_none_or(|c| is_word_end_character(*c)) =>
            {
                Some(after)
            }
            ['&', ..] => None,
            [c, after @ ..] if is_plain_word_character(*c) || is_word_end_character(*c) => {
                Some(after)
            }
            _ => None,
        };
        let Some(after) = after else {
            return false;
        };
        before = *first;
        rest = after;
    }
    true
}

fn is_plain_word_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_./:,@%+=^".contains(c)
}

fn is_word_end_character(c: char) -> bool {
    " \t\n;&|<>".contains(c)
}

/// Returns the text after the closing quote, if the quoted text contains no control character and
/// no character of `special`.
fn skip_quoted_text<'a>(text: &'a [char], end: char, special: &str) -> Option<&'a [char]> {
    let at = text.iter().position(|c| *c == end)?;
    let (inner, after) = text.split_at(at);
    let is_itself =
        |c: &char| matches!(c, '\n' | '\t') || !(c.is_control() || special.contains(*c));
    inner.iter().all(is_itself).then(|| &after[1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_shells_take_in_different_ways_are_not_plain() {
        for text in [
            "git log -n 1 HEAD~2 | head; [ -f x ] && echo 'a $b' \"it's\" > ./f 2>&1 < g || a#b",
            "a\n\tb",
            "",
        ] {
            assert!(has_only_portable_shell_characters(text), "{text}");
        }
        for c in "$`\\!*?{}()&~#[]\r\u{1}\u{a0}é\0\u{7f}".chars() {
            assert!(
                !has_only_portable_shell_characters(&format!("a {c}b")),
                "{c:?}"
            );
            let is_literal = "$`\\!".contains(c) || c.is_control();
            assert_eq!(
                has_only_portable_shell_characters(&format!("a \"{c}\"")),
                !is_literal,
                "{c:?}"
            );
            assert_eq!(
                has_only_portable_shell_characters(&format!("a '{c}'")),
                !c.is_control(),
                "{c:?}"
            );
        }
        for text in [
            "a & b", "a &>b", "a |& b", "a >&-", "a << b", "a 'b", "a \"b", "a[1]", "~",
        ] {
            assert!(!has_only_portable_shell_characters(text), "{text}");
        }
    }
}
