//! Cuts one schema and, recursively, its subschemas.
//!
//! Owns which keywords a wire gets for each type, the limits of size and depth, and the treatment
//! of `null`. The result must accept every value that the original accepts, except for the
//! constructs that the parent module lists. So if a construct cannot be expressed or a limit is
//! reached, the result is wider than the original, in the extreme a schema for any value.
//!
//! `flat` resolves references and `allOf` first, and `choice` simplifies alternatives. Start from
//! [`cut_root`].

use serde_json::{Map, Value, json};

use super::Level;
use super::choice;
use super::flat::{add_keyword, flatten_schema};

/// Maximum number of schemas written for one tool. Without a limit, references that fan out grow
/// exponentially.
const MAX_SCHEMAS: usize = 2000;

/// Maximum nesting of the written schema.
const MAX_DEPTH: usize = 24;

/// Maximum number of enum values to list in the description if the wire does not support the enum.
/// Longer enums are dropped.
const MAX_TOLD: usize = 20;

/// A cut schema.
pub(super) struct SchemaNode {
    /// The schema without `null`; `None` if only `null` is accepted.
    pub(super) schema: Option<Map<String, Value>>,
    pub(super) takes_null: bool,
}

/// Cuts the root schema of the arguments. The result is always an object schema.
pub(super) fn cut_root(schema: &Value, level: Level) -> Value {
    let mut cutter = SchemaCutter {
        root: schema,
        level,
        n_left: MAX_SCHEMAS,
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
    let cut = cutter.cut_node(&typed, 0).schema;
    Value::Object(cut.unwrap_or_default())
}

pub(super) struct SchemaCutter<'a> {
    root: &'a Value,
    pub(super) level: Level,
    n_left: usize,
    /// References that were resolved to reach the current schema.
    open: Vec<String>,
}

impl SchemaCutter<'_> {
    pub(super) fn cut_node(&mut self, schema: &Value, depth: usize) -> SchemaNode {
        let Value::Object(schema) = schema else {
            return self.any_node(None);
        };
        let description = schema.get("description").and_then(Value::as_str);
        if self.n_left == 0 || depth > MAX_DEPTH {
            return self.any_node(description);
        }
        self.n_left -= 1;
        let Some(flat) = flatten_schema(self.root, schema, &self.open) else {
            return self.any_node(description);
        };
        let n_open = self.open.len();
        self.open.extend(flat.followed);
        let node = self.cut_keywords(&flat.keywords, depth);
        self.open.truncate(n_open);
        node
    }

    /// Returns a schema that accepts any value.
    pub(super) fn any_node(&self, description: Option<&str>) -> SchemaNode {
        let mut schema = Map::new();
        if self.level == Level::Gemini {
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
        choice::describe_choice(&mut schema, description, self.level);
        SchemaNode {
            schema: Some(schema),
            takes_null: true,
        }
    }

    fn cut_keywords(&mut self, keywords: &Map<String, Value>, depth: usize) -> SchemaNode {
        let description = keywords.get("description").and_then(Value::as_str);
        let mut types = keyword_types(keywords);
        if types.is_empty() && keyword_variants(keywords).is_none() {
            types.extend(implied_type(keywords));
        }
        let takes_null = types.contains(&"null") && takes_null(keywords);
        types.retain(|name| *name != "null");
        if let Some(variants) = keyword_variants(keywords) {
            let node = self.cut_choice(keywords, variants, &types, depth);
            return SchemaNode {
                takes_null: node.takes_null && (takes_null || types.is_empty()),
                ..node
            };
        }
        if types.is_empty() && takes_null {
            return SchemaNode {
                schema: None,
                takes_null,
            };
        }
        if types.is_empty() {
            return self.any_node(description);
        }
        let typed = types
            .iter()
            .filter_map(|name| self.cut_typed(name, keywords, depth));
        let typed: Vec<Map<String, Value>> = typed.collect();
        match choice::any_of(typed, None, self.level) {
            Some(mut schema) => {
                choice::describe_choice(&mut schema, description, self.level);
                SchemaNode {
                    schema: Some(schema),
                    takes_null,
                }
            }
            None => self.any_node(description),
        }
    }

    /// Cuts alternatives, after merging the other keywords of the schema into each.
    fn cut_choice(
        &mut self,
        keywords: &Map<String, Value>,
        variants: &[Value],
        types: &[&str],
        depth: usize,
    ) -> SchemaNode {
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
            nodes.push(self.cut_node(&json!({"allOf": [variant, base]}), depth + 1));
            if self.n_left == 0 {
                // The limit is reached, so allow any value instead of the remaining alternatives.
                nodes.push(self.any_node(None));
                break;
            }
        }
        let takes_null = nodes.iter().any(|node| node.takes_null);
        let schemas: Vec<Map<String, Value>> =
            nodes.into_iter().filter_map(|node| node.schema).collect();
        if schemas.is_empty() && takes_null {
            return SchemaNode {
                schema: None,
                takes_null,
            };
        }
        let joined = match is_object {
            // APIs refuse alternatives next to properties and at the root.
            true => choice::merge_variants(schemas, self.level),
            false => choice::any_of(schemas, description, self.level),
        };
        match joined {
            Some(mut schema) => {
                choice::describe_choice(&mut schema, description, self.level);
                SchemaNode {
                    schema: Some(schema),
                    takes_null,
                }
            }
            None => {
                let mut base = base;
                add_keyword(
                    &mut base,
                    "description",
                    &json!(description.unwrap_or_default()),
                );
                self.cut_keywords(&base, depth)
            }
        }
    }

    /// Cuts the schema for one of its types; `None` if it accepts no value of that type.
    fn cut_typed(
        &mut self,
        name: &str,
        keywords: &Map<String, Value>,
        depth: usize,
    ) -> Option<Map<String, Value>> {
        let mut schema = Map::new();
        schema.insert("type".to_owned(), json!(name));
        if let Some(values) = keyword_values(keywords) {
            let values: Vec<&Value> = values
                .into_iter()
                .filter(|value| is_a(value, name))
                .collect();
            if values.is_empty() {
                return None;
            }
            self.cut_values(&values, name, &mut schema);
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
            "string" if self.level == Level::Gemini => {}
            "string" => copy_sizes(keywords, &["minLength", "maxLength"], &mut schema),
            "integer" | "number" => copy_bounds(keywords, &mut schema),
            "array" => {
                copy_sizes(keywords, &["minItems", "maxItems"], &mut schema);
                self.cut_items(keywords, &mut schema, depth);
            }
            "object" => self.cut_properties(keywords, &mut schema, depth),
            _ => {}
        }
        Some(schema)
    }

    /// Writes the allowed values as an enum, or into the description if the wire does not support
    /// an enum of these values.
    fn cut_values(&self, values: &[&Value], name: &str, schema: &mut Map<String, Value>) {
        let is_taken = match (self.level, name) {
            (_, "string") => values.iter().all(|value| value.as_str() != Some("")),
            (Level::Gemini, _) => false,
            (_, name) => matches!(name, "integer" | "number"),
        };
        if is_taken {
            schema.insert("enum".to_owned(), json!(values));
        } else if values.len() <= MAX_TOLD && !matches!(name, "object" | "array") {
            let told: Vec<String> = values.iter().map(ToString::to_string).collect();
            let told = format!("One of: {}", told.join(", "));
            schema.insert("description".to_owned(), json!(told));
        }
    }

    fn cut_items(
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
            Some(items) => self.cut_node(items, depth + 1),
            None => self.any_node(None),
        };
        let items = self.write_node(node, false);
        if self.level == Level::Gemini || items.as_object().is_some_and(|items| !items.is_empty()) {
            schema.insert("items".to_owned(), items);
        }
    }

    fn cut_properties(
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
                let node = self.cut_node(property, depth + 1);
                let is_optional = !required.contains(&name.as_str());
                properties.insert(name.clone(), self.write_node(node, is_optional));
            }
        }
        for name in &required {
            if !properties.contains_key(*name) {
                let any = self.write_node(self.any_node(None), false);
                properties.insert((*name).to_owned(), any);
            }
        }
        // Gemini refuses an object with empty `properties`, OpenAI one without `properties`.
        if self.level != Level::Gemini || !properties.is_empty() {
            schema.insert("properties".to_owned(), Value::Object(properties));
        }
        if !required.is_empty() {
            schema.insert("required".to_owned(), json!(required));
        }
        let others = keywords
            .get("additionalProperties")
            .filter(|others| others.is_object());
        if let Some(others) = others
            && self.level != Level::Gemini
            && !keywords.contains_key("patternProperties")
        {
            let node = self.cut_node(others, depth + 1);
            schema.insert(
                "additionalProperties".to_owned(),
                self.write_node(node, false),
            );
        }
    }

    /// Writes a subschema. If the property is optional, the schema does not allow `null`, because
    /// that means the same as absence.
    fn write_node(&self, node: SchemaNode, is_optional: bool) -> Value {
        let is_gemini = self.level == Level::Gemini;
        let schema = match node.schema {
            None if is_gemini => return json!({"type": "string", "nullable": true}),
            None => return json!({"type": "null"}),
            Some(schema) if node.takes_null && !is_optional => {
                choice::with_null(schema, self.level)
            }
            Some(schema) => schema,
        };
        Value::Object(schema)
    }
}

/// Returns the declared types of a schema, or else the types of its enum values.
fn keyword_types(keywords: &Map<String, Value>) -> Vec<&str> {
    let mut types: Vec<&str> = match keywords.get("type") {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    // Ignore a type that no draft defines.
    if types.iter().any(|name| !TYPES.contains(name)) {
        types.clear();
    }
    if types.is_empty() {
        let values = keyword_values(keywords).unwrap_or_default();
        let of = |value: &Value| TYPES.into_iter().find(|name| is_a(value, name));
        types = values.into_iter().filter_map(of).collect();
    }
    types.dedup();
    types
}

/// Types of JSON Schema. `integer` precedes `number`, so that a value gets the narrower type.
const TYPES: [&str; 7] = [
    "string", "integer", "number", "boolean", "array", "object", "null",
];

fn is_a(value: &Value, name: &str) -> bool {
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

fn implied_type(keywords: &Map<String, Value>) -> Option<&'static str> {
    let has = |names: &[&str]| names.iter().any(|name| keywords.contains_key(*name));
    match () {
        () if has(&["properties", "additionalProperties"]) => Some("object"),
        () if has(&["items", "prefixItems"]) => Some("array"),
        () => None,
    }
}

/// Returns the values of `enum` or `const`.
fn keyword_values(keywords: &Map<String, Value>) -> Option<Vec<&Value>> {
    if let Some(value) = keywords.get("const") {
        return Some(vec![value]);
    }
    let values = keywords.get("enum")?.as_array()?;
    (!values.is_empty()).then(|| values.iter().collect())
}

fn takes_null(keywords: &Map<String, Value>) -> bool {
    keyword_values(keywords).is_none_or(|values| values.iter().any(|value| value.is_null()))
}

/// Returns the alternatives of a schema.
fn keyword_variants(keywords: &Map<String, Value>) -> Option<&[Value]> {
    let lists = ["anyOf", "oneOf"].map(|name| keywords.get(name).and_then(Value::as_array));
    let list = lists.into_iter().flatten().find(|list| !list.is_empty())?;
    Some(list)
}

fn copy_sizes(keywords: &Map<String, Value>, names: &[&str], schema: &mut Map<String, Value>) {
    for name in names {
        if let Some(size) = keywords.get(*name).and_then(Value::as_u64) {
            schema.insert((*name).to_owned(), json!(size));
        }
    }
}

/// Writes the range of a number. An exclusive bound of an integer becomes the adjacent integer;
/// that of another number is written as an inclusive bound.
fn copy_bounds(keywords: &Map<String, Value>, schema: &mut Map<String, Value>) {
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
