//! `pre-completion-checklist` with real commands and over several turns. Its other behavior is
//! tested by its case files.

use rind::provider::scripted::Reply;
use serde_json::json;

use super::with_plugin;

const NAME: &str = "pre-completion-checklist";

fn write(path: &str) -> Reply {
    Reply::call("write_file", json!({"path": path, "content": "new"}))
}

fn bash(command: &str) -> Reply {
    Reply::call("bash", json!({"command": command}))
}

/// Runs a turn with this script. Returns the lines of the conversation, and the output.
async fn turn(script: Vec<Reply>, settings: &[(&str, toml::Value)]) -> (Vec<String>, String) {
    let (_host, setup) = with_plugin(NAME, settings, script).await;
    let mut running = setup.build();
    let outcome = running.turn("go on with the work").await;
    (running.lines(), outcome.output)
}

fn objections(lines: &[String]) -> Vec<&String> {
    lines
        .iter()
        .filter(|line| line.contains("Not done yet"))
        .collect()
}

#[tokio::test]
async fn a_check_after_the_edit_lets_the_answer_stand() {
    let check = toml::Value::from(vec!["true"]);
    let script = vec![write("a.rs"), bash("cd . && true"), Reply::text("Done.")];
    let (lines, output) = turn(script, &[("checks", check.clone())]).await;
    assert!(objections(&lines).is_empty(), "{lines:?}");
    assert_eq!(output, "Done.");

    let script = vec![
        bash("true"),
        write("a.rs"),
        Reply::text("Done."),
        bash("true"),
        Reply::text("Done and checked."),
    ];
    let (lines, output) = turn(script, &[("checks", check)]).await;
    assert_eq!(objections(&lines).len(), 1, "{lines:?}");
    assert_eq!(output, "Done and checked.");
}

#[tokio::test]
async fn an_edit_and_a_check_in_one_answer_are_taken_in_their_order() {
    let check = toml::Value::from(vec!["true"]);
    for (is_checked, reply) in [
        (
            true,
            write("a.rs").with_tool_call("bash", json!({"command": "true"})),
        ),
        (
            false,
            bash("true").with_tool_call("write_file", json!({"path": "a.rs", "content": ""})),
        ),
    ] {
        let script = vec![reply, Reply::text("Done."), Reply::text("Really.")];
        let (lines, _) = turn(script, &[("checks", check.clone())]).await;
        assert_eq!(objections(&lines).is_empty(), is_checked, "{lines:?}");
    }
}

#[tokio::test]
async fn every_turn_is_asked_for_anew_and_one_without_edits_is_not() {
    let script = vec![
        write("a.rs"),
        Reply::text("One."),
        Reply::text("One, unchecked."),
        Reply::text("Two."),
        write("b.rs"),
        Reply::text("Three."),
        Reply::text("Three, unchecked."),
    ];
    let (_host, setup) = with_plugin(NAME, &[], script).await;
    let mut running = setup.build();
    for expected in ["One, unchecked.", "Two.", "Three, unchecked."] {
        assert_eq!(running.turn("go on with the work").await.output, expected);
    }
    let lines = running.lines();
    let objections = objections(&lines);
    assert_eq!(objections.len(), 2);
    assert!(objections[1].contains("`b.rs`") && !objections[1].contains("`a.rs`"));
}

#[tokio::test]
async fn a_check_that_failed_or_is_hidden_sends_the_answer_back() {
    let checks = toml::Value::from(vec!["false"]);
    for (line, says) in [
        ("false", "the last check after that failed: `false`"),
        (
            "false | cat",
            "the exit code of `false | cat` is not that of its check",
        ),
    ] {
        let script = vec![
            write("a.rs"),
            bash(line),
            Reply::text("Done."),
            Reply::text("Done, and the check fails."),
        ];
        let (lines, output) = turn(script, &[("checks", checks.clone())]).await;
        let objections = objections(&lines);
        assert_eq!(objections.len(), 1, "{lines:?}");
        assert!(objections[0].contains(says), "{lines:?}");
        assert_eq!(output, "Done, and the check fails.");
    }
}
