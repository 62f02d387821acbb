//! Reduces one schema and, recursively, its subschemas to the keywords that a wire accepts.
//!
//! Owns which keywords a wire gets for each type, the limits of size and depth, and the treatment
//! of `null`. The result must accept every value that the original accepts, except for the
//! constructs that the parent module lists. So if a construct cannot be expressed or a limit is
//! reached, the reduced schema accepts more values than the original, in the extreme any value.
//!
//! `flat` resolves references and `allOf` first, and `choice` simplifies alternatives. Start from
//! [`reduce_root`].

use serde_json::{Map, Value, json};

use super::JsonSchemaSubset;
use super::choice;
use super::flat::{add_or_merge_schema_keyword, flatten_schema};

/// Maximum number of schemas written for one tool. Without a limit, references that fan out grow
/// exponentially.
const MAX_REDUCED_SCHEMAS_PER_TOOL: usize = 2000;

/// Maximum nesting depth of a reduced schema.
const MAX_REDUCED_SCHEMA_DEPTH: usize = 24;

/// Maximum number of enum values to list in the description if the wire does not support the enum.
/// Longer enums are dropped.
const MAX_DESCRIBED_ENUM_VALUES: usize = 20;

/// Schema after the reduction.
pub(super) struct ReducedSchemaNode {
    /// Reduced schema without the type `null`; `None` if the original accepts only `null`.
    pub(super) schema: Option<Map<String, Value>>,
    pub(super) takes_null: bool,
}

/// Reduces the root schema of a tool's arguments. The returned schema is always an object schema.
pub(super) fn reduce_root(schema: &Value, level: JsonSchemaSubset) -> Value {
    let mut cutter = JsonSchemaReducer {
        root: schema,
        level,
        n_left: MAX_REDUCED_SCHEMAS_PER_TOOL,
        open: Vec::new(),
    };
    let typed = match schema {
        Value::Object(schema) => {
            let mut schema = schema.clone();
            let part = json!({"type": "object"});
            match schema.get("$ref") {
                Some(_) => Value::Object(
                    [("allOf".to_owned(), json!([part, schema]))]
                        .into_iter()
                        .collect(),
                ),
                None => {
                    schema.insert("type".to_owned(), json!("object"));
                    Value::Object(schema)
                }
            }
        }
        _ => json!({"type": "object"}),
    };
    let cut = cutter.reduce_node(&typed, 0).schema;
    Value::Object(cut.unwrap_or_default())
}

pub(super) struct JsonSchemaReducer<'a> {
    root: &'a Value,
    pub(super) level: JsonSchemaSubset,
    n_left: usize,
    /// References (`$ref`) that were resolved to reach the current schema.
    open: Vec<String>,
}

impl JsonSchemaReducer<'_> {
    pub(super) fn reduce_node(&mut self, schema: &Value, depth: usize) -> ReducedSchemaNode {
        let Value::Object(schema) = schema else {
            return self.create_unrestricted_node(None);
        };
        let description = schema.get("description").and_then(Value::as_str);
        if self.n_left == 0 || depth > MAX_REDUCED_SCHEMA_DEPTH {
            return self.create_unrestricted_node(description);
        }
        self.n_left -= 1;
        let Some(flat) = flatten_schema(self.root, schema, &self.open) else {
            return self.create_unrestricted_node(description);
        };
        let n_open = self.open.len();
        self.open.extend(flat.followed);
        let node = self.reduce_keywords(&flat.keywords, depth);
        self.open.truncate(n_open);
        node
    }

    /// Returns a schema that accepts any value.
    pub(super) fn create_unrestricted_node(&self, description: Option<&str>) -> ReducedSchemaNode {
        let mut schema = Map::new();
        if self.level == JsonSchemaSubset::Gemini {
            // Gemini requires a type of every schema and an item type of every list, so lists nest
            // only two levels deep.
            let mut types =
                ["string", "number", "boolean", "object"].map(|name| json!({"type": name}));
            types[0]["nullable"] = json!(true);
            let list_of = |items: &[Value]| json!({"type": "array", "items": {"anyOf": items}});
            let with_list = |items: &[Value]| [&types[..], &[list_of(items)]].concat();
            let variants = with_list(&with_list(&types));
            schema.insert("anyOf".to_owned(), Value::Array(variants));
        }
        choice::add_schema_description(&mut schema, description, self.level);
        ReducedSchemaNode {
            schema: Some(schema),
            takes_null: true,
        }
    }

    fn reduce_keywords(
        &mut self,
        keywords: &Map<String, Value>,
        depth: usize,
    ) -> ReducedSchemaNode {
        let description = keywords.get("description").and_then(Value::as_str);
        let mut types = accepted_types(keywords);
        if types.is_empty() && any_of_or_one_of_variants(keywords).is_none() {
            types.extend(implied_schema_type(keywords));
        }
        let takes_null = types.contains(&"null") && accepts_null(keywords);
        types.retain(|name| *name != "null");
        if let Some(variants) = any_of_or_one_of_variants(keywords) {
            let node = self.reduce_any_of_alternatives(keywords, variants, &types, depth);
            return ReducedSchemaNode {
                takes_null: node.takes_null && (takes_null || types.is_empty()),
                ..node
            };
        }
        if types.is_empty() && takes_null {
            return ReducedSchemaNode {
                schema: None,
                takes_null,
            };
        }
        if types.is_empty() {
            return self.create_unrestricted_node(description);
        }
        let typed = types
            .iter()
            .filter_map(|name| self.reduce_to_single_type(name, keywords, depth));
        let typed: Vec<Map<String, Value>> = typed.collect();
        match choice::build_any_of_schema(typed, None, self.level) {
            Some(mut schema) => {
                choice::add_schema_description(&mut schema, description, self.level);
                ReducedSchemaNode {
                    schema: Some(schema),
                    takes_null,
                }
            }
            None => self.create_unrestricted_node(description),
        }
    }

    /// Reduces the alternatives of a schema, after merging the schema's other keywords into each
    /// alternative.
    fn reduce_any_of_alternatives(
        &mut self,
        keywords: &Map<String, Value>,
        variants: &[Value],
        types: &[&str],
        depth: usize,
    ) -> ReducedSchemaNode {
        let description = keywords.get("description").and_then(Value::as_str);
        let mut base = keywords.clone();
        for name in ["anyOf", "oneOf", "description"] {
            base.remove(name);
        }
        let is_object = types == ["object"] || base.contains_key("properties");
        let mut nodes = Vec::new();
        let anything = json!({});
        for variant in variants {
            let variant = match variant {
                Value::Bool(true) => &anything,
                Value::Object(_) => variant,
                // A schema `false` matches no value.
                _ => continue,
            };
            nodes.push(self.reduce_node(&json!({"allOf": [variant, base]}), depth + 1));
            if self.n_left == 0 {
                // The maximum number of schemas is reached, so replace the remaining alternatives
                // by a schema that accepts any value.
                nodes.push(self.create_unrestricted_node(None));
                break;
            }
        }
        let takes_null = nodes.iter().any(|node| node.takes_null);
        let schemas: Vec<Map<String, Value>> =
            nodes.into_iter().filter_map(|node| node.schema).collect();
        if schemas.is_empty() && takes_null {
            return ReducedSchemaNode {
                schema: None,
                takes_null,
            };
        }
        let joined = match is_object {
            // APIs refuse `anyOf` next to `properties` and at the root of a schema.
            true => choice::merge_object_schema_variants(schemas, self.level),
            false => choice::build_any_of_schema(schemas, description, self.level),
        };
        match joined {
            Some(mut schema) => {
                choice::add_schema_description(&mut schema, description, self.level);
                ReducedSchemaNode {
                    schema: Some(schema),
                    takes_null,
                }
            }
            None => {
                let mut base = base;
                add_or_merge_schema_keyword(
                    &mut base,
                    "description",
                    &json!(description.unwrap_or_default()),
                );
                self.reduce_keywords(&base, depth)
            }
        }
    }

    /// Reduces a schema that lists several types to the type `name`; `None` if its other keywords
    /// accept no value of that type.
    fn reduce_to_single_type(
        &mut self,
        name: &str,
        keywords: &Map<String, Value>,
        depth: usize,
    ) -> Option<Map<String, Value>> {
        let mut schema = Map::new();
        schema.insert("type".to_owned(), json!(name));
        if let Some(values) = find_allowed_values(keywords) {
            let values: Vec<&Value> = values
                .into_iter()
                .filter(|value| has_type(value, name))
                .collect();
            if values.is_empty() {
                return None;
            }
            self.reduce_enum_values(&values, name, &mut schema);
        }
        let formats: &[&str] = match name {
            "string" => &["date-time"],
            "integer" => &["int32", "int64"],
            "number" => &["float", "double"],
            _ => &[],
        };
        let format = keywords.get("format").and_then(Value::as_str);
        if let Some(format) = format.filter(|format| formats.contains(format)) {
            schema.insert("format".to_owned(), json!(format));
        }
        match name {
            "string" if self.level == JsonSchemaSubset::Gemini => {}
            "string" => {
                copy_length_limit_keywords(keywords, &["minLength", "maxLength"], &mut schema)
            }
            "integer" | "number" => copy_number_range(keywords, &mut schema),
            "array" => {
                copy_length_limit_keywords(keywords, &["minItems", "maxItems"], &mut schema);
                self.reduce_items(keywords, &mut schema, depth);
            }
            "object" => self.reduce_properties(keywords, &mut schema, depth),
            _ => {}
        }
        Some(schema)
    }

    /// Writes the allowed values as an enum, or into the description if the wire does not support
    /// an enum of these values.
    fn reduce_enum_values(&self, values: &[&Value], name: &str, schema: &mut Map<String, Value>) {
        let is_taken = match (self.level, name) {
            (_, "string") => values.iter().all(|value| value.as_str() != Some("")),
            (JsonSchemaSubset::Gemini, _) => false,
            (_, name) => matches!(name, "integer" | "number"),
        };
        if is_taken {
            schema.insert("enum".to_owned(), json!(values));
        } else if values.len() <= MAX_DESCRIBED_ENUM_VALUES && !matches!(name, "object" | "array") {
            let told: Vec<String> = values.iter().map(ToString::to_string).collect();
            let told = format!("One of: {}", told.join(", "));
            schema.insert("description".to_owned(), json!(told));
        }
    }

    fn reduce_items(
        &mut self,
        keywords: &Map<String, Value>,
        schema: &mut Map<String, Value>,
        depth: usize,
    ) {
        // Next to `prefixItems`, `items` describes only the remaining items.
        let items = keywords
            .get("items")
            .filter(|items| items.is_object() && !keywords.contains_key("prefixItems"));
        let node = match items {
            Some(items) => self.reduce_node(items, depth + 1),
            None => self.create_unrestricted_node(None),
        };
        let items = self.reduced_node_to_json(node, false);
        if self.level == JsonSchemaSubset::Gemini
            || items.as_object().is_some_and(|items| !items.is_empty())
        {
            schema.insert("items".to_owned(), items);
        }
    }

    fn reduce_properties(
        &mut self,
        keywords: &Map<String, Value>,
        schema: &mut Map<String, Value>,
        depth: usize,
    ) {
        let list = keywords.get("required").and_then(Value::as_array);
        let mut required: Vec<&str> = Vec::new();
        for name in list.into_iter().flatten().filter_map(Value::as_str) {
            if !required.contains(&name) {
                required.push(name);
            }
        }
        let mut properties = Map::new();
        let declared = keywords.get("properties").and_then(Value::as_object);
        for (name, property) in declared.into_iter().flatten() {
            if *property != Value::Bool(false) {
                let node = self.reduce_node(property, depth + 1);
                let is_optional = !required.contains(&name.as_str());
                properties.insert(name.clone(), self.reduced_node_to_json(node, is_optional));
            }
        }
        for name in &required {
            if !properties.contains_key(*name) {
                let any = self.reduced_node_to_json(self.create_unrestricted_node(None), false);
                properties.insert((*name).to_owned(), any);
            }
        }
        // Gemini refuses an object with empty `properties`, OpenAI one without `properties`.
        if self.level != JsonSchemaSubset::Gemini || !properties.is_empty() {
            schema.insert("properties".to_owned(), Value::Object(properties));
        }
        if !required.is_empty() {
            schema.insert("required".to_owned(), json!(required));
        }
        let others = keywords
            .get("additionalProperties")
            .filter(|others| others.is_object());
        if let Some(others) = others
            && self.level != JsonSchemaSubset::Gemini
            && !keywords.contains_key("patternProperties")
        {
            let node = self.reduce_node(others, depth + 1);
            schema.insert(
                "additionalProperties".to_owned(),
                self.reduced_node_to_json(node, false),
            );
        }
    }

    /// Converts a reduced subschema to JSON, with `null` as an allowed value if it accepts `null`.
    /// An optional property does not get `null`, because it may be absent instead.
    fn reduced_node_to_json(&self, node: ReducedSchemaNode, is_optional: bool) -> Value {
        let is_gemini = self.level == JsonSchemaSubset::Gemini;
        let schema = match node.schema {
            None if is_gemini => return json!({"type": "string", "nullable": true}),
            None => return json!({"type": "null"}),
            Some(schema) if node.takes_null && !is_optional => {
                choice::allow_null(schema, self.level)
            }
            Some(schema) => schema,
        };
        Value::Object(schema)
    }
}

/// Returns the declared types of a schema, or else the types of its enum values.
fn accepted_types(keywords: &Map<String, Value>) -> Vec<&str> {
    let mut types: Vec<&str> = match keywords.get("type") {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    // Ignore a type that no draft defines.
    if types
        .iter()
        .any(|name| !JSON_SCHEMA_TYPE_NAMES.contains(name))
    {
        types.clear();
    }
    if types.is_empty() {
        let values = find_allowed_values(keywords).unwrap_or_default();
        let of = |value: &Value| {
            JSON_SCHEMA_TYPE_NAMES
                .into_iter()
                .find(|name| has_type(value, name))
        };
        types = values.into_iter().filter_map(of).collect();
    }
    types.dedup();
    types
}

/// Names of the types of JSON Schema. `integer` precedes `number`, because the first type that fits
/// a value is used.
const JSON_SCHEMA_TYPE_NAMES: [&str; 7] = [
    "string", "integer", "number", "boolean", "array", "object", "null",
];

fn has_type(value: &Value, name: &str) -> bool {
    match name {
        "string" => value.is_string(),
        // 1.0 is an integer in JSON Schema.
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => value.is_null(),
    }
}

fn implied_schema_type(keywords: &Map<String, Value>) -> Option<&'static str> {
    let has = |names: &[&str]| names.iter().any(|name| keywords.contains_key(*name));
    match () {
        () if has(&["properties", "additionalProperties"]) => Some("object"),
        () if has(&["items", "prefixItems"]) => Some("array"),
        () => None,
    }
}

/// Returns the values that `enum` or `const` allows; `None` if the schema has neither.
fn find_allowed_values(keywords: &Map<String, Value>) -> Option<Vec<&Value>> {
    if let Some(value) = keywords.get("const") {
        return Some(vec![value]);
    }
    let values = keywords.get("enum")?.as_array()?;
    (!values.is_empty()).then(|| values.iter().collect())
}

fn accepts_null(keywords: &Map<String, Value>) -> bool {
    find_allowed_values(keywords).is_none_or(|values| values.iter().any(|value| value.is_null()))
}

/// Returns the alternatives of a schema, in `anyOf` or `oneOf`; `None` if it has none.
fn any_of_or_one_of_variants(keywords: &Map<String, Value>) -> Option<&[Value]> {
    let lists = ["anyOf", "oneOf"].map(|name| keywords.get(name).and_then(Value::as_array));
    let list = lists.into_iter().flatten().find(|list| !list.is_empty())?;
    Some(list)
}

fn copy_length_limit_keywords(
    keywords: &Map<String, Value>,
    names: &[&str],
    schema: &mut Map<String, Value>,
) {
    for name in names {
        if let Some(size) = keywords.get(*name).and_then(Value::as_u64) {
            schema.insert((*name).to_owned(), json!(size));
        }
    }
}

/// Copies the range of a number to the reduced schema. An exclusive bound of an integer becomes the
/// adjacent integer; an exclusive bound of another number is written as an inclusive bound.
fn copy_number_range(keywords: &Map<String, Value>, schema: &mut Map<String, Value>) {
    let is_integer = schema["type"] == "integer";
    for (name, excluded, step) in [
        ("minimum", "exclusiveMinimum", 1),
        ("maximum", "exclusiveMaximum", -1),
    ] {
        let included = keywords.get(name).filter(|bound| bound.is_number());
        let excluded = keywords.get(excluded).filter(|bound| bound.is_number());
        let next = excluded.map(|bound| match bound.as_i64() {
            Some(whole) if is_integer => json!(whole.saturating_add(step)),
            _ => bound.clone(),
        });
        if let Some(bound) = included.cloned().or(next) {
            schema.insert(name.to_owned(), bound);
        }
    }
}
