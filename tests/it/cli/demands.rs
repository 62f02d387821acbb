//! Tests of what a program can require of a run: an answer as JSON, limits of cost and steps, a
//! session id.

use rind_tests::cli::Rind;
use serde_json::{Value, json};

const SCHEMA: &str = r#"{"type": "object", "required": ["files"], "additionalProperties": false,
    "properties": {"files": {"type": "array", "items": {"type": "string"}}}}"#;

/// Creates a machine with a schema in `schema.json` and a model that gives these answers.
fn machine(answers: &[&str]) -> Rind {
    let replies = answers
        .iter()
        .map(|text| format!("[[reply]]\ntext = '''{text}'''\n"));
    let rind = Rind::with_script(&replies.collect::<String>());
    rind.file("schema.json", SCHEMA);
    rind
}

#[test]
fn the_answer_is_the_json_that_a_program_demands_and_nothing_else() {
    for answers in [
        &[r#"{"files": ["a"]}"#][..],
        &["```json\n{\"files\": [\"a\"]}\n```"],
        &[
            "There is one file.",
            r#"{"files": "a"}"#,
            r#"{"files": ["a"]}"#,
        ],
    ] {
        let rind = machine(answers);
        let ran = rind
            .run(&["run", "list", "--output-schema", "schema.json"])
            .exits(0);
        let expected: Value = json!({"files": ["a"]});
        assert_eq!(
            serde_json::from_str::<Value>(&ran.stdout).unwrap(),
            expected
        );
        let last = rind
            .run(&["session", "show", "last", "--full"])
            .exits(0)
            .stdout;
        let n_asked = last.matches("does not match the JSON Schema").count();
        assert_eq!(n_asked, answers.len() - 1, "{last}");
    }
}

#[test]
fn an_answer_that_never_matches_fails_and_prints_nothing() {
    let rind = machine(&["no"; 5]);
    let ran = rind
        .run(&["run", "list", "--output-schema", "schema.json"])
        .exits(1);
    assert_eq!(ran.stdout, "");
    assert!(
        ran.stderr
            .contains("the answer does not match the schema: it is not JSON"),
        "{}",
        ran.stderr
    );
    // The first answer and three retries.
    assert!(ran.stderr.contains("4 steps"), "{}", ran.stderr);
}

#[test]
fn an_answer_that_a_script_changed_must_still_match() {
    let rind = machine(&[r#"{"files": []}"#]);
    rind.config(
        "[hooks.scripts.spoil]\npoint = \"pre-output\"\ncommand = [\"sh\", \"-c\", \"echo '{\\\"text\\\": \\\"done\\\"}'\"]\n",
    );
    let ran = rind.run(&["run", "list", "--output-schema", "schema.json"]);
    assert_eq!(ran.code, Some(1), "{}{}", ran.stdout, ran.stderr);
    assert_eq!(ran.stdout, "");
}

#[test]
fn a_schema_that_cannot_be_used_is_named_before_anything_starts() {
    let rind = machine(&["{}"]);
    rind.file("broken.json", "{");
    rind.file(
        "wrong.json",
        r#"{"type": "object", "properties": {"a": {"type": "thing"}}}"#,
    );
    for (file, why) in [
        ("broken.json", "EOF"),
        ("wrong.json", "not valid"),
        ("none.json", "No such file"),
    ] {
        let ran = rind.run(&["run", "list", "--output-schema", file]).exits(2);
        assert!(
            ran.stderr.contains(file) && ran.stderr.contains(why),
            "{}",
            ran.stderr
        );
    }
    rind.run(&["session", "show", "last"]).exits(2);
}

#[test]
fn a_turn_stops_before_it_costs_more_than_it_may() {
    let rind = machine(&["one"]);
    let ran = rind.run(&["run", "hello", "--max-cost", "0.50"]).exits(3);
    assert!(ran.stderr.contains("[prices]"), "{}", ran.stderr);
    rind.config("[prices]\nscripted = { input = 1000.0, output = 1000.0 }\n");
    let ran = rind.run(&["run", "hello", "--max-cost", "0.01"]).exits(3);
    assert!(ran.stderr.contains("at most $0.01"), "{}", ran.stderr);
    let ran = rind.run(&["run", "hello", "--max-cost", "$100"]).exits(0);
    assert_eq!(ran.stdout, "one\n");
    for wrong in ["0", "-1", "NaN", "inf", "much"] {
        rind.run(&["run", "hello", &format!("--max-cost={wrong}")])
            .exits(2);
    }
}

#[test]
fn a_turn_stops_after_the_steps_that_it_may_take() {
    let rind = Rind::with_script(
        "[[reply]]\ntool_calls = [{ name = \"list_files\", arguments = {} }]\n[[reply]]\ntext = \"done\"\n",
    );
    let ran = rind.run(&["run", "hello", "--max-steps", "1"]).exits(4);
    assert!(ran.stderr.contains("limit of 1 step "), "{}", ran.stderr);
    rind.run(&["run", "hello", "--max-steps", "0"]).exits(2);
}

#[test]
fn a_session_gets_the_id_that_its_caller_chose_once() {
    let rind = machine(&["one"]);
    rind.run(&["run", "hello", "--session", "ticket-17"])
        .exits(0);
    rind.run(&["session", "show", "ticket-17"]).exits(0);
    rind.run(&["run", "hello", "--resume", "ticket-17"])
        .exits(0);
    let again = rind
        .run(&["run", "hello", "--session", "ticket-17"])
        .exits(2);
    assert!(
        again.stderr.contains("--resume ticket-17"),
        "{}",
        again.stderr
    );
    for wrong in ["", "../up", "last", ".hidden", "a/b", "a\u{1b}[2J"] {
        let ran = rind.run(&["run", "hello", "--session", wrong]).exits(2);
        assert!(ran.stderr.contains("cannot be the id"), "{}", ran.stderr);
        assert!(!ran.stderr.contains('\u{1b}'), "{}", ran.stderr);
    }
    rind.run(&["run", "hello", "--session", "b", "--resume", "last"])
        .exits(2);
}
