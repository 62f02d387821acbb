//! Text that others wrote, made fit for a log, a prompt for approval or a terminal.
//!
//! Owns which characters deceive and what is shown in their place. It must not know who wrote a text or where it goes.
//! Start from [`printable`] for text of several lines and from [`clean`] for one line with a limit.

/// Whether a terminal would obey the character, or a reader would not see it or see it elsewhere: controls, escape
/// sequences, zero-width and direction-changing characters, tags.
#[must_use]
pub fn is_deceptive(character: char) -> bool {
    match character {
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{feff}' => true,
        // Zero width, line separators, direction marks, invisible operators, tags.
        '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e0fff}' => true,
        _ => character.is_control(),
    }
}

/// The text with deceptive characters written as `\u{…}`; line breaks and tabs stay.
#[must_use]
pub fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' | '\t' => shown.push(character),
            _ => show(&mut shown, character),
        }
    }
    shown
}

/// The text on one line without deceptive characters, at most `limit` bytes; `…` at the end says that there was more.
#[must_use]
pub fn clean(text: &str, limit: usize) -> String {
    const MORE: char = '…';
    let mut line = String::with_capacity(text.len().min(limit));
    // Length at which the line can still be cut and leave room for the mark.
    let mut cut = 0;
    for character in text.trim().chars() {
        match character {
            '\n' | '\t' => line.push(' '),
            _ => show(&mut line, character),
        }
        if line.len() > limit {
            line.truncate(cut);
            if cut + MORE.len_utf8() <= limit {
                line.push(MORE);
            }
            break;
        }
        if line.len() + MORE.len_utf8() <= limit {
            cut = line.len();
        }
    }
    line
}

fn show(shown: &mut String, character: char) {
    if is_deceptive(character) {
        shown.extend(character.escape_unicode());
    } else {
        shown.push(character);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_deceives_is_written_out_and_lines_and_tabs_stay() {
        assert_eq!(
            printable("a\tb\n\u{1b}[2K\u{202e}é"),
            "a\tb\n\\u{1b}[2K\\u{202e}é"
        );
    }

    #[test]
    fn a_clean_text_is_one_line_within_its_limit() {
        let table = [
            (" one\ntwo\t", 20, "one two"),
            ("exactly", 7, "exactly"),
            ("one too many", 7, "one …"),
            ("\u{7}\u{7}", 9, "\\u{7}…"),
            ("\u{7}\u{7}", 7, "…"),
            ("long", 2, ""),
            ("", 0, ""),
        ];
        for (text, limit, expected) in table {
            assert_eq!(clean(text, limit), expected, "{text:?} in {limit}");
        }
    }
}
