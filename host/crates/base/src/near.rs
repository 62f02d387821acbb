//! Finds the known name that a misspelt name is closest to. Decides how much two names may differ,
//! and writes the hint "did you mean". It must not know what the names identify. Start from
//! [`find_nearest_name`].

/// Maximum edit distance between a misspelt name and the intended one.
const MAX_TYPOS_PER_NAME: usize = 2;

/// Number of bytes per accepted typo: a name of 5 bytes or more may have one typo, a name of 10
/// bytes or more two.
const NAME_BYTES_PER_ALLOWED_TYPO: usize = 5;

/// Minimum length in bytes of a name in which a swap of two letters is accepted.
const MIN_BYTES_FOR_LETTER_SWAP: usize = 4;

/// Minimum length, in letters, of a word for which [`find_nearest_valid_key`] accepts weaker
/// matches.
const MIN_LETTERS_FOR_WEAK_MATCH: usize = 3;

/// Returns the known name that is nearest to `name`; `None` if no known name is near enough. A
/// known name that equals `name` is skipped.
pub fn find_nearest_name<'a>(
    name: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let lower = name.to_lowercase();
    let known = known.into_iter().filter(|known| *known != name);
    let distances = known.map(|known| {
        let other = known.to_lowercase();
        (strsim::damerau_levenshtein(&other, &lower), known)
    });
    let (distance, nearest) = distances.min_by_key(|(distance, _)| *distance)?;
    // Short names such as `memo` and `demo` have a small distance by chance, so they match only if
    // the difference is a swap of two letters.
    let most = (name.len() / NAME_BYTES_PER_ALLOWED_TYPO).min(MAX_TYPOS_PER_NAME);
    let is_swapped = || {
        distance == 1
            && name.len() >= MIN_BYTES_FOR_LETTER_SWAP
            && sorted_letters(nearest) == sorted_letters(name)
    };
    (distance <= most || is_swapped()).then_some(nearest)
}

/// Returns the key that was probably intended by `word`, such as `given` for `giv`. `known` lists
/// all valid keys, so any other word is a mistake. Therefore weaker matches than in
/// [`find_nearest_name`] are accepted: one wrong letter, or one word being a prefix of the other,
/// if both have at least three letters.
pub fn find_nearest_valid_key<'a>(
    word: &str,
    known: impl IntoIterator<Item = &'a str> + Clone,
) -> Option<&'a str> {
    if let Some(near) = find_nearest_name(word, known.clone()) {
        return Some(near);
    }
    let n_letters = word.chars().count();
    if n_letters < MIN_LETTERS_FOR_WEAK_MATCH {
        return None;
    }
    let lower = word.to_lowercase();
    let known = known.into_iter().filter(|known| *known != word);
    let near = known.filter_map(|known| {
        let distance = strsim::damerau_levenshtein(&known.to_lowercase(), &lower);
        let continues = known.starts_with(&*lower);
        let is_continued =
            known.chars().count() >= MIN_LETTERS_FOR_WEAK_MATCH && lower.starts_with(known);
        (distance == 1 || continues || is_continued).then_some((distance, known))
    });
    near.min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

/// Appends the nearest known key to serde's error message about an unknown field or variant.
#[must_use]
pub fn append_nearest_key_hint(message: &str) -> String {
    let mut quoted = message.split('`').skip(1).step_by(2);
    let is_unknown = message.starts_with("unknown field") || message.starts_with("unknown variant");
    let near = quoted
        .next()
        .filter(|_| is_unknown)
        .and_then(|word| find_nearest_valid_key(word, quoted));
    near.map_or_else(
        || message.to_owned(),
        |near| format!("{message}; did you mean `{near}`?"),
    )
}

/// Returns the letters of a name in sorted order, in lower case.
fn sorted_letters(name: &str) -> Vec<char> {
    let mut letters: Vec<char> = name.to_lowercase().chars().collect();
    letters.sort_unstable();
    letters
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_near_when_few_of_its_letters_differ() {
        let known = ["bash", "demo", "read_file", "content-safety"];
        for (name, expected) in [
            ("bahs", Some("bash")),
            ("bassh", Some("bash")),
            ("BASH", Some("bash")),
            ("dash", None),
            ("memo", None),
            ("read_fiel", Some("read_file")),
            ("red_fle", None),
            ("content-safty", Some("content-safety")),
            ("another", None),
            ("", None),
        ] {
            assert_eq!(find_nearest_name(name, known), expected, "{name}");
        }
        assert_eq!(find_nearest_name("bash", []), None);
    }

    #[test]
    fn a_short_key_is_near_when_one_letter_differs_or_it_is_cut() {
        let known = ["name", "given", "expect", "then", "tool", "files", "pass"];
        for (word, expected) in [
            ("giv", Some("given")),
            ("exepct", Some("expect")),
            ("expected", Some("expect")),
            ("nam", Some("name")),
            ("tol", Some("tool")),
            ("file", Some("files")),
            ("passed", Some("pass")),
            ("Then", Some("then")),
            ("to", None),
            ("reply", None),
            ("", None),
        ] {
            assert_eq!(find_nearest_valid_key(word, known), expected, "{word}");
        }
    }

    #[test]
    fn a_misspelt_key_gets_the_nearest() {
        assert_eq!(
            append_nearest_key_hint(
                "unknown field `expct`, expected one of `name`, `given`, `expect`"
            ),
            "unknown field `expct`, expected one of `name`, `given`, `expect`; did you mean `expect`?"
        );
        assert_eq!(
            append_nearest_key_hint("invalid type `x`"),
            "invalid type `x`"
        );
    }
}
