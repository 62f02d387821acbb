//! The crate on real plugins: what it says of one that is right, and of one that is wrong.

use rind_test::{Error, Plugin};
use serde_json::json;

/// A folder of the tree.
fn folder(path: &str) -> String {
    format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn a_turn_with_settings_and_files_runs_in_the_real_sandbox() {
    let plugin = Plugin::build(folder("plugins/loop-detection")).unwrap();
    let call = || json!({"call": {"name": "read_file", "arguments": {"path": "a.txt"}}});
    let ran = plugin
        .case()
        .config("repeats", 2)
        .config("block_after", 1)
        .event(
            "pre-tool",
            json!({"call": {"id": "1", "name": "read_file", "arguments": {"path": "a.txt"}}}),
        )
        .event("pre-tool", call())
        .run();
    let seen = ran.unwrap().seen;
    assert_eq!(seen.hooks.last().unwrap().outcome, "blocked", "{seen:?}");

    let ran = plugin
        .case()
        .file("a.txt", "alpha\n")
        .tool("read_file", json!({"path": "a.txt"}))
        .run();
    let ran = ran.unwrap();
    assert!(ran.seen.results[0].contains("alpha"), "{:?}", ran.seen);
    assert!(ran.cost.memory_bytes > 0);
    plugin.run_case_files().unwrap();
}

#[tokio::test]
async fn a_plugin_that_remembers_in_its_instance_fails_within_a_runtime_too() {
    let plugin = Plugin::build(folder("tests/guests/hostile")).unwrap();
    let case = plugin
        .case()
        .config("how", "count")
        .tool("misbehaving", json!({}));
    let error = case.run().unwrap_err();
    assert!(
        error
            .to_string()
            .contains("with a kept and with a fresh instance"),
        "{error}"
    );
    let error = plugin.run_case_files().unwrap_err();
    assert!(matches!(error, Error::Failed(_)), "{error}");
}
