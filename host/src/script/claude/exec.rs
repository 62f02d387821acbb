//! Converts Claude Code hooks with a program and arguments (`args`) to command lines for the shell.
//!
//! Each word is quoted. The command line is then treated like that of any other hook: the question
//! for approval shows it, and the files that it names are found. Start from
//! [`build_command_line`].

use std::ffi::OsString;

use serde_json::Value;

/// Returns the command line of a hook: without `args`, the command unchanged; otherwise the words
/// of the command and the arguments, each in quotes. In these words, variables in braces, as in
/// `${NAME}`, are replaced by their values in `variables`.
///
/// # Errors
/// Text that continues "this hook": `args` is not a list of strings, or a word cannot be quoted.
pub(super) fn build_command_line(
    command: &str,
    args: Option<&Value>,
    variables: &[(OsString, OsString)],
) -> Result<String, String> {
    let Some(args) = args else {
        return Ok(command.to_owned());
    };
    let args = args.as_array().ok_or("has `args` that are no list")?;
    let mut words = vec![quote_command_word(command, variables)?];
    for word in args {
        let word = word
            .as_str()
            .ok_or("has something else than texts in `args`")?;
        words.push(quote_command_word(word, variables)?);
    }
    Ok(words.join(" "))
}

fn quote_command_word(word: &str, variables: &[(OsString, OsString)]) -> Result<String, String> {
    let mut word = word.to_owned();
    for (name, value) in variables {
        let place = format!("${{{}}}", name.to_string_lossy());
        if word.contains(&place) {
            let value = value
                .to_str()
                .ok_or("is for a folder whose name is not UTF-8")?;
            word = word.replace(&place, value);
        }
    }
    // A file name with a quote or a control character would not be found in the command line, so
    // the file could be neither shown to the user nor pinned by its digest.
    if word.contains(|c: char| c == '\'' || c.is_control()) {
        return Err("has a word with a quote or a line break in `command` or `args`".to_owned());
    }
    Ok(format!("'{word}'"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn words_are_quoted_and_a_line_stays() {
        let variables = [("CLAUDE_PROJECT_DIR".into(), "/p/a b".into())];
        let line = |command: &str, args: Option<Value>| {
            build_command_line(command, args.as_ref(), &variables)
        };
        assert_eq!(
            line("echo \"$HOME\" | cat", None).unwrap(),
            "echo \"$HOME\" | cat"
        );
        let args = json!([
            "${CLAUDE_PROJECT_DIR}/guard.py",
            "$(rm -rf x)",
            "",
            "${OTHER}"
        ]);
        assert_eq!(
            line("python3", Some(args)).unwrap(),
            "'python3' '/p/a b/guard.py' '$(rm -rf x)' '' '${OTHER}'"
        );
        assert_eq!(line("x", Some(json!([]))).unwrap(), "'x'");
        for args in [
            json!("x"),
            json!([1]),
            json!(["it's"]),
            json!(["a\nb"]),
            json!({}),
        ] {
            assert!(line("x", Some(args.clone())).is_err(), "{args}");
        }
        assert!(line("it's", Some(json!([]))).is_err());
    }
}
