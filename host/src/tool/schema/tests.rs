//! Tests of the argument check.

use serde_json::json;

use super::*;

fn object(properties: Value) -> Value {
    json!({"type": "object", "properties": properties, "required": ["path"], "additionalProperties": false})
}

fn fault(arguments: Value) -> String {
    let schema =
        object(json!({"path": {"type": "string"}, "n": {"type": "integer", "minimum": 1}}));
    let check = compile(&schema).expect("a good schema");
    check(&arguments).expect_err("bad arguments")
}

/// Returns the reason why a schema is refused.
fn refused(schema: &Value) -> String {
    compile(schema).err().expect("a bad schema")
}

#[test]
fn faults_name_the_path_and_what_was_expected() {
    assert_eq!(
        fault(json!({"path": 1})),
        "the arguments do not fit: at `/path`: 1 is not of type \"string\""
    );
    assert!(fault(json!({})).contains("\"path\" is a required property"));
    assert!(fault(json!({"path": "", "m": 1})).contains("'m' was unexpected"));
    assert!(
        fault(json!({"path": "", "n": 0})).contains("at `/n`: 0 is less than the minimum of 1")
    );
}

#[test]
fn what_is_not_an_object_is_told_as_such() {
    assert!(fault(json!("{\"path\": ")).contains("not valid JSON"));
    assert!(fault(json!([1])).contains("one JSON object"));
}

#[test]
fn only_three_faults_are_told_and_none_is_long() {
    let properties: Map<String, Value> = (0..9)
        .map(|n| (format!("p{n}"), json!({"type": "string"})))
        .collect();
    let check =
        compile(&json!({"type": "object", "properties": properties})).expect("a good schema");
    let long = vec![1; 200];
    let arguments: Map<String, Value> = (0..9).map(|n| (format!("p{n}"), json!(long))).collect();
    let fault = check(&Value::Object(arguments)).expect_err("bad arguments");
    assert_eq!(fault.matches("at `").count(), 3);
    assert!(fault.len() < 1_100, "{}", fault.len());
}

/// A check does work proportional to alternatives times items, and listing its errors would need as
/// much memory.
#[test]
fn arguments_of_many_values_under_many_alternatives_are_refused_at_once() {
    let any_of: Vec<Value> = (0..3000).map(|n| json!({"const": n + 1})).collect();
    let schema = json!({"type": "object", "properties": {"a": {"items": {"anyOf": any_of}}}});
    let check = compile(&schema).expect("a good schema");
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
    let check = compile(&json!({"type": "object"})).expect("a good schema");
    let why = check(&json!({"a": deep})).unwrap_err();
    assert!(why.contains("nested too deeply"));
}

#[test]
fn schemas_that_are_not_of_an_object_are_refused() {
    for schema in [
        json!(true),
        json!({}),
        json!({"type": "string"}),
        json!({"type": ["object", "null"]}),
    ] {
        assert!(refused(&schema).contains("must be an object"));
    }
}

#[test]
fn references_to_elsewhere_are_refused() {
    for reference in [
        "http://127.0.0.1/x",
        "file:///etc/passwd",
        "other.json",
        "#/nowhere",
        "#anchor",
    ] {
        let refused = refused(&object(json!({"path": {"$ref": reference}})));
        let expected = format!("the schema refers to `{reference}`");
        assert!(refused.contains(&expected), "{refused}");
    }
}

#[test]
fn references_that_go_into_the_value_are_taken() {
    let tree = json!({
        "type": "object",
        "properties": {"children": {"type": "array", "items": {"$ref": "#"}}, "name": {"$ref": "#/$defs/name"}},
        "$defs": {"name": {"type": "string"}}
    });
    let check = compile(&tree).expect("a good schema");
    let good = json!({"children": [{"children": []}], "name": "x"});
    assert_eq!(check(&good), Ok(()));
    assert!(check(&json!({"children": [{"children": 1}]})).is_err());
}

#[test]
fn references_that_circle_or_multiply_are_refused() {
    let circle = json!({"type": "object", "allOf": [{"$ref": "#"}]});
    assert_eq!(refused(&circle), EXPLOSIVE);
    let mut defs = Map::new();
    for n in 0..40 {
        let next = json!({"$ref": format!("#/$defs/d{}", n + 1)});
        defs.insert(format!("d{n}"), json!({"allOf": [next, next]}));
    }
    defs.insert("d40".to_owned(), json!({"type": "object"}));
    let bomb =
        json!({"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": defs});
    assert_eq!(refused(&bomb), EXPLOSIVE);
}

#[test]
fn size_and_depth_are_bounded() {
    let large = object(json!({"path": {"description": "x".repeat(MAX_SCHEMA_BYTES)}}));
    assert!(refused(&large).contains("bytes, more than 65536"));
    let mut deep = json!({"type": "string"});
    for _ in 0..MAX_SCHEMA_DEPTH {
        deep = json!({"not": deep});
    }
    assert!(refused(&object(json!({"path": deep}))).contains("deeper than 64"));
}

#[test]
fn many_patterns_that_are_large_together_are_refused_and_many_small_ones_are_not() {
    let schema = |pattern: &str, n: usize| {
        let properties: serde_json::Map<String, Value> = (0..n)
            .map(|n| (n.to_string(), json!({"type": "string", "pattern": pattern})))
            .collect();
        json!({"type": "object", "properties": properties})
    };
    assert!(compile(&schema(r"\pL{12}N\pL", 1)).is_ok());
    let why = compile(&schema(r"\pL{12}N\pL", 500)).err();
    assert!(why.is_some_and(|why| why.contains("the schema is not valid")));
    assert!(compile(&schema(r"^[a-z][a-z0-9-]*$", 100)).is_ok());
    assert!(compile(&schema(r"^\w+$", 20)).is_ok());
}

#[test]
fn a_pattern_that_backtracks_without_end_is_stopped() {
    let schema = object(json!({"path": {"type": "string", "pattern": "^(?=a)(a+)+\\1$"}}));
    let check = compile(&schema).expect("a good schema");
    let started = std::time::Instant::now();
    assert!(check(&json!({"path": format!("{}!", "a".repeat(60))})).is_err());
    assert!(started.elapsed() < std::time::Duration::from_secs(2));
    let huge = object(json!({"path": {"pattern": "(\\w{1000}){1000}"}}));
    assert!(refused(&huge).contains("the schema is not valid"));
}

#[test]
fn arguments_too_deep_for_references_that_multiply_are_refused_at_once() {
    let twice = json!([{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]);
    let schema = json!({
        "type": "object",
        "properties": {"x": {"$ref": "#/$defs/a"}},
        "$defs": {"a": {"properties": {"x": {"anyOf": twice}}}}
    });
    let check = compile(&schema).expect("a good schema");
    let nested = |depth| (0..depth).fold(json!({}), |inner, _| json!({"x": inner}));
    assert_eq!(check(&nested(5)), Ok(()));
    let refused = check(&nested(60));
    assert!(refused.is_err_and(|why| why.contains("nested too deeply")));
}

#[test]
fn a_long_chain_of_references_does_no_harm() {
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
        match compile(&chain) {
            Ok(check) => assert_eq!(check(&json!({"x": 1})), Ok(())),
            Err(error) => assert_eq!(error, EXPLOSIVE),
        }
    }
}

#[test]
fn null_for_a_property_that_may_be_left_out_means_that_it_is() {
    let schema = json!({"type": "object", "required": ["path"], "properties": {
        "path": {"type": "string"},
        "n": {"type": "integer"},
        "mode": {"type": "string", "enum": ["a"]},
        "any": {},
        "may": {"type": ["string", "null"]},
        "inner": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "integer"}}}},
    }});
    let check = compile_arguments(&schema).expect("a good schema");
    let given = json!({"path": "p", "n": null, "mode": null, "any": null, "may": null, "inner": [{"x": null}]});
    assert_eq!(check(&given), Ok(()));
    let mut left = given;
    drop_nulls(&schema, &mut left);
    assert_eq!(
        left,
        json!({"path": "p", "any": null, "may": null, "inner": [{}]})
    );
    assert!(check(&json!({"path": null, "n": null})).is_err());
    assert!(check(&json!({"path": "p", "n": "1"})).is_err());
}

#[test]
fn derived_options_are_written_as_properties_that_may_be_left_out() {
    let mut schema = json!({"type": "object", "required": ["must"], "properties": {
        "n": {"type": ["integer", "null"], "default": null},
        "mode": {"type": ["string", "null"], "enum": ["a", null]},
        "inner": {"anyOf": [{"type": "object", "properties": {"x": {"type": ["string", "null"]}}}, {"type": "null"}]},
        "must": {"type": ["integer", "null"]},
    }});
    without_optional_nulls(&mut schema);
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
