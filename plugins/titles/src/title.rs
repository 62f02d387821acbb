//! Writes the question for a title, and extracts the title from the answer.

/// Maximum length in characters of the input, and of the answer, that the request for a title
/// quotes.
const MAX_QUOTED_INPUT_OR_ANSWER_CHARS: usize = 2000;

/// Maximum length of a title, in characters.
const MAX_TITLE_CHARS: usize = 80;

/// Returns the prompt that asks a model for a title of the conversation that began with the user's
/// `input` and the answer `output`.
pub(crate) fn title_prompt(input: &str, output: &str, max_words: u32) -> String {
    let cut = |text: &str| {
        text.chars()
            .take(MAX_QUOTED_INPUT_OR_ANSWER_CHARS)
            .collect::<String>()
    };
    format!(
        "A title of at most {max_words} words for this conversation.\n\n<input>\n{}\n</input>\n\n<answer>\n{}\n</answer>",
        cut(input),
        cut(output)
    )
}

/// Returns the title in a model's answer: the first line that has a letter or digit, without
/// quotes, truncated. `None` if there is no such line.
pub(crate) fn clean_title(answer: &str, max_words: u32) -> Option<String> {
    let mut lines = answer.lines().map(str::trim);
    let line = lines.find(|line| line.chars().any(char::is_alphanumeric))?;
    let line = line.trim_matches(|letter: char| "\"'`*#.“”«» ".contains(letter));
    let most = usize::try_from(max_words).unwrap_or(usize::MAX);
    let words: Vec<&str> = line.split_whitespace().take(most).collect();
    let title: String = words.join(" ").chars().take(MAX_TITLE_CHARS).collect();
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
        assert_eq!(long.chars().count(), MAX_TITLE_CHARS);
    }

    #[test]
    fn the_question_is_short_whatever_was_said() {
        let text = title_prompt(&"ä".repeat(100_000), "done", 6);
        assert!(text.len() < 5000 && text.contains("at most 6 words"));
    }
}
