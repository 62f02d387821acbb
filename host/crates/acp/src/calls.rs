//! Converts tool calls into the form that a client shows: kind, title, locations and diff.
//!
//! Every text of a model or plugin is sanitized before it is sent, because the client may show it
//! unchanged.

use std::path::Path;

use rind_lib::message::{EffectClass, Part, Parts, ToolCall};
use rind_lib::text::{escape_and_truncate_line, escape_prose_for_display, printable_text};
use serde_json::Value;

use crate::wire::{ContentBlock, Diff, ToolCallContent, ToolCallLocation, ToolKind};

/// Maximum length of the title under which the client shows a tool call, in bytes.
const MAX_CALL_TITLE_BYTES: usize = 200;

/// Tool call in the form that the client displays.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DisplayedToolCall {
    pub(crate) title: String,
    pub(crate) kind: ToolKind,
    pub(crate) locations: Vec<ToolCallLocation>,
    pub(crate) content: Vec<ToolCallContent>,
}

impl DisplayedToolCall {
    /// Converts a call. `class` is the effect class of the tool, if known; `plugin` is `None` for
    /// built-in tools.
    pub(crate) fn from_call(
        call: &ToolCall,
        class: Option<EffectClass>,
        plugin: Option<&str>,
        workspace: &Path,
    ) -> Self {
        let built_in = plugin.map_or(call.name.as_str(), |_| "");
        let text = |name: &str| call.arguments.get(name).and_then(Value::as_str);
        let path = text("path").filter(|_| !built_in.is_empty());
        Self {
            title: call_title(&call.name, built_in, &call.arguments),
            kind: call_kind(built_in, class),
            locations: path
                .map(|path| tool_call_file_location(workspace, path, call.arguments.get("offset")))
                .into_iter()
                .collect(),
            content: match (built_in, path) {
                ("edit_file", Some(path)) => {
                    let (old, new) = (text("old_text"), text("new_text"));
                    file_diff(workspace, path, old, new.unwrap_or_default())
                }
                ("write_file", Some(path)) => {
                    file_diff(workspace, path, None, text("content").unwrap_or_default())
                }
                _ => Vec::new(),
            },
        }
    }
}

fn call_kind(built_in: &str, class: Option<EffectClass>) -> ToolKind {
    match (built_in, class) {
        ("read_file" | "list_files", _) => ToolKind::Read,
        ("search", _) => ToolKind::Search,
        ("edit_file" | "write_file", _) => ToolKind::Edit,
        ("bash", _) => ToolKind::Execute,
        (_, Some(EffectClass::Read)) => ToolKind::Read,
        (_, Some(EffectClass::Write)) => ToolKind::Edit,
        (_, Some(EffectClass::Execute)) => ToolKind::Execute,
        (_, Some(EffectClass::External)) => ToolKind::Fetch,
        (_, None) => ToolKind::Other,
    }
}

/// Returns the title of a call in one line: the shell command, or a verb with the file or the
/// search pattern.
fn call_title(name: &str, built_in: &str, arguments: &Value) -> String {
    let text = |name: &str| arguments.get(name).and_then(Value::as_str);
    let title = match built_in {
        "bash" => text("command").map(|command| format!("$ {command}")),
        "read_file" => text("path").map(|path| format!("Read {path}")),
        "list_files" => Some(format!("List {}", text("path").unwrap_or("."))),
        "search" => text("pattern").map(|pattern| format!("Search {pattern}")),
        "edit_file" => text("path").map(|path| format!("Edit {path}")),
        "write_file" => text("path").map(|path| format!("Write {path}")),
        _ => None,
    };
    escape_and_truncate_line(title.as_deref().unwrap_or(name), MAX_CALL_TITLE_BYTES)
}

fn tool_call_file_location(workspace: &Path, path: &str, line: Option<&Value>) -> ToolCallLocation {
    let line = line.and_then(Value::as_u64);
    let line = line.and_then(|line| u32::try_from(line).ok());
    ToolCallLocation::new(make_display_path_absolute(workspace, path)).line(line)
}

/// Returns the absolute path of a file in the workspace, with deceptive characters escaped.
fn make_display_path_absolute(workspace: &Path, path: &str) -> String {
    let path = workspace.join(path);
    printable_text(&path.to_string_lossy())
}

/// Returns the diff of a file that a call changes. Invisible characters are escaped, because they
/// could hide a change.
pub(crate) fn file_diff(
    workspace: &Path,
    path: &str,
    old: Option<&str>,
    new: &str,
) -> Vec<ToolCallContent> {
    let diff = Diff::new(
        make_display_path_absolute(workspace, path),
        printable_text(new),
    );
    vec![ToolCallContent::Diff(
        diff.old_text(old.map(printable_text)),
    )]
}

/// Converts the result of a call. The output of a shell command is put in a Markdown code block.
pub(crate) fn result_content(parts: &Parts, is_command: bool) -> Vec<ToolCallContent> {
    let shown = parts.iter().map(|part| match part {
        Part::Text { text } if is_command => fence_text(text),
        Part::Text { text } => escape_prose_for_display(text),
        Part::Json { value } => fence_text(&value.to_string()),
        Part::Blob(blob) => blob.to_string(),
    });
    let shown = shown.filter(|text| !text.trim().is_empty());
    shown.map(|text| text_content(&text)).collect()
}

/// Wraps a text as the content of a tool call.
pub(crate) fn text_content(text: &str) -> ToolCallContent {
    ToolCallContent::from(ContentBlock::from(text))
}

/// Wraps a text in a Markdown code block, whose fence is longer than any run of backticks in the
/// text.
pub(crate) fn fence_text(text: &str) -> String {
    let fence = code_fence(text);
    format!("{fence}\n{}\n{fence}", printable_text(text.trim_end()))
}

/// Returns a code fence that is longer than any run of backticks in `text`.
pub(crate) fn code_fence(text: &str) -> String {
    let runs = text.split(|letter| letter != '`').map(str::len);
    "`".repeat((runs.max().unwrap_or_default() + 1).max(3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn shape(name: &str, arguments: Value, plugin: Option<&str>) -> DisplayedToolCall {
        let call = ToolCall::new("1", name, arguments);
        DisplayedToolCall::from_call(&call, Some(EffectClass::External), plugin, Path::new("/w"))
    }

    #[test]
    fn built_in_calls_have_titles_kinds_and_places_and_those_of_plugins_their_class() {
        let edit = json!({"path": "a\u{202e}.txt", "old_text": "x", "new_text": "y\u{200b}"});
        let shaped = shape("edit_file", edit.clone(), None);
        assert_eq!(shaped.kind, ToolKind::Edit);
        assert!(
            shaped.title.starts_with("Edit a\\u{202e}"),
            "{}",
            shaped.title
        );
        let content = serde_json::to_value(&shaped.content).unwrap();
        assert_eq!(content[0]["newText"], "y\\u{200b}");
        assert_eq!(content[0]["oldText"], "x");
        let foreign = shape("edit_file", edit, Some("other"));
        assert_eq!(
            (foreign.title.as_str(), foreign.kind),
            ("edit_file", ToolKind::Fetch)
        );
        assert!(foreign.locations.is_empty() && foreign.content.is_empty());
        let command = shape("bash", json!({"command": "a\nb\u{1b}[2J"}), None);
        assert_eq!(
            (command.title.contains('\u{1b}'), command.kind),
            (false, ToolKind::Execute)
        );
    }

    #[test]
    fn a_fence_is_longer_than_those_in_the_text() {
        assert_eq!(fence_text("a"), "```\na\n```");
        assert!(fence_text("x ```` y").starts_with("`````\n"));
    }
}
