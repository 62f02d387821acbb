//! Tests of valid manifests, and of the messages for invalid ones.

use std::time::Duration;

use super::*;
use crate::table::parse_table_rows;

const HEAD: &str = "name = \"p\"\nversion = \"0.1.0\"\ndescription = \"d\"\n";

fn parse_manifest(rest: &str) -> Result<Manifest, Error> {
    Manifest::parse(&format!("{HEAD}{rest}"), Path::new("plugin.toml"))
}

/// Invalid manifests, to which the tests prepend [`HEAD`], each with a part of the expected error
/// message.
const REFUSED: &str = r#"
component = "../p.wasm" => component = "../p.wasm" is not the name of a file in the folder of the manifest
side_effects = ["none", "session"] => `none` cannot be combined with others
[network] => [network] needs `side_effects = ["network"]`
[hooks.pre-tool]⏎async = true => line 4, [hooks.pre-tool]: only hooks of observe points can be `async`
⏎[hooks.nowhere] => line 5, [hooks.nowhere]: there is no such point; the points are session-start, session-end
⏎[hooks.pre-tol] => there is no such point; did you mean `pre-tool`? `rind plugin points` lists them
⏎[hooks.pre_tol] => there is no such point; did you mean `pre-tool`?
[hooks.turn-end]⏎on_failure = "block" => is not possible for hooks of observe points
[hooks.pre-tool]⏎[hooks.tool_call] => the options of the hook on pre-tool are set twice
[points.Upper]⏎kind = "gate" => [points.Upper]: the name `Upper` is not made of 1 to 64 of a-z, 0-9 and `-`
[implements]⏎"owner" = {} => [implements] `owner` is not of the form `owner.NAME`
[implements]⏎"owner.p" = { async = true } => `async` is not allowed
[implements]⏎"owner.p" = { only_with = ["m"] } => `only_with` is not allowed
[implements]⏎"owner.p" = { only_tools = ["m"] } => `only_tools` is not allowed
[implements]⏎"owner.p" = { only_final = true } => `only_final` is not allowed
[implements]⏎"owner.p" = { only_over = "m" } => `only_over` is not allowed
[hooks.turn-end]⏎only_with = ["m"] => line 4, [hooks.turn-end]: only_with: [config] has no setting `m`
[hooks.turn-end]⏎only_with = [] => only_with is empty: name a setting, or remove the key
[hooks.pre-tool]⏎only_tools = ["bash"] => only_tools: [config] has no setting `bash`
[hooks.pre-tool]⏎only_tools = ["m"]⏎[config.properties]⏎m = { type = "string" } => only_tools: the setting `m` is not a list of texts
[hooks.pre-tool]⏎only_tools = ["m"]⏎[config.properties]⏎m = { type = "array", items = { type = "integer" } } => only_tools: the setting `m` is not a list of texts
[hooks.turn-end]⏎only_final = true => only_final: remove it, because hooks on turn-end are not given an answer of the model
[hooks.post-tool]⏎only_over = "m" => only_over: [config] has no setting `m`
[hooks.post-tool]⏎only_over = "m"⏎[config.properties]⏎m = { type = "number" } => only_over: the setting `m` is not a whole number
[hooks.pre-tool]⏎only_over = "m"⏎[config.properties]⏎m = { type = "integer" } => only_over: hooks on pre-tool receive no result of a tool
[hooks.turn-end]⏎only_tools = ["m"]⏎[config.properties]⏎m = { type = "array", items = { type = "string" } } => only_tools: hooks on turn-end receive no tool call
[limits]⏎memory = "64MB" => is not a size like "64MiB"
[limits]⏎memory = "18446744073709551615KiB" => is not a size
[limits]⏎timeout = "0s" => a time of 0 would stop
[limits]⏎timeout = "5" => is not a time like "5s"
[tools.t] => [tools.t]: the section is empty; set `idempotent = true` or `check`
[tools.t]⏎idempotent = true⏎check = "c" => [tools.t]: `idempotent` and `check` exclude each other
[tools.t]⏎check = "t" => [tools.t]: `check` names the tool itself
[tools.t]⏎check = "a\n" => is not a valid tool name
[tools."a b"]⏎idempotent = true => `a b` is not a valid tool name
colour = 1 => unknown field `colour`
side_efects = ["none"] => did you mean `side_effects`?
[hooks.pre-tool]⏎prioritty = 1 => did you mean `priority`?
side_effects = ["filesystem"]⏎[filesystem]⏎read = ["workspace/a\u001b[2K"] => nor what cannot be seen
side_effects = ["filesystem"]⏎[filesystem]⏎read = ["workspace/a\n  it may nothing"] => nor what cannot be seen
side_effects = ["external"]⏎[external]⏎tools = ["a\n  it may nothing"] => is not a valid tool name
"#;

/// Invalid contents of `[network]`, each with a part of the expected error message.
const REFUSED_IN_NETWORK: &str = r#"
hosts = ["http://127.0.0.1:80"] => `http://127.0.0.1` is a loopback address; list it under `private`
hosts = ["10.0.0.1"] => is a private address; list it under `private`
hosts = ["[::ffff:10.0.0.1]"] => is a private address; list it under `private`
hosts = ["*.localhost"] => is this machine; list it under `private`
hosts = ["169.254.169.254"] => is an address of cloud metadata, which no plugin may reach
private = ["http://169.254.169.254"] => is an address of cloud metadata, which no plugin may reach
private = ["*"] => list the hosts that the plugin needs
private = ["1.1.1.1"] => is a public address; list it under `hosts`
hosts = ["a.b"]⏎credentials = [{ host = "a.b", header = "Authorization", value = "{T}" }] => the header `Authorization` is not made of
hosts = ["a.b"]⏎credentials = [{ host = "a.b", header = "host", value = "{T}" }] => remove the header `host`, which only the host may set
hosts = ["a.b"]⏎credentials = [{ host = "a.b", header = "x", value = "plain" }] => [[network.credentials]] for `a.b`: the value has no placeholder
hosts = ["a.b"]⏎credentials = [{ host = "a.b", header = "x", value = "{t}" }] => has the placeholder `{t}`
hosts = ["a.b"]⏎credentials = [{ host = "*.b", header = "x", value = "{T}" }] => lets the plugin talk to all of `*.b`
hosts = ["a.b"]⏎[[network.credentials]]⏎host = "a.b"⏎header = "x"⏎value = "a\n{A}" => a character that no header carries
"#;

#[test]
fn invalid_manifests_are_refused_with_line_and_reason() {
    for [rest, expected] in parse_table_rows(REFUSED_IN_NETWORK) {
        let rest = format!("side_effects = [\"network\"]\n[network]\n{rest}");
        let refusal = parse_manifest(&rest).unwrap_err().to_string();
        assert!(refusal.contains(&expected), "{rest}: {refusal}");
    }
    let fine = "side_effects = [\"network\"]\n[network]\nhosts = [\"*.b\"]\nprivate = [\"http://localhost:80\", \
     \"10.0.0.1\"]\ncredentials = [{ host = \"a.b\", header = \"x\", value = \"{T}\" }]";
    parse_manifest(fine).unwrap();
    for [rest, expected] in parse_table_rows(REFUSED) {
        let refusal = parse_manifest(&rest).unwrap_err().to_string();
        assert!(refusal.contains(&expected), "{rest}: {refusal}");
    }
}

#[test]
fn plugin_names_contain_only_safe_characters() {
    for name in ["", "a/b", "..", "A", "a\\u001b", &"n".repeat(65)] {
        let text = format!("name = \"{name}\"\nversion = \"0.1.0\"\ndescription = \"d\"\n");
        assert!(
            Manifest::parse(&text, Path::new("plugin.toml")).is_err(),
            "{name}"
        );
    }
}

#[test]
fn reserved_plugin_names_are_refused() {
    let parse = |name: &str| {
        let text = format!("name = \"{name}\"\nversion = \"0.1.0\"\ndescription = \"d\"\n");
        Manifest::parse(&text, Path::new("plugin.toml"))
    };
    let reserved = "host policy user rind model assistant system main reflection -host- -- rind-core sub-fb6b6704";
    for name in reserved.split(' ') {
        let refusal = parse(name).unwrap_err().to_string();
        assert!(refusal.contains("is reserved"), "{name}: {refusal}");
    }
    for name in "host-guard policy-log model-quartermaster sub-tasks grind".split(' ') {
        parse(name).unwrap();
    }
}

#[test]
fn plugin_names_that_look_like_options_are_refused() {
    for (name, is_fine) in [
        ("-x", false),
        ("--help", false),
        ("x-", true),
        ("0-x", true),
    ] {
        let text = format!("name = \"{name}\"\nversion = \"0.1.0\"\ndescription = \"d\"\n");
        let found = Manifest::parse(&text, Path::new("plugin.toml"));
        assert_eq!(found.is_ok(), is_fine, "{name}");
    }
}

#[test]
fn too_many_requested_permissions_are_refused() {
    let asking = |n: u32| {
        let tools: Vec<String> = (0..n).map(|n| format!("t{n}")).collect();
        parse_manifest(&format!(
            "side_effects = [\"external\"]\n[external]\ntools = {tools:?}"
        ))
    };
    asking(32).unwrap();
    let refusal = asking(33).unwrap_err().to_string();
    assert!(
        refusal.contains("the plugin asks for 33 permissions"),
        "{refusal}"
    );
}

#[test]
fn point_aliases_are_replaced_and_units_are_parsed() {
    let manifest = parse_manifest(
        "[hooks.tool_call]\npriority = 7\ntimeout = \"500ms\"\n[limits]\nmemory = \"64MiB\"\ntimeout = \"2s\"",
    )
    .unwrap();
    let hook = manifest.hook("pre-tool");
    assert_eq!(hook.priority, Some(7));
    assert_eq!(hook.timeout, Some(Duration::from_millis(500)));
    assert_eq!(manifest.limits.memory, Some(64 << 20));
    assert_eq!(manifest.limits.timeout, Some(Duration::from_secs(2)));
    assert_eq!(manifest.hook("post-tool"), HookOptions::default());
}

/// Returns the keys that a table of the manifest may have, from the error about an unknown key:
/// "unknown field `x`, expected one of `a`, `b`".
fn expected_keys(error: &str) -> Vec<&str> {
    let (_, expected) = error.split_once(", expected ").unwrap();
    let mut keys: Vec<&str> = expected.split('`').skip(1).step_by(2).collect();
    keys.sort_unstable();
    keys
}

#[test]
fn manifest_schema_has_exactly_the_accepted_keys() {
    let schema: Value = serde_json::from_str(include_str!("schema.json")).unwrap();
    let table = [
        ("", "/properties"),
        ("[hooks.pre-tool]\n", "/$defs/hook/properties"),
        ("[filesystem]\n", "/properties/filesystem/properties"),
        ("[network]\n", "/properties/network/properties"),
        (
            "[[network.credentials]]\n",
            "/properties/network/properties/credentials/items/properties",
        ),
        ("[external]\n", "/properties/external/properties"),
        ("[limits]\n", "/properties/limits/properties"),
        (
            "[points.p]\n",
            "/properties/points/additionalProperties/properties",
        ),
        (
            "[tools.t]\n",
            "/properties/tools/additionalProperties/properties",
        ),
        ("[compat]\n", "/properties/compat/properties"),
    ];
    for (section, place) in table {
        let error = parse_manifest(&format!("{section}no-such-key = 1\n"))
            .unwrap_err()
            .to_string();
        let properties = schema.pointer(place).unwrap().as_object().unwrap();
        let mut known: Vec<&str> = properties.keys().map(String::as_str).collect();
        known.sort_unstable();
        assert_eq!(expected_keys(&error), known, "{place}");
    }
    let points = schema.pointer("/properties/hooks/properties").unwrap();
    let points: Vec<&str> = points
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    let rows = crate::point::catalog::CATALOG.iter();
    assert_eq!(points, rows.map(|row| row.name).collect::<Vec<_>>());
}
