//! Names of skills as they are compared.

use icu_normalizer::ComposingNormalizerBorrowed;

use crate::text::is_deceptive;

/// Returns the form in which names are compared: NFKC, without case, and without what cannot be seen. Two names that look
/// alike because of these have one form.
#[must_use]
pub fn key(name: &str) -> String {
    let nfkc = ComposingNormalizerBorrowed::new_nfkc();
    let seen: String = nfkc
        .normalize(name)
        .chars()
        .filter(|c| !is_deceptive(*c))
        .collect();
    let lower: String = seen.trim().chars().flat_map(char::to_lowercase).collect();
    // Lower case letters may compose in other ways than the upper case ones that they came from.
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
        ];
        for (name, expected) in table {
            assert_eq!(key(name), expected, "{name:?}");
            assert_eq!(key(&key(name)), expected);
        }
    }
}
