//! Tests of valid manifests, and of the messages for invalid ones.

use std::time::Duration;

use super::*;
use crate::table::rows;

const HEAD: &str = "name = \"p\"\nversion = \"0.1.0\"\ndescription = \"d\"\n";

fn parse(rest: &str) -> Result<Manifest, Error> {
    Manifest::parse(&format!("{HEAD}{rest}"), Path::new("plugin.toml"))
}

/// Invalid manifests without the lines of [`HEAD`], each with a part of the error message.
const REFUSED: &str = r#"
component = "../p.wasm" => component = "../p.wasm" is not a file name beside the manifest
side_effects = ["none", "session"] => `none` cannot be combined with others
[network] => [network] needs `side_effects = ["network"]`
[hooks.pre-tool]⏎async = true => line 4, [hooks.pre-tool]: only hooks of observe points can be `async`
⏎[hooks.nowhere] => line 5, [hooks.nowhere]: there is no such point; the points are session-start, session-end
⏎[hooks.pre-tol] => there is no such point; did you mean `pre-tool`? `rind plugin points` lists them
⏎[hooks.pre_tol] => there is no such point; did you mean `pre-tool`?
[hooks.turn-end]⏎on_failure = "block" => observe points cannot block
[hooks.pre-tool]⏎[hooks.tool_call] => the hook on pre-tool has options twice
[points.Upper]⏎kind = "gate" => [points.Upper]: the name `Upper` is not made of 1 to 64 of a-z, 0-9 and `-`
[implements]⏎"owner" = {} => [implements] `owner` is not written `owner.NAME`
[implements]⏎"owner.p" = { async = true } => `async` is not possible
[implements]⏎"owner.p" = { only_with = ["m"] } => `only_with` is not possible
[implements]⏎"owner.p" = { only_tools = ["m"] } => `only_tools` is not possible
[implements]⏎"owner.p" = { only_final = true } => `only_final` is not possible
[implements]⏎"owner.p" = { only_over = "m" } => `only_over` is not possible
[hooks.turn-end]⏎only_with = ["m"] => line 4, [hooks.turn-end]: only_with: [config] has no setting `m`
[hooks.turn-end]⏎only_with = [] => only_with names no setting: leave it out
[hooks.pre-tool]⏎only_tools = ["bash"] => only_tools: [config] has no setting `bash`
[hooks.pre-tool]⏎only_tools = ["m"]⏎[config.properties]⏎m = { type = "string" } => only_tools: the setting `m` is not a list of texts
[hooks.pre-tool]⏎only_tools = ["m"]⏎[config.properties]⏎m = { type = "array", items = { type = "integer" } } => only_tools: the setting `m` is not a list of texts
[hooks.turn-end]⏎only_final = true => only_final: turn-end is not about an answer
[hooks.post-tool]⏎only_over = "m" => only_over: [config] has no setting `m`
[hooks.post-tool]⏎only_over = "m"⏎[config.properties]⏎m = { type = "number" } => only_over: the setting `m` is not a whole number
[hooks.pre-tool]⏎only_over = "m"⏎[config.properties]⏎m = { type = "integer" } => only_over: pre-tool is not about a result
[hooks.turn-end]⏎only_tools = ["m"]⏎[config.properties]⏎m = { type = "array", items = { type = "string" } } => only_tools: turn-end is not about a tool call
[limits]⏎memory = "64MB" => is not a size like "64MiB"
[limits]⏎memory = "18446744073709551615KiB" => is not a size
[limits]⏎timeout = "0s" => a time of 0 would stop
[limits]⏎timeout = "5" => is not a time like "5s"
[tools.t] => [tools.t]: it says nothing; set `idempotent = true` or `check`
[tools.t]⏎idempotent = true⏎check = "c" => [tools.t]: `idempotent` and `check` exclude each other
[tools.t]⏎check = "t" => [tools.t]: `check` names the tool itself
[tools.t]⏎check = "a\n" => is not the name of a tool
[tools."a b"]⏎idempotent = true => `a b` is not the name of a tool
colour = 1 => unknown field `colour`
side_efects = ["none"] => did you mean `side_effects`?
[hooks.pre-tool]⏎prioritty = 1 => did you mean `priority`?
side_effects = ["filesystem"]⏎[filesystem]⏎read = ["workspace/a\u001b[2K"] => nor what cannot be seen
side_effects = ["filesystem"]⏎[filesystem]⏎read = ["workspace/a\n  it may nothing"] => nor what cannot be seen
side_effects = ["external"]⏎[external]⏎tools = ["a\n  it may nothing"] => is not the name of a tool
"#;

/// Invalid contents of `[network]`, each with a part of the error message.
const REFUSED_IN_NETWORK: &str = r#"
hosts = ["http://127.0.0.1:80"] => `http://127.0.0.1` is a loopback address; list it under `private`
hosts = ["10.0.0.1"] => is a private address; list it under `private`
hosts = ["[::ffff:10.0.0.1]"] => is a private address; list it under `private`
hosts = ["*.localhost"] => is this machine; list it under `private`
hosts = ["169.254.169.254"] => is an address of cloud metadata, which no plugin may reach
private = ["http://169.254.169.254"] => is an address of cloud metadata, which no plugin may reach
private = ["*"] => name those that are meant
private = ["1.1.1.1"] => is a public address; list it under `hosts`
hosts = ["a.b"]⏎credentials = [{ host = "a.b", header = "Authorization", value = "{T}" }] => the header `Authorization` is not made of
hosts = ["a.b"]⏎credentials = [{ host = "a.b", header = "host", value = "{T}" }] => the header `host` is for the host to set
hosts = ["a.b"]⏎credentials = [{ host = "a.b", header = "x", value = "plain" }] => [[network.credentials]] for `a.b`: the value has no placeholder
hosts = ["a.b"]⏎credentials = [{ host = "a.b", header = "x", value = "{t}" }] => has the placeholder `{t}`
hosts = ["a.b"]⏎credentials = [{ host = "*.b", header = "x", value = "{T}" }] => lets the plugin talk to all of `*.b`
hosts = ["a.b"]⏎[[network.credentials]]⏎host = "a.b"⏎header = "x"⏎value = "a\n{A}" => a character that no header carries
"#;

#[test]
fn what_the_format_cannot_say_is_refused_with_the_place_and_the_reason() {
    for [rest, expected] in rows(REFUSED_IN_NETWORK) {
        let rest = format!("side_effects = [\"network\"]\n[network]\n{rest}");
        let refusal = parse(&rest).unwrap_err().to_string();
        assert!(refusal.contains(&expected), "{rest}: {refusal}");
    }
    let fine = "side_effects = [\"network\"]\n[network]\nhosts = [\"*.b\"]\nprivate = [\"http://localhost:80\", \
     \"10.0.0.1\"]\ncredentials = [{ host = \"a.b\", header = \"x\", value = \"{T}\" }]";
    parse(fine).unwrap();
    for [rest, expected] in rows(REFUSED) {
        let refusal = parse(&rest).unwrap_err().to_string();
        assert!(refusal.contains(&expected), "{rest}: {refusal}");
    }
}

#[test]
fn names_hold_nothing_that_a_path_or_a_terminal_would_take_up() {
    for name in ["", "a/b", "..", "A", "a\\u001b", &"n".repeat(65)] {
        let text = format!("name = \"{name}\"\nversion = \"0.1.0\"\ndescription = \"d\"\n");
        assert!(
            Manifest::parse(&text, Path::new("plugin.toml")).is_err(),
            "{name}"
        );
    }
}

#[test]
fn no_plugin_speaks_under_a_name_of_the_program_the_model_or_a_person() {
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
fn a_plugin_has_no_name_that_reads_like_an_option() {
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
fn nobody_is_asked_about_more_than_they_would_read() {
    let asking = |n: u32| {
        let tools: Vec<String> = (0..n).map(|n| format!("t{n}")).collect();
        parse(&format!(
            "side_effects = [\"external\"]\n[external]\ntools = {tools:?}"
        ))
    };
    asking(32).unwrap();
    let refusal = asking(33).unwrap_err().to_string();
    assert!(refusal.contains("it asks for 33 permissions"), "{refusal}");
}

#[test]
fn an_alias_is_put_in_the_words_of_the_catalog_and_units_are_read() {
    let manifest = parse(
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
fn keys(error: &str) -> Vec<&str> {
    let (_, expected) = error.split_once(", expected ").unwrap();
    let mut keys: Vec<&str> = expected.split('`').skip(1).step_by(2).collect();
    keys.sort_unstable();
    keys
}

#[test]
fn the_schema_has_the_keys_that_are_read_and_no_others() {
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
        let error = parse(&format!("{section}no-such-key = 1\n"))
            .unwrap_err()
            .to_string();
        let properties = schema.pointer(place).unwrap().as_object().unwrap();
        let mut known: Vec<&str> = properties.keys().map(String::as_str).collect();
        known.sort_unstable();
        assert_eq!(keys(&error), known, "{place}");
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
