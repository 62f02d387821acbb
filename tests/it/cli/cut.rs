//! Tests of a turn that is interrupted by the user or by the end of the process.

use std::process::Command;
use std::time::{Duration, Instant};

use insta::assert_snapshot;
use rind_tests::cli::Rind;
use serde_json::Value;

/// Script with two steps that finish, and a third one whose command takes 30 seconds.
const SLEEPS: &str = r#"
[[reply]]
text = "First."
tool_calls = [{ name = "write_file", arguments = { path = "one.txt", content = "1\n" } }]
[[reply]]
text = "Second."
tool_calls = [{ name = "read_file", arguments = { path = "one.txt" } }]
[[reply]]
text = "Now I wait."
tool_calls = [
    { name = "bash", arguments = { command = "echo begun; echo $$ > pid; exec sleep 30" } },
    { name = "read_file", arguments = { path = "one.txt" } },
]
"#;

const GOES_ON: &str = "[[reply]]\ntext = \"I go on.\"\n";

fn is_at_bash(rind: &Rind) -> bool {
    rind.workspace().join("pid").is_file()
        && rind
            .entries("tool-start")
            .iter()
            .any(|entry| entry["name"] == "bash")
}

/// Returns the calls and results of the session, in order: `call_1 write_file`, `call_1 = wrote …`.
fn calls_and_results(rind: &Rind) -> Vec<String> {
    let mut lines = Vec::new();
    for entry in rind.entries("message") {
        let parts = entry["message"]["content"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        for part in parts {
            let text = |key: &str| part[key].as_str().unwrap_or_default().to_owned();
            match part["type"].as_str() {
                Some("tool_call") => lines.push(format!("{} {}", text("id"), text("name"))),
                Some("tool_result") => {
                    lines.push(format!("{} = {}", text("call_id"), text("content")));
                }
                _ => {}
            }
        }
    }
    lines
}

/// Whether the command is still running, recognized by its working directory. The id that the
/// command wrote is valid only in its own PID namespace.
fn is_running(rind: &Rind) -> bool {
    let folders = std::fs::read_dir("/proc").unwrap();
    let mut folders = folders.map(|entry| std::fs::read_link(entry.unwrap().path().join("cwd")));
    folders.any(|cwd| cwd.is_ok_and(|cwd| cwd == rind.workspace()))
}

#[test]
fn ctrl_c_ends_the_turn_in_good_order_and_the_session_goes_on() {
    let rind = Rind::with_script(SLEEPS);
    let mut running = rind.start(&["run", "work", "--yes"]);
    running.wait_until(is_at_bash);
    running.signal("INT");
    let ran = running.end();
    assert_eq!(ran.stdout, "");
    assert_snapshot!(ran.screen(), @r#"
    exit 130
    ---- stderr
    model: scripted (the script [FOLDER]/script.toml was asked for) · mode full
    session [SESSION] (new)
    First.
    ● write_file one.txt
      └ 27 B in 1 line, [T]
    Second.
    ● read_file one.txt
      └ 2 B in 1 line, [T]
    Now I wait.
    ● bash echo begun; echo $$ > pid; exec sleep 30
    ▲ interrupted: ending the turn; press Ctrl-C again to quit
      └ error: [stopped: the call was cancelled]
        │ the call was cancelled while it ran
        │ begun
    interrupted 3 steps · 3 tool calls · [N] tokens in, [N] out · [T]
    to continue: rind run --resume [SESSION] "…"
    "#);
    assert!(!is_running(&rind), "the command was stopped too");
    assert_snapshot!(calls_and_results(&rind).join("\n"), @r"
    call_1 write_file
    call_1 = created `one.txt` (2 bytes)
    call_2 read_file
    call_2 = 1

    call_3 bash
    call_4 read_file
    call_3 = the call was cancelled while it ran

    begun
    [stopped: the call was cancelled]
    call_4 = [cancelled: the user interrupted the turn before this call had a result]
    ");

    rind.script(GOES_ON);
    let ran = rind.run(&["run", "go on", "--resume", "last"]).exits(0);
    assert_eq!(ran.stdout, "I go on.\n");
}

#[test]
fn ctrl_c_a_closed_terminal_and_kill_end_the_turn_while_the_model_thinks() {
    for signal in ["INT", "QUIT", "HUP", "TERM"] {
        ends_the_turn(signal);
    }
}

fn ends_the_turn(signal: &str) {
    let rind = Rind::with_script("[[reply]]\ntext = \"Late.\"\ndelay_ms = 3600000\n");
    let mut running = rind.start(&["run", "work"]);
    running.wait_until(|rind| !rind.entries("turn-start").is_empty());
    let started = Instant::now();
    running.signal(signal);
    let ran = running.end().exits(130);
    // The limit is shorter than the model's delay, but long enough for a busy machine.
    assert!(started.elapsed() < Duration::from_secs(60));
    assert_eq!(ran.stdout, "");
    let ended: Vec<Value> = rind.entries("turn-end");
    assert_eq!(ended[0]["summary"]["stop"], "cancelled");
}

#[test]
fn a_killed_process_loses_no_finished_step_and_marks_the_call_that_was_cut() {
    let rind = Rind::with_script(SLEEPS);
    let mut running = rind.start(&["run", "work", "--yes"]);
    running.wait_until(is_at_bash);
    running.signal("KILL");
    assert_eq!(running.end().code, None);
    let before = rind.session_lines();
    assert_eq!(rind.entries("step").len(), 3);

    rind.script(GOES_ON);
    let ran = rind.run(&["run", "go on", "--resume", "last"]);
    assert_snapshot!(ran.screen(), @r"
    exit 0
    ---- stdout
    I go on.
    ---- stderr
    model: scripted (the script [FOLDER]/script.toml was asked for)
    session [SESSION] (resumed with 8 messages)
    ▲ the previous run ended before these tool calls had a result: bash, read_file; their actions may be incomplete or still running
    1 step · 0 tool calls · [N] tokens in, [N] out · [T]
    ");
    assert_eq!(rind.session_lines()[..before.len()], before);
    assert_snapshot!(calls_and_results(&rind).join("\n"), @r"
    call_1 write_file
    call_1 = created `one.txt` (2 bytes)
    call_2 read_file
    call_2 = 1

    call_3 bash
    call_4 read_file
    call_3 = [interrupted: the turn was cut off while this call ran; it may have run, wholly or in part, or run still. Look at what it did before you call it again]
    call_4 = [interrupted: the turn was cut off before this call began; it did nothing]
    ");
    // The killed program could not stop the command, so the test does.
    let id = std::fs::read_to_string(rind.workspace().join("pid")).unwrap();
    Command::new("kill").arg(id.trim()).status().unwrap();
}
