//! Tests of the parsing of commands, and of the hooks on the SDK's in-memory host.

use crate::check::is_check_failure_propagated;
use crate::command::parse_line_commands;
use crate::pre_completion_checklist::{
    __rind_hook_post_reason as post_reason, __rind_hook_post_tool as post_tool,
};
use rind_sdk::prelude::*;
use rind_sdk::serde_json::{Value, json};
use rind_sdk::testing::{self, Caller};

/// Returns the default settings that the plugin's manifest declares, which most operators use.
fn default_settings() -> Value {
    let manifest = include_str!("../plugin.toml");
    let list = |key: &str| -> Vec<String> {
        let (_, rest) = manifest
            .split_once(&format!("[config.properties.{key}]"))
            .unwrap();
        let (_, rest) = rest.split_once("default = [").unwrap();
        let (list, _) = rest.split_once("]\n").unwrap();
        list.split('"')
            .skip(1)
            .step_by(2)
            .map(str::to_owned)
            .collect()
    };
    json!({
        "edit_tools": list("edit_tools"),
        "command_tools": list("command_tools"),
        "check_tools": list("check_tools"),
        "checks": list("checks"),
        "exempt": list("exempt"),
    })
}

fn default_check_patterns() -> Vec<String> {
    rind_sdk::serde_json::from_value(default_settings()["checks"].clone()).unwrap()
}

fn does_line_run_check(line: &str, patterns: &[String]) -> bool {
    is_check_failure_propagated(line, patterns).is_some()
}

#[test]
fn a_line_that_hides_the_exit_code_of_its_check_is_recognized() {
    let checks = default_check_patterns();
    for (line, shows) in [
        ("cargo test", true),
        ("cd a && cargo test && echo ok", true),
        ("ls; cargo test", true),
        ("cargo test;\n", true),
        ("(cd a; make)", true),
        ("bash -c 'cd a && make'", true),
        ("set -o pipefail; cargo test | tail -5", true),
        ("set -e\ncargo test\necho ok", true),
        ("set -euo pipefail; make 2>&1 | tee log; ls", true),
        ("make || exit 1", true),
        ("cargo test 2>&1 | tail -5", false),
        ("cargo test |& tail -5", false),
        ("cargo test || true", false),
        ("cargo test; echo ok", false),
        ("cargo test\necho ok", false),
        ("pytest&", false),
        ("! make", false),
        ("if make; then ls; fi", false),
        ("make || exit 0", false),
        ("bash -c 'make; true'", false),
        ("bash -c make | cat", false),
        ("cargo test | cat && cargo check", false),
        ("set -e; make | cat", false),
    ] {
        assert_eq!(
            is_check_failure_propagated(line, &checks),
            Some(shows),
            "{line}: {:?}",
            parse_line_commands(line)
        );
    }
    assert_eq!(is_check_failure_propagated("ls | cat", &checks), None);
}

#[test]
fn commands_that_run_a_check_are_recognized() {
    let checks = default_check_patterns();
    for line in [
        "cargo test",
        "cargo t -q",
        "cargo +nightly clippy --all-targets -- -D warnings",
        "cargo --locked check",
        "cd host && cargo build 2>&1 | tail -5",
        "RUST_BACKTRACE=1 timeout 60 cargo nextest run",
        "npm test",
        "npm run test:unit",
        "pnpm run build",
        "npx --yes tsc --noEmit",
        "./node_modules/.bin/tsc",
        "python -m pytest tests/",
        "python3 run_tests.py",
        "/usr/bin/env python3 -m unittest",
        "uv run pytest",
        "go test ./...",
        "make",
        "make -C web check",
        "./gradlew test",
        "bash -c 'make && ./a.out'",
        "bash -lc \"cd x; cargo test\"",
        "sh scripts/test.sh",
        "./run-tests.sh",
        "if ! make; then exit 1; fi",
        "(cd a; make)",
        "cat > a.py <<'EOF'\nx = 1\nEOF\npytest",
        "echo `make`",
        "x=$(go vet ./...)",
        "pytest&",
        "ls # list\nmake",
        "cargo \\\n  test",
    ] {
        assert!(
            does_line_run_check(line, &checks),
            "{line}: {:?}",
            parse_line_commands(line)
        );
    }
}

#[test]
fn commands_that_only_mention_checks_are_not_recognized() {
    let checks = default_check_patterns();
    for line in [
        "",
        "ls",
        "echo cargo test",
        "echo 'done; cargo test'",
        "echo \"a \\\" && make\"",
        "grep -rn pytest .",
        "git commit -m \"make tests pass\"",
        "git commit -m 'run\nmake\n'",
        "cat > run.sh <<EOF\ncargo test\nmake\nEOF",
        "cat <<-'END' > x\n\tmake\n\tEND\nls",
        "# cargo test",
        "ls # && make",
        "cargo fmt",
        "cargo add serde",
        "npm install",
        "npm run dev",
        "python script.py",
        "cat Makefile",
        "vim make",
        "which make",
        "ls > make",
        "mkdir build",
    ] {
        assert!(
            !does_line_run_check(line, &checks),
            "{line}: {:?}",
            parse_line_commands(line)
        );
    }
}

#[test]
fn configured_patterns_decide_which_command_lines_are_checks() {
    let fits = |line: &str, pattern: &str| does_line_run_check(line, &[pattern.to_owned()]);
    assert!(fits("dev verify --fast", "dev verify|test"));
    assert!(!fits("dev ship", "dev verify|test"));
    assert!(fits("a-check-b x", "a*b"));
    assert!(!fits("a-check", "a*b"));
    assert!(fits("xx", "x*x") && !fits("x", "x*x"));
    assert!(fits("anything", "*"));
}

fn start_plugin(changes: Value) {
    testing::reset();
    let mut settings = default_settings();
    for (key, value) in changes.as_object().into_iter().flatten() {
        settings[key] = value.clone();
    }
    testing::set_config(settings);
}

fn caller_in_turn(agent: &str, turn: u32) -> Caller {
    Caller {
        agent: agent.to_owned(),
        turn,
        ..Caller::default()
    }
}

fn run_post_tool_as(
    caller: Caller,
    tool: &str,
    arguments: Value,
    is_error: bool,
    duration_ms: u64,
) {
    let finished = testing::finished_call(tool, "")
        .with_arguments(arguments)
        .with_error(is_error)
        .with_duration_ms(duration_ms);
    testing::set_caller(caller);
    assert_eq!(post_tool(&finished).unwrap(), ResultOutcome::default());
}

fn report_finished_edit(path: &str) {
    run_post_tool_as(
        caller_in_turn("main", 1),
        "edit_file",
        json!({"path": path}),
        false,
        1,
    );
}

fn finish_bash(command: &str) {
    run_post_tool_as(
        caller_in_turn("main", 1),
        "bash",
        json!({"command": command}),
        false,
        1,
    );
}

fn assistant_message(content: Vec<Content>) -> Message {
    testing::message("m", Role::Assistant, content)
}

fn run_post_reason_as(caller: Caller, text: &str) -> Option<String> {
    testing::set_caller(caller);
    let outcome = post_reason(assistant_message(vec![Content::Text(text.to_owned())])).unwrap();
    assert_eq!((outcome.text, outcome.block), (None, None));
    outcome
        .inject
        .into_iter()
        .next()
        .map(|injection| injection.text)
}

fn objection_to_answer(text: &str) -> Option<String> {
    run_post_reason_as(caller_in_turn("main", 1), text)
}

#[test]
fn an_answer_after_unchecked_edits_is_sent_back_once_with_what_is_missing() {
    start_plugin(json!({}));
    report_finished_edit("src/a.rs");
    report_finished_edit("src/b.rs");
    report_finished_edit("src/a.rs");
    let said = objection_to_answer("All done.").unwrap();
    assert!(
        said.starts_with("Not done yet: `src/a.rs`, `src/b.rs` changed in this turn"),
        "{said}"
    );
    assert_eq!(objection_to_answer("All done."), None, "once a turn");
    report_finished_edit("src/c.rs");
    assert_eq!(
        objection_to_answer("All done."),
        None,
        "also after another edit"
    );
}

#[test]
fn a_check_counts_only_if_it_runs_after_the_last_edit() {
    start_plugin(json!({}));
    finish_bash("cargo test");
    report_finished_edit("a.rs");
    finish_bash("ls");
    finish_bash("cargo check");
    assert_eq!(objection_to_answer("Done."), None);
    report_finished_edit("a.rs");
    assert!(objection_to_answer("Done.").is_some());
}

#[test]
fn a_check_that_failed_or_whose_outcome_is_hidden_proves_nothing() {
    let run = |command: &str, is_error: bool, duration_ms: u64| {
        let arguments = json!({"command": command});
        run_post_tool_as(
            caller_in_turn("main", 1),
            "bash",
            arguments,
            is_error,
            duration_ms,
        );
    };
    for (command, is_error, duration_ms, says) in [
        (
            "make",
            true,
            900,
            "the last check after that failed: `make`",
        ),
        (
            "make | tail",
            false,
            900,
            "the exit code of `make | tail` is not that of its check",
        ),
        ("make", true, 0, "no build, test or check ran"),
    ] {
        start_plugin(json!({}));
        report_finished_edit("a.rs");
        run(command, is_error, duration_ms);
        let said = objection_to_answer("Done.").unwrap();
        assert!(said.contains(says), "{said}");
    }
    // A failure before the last edit says nothing about that edit, and a later pass replaces a
    // failure.
    start_plugin(json!({}));
    report_finished_edit("a.rs");
    run("make", true, 9);
    report_finished_edit("a.rs");
    let said = objection_to_answer("Done.").unwrap();
    assert!(said.contains("no build, test or check ran"), "{said}");
    start_plugin(json!({}));
    report_finished_edit("a.rs");
    run("make", true, 9);
    run("make", false, 9);
    run("make", true, 9);
    assert_eq!(
        objection_to_answer("Done."),
        None,
        "nothing was edited since it passed"
    );
    // The tool itself is the check.
    start_plugin(json!({"check_tools": ["run_tests"]}));
    report_finished_edit("a.rs");
    run_post_tool_as(caller_in_turn("main", 1), "run_tests", json!({}), true, 9);
    let said = objection_to_answer("Done.").unwrap();
    assert!(said.contains("failed: `run_tests`"), "{said}");
}

#[test]
fn edits_that_failed_or_need_no_check_are_not_counted() {
    start_plugin(json!({}));
    run_post_tool_as(
        caller_in_turn("main", 1),
        "edit_file",
        json!({"path": "a.rs"}),
        true,
        1,
    );
    report_finished_edit("README.md");
    run_post_tool_as(
        caller_in_turn("main", 1),
        "read_file",
        json!({"path": "b.rs"}),
        false,
        1,
    );
    assert_eq!(objection_to_answer("Done."), None);
}

#[test]
fn questions_and_empty_answers_are_accepted() {
    start_plugin(json!({}));
    report_finished_edit("a.rs");
    assert_eq!(objection_to_answer("Shall I run the tests?"), None);
    assert_eq!(objection_to_answer("**Which one do you want?**\n"), None);
    assert_eq!(objection_to_answer(" \n"), None);
    assert!(objection_to_answer("Is it right? It is.").is_some());
}

#[test]
fn progress_is_separate_for_each_turn_and_agent() {
    start_plugin(json!({}));
    report_finished_edit("a.rs");
    assert_eq!(
        run_post_reason_as(caller_in_turn("sub-1", 1), "Done."),
        None
    );
    assert_eq!(
        run_post_reason_as(caller_in_turn("main", 2), "Done."),
        None,
        "edits of another turn"
    );
    assert!(objection_to_answer("Done.").is_some());
    run_post_tool_as(
        caller_in_turn("main", 2),
        "write_file",
        json!({"file_path": "b.py"}),
        false,
        1,
    );
    assert!(
        run_post_reason_as(caller_in_turn("main", 2), "Done.").is_some(),
        "once in each turn"
    );
}

#[test]
fn the_operator_configures_the_tools() {
    start_plugin(
        json!({"edit_tools": ["patch"], "check_tools": ["run_tests"], "command_tools": ["shell"]}),
    );
    report_finished_edit("a.rs");
    assert_eq!(objection_to_answer("Done."), None);
    run_post_tool_as(caller_in_turn("main", 1), "patch", json!({}), false, 1);
    finish_bash("make");
    let said = objection_to_answer("Done.").unwrap();
    assert!(
        said.contains("a file changed") || said.contains("`a file` changed"),
        "{said}"
    );
    start_plugin(
        json!({"edit_tools": ["patch"], "check_tools": ["run_tests"], "command_tools": ["shell"]}),
    );
    run_post_tool_as(
        caller_in_turn("main", 1),
        "patch",
        json!({"path": "a"}),
        false,
        1,
    );
    run_post_tool_as(caller_in_turn("main", 1), "run_tests", json!({}), false, 1);
    assert_eq!(objection_to_answer("Done."), None);
    run_post_tool_as(
        caller_in_turn("main", 1),
        "patch",
        json!({"path": "a"}),
        false,
        1,
    );
    run_post_tool_as(
        caller_in_turn("main", 1),
        "shell",
        json!({"command": "make"}),
        false,
        1,
    );
    assert_eq!(objection_to_answer("Done."), None);
}

#[test]
fn an_objection_names_some_edited_files_and_counts_the_others() {
    start_plugin(json!({}));
    for number in 0..25 {
        report_finished_edit(&format!("{number}.rs"));
    }
    let said = objection_to_answer("Done.").unwrap();
    assert!(
        said.contains("`19.rs` and 5 more changed") && !said.contains("20.rs"),
        "{said}"
    );
}
