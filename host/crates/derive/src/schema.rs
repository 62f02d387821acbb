//! Renders a JSON Schema of arguments or settings as a Markdown list.
//!
//! Depth, lines and bytes are limited, because schemas come from untrusted plugins and may refer to
//! themselves.

use serde_json::{Map, Value};

use super::text::{code_span, fence_code, to_markdown_line};
use rind_lib::json::format_value_for_display;

/// Maximum nesting depth of the objects whose properties are listed.
const MAX_DESCRIBED_SCHEMA_DEPTH: usize = 4;

/// Maximum number of `enum` values that are listed per property.
const MAX_LISTED_ENUM_VALUES: usize = 30;

/// Maximum number of lines in which one JSON Schema is described.
const MAX_LINES_PER_SCHEMA: usize = 300;

/// Maximum total size of the lines about one schema, in bytes. Needed in addition to the number of
/// lines, because a long text can be referenced from many properties.
const MAX_SCHEMA_LINES_BYTES: usize = 48 << 10;

/// Maximum length of a description or value in a line, in bytes.
const MAX_LINE_TEXT_BYTES: usize = 400;

/// Maximum size of a schema that is appended as JSON, in bytes.
const MAX_APPENDED_SCHEMA_JSON_BYTES: usize = 8 << 10;

/// Keywords of JSON Schema that a list with one line per property cannot express.
const SCHEMA_KEYWORDS_BEYOND_PROPERTIES: [&str; 9] = [
    "allOf",
    "anyOf",
    "dependentRequired",
    "dependentSchemas",
    "else",
    "if",
    "not",
    "oneOf",
    "patternProperties",
];

/// Returns the names of an object's properties, required ones first.
pub(super) fn sorted_property_names(schema: &Value) -> Vec<String> {
    let required = required_names(schema);
    let mut names: Vec<&String> = schema_properties(schema).map(|(name, _)| name).collect();
    names.sort_by_key(|name| !required.contains(&name.as_str()));
    names
        .into_iter()
        .map(|name| code_span(name, MAX_LINE_TEXT_BYTES))
        .collect()
}

/// Describes each property of an object as a list item; empty for an object without properties. If
/// the list cannot express the complete schema, the schema follows as JSON.
pub(super) fn list_properties(schema: &Value) -> String {
    let mut describer = JsonSchemaMarkdownWriter {
        whole: schema,
        references: vec!["#"],
        n_lines: 0,
        text: String::new(),
        is_full: false,
    };
    describer.describe_object(schema);
    let mut lines = describer.text;
    if describer.is_full {
        lines.push_str("\nThere are more properties than are listed here.\n");
    }
    if has_inexpressible_keyword(schema, 0) {
        let json = serde_json::to_string_pretty(schema).unwrap_or_default();
        if json.len() <= MAX_APPENDED_SCHEMA_JSON_BYTES {
            lines.push_str("\nThe whole schema:\n\n");
            lines.push_str(&fence_code("json", &json));
        }
    }
    lines
}

/// Writes one list item per property of a schema, up to the maximum number of lines and bytes.
struct JsonSchemaMarkdownWriter<'a> {
    whole: &'a Value,
    /// References that were followed to reach the current object. Each is followed only once per
    /// path, so that recursion ends.
    references: Vec<&'a str>,
    n_lines: usize,
    text: String,
    /// Whether a limit was reached, so that properties were omitted.
    is_full: bool,
}

impl<'a> JsonSchemaMarkdownWriter<'a> {
    fn describe_object(&mut self, schema: &'a Value) {
        self.add_property_lines(schema, 0);
    }

    fn add_property_lines(&mut self, schema: &'a Value, depth: usize) {
        let required = required_names(schema);
        for (name, property) in schema_properties(schema) {
            if self.n_lines >= MAX_LINES_PER_SCHEMA || self.text.len() >= MAX_SCHEMA_LINES_BYTES {
                self.is_full = true;
                return;
            }
            self.n_lines += 1;
            let line = self.format_property_line(name, property, required.contains(&name.as_str()));
            self.text
                .push_str(&format!("{}{line}\n", "  ".repeat(depth)));
            if depth + 1 < MAX_DESCRIBED_SCHEMA_DEPTH {
                self.write_nested_properties(property, depth + 1);
            }
        }
    }

    /// Describes the nested properties of a property, or of the items of a list.
    fn write_nested_properties(&mut self, property: &'a Value, depth: usize) {
        let n_before = self.references.len();
        let mut schema = property;
        for _ in 0..2 {
            if let Some(reference) = schema_reference(schema) {
                if self.references.contains(&reference) {
                    self.references.truncate(n_before);
                    return;
                }
                self.references.push(reference);
                schema = resolve_reference(self.whole, schema);
            }
            match schema.get("items") {
                Some(items) => schema = items,
                None => break,
            }
        }
        self.add_property_lines(schema, depth);
        self.references.truncate(n_before);
    }

    fn format_property_line(&self, name: &str, property: &Value, is_required: bool) -> String {
        let property = resolve_reference(self.whole, property);
        let mut about = vec![describe_type(self.whole, property, 0)];
        if is_required {
            about.push("required".to_owned());
        }
        if let Some(value) = property.get("default").filter(|value| !value.is_null()) {
            about.push(format!(
                "default {}",
                code_span(&value.to_string(), MAX_LINE_TEXT_BYTES)
            ));
        }
        about.extend(describe_value_limits(property));
        let name = code_span(name, MAX_LINE_TEXT_BYTES);
        let text = property
            .get("description")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let text = to_markdown_line(text, MAX_LINE_TEXT_BYTES * 2);
        let colon = if text.is_empty() { "" } else { ": " };
        format!("- {name} ({}){colon}{text}", about.join(", "))
    }
}

fn schema_reference(schema: &Value) -> Option<&str> {
    schema.get("$ref").and_then(Value::as_str)
}

fn schema_properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flat_map(Map::iter)
}

fn required_names(schema: &Value) -> Vec<&str> {
    let names = schema.get("required").and_then(Value::as_array);
    names
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

/// Returns the schema that a reference points to; `schema` itself if it is not a valid reference.
fn resolve_reference<'a>(whole: &'a Value, schema: &'a Value) -> &'a Value {
    let found = schema_reference(schema).and_then(|text| whole.pointer(text.strip_prefix('#')?));
    found.unwrap_or(schema)
}

/// Describes the type of a value in words. Nested lists are described down to the maximum depth.
fn describe_type(whole: &Value, schema: &Value, depth: usize) -> String {
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        let shown: Vec<String> = values
            .iter()
            .filter(|value| !value.is_null())
            .take(MAX_LISTED_ENUM_VALUES)
            .map(|value| code_span(&format_value_for_display(value), MAX_LINE_TEXT_BYTES))
            .collect();
        return format!("one of {}", shown.join(", "));
    }
    if let Some(value) = schema.get("const") {
        return format!(
            "always {}",
            code_span(&format_value_for_display(value), MAX_LINE_TEXT_BYTES)
        );
    }
    let name = match schema.get("type") {
        Some(Value::String(name)) => name.as_str(),
        // `null` in a list such as `["string", "null"]` only makes the value optional.
        Some(Value::Array(names)) => {
            let mut names = names.iter().filter_map(Value::as_str);
            names.find(|name| *name != "null").unwrap_or_default()
        }
        _ => "",
    };
    match name {
        "string" => "text".to_owned(),
        "integer" => "whole number".to_owned(),
        "boolean" => "true or false".to_owned(),
        "array" => match schema
            .get("items")
            .filter(|_| depth < MAX_DESCRIBED_SCHEMA_DEPTH)
            .map(|items| describe_type(whole, resolve_reference(whole, items), depth + 1))
        {
            Some(inner) if inner != "any value" => format!("list, each {inner}"),
            _ => "list".to_owned(),
        },
        "object" => "object".to_owned(),
        "number" => "number".to_owned(),
        _ => "any value".to_owned(),
    }
}

fn describe_value_limits(schema: &Value) -> Vec<String> {
    const VALUE_LIMIT_PHRASES: [(&str, &str); 6] = [
        ("minimum", "at least"),
        ("maximum", "at most"),
        ("minLength", "at least so many characters:"),
        ("maxLength", "at most so many characters:"),
        ("minItems", "at least so many items:"),
        ("maxItems", "at most so many items:"),
    ];
    // Omit huge bounds: they are only the limits of the integer type.
    let tells = |value: &Value| value.as_f64().is_some_and(|value| value.abs() < 1e9);
    let bounds = VALUE_LIMIT_PHRASES.iter().filter_map(|(key, words)| {
        let value = schema.get(*key).filter(|value| tells(value))?;
        let is_plain =
            *key == "minimum" && value.as_f64() == Some(0.0) && schema.get("format").is_some();
        (!is_plain).then(|| format!("{words} {value}"))
    });
    let mut bounds: Vec<String> = bounds.collect();
    if let Some(pattern) = schema.get("pattern").and_then(Value::as_str) {
        bounds.push(format!(
            "matches {}",
            code_span(pattern, MAX_LINE_TEXT_BYTES)
        ));
    }
    bounds
}

fn has_inexpressible_keyword(schema: &Value, depth: usize) -> bool {
    if depth > 16 {
        return true;
    }
    match schema {
        Value::Object(entries) => entries.iter().any(|(key, value)| {
            SCHEMA_KEYWORDS_BEYOND_PROPERTIES.contains(&key.as_str())
                || has_inexpressible_keyword(value, depth + 1)
        }),
        Value::Array(values) => values
            .iter()
            .any(|value| has_inexpressible_keyword(value, depth + 1)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_property_is_a_line_and_what_lines_cannot_tell_is_shown_whole() {
        let schema = json!({
            "type": "object",
            "required": ["path"],
            "properties": {
                "mode": {"enum": ["a", "b"], "default": "a"},
                "path": {"type": "string", "description": "Where\nto look.", "maxLength": 20},
                "n": {"type": ["integer", "null"], "minimum": 1},
                "rules": {"type": "array", "items": {"$ref": "#/$defs/rule"}},
            },
            "$defs": {"rule": {"type": "object", "properties": {"glob": {"type": "string"}}}},
        });
        assert_eq!(
            list_properties(&schema),
            "- `mode` (one of `a`, `b`, default `\"a\"`)\n- `path` (text, required, at most so many characters: 20): Where to \
             look.\n- `n` (whole number, at least 1)\n- `rules` (list, each object)\n  - `glob` (text)\n"
        );
        assert_eq!(
            sorted_property_names(&schema),
            ["`path`", "`mode`", "`n`", "`rules`"]
        );
        let schema = json!({"type": "object", "anyOf": [{"required": ["a"]}]});
        assert!(
            list_properties(&schema).contains("```json\n{\n  \"type\""),
            "{}",
            list_properties(&schema)
        );
        let endless = json!({"properties": {"a": {"$ref": "#"}}});
        assert_eq!(list_properties(&endless), "- `a` (any value)\n");
        let lists = json!({
            "properties": {"a": {"$ref": "#/$defs/a"}},
            "$defs": {"a": {"type": "array", "items": {"$ref": "#/$defs/a"}}},
        });
        assert!(list_properties(&lists).starts_with("- `a` (list, each list, each list"));
    }

    #[test]
    fn a_schema_that_refers_to_itself_from_everywhere_stays_short() {
        let names = (0..60).map(|n| format!("p{n}"));
        let all: Map<String, Value> = names
            .map(|name| {
                (
                    name,
                    json!({"$ref": "#/$defs/x", "description": "d".repeat(800)}),
                )
            })
            .collect();
        let schema = json!({
            "type": "object",
            "properties": all,
            "$defs": {"x": {"type": "object", "properties": all}},
        });
        let text = list_properties(&schema);
        assert!(text.len() < 2 * MAX_SCHEMA_LINES_BYTES, "{}", text.len());
        assert!(text.ends_with("more properties than are listed here.\n"));
        assert_eq!(super::sorted_property_names(&schema).len(), 60);
    }
}
