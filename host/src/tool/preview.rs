//! Preview of a tool call for the user.
//!
//! The model writes the arguments and may try to deceive the user who approves them. The preview is
//! therefore complete; the code that displays it escapes the text and handles paging. Start from
//! [`preview_call_arguments`].

use serde_json::Value;

use crate::message::ToolSpec;
use crate::text::escape_to_one_line;

/// Maximum number of lines in the description of a call for a model.
const MAX_CALL_DESCRIPTION_LINES: usize = 60;

/// Maximum length of a line in a description for a model, in bytes. The end of a longer line is
/// replaced by a note.
const MAX_CALL_DESCRIPTION_LINE_BYTES: usize = 500;

/// Note about a command that keeps running after its call.
const BACKGROUND_COMMAND_NOTE: &str =
    "in the background, until it ends, is stopped, or the session ends";

/// Line of the preview of a tool call in an approval question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChangePreviewLine {
    /// Mark in front of the line, such as `$ `, `+ ` or `- `. Never blank, so that no text can
    /// imitate an unmarked line.
    pub mark: &'static str,
    /// Text of the line, unescaped.
    pub text: String,
}

/// Returns the arguments of a call for the user: the command of `bash`, the lines that `write_file`
/// and `edit_file` write, JSON for other tools. The text is complete and unescaped; the code that
/// displays it must escape it.
///
/// For example:
///
/// ```text
/// {"command": "make\nmake test"}                              $ make
///                                                             > make test
///
/// {"path": "a.txt", "old_text": "x\ny", "new_text": "z"}      file: a.txt
///                                                             - x
///                                                             - y
///                                                             + z
/// ```
#[must_use]
pub fn preview_call_arguments(spec: &ToolSpec, arguments: &Value) -> Vec<FileChangePreviewLine> {
    let text = |name: &str| arguments.get(name).and_then(Value::as_str);
    let built_in = if spec.plugin.is_none() {
        spec.name.as_str()
    } else {
        ""
    };
    let mut shown = Vec::new();
    let is_shown = match built_in {
        "bash" => {
            text("command").map(|command| add_preview_text_lines(&mut shown, "$ ", "> ", command))
        }
        "write_file" => text("path").zip(text("content")).map(|(path, content)| {
            let lines = match content.lines().count() {
                1 => "1 line".to_owned(),
                n => format!("{n} lines"),
            };
            add_preview_line(&mut shown, "file: ", path);
            add_preview_line(
                &mut shown,
                "size: ",
                &format!("{} bytes, {lines}", content.len()),
            );
            if !content.is_empty() {
                add_preview_text_lines(&mut shown, "+ ", "+ ", content);
            }
        }),
        "edit_file" => text("path")
            .zip(text("old_text").zip(text("new_text")))
            .map(|(path, (old, new))| {
                let is_all = arguments.get("replace_all") == Some(&Value::Bool(true));
                add_preview_line(&mut shown, "file: ", path);
                if is_all {
                    add_preview_line(&mut shown, "in: ", "every place");
                }
                add_preview_text_lines(&mut shown, "- ", "- ", old);
                add_preview_text_lines(&mut shown, "+ ", "+ ", new);
            }),
        _ => None,
    };
    if is_shown.is_none() {
        let json = serde_json::to_string_pretty(arguments).unwrap_or_default();
        add_preview_text_lines(&mut shown, "| ", "| ", &json);
    } else {
        if arguments.get("background") == Some(&Value::Bool(true)) {
            add_preview_line(&mut shown, "runs: ", BACKGROUND_COMMAND_NOTE);
        }
        if let Some(timeout) = arguments.get("timeout_seconds") {
            add_preview_line(&mut shown, "at most: ", &format!("{timeout} s"));
        }
    }
    shown
}

/// Describes a call for the model in a dry run, escaped and shortened.
#[must_use]
pub fn describe_dry_run_call(spec: &ToolSpec, arguments: &Value) -> String {
    let shown = preview_call_arguments(spec, arguments);
    let lines = shown.iter().take(MAX_CALL_DESCRIPTION_LINES);
    let mut told: String = lines
        .map(|line| format!("{}{}\n", line.mark, escape_preview_line(&line.text)))
        .collect();
    let n_missing = shown.len().saturating_sub(MAX_CALL_DESCRIPTION_LINES);
    if n_missing > 0 {
        told.push_str(&format!("[… {n_missing} lines more]\n"));
    }
    told
}

fn escape_preview_line(text: &str) -> String {
    let cut = text.floor_char_boundary(MAX_CALL_DESCRIPTION_LINE_BYTES);
    let more = if cut < text.len() { " …" } else { "" };
    escape_to_one_line(text.get(..cut).unwrap_or_default()) + more
}

fn add_preview_line(shown: &mut Vec<FileChangePreviewLine>, mark: &'static str, text: &str) {
    shown.push(FileChangePreviewLine {
        mark,
        text: text.to_owned(),
    });
}

/// Adds the lines of a text, with the mark `first` in front of the first line and `other` in front
/// of the others. A line keeps its carriage return.
fn add_preview_text_lines(
    shown: &mut Vec<FileChangePreviewLine>,
    first: &'static str,
    other: &'static str,
    text: &str,
) {
    let whole = text.strip_suffix('\n').unwrap_or(text);
    for (number, part) in whole.split('\n').enumerate() {
        add_preview_line(shown, if number == 0 { first } else { other }, part);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::message::EffectClass;

    fn spec(plugin: Option<&str>, name: &str) -> ToolSpec {
        ToolSpec {
            plugin: plugin.map(str::to_owned),
            ..ToolSpec::from_name_and_effect(name, EffectClass::Execute)
        }
    }

    fn shown(plugin: Option<&str>, name: &str, arguments: Value) -> String {
        describe_dry_run_call(&spec(plugin, name), &arguments)
    }

    #[test]
    fn nothing_that_a_terminal_would_obey_is_left() {
        let two = json!({"command": "make\nmake test"});
        assert!(shown(Some("p"), "bash", two.clone()).contains("\"command\""));
        let long = json!({"command": "é".repeat(2_000)});
        let long_shown = format!("$ {} …\n", "é".repeat(250));
        let sly = json!({"command": "ls\u{1b}[2K\rrm -rf \u{202e}x\u{200b}\u{7}\u{3164}"});
        let edit =
            json!({"path": "a.txt", "old_text": "x\ny", "new_text": "z", "replace_all": true});
        let path = json!({"path": "a\u{1b}[A\n? b", "content": ""});
        for (name, call, expected) in [
            ("bash", two, "$ make\n> make test\n"),
            ("bash", long, &long_shown),
            (
                "bash",
                json!({"command": "make", "background": true, "timeout_seconds": 9}),
                &format!("$ make\nruns: {BACKGROUND_COMMAND_NOTE}\nat most: 9 s\n"),
            ),
            (
                "bash",
                sly,
                "$ ls\\u{1b}[2K\\u{d}rm -rf \\u{202e}x\\u{200b}\\u{7}\\u{3164}\n",
            ),
            (
                "bash",
                json!({"command": 1}),
                "| {\n|   \"command\": 1\n| }\n",
            ),
            (
                "edit_file",
                edit,
                "file: a.txt\nin: every place\n- x\n- y\n+ z\n",
            ),
            (
                "write_file",
                path,
                "file: a\\u{1b}[A\\u{a}? b\nsize: 0 bytes, 0 lines\n",
            ),
        ] {
            assert_eq!(shown(None, name, call), expected);
        }
    }

    #[test]
    fn every_byte_of_a_call_is_in_its_preview() {
        for content in [
            "x".repeat(4_001),
            "line\n".repeat(1_000) + "last",
            "a\r\n\r\n\nb\n".into(),
        ] {
            let lines = preview_call_arguments(
                &spec(None, "write_file"),
                &json!({"path": "a", "content": content}),
            );
            let texts: Vec<&str> = lines
                .iter()
                .skip(2)
                .map(|line| line.text.as_str())
                .collect();
            let whole = texts.join("\n");
            assert_eq!(whole, content.strip_suffix('\n').unwrap_or(&content));
            assert_eq!(
                lines[1].text,
                match texts.len() {
                    1 => format!("{} bytes, 1 line", content.len()),
                    n => format!("{} bytes, {n} lines", content.len()),
                }
            );
        }
    }

    #[test]
    fn a_model_is_told_of_long_texts_how_much_is_missing() {
        let many = "line\n".repeat(1_000);
        let told = shown(None, "write_file", json!({"path": "a", "content": many}));
        assert_eq!(told.lines().count(), MAX_CALL_DESCRIPTION_LINES + 1);
        assert!(told.ends_with("[… 942 lines more]\n"), "{told}");
    }
}
