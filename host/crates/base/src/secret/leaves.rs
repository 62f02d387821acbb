//! Masks secrets in the strings of JSON values.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::Scanner;

/// Masks secrets in all strings and keys of a JSON value, and adds the ids of the matching rules to
/// `rules`. The recursion is bounded, because the JSON parser limits the depth of values.
pub fn mask_leaves(value: &mut Value, rules: &mut BTreeSet<Arc<str>>) {
    match value {
        Value::String(text) => mask_string(text, rules),
        Value::Array(items) => items.iter_mut().for_each(|item| mask_leaves(item, rules)),
        Value::Object(map) => {
            let entries = std::mem::take(map).into_iter().map(|(mut key, mut value)| {
                mask_string(&mut key, rules);
                mask_leaves(&mut value, rules);
                (key, value)
            });
            *map = entries.collect();
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn mask_string(text: &mut String, rules: &mut BTreeSet<Arc<str>>) {
    if let Some(masked) = Scanner::shared().mask(text) {
        *text = masked.text;
        rules.extend(masked.rules);
    }
}
