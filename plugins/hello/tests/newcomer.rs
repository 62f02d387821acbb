//! Tests of what this plugin promises to newcomers.

#[test]
fn a_plugin_with_a_tool_and_a_hook_takes_at_most_25_lines() {
    let source = include_str!("../src/lib.rs");
    assert!(source.contains("#[tool(") && source.contains("#[hook]"));
    assert!(source.lines().count() <= 25);
}
