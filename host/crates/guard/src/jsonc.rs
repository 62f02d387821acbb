//! Edits the hooks in JSON files without changing comments or the hooks of other programs.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstArray, CstInputValue, CstNode, CstObject, CstRootNode};
use rind_lib::json::measure_nesting_depth;
use serde_json::Value;

/// Maximum nesting depth of the JSON in a settings file.
const MAX_SETTINGS_NESTING_DEPTH: usize = 64;

/// Key of the object that contains the hooks, and of the list of hooks in a group.
const HOOKS_KEY: &str = "hooks";

/// Key of a hook's command line in the settings of an agent.
const HOOK_COMMAND_KEY: &str = "command";

/// Hook that was found in an agent's settings file, with its position there.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HookInSettingsFile {
    pub(crate) event: String,
    /// Index of the hook's group in the list of the event.
    pub(crate) group: usize,
    /// Index of the hook in its group, counted from 0.
    pub(crate) position: usize,
    /// Whether the hook's group has no other field than `hooks`. Another field, such as a matcher,
    /// could exclude calls.
    pub(crate) is_for_all: bool,
    pub(crate) hook: Value,
}

/// Parses JSON with comments. An empty text is an empty object.
///
/// # Errors
/// The text is no JSON, or is nested too deeply.
pub(crate) fn parse_jsonc(text: &str) -> Result<Value, String> {
    if text.trim().is_empty() {
        return Ok(Value::Object(serde_json::Map::new()));
    }
    let value = jsonc_parser::parse_to_serde_value::<Value>(text, &ParseOptions::default())
        .map_err(|error| error.to_string())?;
    if measure_nesting_depth(&value) > MAX_SETTINGS_NESTING_DEPTH {
        return Err(format!(
            "the JSON is nested deeper than {MAX_SETTINGS_NESTING_DEPTH} levels"
        ));
    }
    Ok(value)
}

/// Finds the hooks in an agent's settings whose command satisfies `is_own`.
pub(crate) fn find_hooks(value: &Value, is_own: &dyn Fn(&str) -> bool) -> Vec<HookInSettingsFile> {
    let mut found = Vec::new();
    let events = value.get(HOOKS_KEY).and_then(Value::as_object);
    for (event, groups) in events.into_iter().flatten() {
        let groups = groups.as_array().into_iter().flatten().enumerate();
        for (group, hooks) in groups {
            let fields = hooks.as_object().map_or(0, serde_json::Map::len);
            let hooks = hooks.get(HOOKS_KEY).and_then(Value::as_array);
            for (position, hook) in hooks.into_iter().flatten().enumerate() {
                let command = hook.get(HOOK_COMMAND_KEY).and_then(Value::as_str);
                if command.is_some_and(is_own) {
                    found.push(HookInSettingsFile {
                        event: event.clone(),
                        group,
                        position,
                        is_for_all: fields == 1,
                        hook: hook.clone(),
                    });
                }
            }
        }
    }
    found
}

/// Removes Rind's hooks from a text and appends those in `add`, which are pairs of an event and a
/// group of hooks.
///
/// # Errors
/// The text is not a JSON object, or its hooks are not in the known form.
pub(crate) fn replace_rind_hooks(
    text: &str,
    is_own: &dyn Fn(&str) -> bool,
    add: &[(&str, Value)],
) -> Result<String, String> {
    parse_jsonc(text)?;
    let text = if text.trim().is_empty() { "{}\n" } else { text };
    let root =
        CstRootNode::parse(text, &ParseOptions::default()).map_err(|error| error.to_string())?;
    let object = root
        .object_value()
        .ok_or("it is not a JSON object, so hooks cannot be added")?;
    if let Some(hooks) = object.object_value(HOOKS_KEY) {
        remove_rind_hooks(&hooks, is_own);
        if hooks.properties().is_empty()
            && add.is_empty()
            && let Some(property) = object.get(HOOKS_KEY)
        {
            property.remove();
        }
    }
    if !add.is_empty() {
        let hooks = object
            .object_value_or_create(HOOKS_KEY)
            .ok_or("its `hooks` is not an object")?;
        for (event, group) in add {
            let groups = hooks
                .array_value_or_create(event)
                .ok_or_else(|| format!("its `hooks.{event}` is not a list"))?;
            groups.ensure_multiline();
            groups.append(to_cst_value(group));
        }
    }
    Ok(root.to_string())
}

fn remove_rind_hooks(hooks: &CstObject, is_own: &dyn Fn(&str) -> bool) {
    for property in hooks.properties() {
        let Some(groups) = property.array_value() else {
            continue;
        };
        if remove_event_hooks(&groups, is_own) && groups.elements().is_empty() {
            property.remove();
        }
    }
}

/// Removes Rind's hooks of one event. Returns whether any was removed.
fn remove_event_hooks(groups: &CstArray, is_own: &dyn Fn(&str) -> bool) -> bool {
    let mut is_changed = false;
    for group in groups.elements() {
        let hooks = group
            .as_object()
            .and_then(|group| group.array_value(HOOKS_KEY));
        let Some(hooks) = hooks else {
            continue;
        };
        let own = hooks.elements().into_iter();
        let own: Vec<CstNode> = own.filter(|hook| is_rind_hook(hook, is_own)).collect();
        if own.is_empty() {
            continue;
        }
        is_changed = true;
        own.into_iter().for_each(CstNode::remove);
        if hooks.elements().is_empty() {
            group.remove();
        }
    }
    is_changed
}

fn is_rind_hook(hook: &CstNode, is_own: &dyn Fn(&str) -> bool) -> bool {
    let command = hook.as_object().and_then(|hook| hook.get(HOOK_COMMAND_KEY));
    let command = command.and_then(|command| command.value()?.as_string_lit());
    let command = command.and_then(|command| command.decoded_value().ok());
    command.is_some_and(|command| is_own(&command))
}

fn to_cst_value(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(is) => CstInputValue::Bool(*is),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(to_cst_value).collect()),
        Value::Object(fields) => {
            let fields = fields.iter();
            CstInputValue::Object(
                fields
                    .map(|(name, value)| (name.clone(), to_cst_value(value)))
                    .collect(),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn is_own(command: &str) -> bool {
        command.starts_with("rind ")
    }

    const GIVEN: &str = "{\n  // Mine.\n  \"model\": \"x\",\n  \"hooks\": {\n    \"PreToolUse\": [\n      { \"matcher\": \"Bash\", \"hooks\": [{ \"type\": \"command\", \"command\": \"mine\" }] } // kept\n    ]\n  }\n}\n";

    fn group() -> Value {
        json!({"hooks": [{"type": "command", "command": "rind a"}]})
    }

    #[test]
    fn what_is_there_stays_and_removal_takes_out_exactly_ours() {
        let add = [("PreToolUse", group()), ("PostToolUse", group())];
        let text = replace_rind_hooks(GIVEN, &is_own, &add).unwrap();
        assert!(
            text.contains("// Mine.") && text.contains("// kept"),
            "{text}"
        );
        let found = find_hooks(&parse_jsonc(&text).unwrap(), &is_own);
        let places: Vec<(&str, usize)> = found
            .iter()
            .map(|own| (own.event.as_str(), own.group))
            .collect();
        assert_eq!(places.len(), 2);
        assert!(places.contains(&("PreToolUse", 1)) && places.contains(&("PostToolUse", 0)));
        let again = replace_rind_hooks(&text, &is_own, &add).unwrap();
        assert_eq!(find_hooks(&parse_jsonc(&again).unwrap(), &is_own).len(), 2);
        let removed = replace_rind_hooks(&again, &is_own, &[]).unwrap();
        assert_eq!(parse_jsonc(&removed).unwrap(), parse_jsonc(GIVEN).unwrap());
        assert!(removed.contains("// kept"), "{removed}");
    }

    #[test]
    fn a_file_that_is_new_is_empty_again_after_removal() {
        let text = replace_rind_hooks("", &is_own, &[("PreToolUse", group())]).unwrap();
        let removed = replace_rind_hooks(&text, &is_own, &[]).unwrap();
        assert_eq!(parse_jsonc(&removed).unwrap(), json!({}));
    }

    #[test]
    fn hooks_of_another_form_are_an_error() {
        let add = [("PreToolUse", group())];
        for text in [
            "[]",
            "{",
            "{\"hooks\": []}",
            "{\"hooks\": {\"PreToolUse\": 7}}",
        ] {
            assert!(replace_rind_hooks(text, &is_own, &add).is_err(), "{text}");
        }
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(replace_rind_hooks(&deep, &is_own, &add).is_err());
    }
}
