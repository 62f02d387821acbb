//! Translates tool names and arguments between an agent and Rind, in both directions.
//!
//! Plugins see an agent's tool under the name of the equivalent tool in Rind, so that a plugin that
//! knows `bash` and `write_file` guards every agent. The agent's arguments change only where a
//! plugin changed them.

use std::path::Path;

use rind_lib::message::EffectClass;
use serde_json::{Map, Value};

use super::event::ToolCallWithRindNames;

/// Tool of an agent and the equivalent tool in Rind.
pub(crate) struct AgentToRindToolMapping {
    pub(crate) theirs: &'static str,
    pub(crate) own: &'static str,
    pub(crate) effect_class: EffectClass,
    /// Argument names of both tools as pairs: Rind's name, then the agent's.
    pub(crate) arguments: &'static [(&'static str, &'static str)],
}

/// Name of the argument with a path. In Rind's tools, the path is relative to the workspace.
pub(crate) const PATH_ARGUMENT_NAME: &str = "path";

/// Converts an agent's call to Rind's names of tool and arguments. Keeps the names if Rind has no
/// equivalent tool.
///
/// # Errors
/// The call has an argument with one of Rind's names that the agent's tool does not have. That
/// argument would be judged instead of the one that the agent uses.
pub(crate) fn to_rind_call(
    rows: &[AgentToRindToolMapping],
    tool: &str,
    input: &Value,
    workspace: Option<&Path>,
) -> Result<ToolCallWithRindNames, String> {
    let Some(row) = rows.iter().find(|row| row.theirs == tool) else {
        return Ok(ToolCallWithRindNames {
            tool: tool.to_owned(),
            arguments: input.clone(),
            effect_class: EffectClass::External,
        });
    };
    let is_known = |name: &str| row.arguments.iter().any(|(_, theirs)| *theirs == name);
    let is_own = |name: &str| row.arguments.iter().any(|(own, _)| *own == name);
    let names = input.as_object().into_iter().flat_map(Map::keys);
    if let Some(name) = names
        .into_iter()
        .find(|name| is_own(name) && !is_known(name))
    {
        return Err(format!(
            "`{tool}` has no argument `{name}`, so the call cannot be judged"
        ));
    }
    let fields = input.as_object().into_iter().flatten();
    let arguments: Map<String, Value> = fields
        .map(|(name, value)| {
            let known = row.arguments.iter().find(|(_, theirs)| theirs == name);
            match (known, value) {
                (Some((PATH_ARGUMENT_NAME, _)), Value::String(path)) => (
                    PATH_ARGUMENT_NAME.to_owned(),
                    to_workspace_relative_path(path, workspace).into(),
                ),
                (Some((own, _)), value) => ((*own).to_owned(), value.clone()),
                (None, value) => (name.clone(), value.clone()),
            }
        })
        .collect();
    Ok(ToolCallWithRindNames {
        tool: row.own.to_owned(),
        arguments: match input.is_object() {
            true => Value::Object(arguments),
            false => input.clone(),
        },
        effect_class: row.effect_class,
    })
}

/// Returns the arguments of the agent's own tool, with the changes that plugins made to the
/// arguments under Rind's names.
pub(crate) fn to_agent_arguments(
    rows: &[AgentToRindToolMapping],
    tool: &str,
    input: &Value,
    (given, changed): (&Value, &Value),
    workspace: Option<&Path>,
) -> Value {
    let row = rows.iter().find(|row| row.theirs == tool);
    let their_key = |own: &str| {
        let known = row.and_then(|row| row.arguments.iter().find(|(name, _)| *name == own));
        known.map_or(own, |(_, theirs)| theirs).to_owned()
    };
    let mut result = input.as_object().cloned().unwrap_or_default();
    let (empty, none) = (Map::new(), Map::new());
    let given = given.as_object().unwrap_or(&empty);
    let changed = changed.as_object().unwrap_or(&none);
    for own in given.keys().filter(|own| !changed.contains_key(*own)) {
        result.remove(&their_key(own));
    }
    for (own, value) in changed {
        if given.get(own) == Some(value) {
            continue;
        }
        let value = match value {
            Value::String(path) if own == PATH_ARGUMENT_NAME && row.is_some() => {
                to_absolute_path_value(path, workspace)
            }
            other => other.clone(),
        };
        result.insert(their_key(own), value);
    }
    Value::Object(result)
}

/// Makes a path relative to the workspace, as in Rind's tools. Keeps a path outside the workspace.
pub(crate) fn to_workspace_relative_path(path: &str, workspace: Option<&Path>) -> String {
    let inner = workspace.and_then(|workspace| Path::new(path).strip_prefix(workspace).ok());
    match inner {
        Some(inner) if inner.as_os_str().is_empty() => ".".to_owned(),
        Some(inner) => inner.to_string_lossy().into_owned(),
        None => path.to_owned(),
    }
}

fn to_absolute_path_value(path: &str, workspace: Option<&Path>) -> Value {
    let whole = workspace.map(|workspace| workspace.join(path));
    whole
        .and_then(|path| path.to_str().map(str::to_owned))
        .unwrap_or_else(|| path.to_owned())
        .into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ROWS: &[AgentToRindToolMapping] = &[AgentToRindToolMapping {
        theirs: "Edit",
        own: "edit_file",
        effect_class: EffectClass::Write,
        arguments: &[
            (PATH_ARGUMENT_NAME, "file_path"),
            ("old_text", "old_string"),
            ("new_text", "new_string"),
        ],
    }];

    #[test]
    fn only_changed_keys_come_back() {
        let workspace = Some(Path::new("/w"));
        let input =
            json!({"file_path": "/w/a/b", "old_string": "x", "new_string": "y", "extra": 1});
        let own = to_rind_call(ROWS, "Edit", &input, workspace).unwrap();
        assert_eq!(own.tool, "edit_file");
        assert_eq!(
            own.arguments,
            json!({"path": "a/b", "old_text": "x", "new_text": "y", "extra": 1})
        );
        let mut changed = own.arguments.clone();
        changed["new_text"] = json!("z");
        let back = to_agent_arguments(ROWS, "Edit", &input, (&own.arguments, &changed), workspace);
        assert_eq!(
            back,
            json!({"file_path": "/w/a/b", "old_string": "x", "new_string": "z", "extra": 1})
        );
        changed["path"] = json!("c");
        changed.as_object_mut().unwrap().remove("extra");
        let back = to_agent_arguments(ROWS, "Edit", &input, (&own.arguments, &changed), workspace);
        assert_eq!(
            back,
            json!({"file_path": "/w/c", "old_string": "x", "new_string": "z"})
        );
    }

    #[test]
    fn an_argument_that_hides_the_one_that_the_agent_uses_is_an_error() {
        for input in [
            json!({"file_path": "/etc/x", "path": "ok.txt"}),
            json!({"path": "ok.txt", "file_path": "/etc/x"}),
            json!({"file_path": "a", "old_string": "x", "old_text": "y"}),
        ] {
            assert!(to_rind_call(ROWS, "Edit", &input, None).is_err(), "{input}");
        }
    }

    #[test]
    fn a_tool_without_a_counterpart_keeps_its_names() {
        let input = json!({"path": "/w/x"});
        let own = to_rind_call(ROWS, "mcp__a__b", &input, Some(Path::new("/w"))).unwrap();
        assert_eq!((own.tool.as_str(), &own.arguments), ("mcp__a__b", &input));
        assert_eq!(own.effect_class, EffectClass::External);
        let changed = json!({"path": "q"});
        let back = to_agent_arguments(ROWS, "mcp__a__b", &input, (&input, &changed), None);
        assert_eq!(back, changed);
    }
}
