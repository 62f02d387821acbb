//! Types and values of the JSON that a hook writes. A word that nobody knows may be meant as a refusal, so it is a failure.

use serde_json::Value;

use super::super::once::line;
use crate::point::failure::Failure;

/// Value that a field may hold besides nothing.
enum Expected {
    /// One of these texts.
    OneOf(&'static [&'static str]),
    /// Any text.
    Text,
    True,
    Object,
}

/// Fields of a reply that refuses nothing.
const FIELDS: &[(&str, Expected)] = &[
    ("continue", Expected::True),
    ("decision", Expected::OneOf(&["approve"])),
    ("systemMessage", Expected::Text),
    ("hookSpecificOutput", Expected::Object),
];

/// Fields of its `hookSpecificOutput`.
const SPECIFIC: &[(&str, Expected)] = &[("additionalContext", Expected::Text)];

/// Fields of the same for a tool call that is not denied.
const VERDICT: &[(&str, Expected)] = &[
    (DECISION, Expected::OneOf(&["allow", "ask", "defer"])),
    ("updatedInput", Expected::Object),
];

/// Name of the decision on a tool call.
const DECISION: &str = "permissionDecision";

/// Checks a reply that neither stops nor blocks.
///
/// # Errors
/// A field is not of its type, or has a value that is not known.
pub(super) fn check(said: &Value) -> Result<(), Failure> {
    if !said[DECISION].is_null() {
        return Err(Failure::Malformed(format!(
            "`{DECISION}` stands beside `hookSpecificOutput`; it belongs into it"
        )));
    }
    check_fields(said, FIELDS)?;
    check_fields(&said["hookSpecificOutput"], SPECIFIC)
}

/// Checks the `hookSpecificOutput` about a tool call that is not denied.
///
/// # Errors
/// As [`check`].
pub(super) fn check_verdict(specific: &Value) -> Result<(), Failure> {
    check_fields(specific, VERDICT)
}

fn check_fields(object: &Value, fields: &[(&str, Expected)]) -> Result<(), Failure> {
    for (name, expected) in fields {
        let value = &object[*name];
        let (fits, known) = match expected {
            Expected::OneOf(texts) => (
                value.as_str().is_some_and(|text| texts.contains(&text)),
                known(name, texts),
            ),
            Expected::Text => (value.is_string(), "a text".to_owned()),
            Expected::True => (value == true, "true or false".to_owned()),
            Expected::Object => (value.is_object(), "an object".to_owned()),
        };
        if !fits && !value.is_null() {
            let value = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            return Err(Failure::Malformed(format!(
                "`{name}` is `{}`; it must be {known}",
                line(&value)
            )));
        }
    }
    Ok(())
}

/// Names the values of a field, with the one that refuses.
fn known(name: &str, texts: &[&str]) -> String {
    let refusal = if name == DECISION { "deny" } else { "block" };
    format!("{} or {refusal}", texts.join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_not_known_is_refused_and_what_is_absent_is_not() {
        for said in [
            json!({}),
            json!({"continue": true, "decision": "approve", "suppressOutput": true}),
            json!({"decision": null, "hookSpecificOutput": null, "systemMessage": "a"}),
            json!({"hookSpecificOutput": {"additionalContext": "a", "permissionDecision": 5}}),
        ] {
            assert_eq!(check(&said), Ok(()), "{said}");
        }
        for (said, why) in [
            (json!({"continue": "false"}), "`continue` is `false`"),
            (json!({"continue": 0}), "`continue` is `0`"),
            (json!({"decision": "deny"}), "must be approve or block"),
            (json!({"decision": "Block"}), "`decision` is `Block`"),
            (
                json!({"decision": ["block"]}),
                "`decision` is `[\"block\"]`",
            ),
            (json!({"hookSpecificOutput": "deny"}), "must be an object"),
            (json!({"systemMessage": 5}), "must be a text"),
            (json!({"permissionDecision": "deny"}), "belongs into it"),
            (
                json!({"hookSpecificOutput": {"additionalContext": [1]}}),
                "`additionalContext` is `[1]`",
            ),
        ] {
            let failure = check(&said).unwrap_err().to_string();
            assert!(failure.contains(why), "{said}: {failure}");
        }
        for (specific, fits) in [
            (json!(null), true),
            (
                json!({"permissionDecision": "allow", "updatedInput": {}}),
                true,
            ),
            (json!({"permissionDecision": ["deny"]}), false),
            (json!({"permissionDecision": "Deny"}), false),
            (json!({"permissionDecision": ""}), false),
            (json!({"updatedInput": "x"}), false),
        ] {
            assert_eq!(check_verdict(&specific).is_ok(), fits, "{specific}");
        }
    }
}
