//! Validates the JSON reply of a Claude Code hook. An unknown value may be meant as a refusal, so
//! it is an error.
//!
//! Start from [`check_hook_reply`].

use serde_json::Value;

use super::super::once::masked_error_line;
use crate::json;
use crate::point::failure::Failure;

/// Values that a field of a reply may have, apart from null.
enum PermittedReplyFieldValues {
    /// Exactly one of these texts.
    OneOf(&'static [&'static str]),
    Text,
    True,
    Object,
}

/// Fields that a reply may have if it does not refuse, and their permitted values.
const REPLY_FIELDS_PERMITTED_WITHOUT_REFUSAL: &[(&str, PermittedReplyFieldValues)] = &[
    ("continue", PermittedReplyFieldValues::True),
    ("decision", PermittedReplyFieldValues::OneOf(&["approve"])),
    ("systemMessage", PermittedReplyFieldValues::Text),
    ("hookSpecificOutput", PermittedReplyFieldValues::Object),
];

/// Permitted fields of `hookSpecificOutput` at every event.
const COMMON_HOOK_SPECIFIC_OUTPUT_FIELDS: &[(&str, PermittedReplyFieldValues)] =
    &[("additionalContext", PermittedReplyFieldValues::Text)];

/// Permitted fields of `hookSpecificOutput` for a tool call that the hook does not deny.
const TOOL_CALL_HOOK_OUTPUT_FIELDS: &[(&str, PermittedReplyFieldValues)] = &[
    (
        PERMISSION_DECISION_FIELD,
        PermittedReplyFieldValues::OneOf(&["allow", "ask", "defer"]),
    ),
    ("updatedInput", PermittedReplyFieldValues::Object),
];

/// Field of a hook's reply that contains the decision on a tool call.
const PERMISSION_DECISION_FIELD: &str = "permissionDecision";

/// Fields that can contain a refusal: in the reply itself, and in its `hookSpecificOutput`.
const TOP_LEVEL_DECISION_FIELDS: [&str; 2] = ["continue", "decision"];
const HOOK_SPECIFIC_OUTPUT_DECISION_FIELDS: [&str; 1] = [PERMISSION_DECISION_FIELD];

/// Checks a reply whose `continue` and `decision` do not refuse. `is_judged` says whether the reply
/// is about a tool call, which `hookSpecificOutput` can deny.
///
/// # Errors
/// A field has the wrong type or an unknown value, or a field that can refuse is misplaced.
pub(super) fn check_hook_reply(said: &Value, is_judged: bool) -> Result<(), Failure> {
    let specific = &said["hookSpecificOutput"];
    let misplaced = |why: String| Err(Failure::Malformed(why));
    if let Some(name) = find_first_present_field(&HOOK_SPECIFIC_OUTPUT_DECISION_FIELDS, said) {
        return misplaced(format!("`{name}` must be inside `hookSpecificOutput`"));
    }
    if let Some(name) = find_first_present_field(&TOP_LEVEL_DECISION_FIELDS, specific) {
        return misplaced(format!(
            "`{name}` must not be inside `hookSpecificOutput`, but next to it"
        ));
    }
    if !is_judged
        && let Some(name) =
            find_first_present_field(&HOOK_SPECIFIC_OUTPUT_DECISION_FIELDS, specific)
    {
        return misplaced(format!(
            "`{name}` is only for the event `PreToolUse`; at this event, refuse with `decision` or `continue`"
        ));
    }
    check_field_values(said, REPLY_FIELDS_PERMITTED_WITHOUT_REFUSAL)?;
    check_field_values(specific, COMMON_HOOK_SPECIFIC_OUTPUT_FIELDS)
}

fn find_first_present_field(names: &[&'static str], object: &Value) -> Option<&'static str> {
    let mut names = names.iter();
    names.find(|name| !object[**name].is_null()).copied()
}

/// Checks output that is not a JSON object and would therefore count as text. Fails if the text may
/// contain a reply. If the hook can refuse an action (`is_gate`), everything that looks like JSON
/// may be a reply. Otherwise the text may be JSON for the model, so only JSON with the name of a
/// decision field may be a reply.
///
/// # Errors
/// The text may be a reply.
pub(super) fn check_plain_text_reply(text: &str, is_gate: bool) -> Result<(), Failure> {
    let is_json = serde_json::from_str::<Value>(text).is_ok();
    let is_reply = if is_gate {
        let begins = |line: &str| line.trim_start_matches(is_invisible_char).starts_with('{');
        is_json || text.lines().any(begins) || mentions_decision_field(text)
    } else {
        mentions_decision_field(text) && (is_json || text.contains('{'))
    };
    match is_reply {
        true => Err(Failure::Malformed(
            "what it wrote may be a reply that cannot be read: a reply is one JSON object with nothing before or behind it; \
             write anything else to standard error"
                .to_owned(),
        )),
        false => Ok(()),
    }
}

/// Whether a text contains, in quotes, the name of a field that can contain a hook's decision.
fn mentions_decision_field(text: &str) -> bool {
    let mut names = TOP_LEVEL_DECISION_FIELDS
        .iter()
        .chain(&HOOK_SPECIFIC_OUTPUT_DECISION_FIELDS);
    names.any(|name| {
        ['"', '\'']
            .iter()
            .any(|mark| text.contains(&format!("{mark}{name}{mark}")))
    })
}

/// Whether a character is invisible, such as a byte order mark, and so may precede a reply.
fn is_invisible_char(letter: char) -> bool {
    letter.is_whitespace() || letter.is_control() || letter == '\u{feff}'
}

/// Checks the `hookSpecificOutput` for a tool call that the hook does not deny.
///
/// # Errors
/// Same as [`check_hook_reply`].
pub(super) fn check_tool_call_verdict(specific: &Value) -> Result<(), Failure> {
    check_field_values(specific, TOOL_CALL_HOOK_OUTPUT_FIELDS)
}

fn check_field_values(
    object: &Value,
    fields: &[(&str, PermittedReplyFieldValues)],
) -> Result<(), Failure> {
    for (name, expected) in fields {
        let value = &object[*name];
        let (fits, known) = match expected {
            PermittedReplyFieldValues::OneOf(texts) => (
                value.as_str().is_some_and(|text| texts.contains(&text)),
                permitted_values_text(name, texts),
            ),
            PermittedReplyFieldValues::Text => (value.is_string(), "a text".to_owned()),
            PermittedReplyFieldValues::True => (value == true, "true or false".to_owned()),
            PermittedReplyFieldValues::Object => (value.is_object(), "an object".to_owned()),
        };
        if !fits && !value.is_null() {
            let value = json::format_value_for_display(value);
            return Err(Failure::Malformed(format!(
                "`{name}` is `{}`; it must be {known}",
                masked_error_line(&value)
            )));
        }
    }
    Ok(())
}

/// Lists for an error the values that a field may have, including the value that refuses.
fn permitted_values_text(name: &str, texts: &[&str]) -> String {
    let refusal = if name == PERMISSION_DECISION_FIELD {
        "deny"
    } else {
        "block"
    };
    format!("{} or {refusal}", texts.join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::table::parse_table_rows;

    fn value(text: &str) -> Value {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn what_is_not_known_is_refused_and_what_is_absent_is_not() {
        for said in [
            json!({}),
            json!({"continue": true, "decision": "approve", "suppressOutput": true}),
            json!({"decision": null, "hookSpecificOutput": null, "systemMessage": "a"}),
            json!({"hookSpecificOutput": {"hookEventName": "Stop", "additionalContext": "a"}}),
        ] {
            assert_eq!(check_hook_reply(&said, false), Ok(()), "{said}");
        }
        let judged = json!({"hookSpecificOutput": {"permissionDecision": 5}});
        assert_eq!(check_hook_reply(&judged, true), Ok(()), "judged by itself");
        let refused = r#"
            {"continue": "false"} => `continue` is `false`
            {"continue": 0} => `continue` is `0`
            {"decision": "deny"} => must be approve or block
            {"decision": "Block"} => `decision` is `Block`
            {"decision": ["block"]} => `decision` is `["block"]`
            {"hookSpecificOutput": "deny"} => must be an object
            {"systemMessage": 5} => must be a text
            {"permissionDecision": "deny"} => must be inside
            {"hookSpecificOutput": {"decision": "block"}} => `decision` must not be inside `hookSpecificOutput`
            {"hookSpecificOutput": {"continue": false}} => `continue` must not be inside `hookSpecificOutput`
            {"hookSpecificOutput": {"permissionDecision": "deny"}} => is only for the event `PreToolUse`
            {"hookSpecificOutput": {"additionalContext": [1]}} => `additionalContext` is `[1]`
        "#;
        for [said, why] in parse_table_rows(refused) {
            let failure = check_hook_reply(&value(&said), false)
                .unwrap_err()
                .to_string();
            assert!(failure.contains(&why), "{said}: {failure}");
        }
        let verdicts = r#"
            null => fits
            {"permissionDecision": "allow", "updatedInput": {}} => fits
            {"permissionDecision": ["deny"]} => does not
            {"permissionDecision": "Deny"} => does not
            {"permissionDecision": ""} => does not
            {"updatedInput": "x"} => does not
        "#;
        for [said, fits] in parse_table_rows(verdicts) {
            let is_fit = check_tool_call_verdict(&value(&said)).is_ok();
            assert_eq!(is_fit, fits == "fits", "{said}");
        }
    }

    #[test]
    fn a_reply_within_other_text_is_not_overlooked() {
        let malformed = |text: &str, is_gate| check_plain_text_reply(text, is_gate).is_err();
        for text in [
            r#"[{"decision":"block"}]"#,
            "checking…\n{\"decision\":\"block\"}",
            "checking… {\"decision\": \"block\"}",
            "checking…\n{\n  \"continue\": false\n}",
            "\u{feff}{\"decision\":\"block\"}",
            "{'permissionDecision': 'deny'}",
        ] {
            assert!(malformed(text, true) && malformed(text, false), "{text}");
        }
        for text in ["\"deny\"", "false", "[]", "one\n  {\"verdict\": 1}"] {
            assert!(malformed(text, true) && !malformed(text, false), "{text}");
        }
        for text in [
            "",
            "checked 3 files",
            "use {braces}",
            "the decision is yours",
        ] {
            assert!(!malformed(text, true) && !malformed(text, false), "{text}");
        }
    }
}
