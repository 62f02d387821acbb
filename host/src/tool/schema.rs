//! Compiles a tool's JSON Schema into a check of its arguments.
//!
//! Schemas come from plugins and servers and may be hostile, so size, depth, references and regular
//! expressions are bounded before compiling, and the work of a check before running it. This module
//! must not know tools. Start from [`compile`].

mod absent;

use std::collections::HashMap;
use std::sync::Arc;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, ValidationError, Validator};
use serde_json::{Map, Value};

use crate::json;
use crate::point::payload::CheckArguments;

pub use absent::drop_nulls;
pub(crate) use absent::without_optional_nulls;

/// Maximum size of a schema as compact JSON, in bytes.
pub const MAX_SCHEMA_BYTES: usize = 64 * 1024;

/// Maximum nesting depth of a schema.
pub const MAX_SCHEMA_DEPTH: usize = 64;

/// Maximum number of errors that one check reports.
const TOLD_ERRORS: usize = 3;

/// Maximum length of one reported error, in bytes; its text may quote an argument of any size.
const TOLD_BYTES: usize = 300;

/// Maximum number of backtracking steps of one regular expression on one text.
const MAX_BACKTRACK_STEPS: usize = 10_000;

/// Maximum size of a compiled regular expression, in bytes.
const MAX_PATTERN_BYTES: usize = 1024 * 1024;

/// Maximum size of all compiled regular expressions of a schema together, in bytes: many small ones
/// would otherwise take gigabytes.
const MAX_PATTERNS_BYTES: usize = 2 * MAX_PATTERN_BYTES;

/// Maximum number of subschemas that may apply to one value, counted through references. A schema
/// with more was built to be slow.
const MAX_APPLIED_SCHEMAS: u64 = 10_000;

/// Maximum number of subschema checks for one call's arguments.
const MAX_TRIED_SCHEMAS: u64 = 10_000_000;

/// Maximum nesting of references and combinations on one value.
const MAX_CHAIN_DEPTH: usize = 16;

/// Maximum product of subschemas and values in one check. Each pair costs about ten nanoseconds,
/// and the check cannot be interrupted.
const MAX_PAIRS: usize = 2_000_000;

/// Maximum product of subschemas and values for which errors are listed: the list may hold one
/// error per pair.
const MAX_LISTED_PAIRS: usize = 50_000;

/// Keywords that check nothing themselves. References are counted by their targets.
const UNCHECKED: [&str; 7] = [
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
pub fn compile(schema: &Value) -> Result<Arc<CheckArguments>, String> {
    let load = check_bounds(schema)?;
    let n_subschemas = json::n_values(schema);
    let validator = build_validator(schema)?;
    Ok(Arc::new(move |arguments: &Value| {
        check_arguments(&validator, load, n_subschemas, arguments)
    }))
}

/// Compiles a tool's schema into a check of its arguments that accepts `null` for an optional
/// property; see [`drop_nulls`].
///
/// # Errors
/// Reason why the schema is refused.
pub fn compile_arguments(schema: &Value) -> Result<Arc<CheckArguments>, String> {
    let check = compile(schema)?;
    let schema = schema.clone();
    Ok(Arc::new(move |arguments: &Value| {
        check(arguments).or_else(|why| {
            // The recursion follows the schema, whose depth is bounded.
            let mut without = arguments.clone();
            drop_nulls(&schema, &mut without);
            if without == *arguments {
                return Err(why);
            }
            check(&without)
        })
    }))
}

fn build_validator(schema: &Value) -> Result<Validator, String> {
    let limit = MAX_PATTERN_BYTES.min(MAX_PATTERNS_BYTES / n_patterns(schema).max(1));
    jsonschema::options()
        .with_pattern_options(
            PatternOptions::fancy_regex()
                .backtrack_limit(MAX_BACKTRACK_STEPS)
                .size_limit(limit)
                .dfa_size_limit(MAX_PATTERN_BYTES),
        )
        .build(schema)
        .map_err(|error| format!("the schema is not valid: {}", error_text(&error)))
}

/// Returns the number of values in a schema that may be regular expressions.
fn n_patterns(schema: &Value) -> usize {
    let objects = json::all_values(schema).filter_map(Value::as_object);
    let of_object = |map: &Map<String, Value>| {
        let keys = map.get("patternProperties").and_then(Value::as_object);
        usize::from(map.contains_key("pattern")) + keys.map_or(0, Map::len)
    };
    objects.map(of_object).sum()
}

/// First fault in a file written by the user.
#[derive(Debug, PartialEq, Eq)]
pub struct TomlFault {
    /// Keys that lead to the fault, outermost first.
    pub keys: Vec<String>,
    /// Problem, without its position.
    pub message: String,
}

/// Checks settings and returns the first fault; `None` if they are valid. The schema is bounded as
/// in [`compile`]; the user's own file needs no bounds.
///
/// # Errors
/// Reason why the schema is refused.
pub fn misfit(schema: &Value, settings: &Value) -> Result<Option<TomlFault>, String> {
    check_bounds(schema)?;
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
                format!("there is no `{key}`, only {}", names.join(", "))
            }
        }
        None => cut_text(error.to_string()),
    };
    Ok(Some(TomlFault { keys, message }))
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
    let pairs = n_subschemas.saturating_mul(json::n_values(arguments));
    if pairs > MAX_PAIRS {
        return Err("the arguments contain too many values for this tool".to_owned());
    }
    if json::nesting_depth(arguments) > json::MAX_DEPTH || !fits_load(arguments, load) {
        return Err("the arguments are nested too deeply for this tool".to_owned());
    }
    // `is_valid` does not allocate for invalid values, unlike listing errors.
    if validator.is_valid(arguments) {
        return Ok(());
    }
    if pairs > MAX_LISTED_PAIRS {
        return Err("the arguments do not fit the tool's schema".to_owned());
    }
    let errors = validator.iter_errors(arguments);
    let told: Vec<String> = errors
        .take(TOLD_ERRORS)
        .map(|error| error_text(&error))
        .collect();
    Err(format!("the arguments do not fit: {}", told.join("; ")))
}

fn error_text(error: &ValidationError<'_>) -> String {
    let path = error.instance_path().as_str();
    let path = if path.is_empty() { "/" } else { path };
    cut_text(format!("at `{path}`: {error}"))
}

fn cut_text(mut text: String) -> String {
    if text.len() > TOLD_BYTES {
        let end = text.floor_char_boundary(TOLD_BYTES);
        text.truncate(end);
        text.push('…');
    }
    text
}

/// Whether the check of these arguments is bounded: each level of nesting multiplies the work by at
/// most `load`.
fn fits_load(arguments: &Value, load: u64) -> bool {
    let mut level = vec![arguments];
    let mut tried = 1_u64;
    while !level.is_empty() {
        level = level.into_iter().flat_map(json::child_values).collect();
        tried = tried.saturating_mul(load);
        if tried > MAX_TRIED_SCHEMAS {
            return false;
        }
    }
    true
}

/// Checks the bounds of a schema before compiling. Returns the maximum number of subschemas that
/// apply to one value, or 1 if the schema's own size bounds the work.
fn check_bounds(schema: &Value) -> Result<u64, String> {
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        return Err("the schema must be an object with `\"type\": \"object\"`".to_owned());
    }
    // Check the depth first: the serializer and all later code rely on it.
    if json::nesting_depth(schema) > MAX_SCHEMA_DEPTH {
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
    let objects = json::all_values(schema).filter_map(Value::as_object);
    let references: Vec<&str> = objects.flat_map(references_of).collect();
    let mut outside = references.iter().filter(|name| !name.starts_with('#'));
    if let Some(reference) = outside.next() {
        return Err(outside_reference(reference));
    }
    if references.is_empty() {
        return Ok(1);
    }
    let mut load = SchemaLoad {
        root: schema,
        known: HashMap::new(),
    };
    load.largest_load(schema)
}

/// Reason for refusing references that are circular or multiply.
const EXPLOSIVE: &str = "the schema's references apply to the same value again and again";

fn outside_reference(reference: &str) -> String {
    format!("the schema refers to `{reference}`; only references within it (`#…`) are supported")
}

fn references_of(map: &Map<String, Value>) -> impl Iterator<Item = &str> {
    ["$ref", "$dynamicRef", "$recursiveRef"]
        .into_iter()
        .filter_map(|key| map.get(key)?.as_str())
}

/// Counts the subschemas that apply to one value through references. A reference that reaches
/// itself without descending into the value would never end, and references that fan out would take
/// exponential time.
struct SchemaLoad<'a> {
    root: &'a Value,
    /// Load of the references seen so far; `None` while one is being counted.
    known: HashMap<&'a str, Option<u64>>,
}

impl<'a> SchemaLoad<'a> {
    fn largest_load(&mut self, schema: &'a Value) -> Result<u64, String> {
        let mut largest = 1;
        for value in json::all_values(schema) {
            largest = largest.max(self.load_of(value, 0)?);
        }
        Ok(largest)
    }

    /// Returns the load of one schema: the number of subschemas that apply to the same value. Only
    /// keywords that stay on that value count.
    fn load_of(&mut self, schema: &'a Value, depth: usize) -> Result<u64, String> {
        let Value::Object(map) = schema else {
            return Ok(1);
        };
        if depth > MAX_CHAIN_DEPTH {
            return Err(EXPLOSIVE.to_owned());
        }
        // A reference with only annotations next to it is not a second check of the value.
        let is_plain = references_of(map).next().is_some()
            && map.keys().all(|key| UNCHECKED.contains(&key.as_str()));
        let mut load = u64::from(!is_plain);
        for reference in references_of(map) {
            load = load.saturating_add(self.of_reference(reference, depth + 1)?);
        }
        for (key, inner) in map {
            let inner: Vec<&Value> = match (key.as_str(), inner) {
                ("not" | "if" | "then" | "else", inner) => vec![inner],
                ("allOf" | "anyOf" | "oneOf", Value::Array(items)) => items.iter().collect(),
                ("dependentSchemas" | "dependencies", Value::Object(map)) => map.values().collect(),
                _ => continue,
            };
            for schema in inner {
                load = load.saturating_add(self.load_of(schema, depth + 1)?);
            }
        }
        if load > MAX_APPLIED_SCHEMAS {
            return Err(EXPLOSIVE.to_owned());
        }
        Ok(load)
    }

    fn of_reference(&mut self, reference: &'a str, depth: usize) -> Result<u64, String> {
        match self.known.get(reference) {
            Some(Some(load)) => return Ok(*load),
            Some(None) => return Err(EXPLOSIVE.to_owned()),
            None => {}
        }
        self.known.insert(reference, None);
        // Anchors and escaped pointers are rare in tools, and a reference that is not followed here
        // would not be bounded.
        let target = self
            .root
            .pointer(reference.trim_start_matches('#'))
            .ok_or_else(|| outside_reference(reference))?;
        let load = self.load_of(target, depth + 1)?;
        self.known.insert(reference, Some(load));
        Ok(load)
    }
}

#[cfg(test)]
mod tests;
