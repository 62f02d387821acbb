//! Hooks that name a program and its arguments (`args`) instead of a line for the shell.
//!
//! Each word becomes a quoted word of such a line, so that everything that is done with lines holds:
//! the question about it, and the files that it names. Start from [`line_of`].

use std::ffi::OsString;

use serde_json::Value;

/// Returns the line of a hook: its command, or the words of command and arguments, quoted.
/// `variables` are replaced in these words where they stand in braces, as in `${NAME}`.
///
/// # Errors
/// Text phrased to follow "this hook": the arguments are no texts, or a word cannot be quoted.
pub(super) fn line_of(
    command: &str,
    args: Option<&Value>,
    variables: &[(OsString, OsString)],
) -> Result<String, String> {
    let Some(args) = args else {
        return Ok(command.to_owned());
    };
    let args = args.as_array().ok_or("has `args` that are no list")?;
    let mut words = vec![quoted(command, variables)?];
    for word in args {
        let word = word
            .as_str()
            .ok_or("has something else than texts in `args`")?;
        words.push(quoted(word, variables)?);
    }
    Ok(words.join(" "))
}

fn quoted(word: &str, variables: &[(OsString, OsString)]) -> Result<String, String> {
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
    // The script cannot find files through such a word, so they could be neither shown nor pinned.
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
        let line = |command: &str, args: Option<Value>| line_of(command, args.as_ref(), &variables);
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
