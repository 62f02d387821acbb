//! Compiles a tool's JSON Schema into a check of its arguments.
//!
//! Schemas come from plugins and servers and may be hostile. Therefore the size, depth, references
//! and regular expressions of a schema are limited before it is compiled, and the work of a check
//! before it runs. This module must not know tools. Start from [`compile_json_schema_check`].

mod absent;

use std::collections::HashMap;
use std::sync::Arc;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, ValidationError, Validator};
use serde_json::{Map, Value};

use crate::json;
use crate::point::payload::ToolArgumentsChecker;

pub(crate) use absent::remove_null_types;
pub use absent::remove_optional_nulls;

/// Maximum size of a schema as compact JSON, in bytes.
pub const MAX_SCHEMA_BYTES: usize = 64 * 1024;

/// Maximum nesting depth of a JSON Schema that the host accepts.
pub const MAX_SCHEMA_DEPTH: usize = 64;

/// Maximum number of errors that one check reports.
const MAX_REPORTED_ERRORS: usize = 3;

/// Maximum length of one reported error, in bytes; its text may quote an argument of any size.
const MAX_REPORTED_ERROR_BYTES: usize = 300;

/// Maximum number of backtracking steps of one regular expression on one text.
const MAX_REGEX_BACKTRACK_STEPS: usize = 10_000;

/// Maximum size of a compiled regular expression, in bytes.
const MAX_COMPILED_REGEX_BYTES: usize = 1024 * 1024;

/// Maximum size of all compiled regular expressions of a schema together, in bytes. Without it,
/// many small ones could take gigabytes.
const MAX_TOTAL_COMPILED_REGEX_BYTES: usize = 2 * MAX_COMPILED_REGEX_BYTES;

/// Maximum number of subschemas that may apply to one value, including the targets of references.
/// Only a schema that is meant to be slow has more.
const MAX_SUBSCHEMAS_PER_VALUE: u64 = 10_000;

/// Maximum number of checks against subschemas for the arguments of one call.
const MAX_SUBSCHEMA_CHECKS_PER_CALL: u64 = 10_000_000;

/// Maximum nesting depth of references and of combinations (such as `anyOf`) that apply to one
/// value.
const MAX_REFERENCE_NESTING_DEPTH: usize = 16;

/// Maximum product of the numbers of subschemas and of values in one check, which cannot be
/// interrupted. Each pair takes about ten nanoseconds.
const MAX_CHECKED_SUBSCHEMA_VALUE_PAIRS: usize = 2_000_000;

/// Maximum product of the numbers of subschemas and of values for which a failed check lists the
/// errors: the list may hold one error per pair.
const MAX_SUBSCHEMA_VALUE_PAIRS_FOR_ERROR_LIST: usize = 50_000;

/// Keywords that check nothing themselves. A schema with a `$ref` and no other keyword than these
/// is not counted, but the schema to which it refers is.
const NON_VALIDATING_KEYWORDS: [&str; 7] = [
    "$ref",
    "$defs",
    "definitions",
    "title",
    "description",
    "default",
    "examples",
];

/// Compiles a schema into a check. The error of the check is one sentence with the JSON path and
/// the expectation, for at most the first three faults.
///
/// # Errors
/// Reason why the schema is refused.
pub fn compile_json_schema_check(schema: &Value) -> Result<Arc<ToolArgumentsChecker>, String> {
    let load = check_schema_limits(schema)?;
    let n_subschemas = json::count_json_values(schema);
    let validator = build_validator(schema)?;
    Ok(Arc::new(move |arguments: &Value| {
        check_arguments(&validator, load, n_subschemas, arguments)
    }))
}

/// Compiles a tool's schema into a check of its arguments that accepts `null` for an optional
/// property; see [`remove_optional_nulls`].
///
/// # Errors
/// Reason why the schema is refused.
pub fn compile_tool_argument_check(schema: &Value) -> Result<Arc<ToolArgumentsChecker>, String> {
    let check = compile_json_schema_check(schema)?;
    let schema = schema.clone();
    Ok(Arc::new(move |arguments: &Value| {
        check(arguments).or_else(|why| {
            // The recursion follows the schema, whose depth is bounded.
            let mut without = arguments.clone();
            remove_optional_nulls(&schema, &mut without);
            if without == *arguments {
                return Err(why);
            }
            check(&without)
        })
    }))
}

fn build_validator(schema: &Value) -> Result<Validator, String> {
    let limit = MAX_COMPILED_REGEX_BYTES
        .min(MAX_TOTAL_COMPILED_REGEX_BYTES / count_regex_patterns(schema).max(1));
    jsonschema::options()
        .with_pattern_options(
            PatternOptions::fancy_regex()
                .backtrack_limit(MAX_REGEX_BACKTRACK_STEPS)
                .size_limit(limit)
                .dfa_size_limit(MAX_COMPILED_REGEX_BYTES),
        )
        .build(schema)
        .map_err(|error| {
            format!(
                "the schema is not valid: {}",
                describe_validation_error(&error)
            )
        })
}

/// Returns the number of values in a schema that may be regular expressions.
fn count_regex_patterns(schema: &Value) -> usize {
    let objects = json::iter_all_values(schema).filter_map(Value::as_object);
    let of_object = |map: &Map<String, Value>| {
        let keys = map.get("patternProperties").and_then(Value::as_object);
        usize::from(map.contains_key("pattern")) + keys.map_or(0, Map::len)
    };
    objects.map(of_object).sum()
}

/// First fault that was found in settings that the user wrote.
#[derive(Debug, PartialEq, Eq)]
pub struct UserSettingsFault {
    /// Keys that lead to the fault, outermost first.
    pub keys: Vec<String>,
    /// Description of the fault, without its position.
    pub message: String,
}

/// Checks settings and returns the first fault; `None` if the settings are valid. The schema is
/// bounded as in [`compile_json_schema_check`]; the settings need no bounds, because the user wrote
/// them.
///
/// # Errors
/// Reason why the schema is refused.
pub fn find_user_settings_fault(
    schema: &Value,
    settings: &Value,
) -> Result<Option<UserSettingsFault>, String> {
    check_schema_limits(schema)?;
    let validator = build_validator(schema)?;
    let Some(error) = validator.iter_errors(settings).next() else {
        return Ok(None);
    };
    let path = error.instance_path().as_str().split('/').skip(1);
    let mut keys: Vec<String> = path
        .map(|key| key.replace("~1", "/").replace("~0", "~"))
        .collect();
    let unknown = match error.kind() {
        ValidationErrorKind::AdditionalProperties { unexpected } => unexpected.first(),
        _ => None,
    };
    let message = match unknown {
        Some(key) => {
            let known = keys.iter().try_fold(schema, |schema, key| {
                schema.get("properties").and_then(|all| all.get(key))
            });
            let known = known.and_then(|schema| schema.get("properties")?.as_object());
            let names: Vec<&str> = known
                .into_iter()
                .flat_map(Map::keys)
                .map(String::as_str)
                .collect();
            keys.push(key.clone());
            if names.is_empty() {
                format!("there is no `{key}`")
            } else {
                format!(
                    "`{key}` is not a known key; the keys are {}",
                    names.join(", ")
                )
            }
        }
        None => shorten_error(error.to_string()),
    };
    Ok(Some(UserSettingsFault { keys, message }))
}

fn check_arguments(
    validator: &Validator,
    load: u64,
    n_subschemas: usize,
    arguments: &Value,
) -> Result<(), String> {
    match arguments {
        Value::Object(_) => {}
        Value::String(_) => {
            return Err("the arguments are not valid JSON; write one JSON object".to_owned());
        }
        _ => return Err("the arguments must be one JSON object".to_owned()),
    }
    let pairs = n_subschemas.saturating_mul(json::count_json_values(arguments));
    if pairs > MAX_CHECKED_SUBSCHEMA_VALUE_PAIRS {
        return Err("the arguments contain too many values for this tool".to_owned());
    }
    if json::measure_nesting_depth(arguments) > json::MAX_JSON_NESTING_DEPTH
        || !is_check_cost_bounded(arguments, load)
    {
        return Err("the arguments are nested too deeply for this tool".to_owned());
    }
    // Call `is_valid` first: unlike listing errors, it allocates no memory for invalid values.
    if validator.is_valid(arguments) {
        return Ok(());
    }
    if pairs > MAX_SUBSCHEMA_VALUE_PAIRS_FOR_ERROR_LIST {
        return Err("the arguments do not fit the tool's schema".to_owned());
    }
    let errors = validator.iter_errors(arguments);
    let told: Vec<String> = errors
        .take(MAX_REPORTED_ERRORS)
        .map(|error| describe_validation_error(&error))
        .collect();
    Err(format!("the arguments do not fit: {}", told.join("; ")))
}

fn describe_validation_error(error: &ValidationError<'_>) -> String {
    let path = error.instance_path().as_str();
    let path = if path.is_empty() { "/" } else { path };
    shorten_error(format!("at `{path}`: {error}"))
}

fn shorten_error(mut text: String) -> String {
    if text.len() > MAX_REPORTED_ERROR_BYTES {
        let end = text.floor_char_boundary(MAX_REPORTED_ERROR_BYTES);
        text.truncate(end);
        text.push('…');
    }
    text
}

/// Whether checking these arguments takes at most `MAX_SUBSCHEMA_CHECKS_PER_CALL` subschema checks.
/// Each level of their nesting multiplies the work by at most `load`.
fn is_check_cost_bounded(arguments: &Value, load: u64) -> bool {
    let mut level = vec![arguments];
    let mut tried = 1_u64;
    while !level.is_empty() {
        level = level.into_iter().flat_map(json::child_values).collect();
        tried = tried.saturating_mul(load);
        if tried > MAX_SUBSCHEMA_CHECKS_PER_CALL {
            return false;
        }
    }
    true
}

/// Checks the limits on a schema before it is compiled. Returns the maximum number of subschemas
/// that apply to one value, or 1 if the size of the schema already limits the work of a validation.
fn check_schema_limits(schema: &Value) -> Result<u64, String> {
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        return Err("the schema must be an object with `\"type\": \"object\"`".to_owned());
    }
    // Check the depth first: the serializer and all later code rely on it.
    if json::measure_nesting_depth(schema) > MAX_SCHEMA_DEPTH {
        return Err(format!(
            "the schema is nested deeper than {MAX_SCHEMA_DEPTH} levels"
        ));
    }
    let bytes = schema.to_string().len();
    if bytes > MAX_SCHEMA_BYTES {
        return Err(format!(
            "the schema has {bytes} bytes, more than {MAX_SCHEMA_BYTES}"
        ));
    }
    let objects = json::iter_all_values(schema).filter_map(Value::as_object);
    let references: Vec<&str> = objects.flat_map(schema_references).collect();
    let mut outside = references.iter().filter(|name| !name.starts_with('#'));
    if let Some(reference) = outside.next() {
        return Err(external_reference_error(reference));
    }
    if references.is_empty() {
        return Ok(1);
    }
    let mut load = SubschemaCounter {
        root: schema,
        known: HashMap::new(),
    };
    load.find_largest_subschema_count(schema)
}

/// Reason for refusing a schema whose references are circular or apply too many subschemas.
const RECURSIVE_REFERENCES_REASON: &str =
    "the schema's references apply to the same value again and again";

fn external_reference_error(reference: &str) -> String {
    format!("the schema refers to `{reference}`; only references within it (`#…`) are supported")
}

fn schema_references(map: &Map<String, Value>) -> impl Iterator<Item = &str> {
    ["$ref", "$dynamicRef", "$recursiveRef"]
        .into_iter()
        .filter_map(|key| map.get(key)?.as_str())
}

/// Counts the subschemas that apply to one value through references, to refuse schemas whose check
/// would not end (a reference that leads back to itself for the same value) or would take
/// exponential time (schemas with several references each).
struct SubschemaCounter<'a> {
    root: &'a Value,
    /// Number of subschemas that each counted reference applies to one value; `None` while the
    /// reference is being counted.
    known: HashMap<&'a str, Option<u64>>,
}

impl<'a> SubschemaCounter<'a> {
    fn find_largest_subschema_count(&mut self, schema: &'a Value) -> Result<u64, String> {
        let mut largest = 1;
        for value in json::iter_all_values(schema) {
            largest = largest.max(self.count_applied_subschemas(value, 0)?);
        }
        Ok(largest)
    }

    /// Returns the load of one schema: the number of subschemas that apply to the same value as the
    /// schema itself. Keywords that apply to properties or items of the value do not count.
    fn count_applied_subschemas(&mut self, schema: &'a Value, depth: usize) -> Result<u64, String> {
        let Value::Object(map) = schema else {
            return Ok(1);
        };
        if depth > MAX_REFERENCE_NESTING_DEPTH {
            return Err(RECURSIVE_REFERENCES_REASON.to_owned());
        }
        // Do not count a schema that only refers to another one: it checks nothing itself.
        let is_plain = schema_references(map).next().is_some()
            && map
                .keys()
                .all(|key| NON_VALIDATING_KEYWORDS.contains(&key.as_str()));
        let mut load = u64::from(!is_plain);
        for reference in schema_references(map) {
            load = load.saturating_add(self.count_referenced_subschemas(reference, depth + 1)?);
        }
        for (key, inner) in map {
            let inner: Vec<&Value> = match (key.as_str(), inner) {
                ("not" | "if" | "then" | "else", inner) => vec![inner],
                ("allOf" | "anyOf" | "oneOf", Value::Array(items)) => items.iter().collect(),
                ("dependentSchemas" | "dependencies", Value::Object(map)) => map.values().collect(),
                _ => continue,
            };
            for schema in inner {
                load = load.saturating_add(self.count_applied_subschemas(schema, depth + 1)?);
            }
        }
        if load > MAX_SUBSCHEMAS_PER_VALUE {
            return Err(RECURSIVE_REFERENCES_REASON.to_owned());
        }
        Ok(load)
    }

    fn count_referenced_subschemas(
        &mut self,
        reference: &'a str,
        depth: usize,
    ) -> Result<u64, String> {
        match self.known.get(reference) {
            Some(Some(load)) => return Ok(*load),
            Some(None) => return Err(RECURSIVE_REFERENCES_REASON.to_owned()),
            None => {}
        }
        self.known.insert(reference, None);
        // Refuse references that `pointer` cannot resolve, such as anchors, because their load
        // could not be counted. They are rare in schemas of tools.
        let target = self
            .root
            .pointer(reference.trim_start_matches('#'))
            .ok_or_else(|| external_reference_error(reference))?;
        let load = self.count_applied_subschemas(target, depth + 1)?;
        self.known.insert(reference, Some(load));
        Ok(load)
    }
}

#[cfg(test)]
mod tests;
