//! Tests of the argument check.

use serde_json::json;

use super::*;

fn object_schema(properties: Value) -> Value {
    json!({"type": "object", "properties": properties, "required": ["path"], "additionalProperties": false})
}

fn check_fault(arguments: Value) -> String {
    let schema =
        object_schema(json!({"path": {"type": "string"}, "n": {"type": "integer", "minimum": 1}}));
    let check = compile_json_schema_check(&schema).expect("a good schema");
    check(&arguments).expect_err("bad arguments")
}

/// Returns the reason why a schema is refused.
fn refusal_reason(schema: &Value) -> String {
    compile_json_schema_check(schema)
        .err()
        .expect("a bad schema")
}

#[test]
fn faults_name_the_path_and_what_was_expected() {
    assert_eq!(
        check_fault(json!({"path": 1})),
        "the arguments do not fit: at `/path`: 1 is not of type \"string\""
    );
    assert!(check_fault(json!({})).contains("\"path\" is a required property"));
    assert!(check_fault(json!({"path": "", "m": 1})).contains("'m' was unexpected"));
    assert!(
        check_fault(json!({"path": "", "n": 0}))
            .contains("at `/n`: 0 is less than the minimum of 1")
    );
}

#[test]
fn arguments_that_are_not_an_object_are_reported() {
    assert!(check_fault(json!("{\"path\": ")).contains("not valid JSON"));
    assert!(check_fault(json!([1])).contains("one JSON object"));
}

#[test]
fn at_most_three_short_faults_are_reported() {
    let properties: Map<String, Value> = (0..9)
        .map(|n| (format!("p{n}"), json!({"type": "string"})))
        .collect();
    let check = compile_json_schema_check(&json!({"type": "object", "properties": properties}))
        .expect("a good schema");
    let long = vec![1; 200];
    let arguments: Map<String, Value> = (0..9).map(|n| (format!("p{n}"), json!(long))).collect();
    let fault = check(&Value::Object(arguments)).expect_err("bad arguments");
    assert_eq!(fault.matches("at `").count(), 3);
    assert!(fault.len() < 1_100, "{}", fault.len());
}

/// A check takes time proportional to the number of alternatives times the number of items. Listing
/// the errors would need memory in the same proportion.
#[test]
fn arguments_of_many_values_under_many_alternatives_are_refused_at_once() {
    let any_of: Vec<Value> = (0..3000).map(|n| json!({"const": n + 1})).collect();
    let schema = json!({"type": "object", "properties": {"a": {"items": {"anyOf": any_of}}}});
    let check = compile_json_schema_check(&schema).expect("a good schema");
    let zeros = |n: usize| json!({"a": vec![0; n]});
    for (n, expected) in [
        (
            30_000,
            "the arguments contain too many values for this tool",
        ),
        (100, "the arguments do not fit the tool's schema"),
    ] {
        assert_eq!(check(&zeros(n)).unwrap_err(), expected);
    }
    assert!(check(&json!({"a": [1, 2, 3]})).is_ok());
}

#[test]
fn arguments_that_are_nested_deeply_are_refused() {
    let mut deep = json!(1);
    for _ in 0..60 {
        deep = json!([deep]);
    }
    let check = compile_json_schema_check(&json!({"type": "object"})).expect("a good schema");
    let why = check(&json!({"a": deep})).unwrap_err();
    assert!(why.contains("nested too deeply"));
}

#[test]
fn schemas_of_other_types_than_object_are_refused() {
    for schema in [
        json!(true),
        json!({}),
        json!({"type": "string"}),
        json!({"type": ["object", "null"]}),
    ] {
        assert!(refusal_reason(&schema).contains("must be an object"));
    }
}

#[test]
fn references_to_other_documents_are_refused() {
    for reference in [
        "http://127.0.0.1/x",
        "file:///etc/passwd",
        "other.json",
        "#/nowhere",
        "#anchor",
    ] {
        let refused = refusal_reason(&object_schema(json!({"path": {"$ref": reference}})));
        let expected = format!("the schema refers to `{reference}`");
        assert!(refused.contains(&expected), "{refused}");
    }
}

#[test]
fn recursive_references_are_accepted_if_each_step_descends_into_the_value() {
    let tree = json!({
        "type": "object",
        "properties": {"children": {"type": "array", "items": {"$ref": "#"}}, "name": {"$ref": "#/$defs/name"}},
        "$defs": {"name": {"type": "string"}}
    });
    let check = compile_json_schema_check(&tree).expect("a good schema");
    let good = json!({"children": [{"children": []}], "name": "x"});
    assert_eq!(check(&good), Ok(()));
    assert!(check(&json!({"children": [{"children": 1}]})).is_err());
}

#[test]
fn circular_or_multiplying_references_are_refused() {
    let circle = json!({"type": "object", "allOf": [{"$ref": "#"}]});
    assert_eq!(refusal_reason(&circle), RECURSIVE_REFERENCES_REASON);
    let mut defs = Map::new();
    for n in 0..40 {
        let next = json!({"$ref": format!("#/$defs/d{}", n + 1)});
        defs.insert(format!("d{n}"), json!({"allOf": [next, next]}));
    }
    defs.insert("d40".to_owned(), json!({"type": "object"}));
    let bomb =
        json!({"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": defs});
    assert_eq!(refusal_reason(&bomb), RECURSIVE_REFERENCES_REASON);
}

#[test]
fn size_and_depth_of_a_schema_are_limited() {
    let large = object_schema(json!({"path": {"description": "x".repeat(MAX_SCHEMA_BYTES)}}));
    assert!(refusal_reason(&large).contains("bytes, more than 65536"));
    let mut deep = json!({"type": "string"});
    for _ in 0..MAX_SCHEMA_DEPTH {
        deep = json!({"not": deep});
    }
    assert!(refusal_reason(&object_schema(json!({"path": deep}))).contains("deeper than 64"));
}

#[test]
fn many_patterns_that_are_large_together_are_refused_and_many_small_ones_are_not() {
    let schema = |pattern: &str, n: usize| {
        let properties: serde_json::Map<String, Value> = (0..n)
            .map(|n| (n.to_string(), json!({"type": "string", "pattern": pattern})))
            .collect();
        json!({"type": "object", "properties": properties})
    };
    assert!(compile_json_schema_check(&schema(r"\pL{12}N\pL", 1)).is_ok());
    let why = compile_json_schema_check(&schema(r"\pL{12}N\pL", 500)).err();
    assert!(why.is_some_and(|why| why.contains("the schema is not valid")));
    assert!(compile_json_schema_check(&schema(r"^[a-z][a-z0-9-]*$", 100)).is_ok());
    assert!(compile_json_schema_check(&schema(r"^\w+$", 20)).is_ok());
}

#[test]
fn a_pattern_that_backtracks_without_end_is_stopped() {
    let schema = object_schema(json!({"path": {"type": "string", "pattern": "^(?=a)(a+)+\\1$"}}));
    let check = compile_json_schema_check(&schema).expect("a good schema");
    let started = std::time::Instant::now();
    assert!(check(&json!({"path": format!("{}!", "a".repeat(60))})).is_err());
    assert!(started.elapsed() < std::time::Duration::from_secs(2));
    let huge = object_schema(json!({"path": {"pattern": "(\\w{1000}){1000}"}}));
    assert!(refusal_reason(&huge).contains("the schema is not valid"));
}

#[test]
fn deep_arguments_are_refused_if_schema_references_would_multiply_the_work() {
    let twice = json!([{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]);
    let schema = json!({
        "type": "object",
        "properties": {"x": {"$ref": "#/$defs/a"}},
        "$defs": {"a": {"properties": {"x": {"anyOf": twice}}}}
    });
    let check = compile_json_schema_check(&schema).expect("a good schema");
    let nested = |depth| (0..depth).fold(json!({}), |inner, _| json!({"x": inner}));
    assert_eq!(check(&nested(5)), Ok(()));
    let refused = check(&nested(60));
    assert!(refused.is_err_and(|why| why.contains("nested too deeply")));
}

#[test]
fn a_long_chain_of_schema_references_is_compiled_or_refused() {
    for is_reversed in [false, true] {
        let mut names: Vec<usize> = (0..2_000).collect();
        if is_reversed {
            names.reverse();
        }
        let mut defs = Map::from_iter([("2000".to_owned(), json!({}))]);
        for n in names {
            defs.insert(n.to_string(), json!({"$ref": format!("#/$defs/{}", n + 1)}));
        }
        let chain =
            json!({"type": "object", "properties": {"x": {"$ref": "#/$defs/0"}}, "$defs": defs});
        match compile_json_schema_check(&chain) {
            Ok(check) => assert_eq!(check(&json!({"x": 1})), Ok(())),
            Err(error) => assert_eq!(error, RECURSIVE_REFERENCES_REASON),
        }
    }
}

#[test]
fn null_for_an_optional_property_counts_as_absent() {
    let schema = json!({"type": "object", "required": ["path"], "properties": {
        "path": {"type": "string"},
        "n": {"type": "integer"},
        "mode": {"type": "string", "enum": ["a"]},
        "any": {},
        "may": {"type": ["string", "null"]},
        "inner": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "integer"}}}},
    }});
    let check = compile_tool_argument_check(&schema).expect("a good schema");
    let given = json!({"path": "p", "n": null, "mode": null, "any": null, "may": null, "inner": [{"x": null}]});
    assert_eq!(check(&given), Ok(()));
    let mut left = given;
    remove_optional_nulls(&schema, &mut left);
    assert_eq!(
        left,
        json!({"path": "p", "any": null, "may": null, "inner": [{}]})
    );
    assert!(check(&json!({"path": null, "n": null})).is_err());
    assert!(check(&json!({"path": "p", "n": "1"})).is_err());
}

#[test]
fn derived_options_become_optional_properties() {
    let mut schema = json!({"type": "object", "required": ["must"], "properties": {
        "n": {"type": ["integer", "null"], "default": null},
        "mode": {"type": ["string", "null"], "enum": ["a", null]},
        "inner": {"anyOf": [{"type": "object", "properties": {"x": {"type": ["string", "null"]}}}, {"type": "null"}]},
        "must": {"type": ["integer", "null"]},
    }});
    remove_null_types(&mut schema);
    assert_eq!(
        schema["properties"],
        json!({
            "n": {"type": "integer"},
            "mode": {"type": "string", "enum": ["a"]},
            "inner": {"type": "object", "properties": {"x": {"type": "string"}}},
            "must": {"type": ["integer", "null"]},
        })
    );
}
