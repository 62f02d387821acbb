//! Random tool schemas, reduced for a wire format: the result has nothing that the wire refuses,
//! and accepts all arguments that the tool accepts.

use proptest::prelude::*;
use rind::provider::schema::{JsonSchemaSubset, reduce_schema};
use rind::tool::schema::compile_json_schema_check;
use serde_json::{Map, Value, json};

/// Keywords of the OpenAPI subset of Gemini.
const OF_GEMINI: [&str; 12] = [
    "type",
    "format",
    "description",
    "nullable",
    "enum",
    "items",
    "properties",
    "required",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
];

fn leaf() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(json!({"type": "string"})),
        Just(json!({"type": "string", "pattern": "^a", "minLength": 1, "format": "uri"})),
        Just(json!({"type": "string", "enum": ["a", "b"]})),
        Just(json!({"type": "string", "enum": ["", "a"]})),
        Just(json!({"type": ["string", "null"], "enum": ["a", null]})),
        Just(json!({"type": "integer", "format": "uint32", "minimum": 0})),
        Just(json!({"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 3})),
        Just(json!({"type": "integer", "enum": [1, 2]})),
        Just(json!({"type": "number", "exclusiveMaximum": 0.5, "multipleOf": 0.25})),
        Just(json!({"type": ["integer", "null"], "default": null})),
        Just(json!({"type": ["string", "integer", "boolean"]})),
        Just(json!({"type": "boolean", "title": "T", "examples": [true]})),
        Just(json!({"type": "null"})),
        Just(json!({"const": "a"})),
        Just(json!({"const": 1})),
        Just(json!({"enum": ["a", 1, true, null]})),
        Just(json!({"type": "array"})),
        Just(json!({"type": "object"})),
        Just(json!({})),
        Just(json!(true)),
        Just(json!({"$ref": "#/$defs/A"})),
        Just(json!({"$ref": "#/$defs/B", "description": "B."})),
    ];
    scalar.boxed()
}

fn object(inner: impl Strategy<Value = Value> + Clone + 'static) -> impl Strategy<Value = Value> {
    let names = prop::sample::subsequence(vec!["a", "b", "c", "d"], 0..4);
    let others = prop_oneof![
        Just(None),
        Just(Some(json!(false))),
        inner.clone().prop_map(Some),
    ];
    let required = prop::collection::vec(any::<bool>(), 4);
    (names, prop::collection::vec(inner, 4), required, others).prop_map(
        |(names, schemas, is_required, others)| {
            let properties: Map<String, Value> = names
                .iter()
                .zip(schemas)
                .map(|(name, schema)| ((*name).to_owned(), schema))
                .collect();
            let required: Vec<&str> = names
                .iter()
                .zip(&is_required)
                .filter_map(|(name, is_required)| is_required.then_some(*name))
                .collect();
            let mut schema =
                json!({"type": "object", "properties": properties, "required": required});
            if let Some(others) = others {
                schema["additionalProperties"] = others;
            }
            schema
        },
    )
}

fn schema() -> impl Strategy<Value = Value> + Clone {
    leaf().prop_recursive(3, 24, 4, |inner| {
        let list = prop::collection::vec(inner.clone(), 1..3);
        prop_oneof![
            3 => object(inner.clone()),
            2 => (inner.clone(), 0..3u8).prop_map(|(items, n)| json!({"type": "array", "items": items, "minItems": n})),
            1 => (inner.clone(), inner.clone())
                .prop_map(|(first, rest)| json!({"type": "array", "prefixItems": [first], "items": rest})),
            1 => list.clone().prop_map(|all| json!({"anyOf": all, "description": "D."})),
            1 => list.clone().prop_map(|all| json!({"oneOf": all})),
            1 => inner.prop_map(|one| json!({"anyOf": [one, {"type": "null"}]})),
            1 => list.prop_map(|all| json!({"allOf": all})),
        ]
    })
}

/// The schema of a tool, with two definitions that may refer to themselves.
fn tool() -> impl Strategy<Value = Value> {
    let variants = prop::collection::vec(object(schema()), 0..3);
    (object(schema()), schema(), schema(), variants).prop_map(|(mut tool, a, b, variants)| {
        tool["$defs"] = json!({"A": a, "B": b});
        if !variants.is_empty() {
            tool["anyOf"] = json!(variants);
        }
        close(&mut tool, false);
        tool
    })
}

/// Closes the objects within alternatives and definitions. An open object accepts any value under a
/// name that another alternative describes, but a merged object would not.
fn close(schema: &mut Value, is_within: bool) {
    if is_within && schema["type"] == "object" {
        schema["additionalProperties"] = json!(false);
    }
    for (name, value) in schema.as_object_mut().into_iter().flatten() {
        match (name.as_str(), value) {
            ("anyOf" | "oneOf" | "allOf" | "prefixItems", Value::Array(all)) => {
                all.iter_mut().for_each(|one| close(one, true));
            }
            ("$defs", Value::Object(all)) => all.values_mut().for_each(|one| close(one, true)),
            ("properties", Value::Object(all)) => {
                all.values_mut().for_each(|one| close(one, is_within));
            }
            ("items" | "additionalProperties", value) if value.is_object() => {
                close(value, is_within)
            }
            _ => {}
        }
    }
}

/// Generates values for a schema from a seed. They need not be valid, but have only fields that the
/// schema describes.
struct Samples<'a> {
    root: &'a Value,
    seed: u64,
}

impl Samples<'_> {
    /// A number below `n`.
    fn pick(&mut self, n: usize) -> usize {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        usize::try_from(self.seed % 1024).unwrap() % n.max(1)
    }

    fn one_of(&mut self, values: &[Value]) -> Value {
        let at = self.pick(values.len());
        values.get(at).cloned().unwrap_or_default()
    }

    fn value(&mut self, schema: &Value, depth: usize) -> Value {
        if depth > 8 {
            return Value::Null;
        }
        if let Some(name) = schema["$ref"].as_str() {
            let target = self.root.pointer(&name[1..]).unwrap().clone();
            return self.value(&target, depth + 1);
        }
        if let Some(value) = schema.get("const") {
            return value.clone();
        }
        if let Some(values) = schema["enum"].as_array() {
            return self.one_of(values);
        }
        for name in ["anyOf", "oneOf", "allOf"] {
            if let Some(list) = schema[name].as_array() {
                let variant = self.one_of(list);
                let mut value = self.value(&variant, depth + 1);
                if let (Some(more), Some(fields)) =
                    (schema.get("properties"), value.as_object_mut())
                {
                    let base = json!({"type": "object", "properties": more, "required": schema["required"]});
                    if let Value::Object(base) = self.value(&base, depth + 1) {
                        fields.extend(base);
                    }
                }
                return value;
            }
        }
        let types = match &schema["type"] {
            Value::Array(types) => types.clone(),
            Value::Null => ["string", "integer", "boolean"].map(Value::from).to_vec(),
            one => vec![one.clone()],
        };
        let name = self.one_of(&types);
        match name.as_str().unwrap_or_default() {
            "string" => self.one_of(&[json!("a"), json!(""), json!("2026-01-01T00:00:00Z")]),
            "integer" => self.one_of(&[json!(0), json!(1), json!(2), json!(-5), json!(1.0)]),
            "number" => self.one_of(&[json!(0.25), json!(-1), json!(1e9)]),
            "boolean" => self.one_of(&[json!(true), json!(false)]),
            "array" => {
                let n = self.pick(4);
                let first = schema["prefixItems"].get(0);
                let items = (0..n).map(|at| {
                    let of_place = first.filter(|_| at == 0).or(schema.get("items"));
                    self.value(of_place.unwrap_or(&json!({})), depth + 1)
                });
                items.collect()
            }
            "object" => {
                let mut fields = Map::new();
                for (name, property) in schema["properties"].as_object().into_iter().flatten() {
                    let is_required = schema["required"]
                        .as_array()
                        .is_some_and(|all| all.contains(&json!(name)));
                    if is_required || self.pick(2) == 0 {
                        fields.insert(name.clone(), self.value(property, depth + 1));
                    }
                }
                Value::Object(fields)
            }
            _ => Value::Null,
        }
    }
}

/// Depth of directly nested lists. Gemini needs a schema for the items of every list, and no schema
/// describes items of any depth.
fn lists(value: &Value, n_around: usize) -> usize {
    let inner = match value {
        Value::Array(items) => items.iter().map(|item| lists(item, n_around + 1)).max(),
        Value::Object(fields) => fields.values().map(|field| lists(field, 0)).max(),
        _ => None,
    };
    inner
        .unwrap_or(0)
        .max(n_around + usize::from(value.is_array()))
}

/// Translates a reduced schema to equivalent JSON Schema: `nullable` becomes explicit, and an
/// optional property also accepts `null`.
fn as_json_schema(schema: &Value) -> Value {
    let Value::Object(keywords) = schema else {
        return schema.clone();
    };
    let mut written = Map::new();
    for (name, value) in keywords {
        let value = match (name.as_str(), value) {
            ("nullable", _) => continue,
            ("properties", Value::Object(properties)) => {
                let required = keywords.get("required").and_then(Value::as_array);
                let properties = properties.iter().map(|(name, property)| {
                    let is_required = required.is_some_and(|all| all.contains(&json!(name)));
                    let property = as_json_schema(property);
                    let optional = json!({"anyOf": [property, {"type": "null"}]});
                    (name.clone(), if is_required { property } else { optional })
                });
                Value::Object(properties.collect())
            }
            ("items" | "additionalProperties", value) => as_json_schema(value),
            ("anyOf", Value::Array(variants)) => variants.iter().map(as_json_schema).collect(),
            _ => value.clone(),
        };
        written.insert(name.clone(), value);
    }
    if keywords.contains_key("nullable") {
        return json!({"anyOf": [written, {"type": "null"}]});
    }
    Value::Object(written)
}

/// Fails on a schema that Gemini would refuse.
fn check_for_gemini(schema: &Value) {
    let keywords = schema
        .as_object()
        .unwrap_or_else(|| panic!("no object: {schema}"));
    if let Some(variants) = keywords.get("anyOf") {
        assert_eq!(keywords.len(), 1, "{schema}");
        variants
            .as_array()
            .unwrap()
            .iter()
            .for_each(check_for_gemini);
        return;
    }
    let name = keywords["type"].as_str().unwrap();
    for (key, value) in keywords {
        assert!(OF_GEMINI.contains(&key.as_str()), "{key} in {schema}");
        match key.as_str() {
            "enum" => {
                let is_name = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
                assert!(
                    name == "string" && value.as_array().unwrap().iter().all(is_name),
                    "{schema}"
                );
            }
            "format" => assert!(
                ["date-time", "int32", "int64", "float", "double"]
                    .contains(&value.as_str().unwrap())
            ),
            "items" => check_for_gemini(value),
            "properties" => {
                let properties = value.as_object().unwrap();
                assert!(!properties.is_empty(), "{schema}");
                properties.values().for_each(check_for_gemini);
            }
            "required" => {
                let names = value.as_array().unwrap();
                let is_known =
                    |name: &Value| keywords["properties"].get(name.as_str().unwrap()).is_some();
                assert!(names.iter().all(is_known), "{schema}");
            }
            _ => {}
        }
    }
    assert!(
        name != "array" || keywords.contains_key("items"),
        "{schema}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_cut_schema_is_taken_and_only_wider(tool in tool(), seeds in prop::collection::vec(1..u64::MAX, 12)) {
        let gemini = reduce_schema(&tool, JsonSchemaSubset::Gemini);
        check_for_gemini(&gemini);
        let common = reduce_schema(&tool, JsonSchemaSubset::Common);
        let written = common.to_string();
        for refused in ["$ref", "$defs", "oneOf", "allOf", "pattern", "\"type\":[", "format", "title", "default"] {
            prop_assert!(!written.contains(refused), "{written}");
        }
        // Tools with references that never end are refused at registration, so they are skipped.
        if let Ok(check) = compile_json_schema_check(&tool) {
            for seed in seeds {
                let arguments = Samples { root: &tool, seed }.value(&tool, 0);
                if check(&arguments).is_ok() && lists(&arguments, 0) <= 2 {
                    for cut in [&gemini, &common, &reduce_schema(&tool, JsonSchemaSubset::Full)] {
                        let wider = compile_json_schema_check(&as_json_schema(cut)).unwrap();
                        prop_assert_eq!(wider(&arguments), Ok(()), "{} of {} by {}", arguments, tool, cut);
                    }
                }
            }
        }
    }
}
