//! The question for a title, and the title in the answer.

/// Longest part of each text that the question shows, in characters.
const MAX_SHOWN: usize = 2000;

/// Longest title, in characters.
const MAX_TITLE: usize = 80;

/// Returns the question about a first input and its answer.
pub(crate) fn question_text(input: &str, output: &str, max_words: u32) -> String {
    let cut = |text: &str| text.chars().take(MAX_SHOWN).collect::<String>();
    format!(
        "A title of at most {max_words} words for this conversation.\n\n<input>\n{}\n</input>\n\n<answer>\n{}\n</answer>",
        cut(input),
        cut(output)
    )
}

/// Returns the title in an answer: its first line with words, without quotes, cut. `None` if there is
/// none.
pub(crate) fn clean_title(answer: &str, max_words: u32) -> Option<String> {
    let mut lines = answer.lines().map(str::trim);
    let line = lines.find(|line| line.chars().any(char::is_alphanumeric))?;
    let line = line.trim_matches(|letter: char| "\"'`*#.“”«» ".contains(letter));
    let most = usize::try_from(max_words).unwrap_or(usize::MAX);
    let words: Vec<&str> = line.split_whitespace().take(most).collect();
    let title: String = words.join(" ").chars().take(MAX_TITLE).collect();
    (!title.is_empty()).then_some(title)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_the_first_line_without_quotes_and_cut() {
        for (answer, title) in [
            ("\n\"Rename the crate\".\nmore", Some("Rename the crate")),
            ("# One two three four", Some("One two three")),
            ("**Fix it**", Some("Fix it")),
            ("…\n--", None),
            ("", None),
        ] {
            assert_eq!(clean_title(answer, 3).as_deref(), title, "{answer}");
        }
        let long = clean_title(&"x".repeat(500), 3).unwrap();
        assert_eq!(long.chars().count(), MAX_TITLE);
    }

    #[test]
    fn the_question_is_short_whatever_was_said() {
        let text = question_text(&"ä".repeat(100_000), "done", 6);
        assert!(text.len() < 5000 && text.contains("at most 6 words"));
    }
}
