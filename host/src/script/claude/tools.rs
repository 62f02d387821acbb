//! Converts names and arguments of the built-in tools to those of Claude Code and back.

use std::path::Path;

use serde_json::{Map, Value, json};

/// Name of a built-in tool in Rind and in Claude Code, and the names of its arguments, as pairs of
/// Rind's name and Claude Code's.
struct ClaudeToolNameMapping {
    own: &'static str,
    theirs: &'static str,
    arguments: &'static [(&'static str, &'static str)],
}

const CLAUDE_TOOL_NAME_MAPPINGS: &[ClaudeToolNameMapping] = &[
    ClaudeToolNameMapping {
        own: "bash",
        theirs: "Bash",
        arguments: &[("command", "command"), ("background", "run_in_background")],
    },
    ClaudeToolNameMapping {
        own: "edit_file",
        theirs: "Edit",
        arguments: &[
            (PATH_ARGUMENT_NAME, "file_path"),
            ("old_text", "old_string"),
            ("new_text", "new_string"),
            ("replace_all", "replace_all"),
        ],
    },
    ClaudeToolNameMapping {
        own: "write_file",
        theirs: "Write",
        arguments: &[(PATH_ARGUMENT_NAME, "file_path"), ("content", "content")],
    },
    ClaudeToolNameMapping {
        own: "read_file",
        theirs: "Read",
        arguments: &[
            (PATH_ARGUMENT_NAME, "file_path"),
            ("offset", "offset"),
            ("limit", "limit"),
        ],
    },
    ClaudeToolNameMapping {
        own: "list_files",
        theirs: "Glob",
        arguments: &[(PATH_ARGUMENT_NAME, "path"), ("glob", "pattern")],
    },
    ClaudeToolNameMapping {
        own: "skill",
        theirs: "Skill",
        arguments: &[("skill", "skill"), ("args", "args")],
    },
    ClaudeToolNameMapping {
        own: "search",
        theirs: "Grep",
        arguments: &[
            (PATH_ARGUMENT_NAME, "path"),
            ("pattern", "pattern"),
            ("glob", "glob"),
            ("context", "-C"),
        ],
    },
];

/// Name of the path argument, which is relative to the workspace in Rind's tools, and absolute in
/// Claude Code.
const PATH_ARGUMENT_NAME: &str = "path";

/// Rind's and Claude Code's name of the timeout argument, which is in seconds in Rind's tools, and
/// in milliseconds in Claude Code.
const TIMEOUT_ARGUMENT_NAMES: (&str, &str) = ("timeout_seconds", "timeout");

/// Returns the name of a tool in Claude Code. A tool of a plugin gets the form that Claude Code
/// uses for tools of MCP servers.
pub(in crate::script) fn claude_tool_name(own: &str, plugin: Option<&str>) -> String {
    match (
        CLAUDE_TOOL_NAME_MAPPINGS.iter().find(|row| row.own == own),
        plugin,
    ) {
        (Some(row), None) => row.theirs.to_owned(),
        (_, Some(plugin)) => format!("mcp__{plugin}__{own}"),
        (None, None) => own.to_owned(),
    }
}

/// Returns Rind's name of a Claude Code tool; `None` if there is no equivalent. In `theirs`, a
/// pattern in parentheses may follow the name, as in `Bash(git *)`.
pub(in crate::script) fn rind_tool_name(theirs: &str) -> Option<&'static str> {
    let theirs = theirs.split(['(', '|']).next().unwrap_or_default();
    let row = CLAUDE_TOOL_NAME_MAPPINGS
        .iter()
        .find(|row| row.theirs == theirs)?;
    Some(row.own)
}

/// Converts the arguments of Rind's tool `own` to the names and units of Claude Code. Arguments of
/// a tool without an equivalent are returned unchanged.
pub(super) fn to_claude_arguments(own: &str, arguments: &Value, workspace: &Path) -> Value {
    let (Some(row), Some(arguments)) = (find_tool_name_mapping(own), arguments.as_object()) else {
        return arguments.clone();
    };
    let renamed = arguments.iter().map(|(name, value)| {
        let known = row.arguments.iter().find(|(own, _)| own == name);
        match (known, value) {
            (Some((PATH_ARGUMENT_NAME, theirs)), Value::String(path)) => {
                ((*theirs).to_owned(), json!(workspace.join(path)))
            }
            (Some((_, theirs)), value) => ((*theirs).to_owned(), value.clone()),
            (None, value) if name == TIMEOUT_ARGUMENT_NAMES.0 => {
                let ms = value.as_u64().map(|seconds| seconds.saturating_mul(1000));
                (TIMEOUT_ARGUMENT_NAMES.1.to_owned(), json!(ms))
            }
            (None, value) => (name.clone(), value.clone()),
        }
    });
    Value::Object(renamed.collect())
}

/// Converts arguments from the output of a Claude Code hook back to the names and units of Rind's
/// tool `own`.
pub(super) fn to_rind_arguments(own: &str, input: &Map<String, Value>, workspace: &Path) -> Value {
    let Some(row) = find_tool_name_mapping(own) else {
        return Value::Object(input.clone());
    };
    let renamed = input.iter().map(|(name, value)| {
        let known = row.arguments.iter().find(|(_, theirs)| theirs == name);
        match (known, value) {
            (Some((PATH_ARGUMENT_NAME, _)), Value::String(path)) => {
                let relative = Path::new(path).strip_prefix(workspace);
                (
                    PATH_ARGUMENT_NAME.to_owned(),
                    json!(relative.unwrap_or(Path::new(path))),
                )
            }
            (Some((own, _)), value) => ((*own).to_owned(), value.clone()),
            (None, value) if name == TIMEOUT_ARGUMENT_NAMES.1 => {
                let seconds = value.as_u64().map(|ms| ms.div_ceil(1000));
                (TIMEOUT_ARGUMENT_NAMES.0.to_owned(), json!(seconds))
            }
            (None, value) => (name.clone(), value.clone()),
        }
    });
    Value::Object(renamed.collect())
}

fn find_tool_name_mapping(own: &str) -> Option<&'static ClaudeToolNameMapping> {
    CLAUDE_TOOL_NAME_MAPPINGS.iter().find(|row| row.own == own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_go_there_and_back() {
        let workspace = Path::new("/project");
        for (tool, own, theirs) in [
            (
                "edit_file",
                json!({"path": "a/b", "old_text": "x", "new_text": "y"}),
                json!({"file_path": "/project/a/b", "old_string": "x", "new_string": "y"}),
            ),
            (
                "bash",
                json!({"command": "ls", "timeout_seconds": 5}),
                json!({"command": "ls", "timeout": 5000}),
            ),
            ("other", json!({"path": "a"}), json!({"path": "a"})),
        ] {
            let input = to_claude_arguments(tool, &own, workspace);
            assert_eq!(input, theirs);
            assert_eq!(
                to_rind_arguments(tool, input.as_object().unwrap(), workspace),
                own
            );
        }
        assert_eq!(claude_tool_name("write_file", None), "Write");
        assert_eq!(
            claude_tool_name("greet", Some("hello")),
            "mcp__hello__greet"
        );
    }
}
