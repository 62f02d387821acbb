//! Removes invisible characters from texts, because they can hide words from the other checks, and
//! weighs them as a sign of injection.

use std::borrow::Cow;

/// A text without hidden characters, and their weight as a sign of injection.
pub(crate) struct TextWithoutHiddenCharacters<'a> {
    /// The text without hidden characters. Words that were encoded in Unicode tag characters are
    /// appended.
    pub(crate) text: Cow<'a, str>,
    /// Weight of the hidden characters as a sign, from 0 to 1.
    pub(crate) weight: f32,
}

/// Whether [`reveal_hidden_text`] counts, removes or replaces a character. Texts without such a
/// character are not examined further.
fn is_hidden_text_character(character: char) -> bool {
    !character.is_ascii()
        && matches!(
            character,
            '\u{ad}'
                | '\u{200b}'..='\u{200f}'
                | '\u{202a}'..='\u{202e}'
                | '\u{2060}'..='\u{2069}'
                | '\u{fe00}'..='\u{fe0e}'
                | '\u{feff}'
                | '\u{ff01}'..='\u{ff5e}'
                | '\u{e0000}'..='\u{e007f}'
                | '\u{e0100}'..='\u{e01ef}'
        )
}

/// Removes invisible characters from a text, decodes tag characters, and maps full-width letters to
/// ASCII.
pub(crate) fn reveal_hidden_text(text: &str) -> TextWithoutHiddenCharacters<'_> {
    if text.is_ascii() || !text.chars().any(is_hidden_text_character) {
        return TextWithoutHiddenCharacters {
            text: Cow::Borrowed(text),
            weight: 0.0,
        };
    }
    let mut clean = String::with_capacity(text.len());
    let mut spelt = String::new();
    let mut in_flag = false;
    let (mut n_between, mut n_overrides, mut n_selectors) = (0_usize, 0_usize, 0_usize);
    let mut has_rtl = false;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\u{1f3f4}' => {
                // Keep the flags of England, Scotland and Wales: they consist of this character and
                // of tag characters that hide no words.
                in_flag = true;
                clean.push(character);
                continue;
            }
            '\u{e0000}'..='\u{e007f}' => {
                if !in_flag {
                    spelt.extend(
                        char::from_u32(character as u32 - 0xe0000).filter(|it| !it.is_control()),
                    );
                }
                continue;
            }
            '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2064}' | '\u{feff}' | '\u{ad}' => {
                // Zero-width characters have no use between Latin letters or digits; other scripts
                // and emoji need them.
                let next = characters.peek().is_some_and(char::is_ascii_alphanumeric);
                n_between +=
                    usize::from(next && clean.ends_with(|last: char| last.is_ascii_alphanumeric()));
            }
            '\u{202d}' | '\u{202e}' => n_overrides += 1,
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202c}' | '\u{2066}'..='\u{2069}' => {}
            '\u{fe00}'..='\u{fe0e}' | '\u{e0100}'..='\u{e01ef}' => n_selectors += 1,
            '\u{ff01}'..='\u{ff5e}' => clean.extend(char::from_u32(character as u32 - 0xfee0)),
            _ => {
                has_rtl |= matches!(character, '\u{590}'..='\u{8ff}' | '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{fefc}');
                clean.push(character);
            }
        }
        in_flag = false;
    }
    let overrides = if has_rtl { 0 } else { n_overrides };
    let weight = if !spelt.is_empty() || overrides > 0 || n_between >= 8 || n_selectors >= 16 {
        1.0
    } else if n_between > 0 {
        0.4
    } else {
        0.0
    };
    if !spelt.is_empty() {
        clean.push_str("\n\n");
        clean.push_str(&spelt);
    }
    TextWithoutHiddenCharacters {
        text: Cow::Owned(clean),
        weight,
    }
}
