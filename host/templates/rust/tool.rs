//! Offers the model a tool that counts the words of a text.
//!
//! A plugin is a module of functions under `#[rind_sdk::plugin]`. A tool takes one type marked
//! `#[args]`, from which its JSON Schema is made; the model reads its doc comments.

#[rind_sdk::plugin]
mod plugin {
    use rind_sdk::prelude::*;

    /// Arguments of `count_words`.
    #[args]
    struct CountWords {
        /// The text to count in.
        text: String,
    }

    /// Counts the words of a text. Use it when somebody asks how long a text is.
    #[tool(effect = "read")]
    fn count_words(args: CountWords) -> String {
        format!("{} words", args.text.split_whitespace().count())
    }
}

// `cargo test` runs natively: the SDK stands in for the host.
#[cfg(test)]
mod tests {
    use super::plugin::*;

    #[test]
    fn words_are_counted() {
        let answer = __rind_call_tool("count_words", r#"{"text": "one two  three"}"#).unwrap();
        assert!(format!("{answer:?}").contains("3 words"));
        assert!(__rind_call_tool("count_words", "{}").is_err());
    }
}
