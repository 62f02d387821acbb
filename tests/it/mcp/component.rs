//! `rind mcp serve --component`: functions of components that do not use Rind's contract.

use std::path::PathBuf;

use rind_tests::cli::Rind;
use rind_tests::guests;
use serde_json::{Value, json};

use super::client::{Client, text_of};

/// A machine and the path of a component on it.
fn machine() -> (Rind, PathBuf) {
    let rind = Rind::default();
    let file = rind.user_home().join("Catalog.wasm");
    std::fs::copy(guests::guest("foreign").join("guest_foreign.wasm"), &file).unwrap();
    (rind, file)
}

fn serve(rind: &Rind, file: &std::path::Path, more: &[&str]) -> Client {
    let args = [&["--component", file.to_str().unwrap()], more].concat();
    Client::ready(rind, &args, &json!({}))
}

#[test]
fn every_function_is_a_tool_and_every_type_has_one_json_form() {
    let (rind, file) = machine();
    let mut client = serve(&rind, &file, &[]);
    let tools = client.tools();
    for name in [
        "catalog_greet",
        "catalog_misbehave",
        "catalog_shapes_same",
        "catalog_shapes_sum",
    ] {
        assert!(tools.iter().any(|own| own == name), "{name}: {tools:?}");
    }
    assert!(
        !tools
            .iter()
            .any(|own| own.contains("make") || own.contains("handle")),
        "{tools:?}"
    );
    let text = text_of(&client.call("catalog_greet", &json!({"name": "Ada"})));
    assert_eq!(text, "Good day, Ada.");

    let point = json!({"x": -1, "y": 2});
    let labeled = json!({"x": -1, "y": 2, "label": "p"});
    let same = |shape: Value| json!({"shape": shape, "color": "green", "marks": ["b"]});
    let mut text = |tool: &str, arguments: Value| {
        let result = client.call(&format!("catalog_shapes_{tool}"), &arguments);
        assert_ne!(result["isError"], true, "{tool}: {result}");
        text_of(&result)
    };
    let nothing: Value =
        serde_json::from_str(&text("same", same(json!({"tag": "nothing"})))).unwrap();
    assert_eq!(nothing[0], json!({"tag": "nothing"}));
    let line = json!({"tag": "line", "val": [point, labeled]});
    let told = text("same", same(line));
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(
        told[0]["val"],
        json!([{"x": -1, "y": 2, "label": null}, labeled])
    );
    assert_eq!((&told[1], &told[2]), (&json!("green"), &json!(["b"])));
    for (tool, arguments, expected) in [
        (
            "sum",
            json!({"numbers": ["18446744073709551614", "1"]}),
            "\"18446744073709551615\"",
        ),
        (
            "negate",
            json!({"n": "-9223372036854775807"}),
            "\"9223372036854775807\"",
        ),
        ("reverse", json!({"data": "AAEC"}), "\"AgEA\""),
        ("next-letter", json!({"letter": "é"}), "\"ê\""),
        ("maybe", json!({}), "null"),
        ("maybe", json!({"n": 0}), "{\"some\":null}"),
        ("maybe", json!({"n": 5}), "{\"some\":\"5\"}"),
        ("attempt", json!({"works": true}), "it works"),
        ("outcome", json!({"r": {"ok": 255}}), "255"),
        ("half", json!({"n": 5}), "2.5"),
    ] {
        assert_eq!(text(tool, arguments), expected, "{tool}");
    }
    for (tool, arguments) in [
        ("attempt", json!({"works": false})),
        ("outcome", json!({"r": {"err": "no"}})),
        ("sum", json!({"numbers": ["18446744073709551616"]})),
        ("sum", json!({"numbers": [1]})),
        ("reverse", json!({"data": "%%"})),
        ("next-letter", json!({"letter": "ab"})),
        (
            "same",
            json!({"shape": {"tag": "dot"}, "color": "green", "marks": []}),
        ),
        (
            "same",
            json!({"shape": {"tag": "nothing"}, "color": "blue", "marks": []}),
        ),
        (
            "same",
            json!({"shape": {"tag": "nothing"}, "color": "red", "marks": ["c"]}),
        ),
        ("negate", json!({"n": "1", "more": 1})),
    ] {
        let result = client.call(&format!("catalog_shapes_{tool}"), &arguments);
        assert_eq!(result["isError"], true, "{tool} {arguments}: {result}");
    }
    let failed = client.call("catalog_shapes_attempt", &json!({"works": false}));
    assert_eq!(text_of(&failed), "it does not work");
}

#[test]
fn a_component_runs_in_the_sandbox_with_what_the_operator_gives() {
    let (rind, file) = machine();
    rind.file("docs/note.txt", "a note");
    let misbehave = |client: &mut Client, how: &str, text: &str| {
        client.call("catalog_misbehave", &json!({"how": how, "text": text}))
    };
    let mut client = serve(&rind, &file, &["--yes"]);
    for (how, expected) in [("trap", "broken on purpose"), ("grow", "64 MiB of memory")] {
        let result = misbehave(&mut client, how, "");
        assert_eq!(result["isError"], true);
        assert!(text_of(&result).contains(expected), "{how}: {result}");
    }
    let result = misbehave(&mut client, "variable", "HOME");
    assert_eq!(text_of(&result), "Err(NotPresent)");
    let result = misbehave(&mut client, "read", "/workspace/docs/note.txt");
    assert!(text_of(&result).starts_with("Err"), "{result}");
    let secret = format!("AKIA{}", "Z7QX3M5R2T6P4WKV");
    assert!(
        !misbehave(&mut client, "say", &secret)
            .to_string()
            .contains(&secret)
    );
    drop(client);

    let mut client = serve(
        &rind,
        &file,
        &["--yes", "--grant", "catalog=read:workspace/docs"],
    );
    let result = misbehave(&mut client, "read", "/workspace/docs/note.txt");
    assert_eq!(text_of(&result), "Ok(\"a note\")", "{result}");
    drop(client);

    let policy = rind.user_home().join("policy.yaml");
    std::fs::write(
        &policy,
        "version: \"1.0\"\npermissions:\n  storage:\n    allow:\n      - uri: \"fs://workspace/docs\"\n        access: [read]\n  \
         environment:\n    allow:\n      - key: \"CATALOG_KEY\"\n",
    )
    .unwrap();
    rind.user_file("config/secrets.toml", "CATALOG_KEY = \"plain-value\"\n");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(rind.home().join("config/secrets.toml"), mode).unwrap();
    let named = format!("catalog={}", policy.display());
    let mut client = serve(&rind, &file, &["--yes", "--component-policy", &named]);
    let result = misbehave(&mut client, "read", "/workspace/docs/note.txt");
    assert_eq!(text_of(&result), "Ok(\"a note\")", "{result}");
    let result = misbehave(&mut client, "variable", "CATALOG_KEY");
    assert!(text_of(&result).starts_with("Ok("), "{result}");
}

#[test]
fn what_is_no_component_for_tools_is_refused_by_name() {
    let (rind, file) = machine();
    let run = |file: &std::path::Path, more: &[&str]| {
        let args = [
            &["mcp", "serve", "--component", file.to_str().unwrap()],
            more,
        ]
        .concat();
        rind.run(&args)
    };
    let told = run(&file, &[]);
    assert_eq!(told.code, Some(0), "{}", told.stderr);
    assert!(
        told.stderr.contains("shapes@1.0.0/make") && told.stderr.contains("a resource"),
        "{}",
        told.stderr
    );
    let plugin = guests::guest("hello").join("hello.wasm");
    let text = rind.user_home().join("text.wasm");
    std::fs::write(&text, "no component").unwrap();
    let missing = rind.user_home().join("missing.wasm");
    for (file, expected) in [
        (&plugin, "--plugin"),
        (&text, "not WebAssembly"),
        (&missing, "missing.wasm"),
    ] {
        let ran = run(file, &[]);
        assert_ne!(ran.code, Some(0), "{}", file.display());
        assert!(ran.stderr.contains(expected), "{expected}: {}", ran.stderr);
    }
    let ran = run(&file, &["--grant", "catalog=session"]);
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("does not apply to components"),
        "{}",
        ran.stderr
    );
    let ran = run(&file, &["--component", file.to_str().unwrap()]).exits(2);
    assert!(
        ran.stderr.contains("two components have the name"),
        "{}",
        ran.stderr
    );
}

#[test]
fn few_bytes_that_stand_for_millions_of_types_are_not_offered() {
    let (rind, file) = machine();
    let doubled: String = (1..=17)
        .map(|n| format!("(type $t{n} (tuple (list $t{0}) (list $t{0})))", n - 1))
        .collect();
    let text = format!(
        r#"(component
            (core module $m
                (memory (export "memory") 1)
                (func (export "realloc") (param i32 i32 i32 i32) (result i32) unreachable)
                (func (export "ping"))
                (func (export "heavy") (param i32 i32 i32 i32)))
            (core instance $i (instantiate $m))
            (type $t0 (tuple u16 u16)) {doubled}
            (func (export "ping") (canon lift (core func $i "ping")))
            (func (export "heavy") (param "a" $t17)
                (canon lift (core func $i "heavy")
                    (memory (core memory $i "memory")) (realloc (core func $i "realloc")))))"#
    );
    std::fs::write(&file, wat::parse_str(text).unwrap()).unwrap();
    let mut client = serve(&rind, &file, &[]);
    assert_eq!(client.tools(), ["catalog_ping"]);
    assert_eq!(text_of(&client.call("catalog_ping", &json!({}))), "done");
}
