//! Converts skill names to a normal form, for comparison.

use icu_normalizer::ComposingNormalizerBorrowed;

use crate::text::is_deceptive_character;

/// Returns the form in which names are compared: NFKC, case-folded, and without invisible
/// characters. Names that differ only in these look alike and have the same form.
///
/// For example:
///
/// ```text
/// Review        ->  review
/// ｒｅｖｉｅｗ  ->  review
/// straße        ->  strasse
/// git:Commit    ->  git:commit
/// ```
#[must_use]
pub fn normalize_skill_name(name: &str) -> String {
    let nfkc = ComposingNormalizerBorrowed::new_nfkc();
    let seen: String = nfkc
        .normalize(name)
        .chars()
        .filter(|c| !is_deceptive_character(*c))
        .collect();
    // Convert to upper case before lower case: lower case alone would distinguish `ß` from `SS`,
    // and `ς` from `σ`.
    let upper = seen.trim().chars().flat_map(char::to_uppercase);
    let lower: String = upper.flat_map(char::to_lowercase).collect();
    // Normalize again: lower-case letters may compose differently than the upper-case letters.
    nfkc.normalize(&lower).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_look_alike_are_one() {
        let table = [
            ("Review", "review"),
            ("ｒｅｖｉｅｗ", "review"),
            ("re\u{200b}view", "review"),
            (" re\u{ad}VIEW\u{202e} ", "review"),
            ("e\u{301}tude", "\u{e9}tude"),
            ("ﬁx", "fix"),
            ("git:Commit", "git:commit"),
            ("stra\u{df}e", "STRASSE"),
            (
                "\u{3bb}\u{3cc}\u{3b3}\u{3bf}\u{3c2}",
                "\u{39b}\u{38c}\u{393}\u{39f}\u{3a3}",
            ),
        ];
        for (name, expected) in table {
            assert_eq!(
                normalize_skill_name(name),
                normalize_skill_name(expected),
                "{name:?}"
            );
            assert_eq!(
                normalize_skill_name(&normalize_skill_name(name)),
                normalize_skill_name(name),
                "{name:?}"
            );
        }
    }
}
