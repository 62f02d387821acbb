//! Tests of turns that continue after the program was killed, and of inputs that must not be used
//! twice.

use std::fs;

use rind_tests::cli::Rind;

/// Script of a model that runs a slow command and a read, then answers.
const WAITS: &str = r#"
[[reply]]
tool_calls = [
    { name = "bash", arguments = { command = "echo once >> ran; echo $$ > pid; exec sleep 20" } },
    { name = "read_file", arguments = { path = "ran" } },
]
[[reply]]
text = "Done."
"#;

/// Starts a run with `args` and kills it while its command is running.
pub(super) fn kill_at_command(rind: &Rind, args: &[&str]) {
    let mut running = rind.start(args);
    running.wait_until(|rind| rind.workspace().join("pid").is_file());
    running.signal("KILL");
    assert_eq!(running.end().code, None);
    fs::remove_file(rind.workspace().join("pid")).unwrap();
}

/// Truncates the only session's file before the last entry of this kind, as if the program had been
/// killed at that moment.
fn cut_before(rind: &Rind, kind: &str) {
    let sessions = fs::read_dir(rind.home().join("data/sessions")).unwrap();
    let folder = sessions
        .map(|one| one.unwrap().path())
        .find(|path| path.is_dir())
        .unwrap();
    let path = folder.join("session.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    let at = text.rfind(&format!("\"type\":\"{kind}\"")).unwrap();
    let start = text[..at].rfind('\n').unwrap() + 1;
    fs::write(&path, &text[..start]).unwrap();
}

fn user_texts(rind: &Rind) -> Vec<String> {
    let messages = rind
        .entries("message")
        .into_iter()
        .map(|entry| entry["message"].clone());
    let of_user = messages.filter(|message| message["role"] == "user");
    of_user
        .map(|message| message["content"][0]["text"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn an_interrupted_turn_goes_on_without_a_prompt_and_repeats_nothing() {
    let rind = Rind::with_script(WAITS);
    kill_at_command(&rind, &["run", "work", "--yes"]);
    rind.script("[[reply]]\ntext = \"I go on.\"\n");
    let ran = rind.run(&["run", "--resume", "last"]).exits(0);
    assert_eq!(ran.stdout, "I go on.\n");
    assert_eq!(user_texts(&rind), ["work"]);
    assert_eq!(
        fs::read_to_string(rind.workspace().join("ran")).unwrap(),
        "once\n"
    );
    let start = &rind.entries("turn-start")[1];
    assert_eq!(
        (&start["command"], &start["continues"]),
        (&"/continue".into(), &1.into())
    );
    let shown = rind
        .run(&["session", "show", "last", "--full"])
        .exits(0)
        .stdout;
    assert!(
        shown.contains("it may have run, wholly or in part"),
        "{shown}"
    );
    assert!(
        shown.contains("before this call began; it did nothing"),
        "{shown}"
    );
    let again = rind.run(&["run", "--resume", "last"]).exits(2);
    assert!(
        again.stderr.contains("no turn of session"),
        "{}",
        again.stderr
    );
    assert!(
        rind.run(&["session", "doctor"])
            .exits(0)
            .stdout
            .contains('✓')
    );
}

#[test]
fn an_interrupted_turn_can_be_interrupted_again() {
    let rind = Rind::with_script(WAITS);
    kill_at_command(&rind, &["run", "work", "--yes"]);
    kill_at_command(&rind, &["run", "--resume", "last", "--yes"]);
    rind.script("[[reply]]\ntext = \"I go on.\"\n");
    let ran = rind.run(&["run", "--resume", "last"]).exits(0);
    assert_eq!(ran.stdout, "I go on.\n");
    assert_eq!(user_texts(&rind), ["work"]);
    let continued: Vec<_> = rind
        .entries("turn-start")
        .iter()
        .map(|one| one["continues"].clone())
        .collect();
    assert_eq!(continued, [serde_json::Value::Null, 1.into(), 2.into()]);
}

#[test]
fn an_answer_that_was_there_is_given_without_another_request() {
    let rind = Rind::with_script("[[reply]]\ntext = \"The answer.\"\n");
    rind.run(&["run", "hello"]).exits(0);
    cut_before(&rind, "turn-end");
    let ran = rind.run(&["run", "--resume", "last"]).exits(0);
    assert_eq!(ran.stdout, "The answer.\n");
    assert_eq!(rind.entries("step").len(), 1);
}

#[test]
fn an_answer_that_was_there_passes_the_hooks_that_it_had_not_reached() {
    let rind = Rind::with_script("[[reply]]\ntext = \"The answer.\"\n");
    rind.config("[hooks.scripts.look]\npoint = \"pre-reflect\"\ncommand = [\"true\"]\n");
    rind.run(&["run", "hello"]).exits(0);
    cut_before(&rind, "turn-end");
    let ran = rind.run(&["run", "--resume", "last", "--json"]).exits(0);
    let lines = ran.json_lines();
    let looked =
        |line: &&serde_json::Value| line["type"] == "hook" && line["point"] == "pre-reflect";
    assert_eq!(lines.iter().filter(looked).count(), 1, "{}", ran.stdout);
    assert_eq!(rind.entries("step").len(), 1);
}

#[test]
fn a_guard_of_inputs_refuses_a_turn_that_goes_on_as_well() {
    let rind = Rind::with_script(WAITS);
    kill_at_command(&rind, &["run", "work", "--yes"]);
    rind.config(
        "[hooks.scripts.guard]\npoint = \"pre-assess\"\ncommand = [\"sh\", \"-c\", \"echo '{\\\"block\\\": \\\"not today\\\"}'\"]\n",
    );
    let ran = rind.run(&["run", "--resume", "last"]).exits(3);
    assert!(ran.stderr.contains("not today"), "{}", ran.stderr);
    assert_eq!(rind.entries("step").len(), 1);
}

#[test]
fn an_input_that_hooks_had_not_let_in_is_taken_as_any_other() {
    let rind = Rind::with_script("[[reply]]\ntext = \"The answer.\"\n");
    rind.run(&["run", "hello"]).exits(0);
    // The session has one turn, whose first message is the input.
    cut_before(&rind, "step");
    cut_before(&rind, "message");
    let ran = rind.run(&["run", "--resume", "last"]).exits(0);
    assert_eq!(ran.stdout, "The answer.\n");
    assert_eq!(user_texts(&rind), ["hello"]);
}

#[test]
fn an_input_with_an_id_is_taken_once() {
    let rind = Rind::with_script("[[reply]]\ntext = \"The answer.\"\n");
    rind.run(&["run", "hello", "--session", "s", "--input-id", "a"])
        .exits(0);
    let again = rind
        .run(&["run", "hello", "--resume", "s", "--input-id", "a"])
        .exits(0);
    assert_eq!(again.stdout, "The answer.\n");
    assert_eq!(rind.entries("step").len(), 1);
    assert!(
        again.stderr.contains("already ran in turn 1"),
        "{}",
        again.stderr
    );
    let json = rind
        .run(&["run", "hello", "--resume", "s", "--input-id", "a", "--json"])
        .exits(0);
    let last = json.json_lines().pop().unwrap();
    assert_eq!(
        (&last["type"], &last["output"]),
        (&"turn-end".into(), &"The answer.".into())
    );
    rind.run(&["run", "hello", "--resume", "s", "--input-id", "b"])
        .exits(0);
    assert_eq!(rind.entries("step").len(), 2);
}

#[test]
fn an_input_with_the_id_of_an_interrupted_turn_goes_on_with_it() {
    let rind = Rind::with_script(WAITS);
    kill_at_command(&rind, &["run", "work", "--yes", "--input-id", "a"]);
    rind.script("[[reply]]\ntext = \"I go on.\"\n");
    for _ in 0..2 {
        let ran = rind
            .run(&["run", "work", "--resume", "last", "--input-id", "a"])
            .exits(0);
        assert_eq!(ran.stdout, "I go on.\n");
    }
    assert_eq!(user_texts(&rind), ["work"]);
}

#[test]
fn an_input_whose_turn_was_passed_over_is_not_run_a_second_time() {
    let rind = Rind::with_script(WAITS);
    kill_at_command(&rind, &["run", "work", "--yes", "--input-id", "a"]);
    rind.script("[[reply]]\ntext = \"Something else.\"\n");
    rind.run(&["run", "leave it", "--resume", "last"]).exits(0);
    let ran = rind
        .run(&["run", "work", "--resume", "last", "--input-id", "a"])
        .exits(1);
    assert!(ran.stderr.contains("ran in turn 1"), "{}", ran.stderr);
    assert_eq!(user_texts(&rind), ["work", "leave it"]);
}

#[test]
fn a_turn_that_goes_on_keeps_the_limits_of_its_skill() {
    let rind = Rind::with_script(WAITS);
    rind.user_file(
        "config/skills/careful/SKILL.md",
        "---\nskill_format: corteza.skill/v1\nname: careful\ndescription: Works with care.\ntools:\n  allow: [bash, read_file]\n---\nWork.\n",
    );
    kill_at_command(&rind, &["run", "/careful", "--yes"]);
    rind.script(
        "[[reply]]\ntool_calls = [{ name = \"write_file\", arguments = { path = \"x\", content = \"x\" } }]\n[[reply]]\ntext = \"I go on.\"\n",
    );
    let ran = rind.run(&["run", "--resume", "last", "--yes"]).exits(0);
    assert!(
        ran.stderr.contains("refused by skill careful"),
        "{}",
        ran.stderr
    );
    assert!(!rind.workspace().join("x").exists());
    assert_eq!(rind.entries("skill-ended").len(), 1);
}

#[test]
fn a_turn_that_goes_on_is_never_due_to_be_archived() {
    let rind = Rind::with_script(WAITS);
    rind.config(
        "[subagents]\nenabled = true\n[archival]\nenabled = true\n[archival.trigger]\ntool_call_threshold = 1\n",
    );
    kill_at_command(&rind, &["run", "work", "--yes"]);
    rind.script(
        "[[reply]]\ntool_calls = [{ name = \"read_file\", arguments = { path = \"ran\" } }]\n[[reply]]\ntext = \"I go on.\"\n",
    );
    rind.run(&["run", "--resume", "last"]).exits(0);
    assert!(rind.entries("archival").is_empty());
    assert_eq!(rind.entries("tool-end").len(), 1);
}

#[test]
fn a_turn_that_was_taken_back_does_not_go_on() {
    let rind = Rind::with_script("[[reply]]\ntext = \"The answer.\"\n");
    rind.run(&["run", "hello"]).exits(0);
    cut_before(&rind, "turn-end");
    rind.run(&["run", "/undo", "--resume", "last"]).exits(0);
    rind.run(&["run", "--resume", "last"]).exits(2);
}
