//! A tool call as a person is shown it: what would happen, in few lines, with nothing in it that a terminal would obey.
//!
//! Arguments are written by the model and may be meant to deceive whoever approves them. Start from [`preview`].

use std::fmt::Write;

use serde_json::Value;

use crate::message::ToolSpec;
pub use crate::text::printable;

/// Most lines of one text of a call.
const CAP_LINES: usize = 30;

/// Most bytes of one text of a call.
const CAP_BYTES: usize = 4_000;

/// The call's arguments for people: the command of `bash`, the lines that `write_file` and `edit_file` would write, JSON for
/// the rest. Cut when long; the last line then says how much is missing. Control and invisible characters are escaped.
#[must_use]
pub fn preview(spec: &ToolSpec, arguments: &Value) -> String {
    let text = |name: &str| arguments.get(name).and_then(Value::as_str);
    let built_in = if spec.plugin.is_none() {
        spec.name.as_str()
    } else {
        ""
    };
    match built_in {
        "bash" => text("command").map(|command| marked("$ ", "  ", command)),
        "write_file" => text("path").zip(text("content")).map(|(path, content)| {
            let bytes = content.len();
            format!(
                "{} ({bytes} bytes)\n{}",
                printable(path),
                marked("+", "+", content)
            )
        }),
        "edit_file" => text("path")
            .zip(text("old_text").zip(text("new_text")))
            .map(|(path, (old, new))| {
                let is_all = arguments.get("replace_all") == Some(&Value::Bool(true));
                let places = if is_all { " (every place)" } else { "" };
                format!(
                    "{}{places}\n{}{}",
                    printable(path),
                    marked("-", "-", old),
                    marked("+", "+", new)
                )
            }),
        _ => None,
    }
    .unwrap_or_else(|| {
        let json = serde_json::to_string_pretty(arguments).unwrap_or_default();
        marked("", "", &json)
    })
}

/// The lines with a mark before each, `first` before the first one; cut when there are too many or they are too long.
fn marked(first: &str, other: &str, text: &str) -> String {
    let end = text.floor_char_boundary(CAP_BYTES.min(text.len()));
    let mut shown = String::new();
    let mut n_shown = 0;
    for (number, line) in text[..end].lines().take(CAP_LINES).enumerate() {
        let mark = if number == 0 { first } else { other };
        n_shown += line.len() + 1;
        let _ = writeln!(shown, "{mark}{}", printable(line));
    }
    let n_missing = text.len().saturating_sub(n_shown);
    if n_missing > 0 {
        let _ = writeln!(shown, "[… {n_missing} bytes more]");
    }
    shown
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::message::EffectClass;

    fn shown(plugin: Option<&str>, name: &str, arguments: Value) -> String {
        let spec = ToolSpec {
            name: name.to_owned(),
            description: String::new(),
            parameters: Value::Null,
            effect_class: EffectClass::Execute,
            plugin: plugin.map(str::to_owned),
        };
        preview(&spec, &arguments)
    }

    #[test]
    fn a_command_is_shown_as_it_would_be_typed() {
        let call = json!({"command": "make\nmake test"});
        assert_eq!(shown(None, "bash", call.clone()), "$ make\n  make test\n");
        assert!(shown(Some("p"), "bash", call).contains("\"command\""));
    }

    #[test]
    fn an_edit_is_shown_as_a_diff() {
        let call =
            json!({"path": "a.txt", "old_text": "x\ny", "new_text": "z", "replace_all": true});
        assert_eq!(
            shown(None, "edit_file", call),
            "a.txt (every place)\n-x\n-y\n+z\n"
        );
    }

    #[test]
    fn nothing_that_a_terminal_would_obey_is_left() {
        let call = json!({"command": "ls\u{1b}[2K\rrm -rf \u{202e}x\u{200b}\u{7}"});
        assert_eq!(
            shown(None, "bash", call),
            "$ ls\\u{1b}[2K\\u{d}rm -rf \\u{202e}x\\u{200b}\\u{7}\n"
        );
        let path = json!({"path": "a\u{1b}[A", "content": ""});
        assert!(!shown(None, "write_file", path).contains('\u{1b}'));
    }

    #[test]
    fn long_texts_are_cut_and_the_rest_is_counted() {
        let many = "line\n".repeat(1_000);
        let shown = shown(None, "write_file", json!({"path": "a", "content": many}));
        assert_eq!(shown.lines().count(), CAP_LINES + 2);
        assert!(shown.ends_with("[… 4850 bytes more]\n"), "{shown}");
    }

    #[test]
    fn arguments_that_do_not_fit_are_shown_as_json() {
        assert_eq!(
            shown(None, "bash", json!({"command": 1})),
            "{\n  \"command\": 1\n}\n"
        );
    }
}
