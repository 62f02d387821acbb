//! Characters that rules allow, checked apart from the reader: a mistake in `read.rs` lets nothing else through.

/// Whether a line has only characters that every shell takes alike: no expansion, glob, escape, background or here-document, in
/// whatever order the rest stands.
pub(super) fn is_plain(text: &str) -> bool {
    let text: Vec<char> = text.chars().collect();
    let mut rest = &*text;
    // What a `#`, `~`, `[` or `]` stands behind.
    let mut before = ' ';
    while let Some(first) = rest.first() {
        let after = match rest {
            ['\'', after @ ..] => quoted(after, '\'', ""),
            ['"', after @ ..] => quoted(after, '"', "$`\\!"),
            ['&', '&', after @ ..] => Some(after),
            ['>', '&', digit, after @ ..] if digit.is_ascii_digit() => Some(after),
            ['<', '<' | '>', ..] => None,
            ['#', after @ ..] if is_in_word(before) => Some(after),
            ['~', after @ ..] if before.is_ascii_alphanumeric() => Some(after),
            // As words of their own: `[ -f x ]`.
            ['[' | ']', after @ ..]
                if ends_word(before) && after.first().is_none_or(|c| ends_word(*c)) =>
            {
                Some(after)
            }
            ['&', ..] => None,
            [c, after @ ..] if is_in_word(*c) || ends_word(*c) => Some(after),
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

fn is_in_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_./:,@%+=^".contains(c)
}

fn ends_word(c: char) -> bool {
    " \t\n;&|<>".contains(c)
}

/// Returns what follows a quote that ends, and has no control character and none of the `special` ones in it.
fn quoted<'a>(text: &'a [char], end: char, special: &str) -> Option<&'a [char]> {
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
            assert!(is_plain(text), "{text}");
        }
        for c in "$`\\!*?{}()&~#[]\r\u{1}\u{a0}é\0\u{7f}".chars() {
            assert!(!is_plain(&format!("a {c}b")), "{c:?}");
            let is_literal = "$`\\!".contains(c) || c.is_control();
            assert_eq!(is_plain(&format!("a \"{c}\"")), !is_literal, "{c:?}");
            assert_eq!(is_plain(&format!("a '{c}'")), !c.is_control(), "{c:?}");
        }
        for text in [
            "a & b", "a &>b", "a |& b", "a >&-", "a << b", "a 'b", "a \"b", "a[1]", "~",
        ] {
            assert!(!is_plain(text), "{text}");
        }
    }
}
