//! Masks secrets in the strings of JSON values.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::SecretScanner;

/// Masks secrets in all strings and keys of a JSON value, and adds the ids of the matching rules to
/// `rules`. The recursion cannot exhaust the stack, because the JSON parser limits the depth of
/// values.
pub fn mask_secrets_in_json(value: &mut Value, rules: &mut BTreeSet<Arc<str>>) {
    match value {
        Value::String(text) => mask_secrets_in_string(text, rules),
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| mask_secrets_in_json(item, rules)),
        Value::Object(map) => {
            let entries = std::mem::take(map).into_iter().map(|(mut key, mut value)| {
                mask_secrets_in_string(&mut key, rules);
                mask_secrets_in_json(&mut value, rules);
                (key, value)
            });
            *map = entries.collect();
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn mask_secrets_in_string(text: &mut String, rules: &mut BTreeSet<Arc<str>>) {
    if let Some(masked) = SecretScanner::shared().mask_secrets(text) {
        *text = masked.text;
        rules.extend(masked.rules);
    }
}
