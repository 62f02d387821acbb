//! Tests of the tool registry.

use futures_util::future::{BoxFuture, FutureExt};
use serde_json::{Value, json};

use super::*;
use crate::message::EffectClass;
use crate::tool::{Tool, ToolCtx, ToolOutput};

struct NamedTool(ToolSpec);

impl Tool for NamedTool {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn run<'a>(&'a self, _: Value, _: &'a ToolCtx) -> BoxFuture<'a, ToolOutput> {
        async { ToolOutput::ok("") }.boxed()
    }
}

fn spec(plugin: Option<&str>, name: &str) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: "d".to_owned(),
        parameters: json!({"type": "object", "properties": {"n": {"type": "integer"}}}),
        effect_class: EffectClass::Read,
        plugin: plugin.map(str::to_owned),
    }
}

fn register_tool(registry: &mut ToolRegistry, spec: ToolSpec) -> Result<(), String> {
    let added = registry.add(Arc::new(NamedTool(spec)));
    added.map_err(|error| error.to_string())
}

fn try_register(
    registry: &mut ToolRegistry,
    plugin: Option<&str>,
    name: &str,
) -> Result<(), String> {
    register_tool(registry, spec(plugin, name))
}

#[test]
fn a_tool_name_in_use_is_refused_with_both_origins() {
    let mut registry = ToolRegistry::default();
    assert_eq!(try_register(&mut registry, None, "bash"), Ok(()));
    assert_eq!(try_register(&mut registry, Some("one"), "go"), Ok(()));
    for (plugin, name, taken_by) in [
        ("one", "bash", "the built-in tools"),
        ("two", "go", "plugin `one`"),
    ] {
        let expected = format!(
            "tool `{name}` of plugin `{plugin}` is refused: the name is already taken by {taken_by}"
        );
        assert_eq!(
            try_register(&mut registry, Some(plugin), name),
            Err(expected)
        );
    }
    assert_eq!(registry.specs().len(), 2);
    let refused = try_register(&mut registry, Some("two"), "mcp__docs__go").unwrap_err();
    assert!(
        refused.contains("are for tools of MCP servers"),
        "{refused}"
    );
    assert_eq!(
        try_register(&mut registry, Some("mcp:docs"), "mcp__docs__go"),
        Ok(())
    );
    let refused = try_register(&mut registry, Some("mcp:docs"), "mcp__docs__go").unwrap_err();
    assert!(refused.contains("already taken by `mcp:docs`"), "{refused}");
}

#[test]
fn tool_names_are_limited_to_what_every_provider_accepts() {
    for good in ["a", "read_file", "x-Y-9", &"n".repeat(64)] {
        assert!(is_valid_tool_name(good), "{good}");
    }
    for bad in [
        "",
        "a b",
        "plugin:tool",
        "é",
        "a\u{1b}[2J",
        "a.b",
        &"n".repeat(65),
    ] {
        assert!(!is_valid_tool_name(bad), "{bad}");
        let refused = try_register(&mut ToolRegistry::default(), Some("p"), bad).unwrap_err();
        assert!(refused.contains("is not a name for a tool"), "{refused}");
        assert!(!refused.contains('\u{1b}'));
    }
}

#[test]
fn descriptions_schemas_and_numbers_of_tools_are_limited() {
    let mut registry = ToolRegistry::default();
    let is_refused = |result: Result<(), String>, why| {
        let refused = result.unwrap_err();
        assert!(refused.contains(why), "{refused}");
    };
    let mut long = spec(Some("p"), "long");
    long.description = "x".repeat(MAX_TOOL_DESCRIPTION_BYTES + 1);
    is_refused(
        register_tool(&mut registry, long),
        "has 4097 bytes, more than 4096",
    );
    let mut odd = spec(Some("p"), "odd");
    odd.parameters = json!({"type": "array"});
    is_refused(
        register_tool(&mut registry, odd),
        "the schema must be an object",
    );
    for n in 0..MAX_TOOLS_PER_PLUGIN {
        assert_eq!(
            try_register(&mut registry, Some("p"), &format!("t{n}")),
            Ok(())
        );
    }
    let more = try_register(&mut registry, Some("p"), "more");
    is_refused(more, "at most 128 tools");
    assert_eq!(try_register(&mut registry, Some("q"), "more"), Ok(()));
}

#[test]
fn entries_are_sorted_built_in_first_then_by_plugin_and_tool() {
    let mut registry = ToolRegistry::default();
    for (plugin, name) in [
        (Some("b"), "a"),
        (Some("a"), "z"),
        (None, "x"),
        (Some("a"), "c"),
        (None, "b"),
    ] {
        assert_eq!(try_register(&mut registry, plugin, name), Ok(()));
    }
    let order: Vec<String> = registry
        .specs()
        .iter()
        .map(|spec| spec.name.clone())
        .collect();
    assert_eq!(order, ["b", "x", "c", "z", "a"]);
}

#[test]
fn an_entry_checks_its_own_arguments() {
    let mut registry = ToolRegistry::default();
    assert_eq!(try_register(&mut registry, None, "count"), Ok(()));
    let check = registry.get("count").map(|entry| entry.check.clone());
    let check = check.expect("the tool is there");
    assert_eq!(check(&json!({"n": 1})), Ok(()));
    assert!(check(&json!({"n": "one"})).is_err());
}
