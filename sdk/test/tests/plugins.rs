//! Tests of the crate on real plugins: what it reports for plugins that pass and for plugins that
//! fail.

use rind_test::{Error, Plugin};
use serde_json::json;

/// Returns the path of a folder of the repository.
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

#[test]
fn a_command_reads_what_was_put_into_the_state() {
    let plugin = Plugin::build(folder("plugins/todo")).unwrap();
    let tasks = json!([{"text": "Test it", "status": "pending"}]).to_string();
    let case = || plugin.case().state("tasks", tasks.as_str());
    let shown = case().command("todo", "").run().unwrap().seen;
    assert_eq!(shown.output, "[ ] Test it");
    let cleared = case().command("todo", "clear").run().unwrap().seen;
    assert_eq!(cleared.output, "The list is empty.");
}

#[test]
fn a_question_is_answered_as_the_case_says_and_refused_where_nobody_is_there() {
    let plugin = Plugin::build(folder("plugins/git-guard")).unwrap();
    let call = json!({"call": {"name": "bash", "arguments": {"command": "git push"}}, "effect_class": "execute"});
    let case = || {
        let case = plugin.case().file(".git/HEAD", "ref: refs/heads/main\n");
        case.event("pre-tool", call.clone())
    };
    for (case, outcome) in [
        (case().replies(&["yes"]), "pass"),
        (case().replies(&["no"]), "blocked"),
    ] {
        let seen = case.run().unwrap().seen;
        assert_eq!(seen.hooks[0].outcome, outcome, "{seen:?}");
        assert_eq!(seen.asked.len(), 1, "{seen:?}");
    }
    let seen = case().run().unwrap().seen;
    assert_eq!(seen.hooks[0].outcome, "blocked", "{seen:?}");
}

#[test]
fn a_loop_is_run_once_and_says_when_it_wants_to_run_again() {
    let plugin = Plugin::build(folder("plugins/heartbeat")).unwrap();
    let case = plugin.case().file("open.md", "# Open work\n");
    let ran = case.config("file", "open.md").run_loop().run();
    let again = ran.unwrap().seen.again.unwrap();
    assert_eq!(again.reason, "no open work in open.md");
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
            .contains("when its instance is kept than when it is new"),
        "{error}"
    );
    let error = plugin.run_case_files().unwrap_err();
    assert!(matches!(error, Error::Failed(_)), "{error}");
}
