//! Tests of `rind chat --nats` at a terminal.

use rind_nats_tests::{Machine, NatsServers};

use super::front::{CALLS_AGAIN, COMMAND, start};

fn start_chat(script: &str) -> (NatsServers, Machine) {
    let (servers, _, mut machine) = start(script);
    machine.start_worker(&["--ask", "120"]);
    (servers, machine)
}

fn send(machine: &Machine, id: &str, text: &str) {
    let args = ["--session", "s", "--input-id", id, text];
    machine.output(&["cluster", "send"], &args);
}

#[test]
fn a_chat_shows_a_turn_that_runs_elsewhere_answers_its_question_and_goes_on_in_the_session() {
    let (_servers, machine) = start_chat(COMMAND);
    let args = ["--session", "s", "--input-id", "i-0", "hello"];
    assert_eq!(machine.output(&["run"], &args), "Fine.\n");
    send(&machine, "i-1", "run it");
    let mut chat = machine.terminal(&["chat"], &["--session", "s"]);
    // The chat shows the earlier conversation, all events of the running turn, and its question.
    chat.sees("› hello")
        .sees("Fine.")
        .sees("› run it")
        .sees("I run it.");
    chat.sees("? bash wants to run a program (execute)");
    chat.sees("$ echo made >> made");
    chat.sees("[y]es, [a]lways in this session, or [n]o and why");
    assert!(!machine.path("workspace/made").exists());
    chat.line("y").sees("It ran.").sees("no turn runs");
    let made = std::fs::read_to_string(machine.path("workspace/made")).unwrap();
    assert_eq!(made, "made\n");
    // Sends an input, a text that steers its turn, and a command that this chat does not support.
    chat.line("go slowly").sees("a worker runs the turn");
    chat.line("faster").sees("› faster").sees_times("Fine.", 2);
    chat.line("/rewind");
    chat.sees("/rewind is not available here, because the session runs at a worker");
    chat.keys("\u{15}").line("go slowly").sees("Enter steers");
    chat.keys("\u{3}").sees("interrupted");
    assert_eq!(chat.keys("\u{4}").ends(), Some(0));
    let all = chat.all();
    assert_eq!(all.matches("› run it").count(), 1, "{all}");
    assert!(
        all.contains("left session s, which goes on without this chat"),
        "{all}"
    );
}

#[test]
fn a_chat_goes_on_with_the_next_worker_and_its_question_when_the_first_is_killed() {
    let (_servers, mut machine) = start_chat(CALLS_AGAIN);
    let mut chat = machine.terminal(&["chat", "run it"], &["--session", "s"]);
    chat.sees("$ echo made >> made");
    let first = machine.workers()[0]["name"].as_str().unwrap().to_owned();
    machine.start_worker(&["--ask", "120"]);
    machine.kill(first.rsplit('-').next().unwrap().parse().unwrap());
    chat.sees("no longer asked").sees("Then I run it now.");
    chat.sees("$ echo made >> made");
    assert!(!machine.path("workspace/made").exists());
    chat.line("y").sees("It ran.");
    assert_eq!(chat.keys("\u{4}").ends(), Some(0));
    let made = std::fs::read_to_string(machine.path("workspace/made")).unwrap();
    assert_eq!(made, "made\n");
    let all = chat.all();
    assert_eq!(all.matches("› run it").count(), 1, "{all}");
    assert!(!all.contains("too fast"), "{all}");
}

#[test]
fn leaving_a_chat_answers_nothing_and_the_question_stays_open_for_others() {
    let (_servers, mut machine) = start_chat(COMMAND);
    machine.start_front(&[]);
    let mut chat = machine.terminal(&["chat", "run it"], &["--session", "s"]);
    chat.sees("$ echo made >> made");
    let question = machine.question(None);
    chat.keys("\u{3}").keys("\u{3}");
    // The first Ctrl-C interrupted the turn, so the command did not run.
    chat.ends();
    assert!(!machine.path("workspace/made").exists(), "{question}");
    let mut chat = machine.terminal(&["chat", "run it"], &["--session", "other"]);
    chat.sees("$ echo made >> made");
    let question = machine.question(Some(&question));
    assert_eq!(question["session"], "other");
    drop(chat);
    std::thread::sleep(std::time::Duration::from_secs(2));
    let path = format!("/v1/questions/{}", question["id"].as_str().unwrap());
    let answered = machine.post(&path, &serde_json::json!({ "answer": "yes" }));
    assert_eq!(answered.status, 204);
    machine.wait_for("the effect", |machine| {
        machine.path("workspace/made").exists()
    });
}

#[test]
fn a_chat_without_a_screen_says_what_to_use() {
    let (_servers, machine) = start_chat(COMMAND);
    let refused = machine.run(&["chat"], &["--session", "s"]);
    assert_eq!(refused.status.code(), Some(2));
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(why.contains("rind run --nats"), "{why}");
}
