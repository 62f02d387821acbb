//! Tests of input while a turn runs.

use insta::assert_snapshot;
use rind_tests::cli::Rind;

use super::{ECHO, SIZE, conversation};

/// Script of a slow model that makes a tool call unless the input contains `shorter` or `later`.
const SLOW: &str = r#"
[[reply]]
when = { contains = "shorter" }
text = "Shorter, then: {input}"
[[reply]]
when = { contains = "later" }
text = "And at the end: {input}"
[[reply]]
delay_ms = 3000
text = "I will look."
[[reply.tool_calls]]
name = "read_file"
arguments = { path = "a.txt" }
[[reply]]
text = "It says: {tool_result}"
"#;

#[test]
fn what_is_typed_during_a_turn_is_read_before_the_next_request_and_calls_that_had_not_begun_are_skipped()
 {
    let rind = Rind::with_script(SLOW);
    rind.file("a.txt", "words of the file\n");
    let Some(mut terminal) = rind.terminal(&["chat", "--no-plugins"], SIZE, &[]) else {
        return;
    };
    terminal.sees("scripted").keys("look at a.txt\r");
    terminal
        .sees("waiting for the model")
        .keys("make it shorter");
    assert_snapshot!(terminal.sees("make it shorter").picture(), @r"
    scripted · mode ask (Shift-Tab) · /help lists commands and keys

    › look at a.txt
    … waiting for the model [T]

    › make it shorter
    scripted · ask
    Enter steers · Tab queues for later · Ctrl-C ends the turn
    ");
    terminal.keys("\r").sees("next: make it shorter");
    terminal
        .keys("and later thank me\t")
        .sees("later: and later thank me");
    assert_snapshot!(terminal.picture(), @r"
    scripted · mode ask (Shift-Tab) · /help lists commands and keys

    › look at a.txt
    … waiting for the model [T]

      ↳ next: make it shorter
      ↳ later: and later thank me
    ›
    scripted · ask
    Enter steers · Tab queues for later · Ctrl-C ends the turn
    ");
    terminal.sees("And at the end: and later thank me");
    terminal.sees_no("Enter steers");
    assert_snapshot!(terminal.picture_from("› look at a.txt"), @"
    › look at a.txt

    I will look.

    ✗ read_file refused by user: not run: the user said something before
      this call began. Read that first; make the call again if it is still
      wanted

    › make it shorter

    Shorter, then: make it shorter

    › and later thank me

    And at the end: and later thank me

    ›
    scripted · ask · 1.9k/80k tokens (2 %)
    ");
    terminal.keys("/quit\r");
    assert_eq!(terminal.ends(), Some(0));
    assert_snapshot!(conversation(&rind).join("\n"), @r#"
    user: look at a.txt
    assistant: I will look.; calls read_file
    tool: read_file answers "not run: the user said something before this call began. Read that first; make the call again if it is still wanted"
    user: make it shorter
    assistant: Shorter, then: make it shorter
    user: and later thank me
    assistant: And at the end: and later thank me
    "#);
}

#[test]
fn what_waits_can_be_taken_back_and_an_interrupted_turn_hands_everything_back() {
    let rind = Rind::with_script(&SLOW.replace("3000", "3600000"));
    let Some(mut terminal) = rind.terminal(&["chat", "--no-plugins", "look"], SIZE, &[]) else {
        return;
    };
    terminal
        .sees("waiting for the model")
        .keys("one\r")
        .sees("next: one");
    terminal.keys("two\t").sees("later: two");
    terminal
        .keys("\u{1b}[A")
        .sees_no("later: two")
        .sees("› two");
    terminal.keys("!\t").sees("later: two!");
    terminal.keys("half a li\u{3}").sees("interrupted");
    terminal.sees_no("next: one").sees_no("ending the turn");
    assert_snapshot!(terminal.picture_from("› look"), @r"
    › look

    interrupted

    › one
      two!
      half a li
    scripted · ask
    ");
    // A second Ctrl-C within one second would leave the chat.
    terminal.waits(1100).keys("\u{3}").sees_no("half a li");
    terminal.keys("\u{3}");
    assert_eq!(terminal.ends(), Some(0));
}

#[test]
fn what_was_not_sent_stays_on_the_screen_and_in_the_history_of_the_next_chat() {
    let rind = Rind::with_script(ECHO);
    let Some(mut terminal) = rind.terminal(&["chat", "--no-plugins"], SIZE, &[]) else {
        return;
    };
    terminal
        .sees("scripted")
        .keys("first\r")
        .sees("You said: first");
    terminal.sees_no("Enter steers").keys("never sent");
    terminal.sees("› never sent");
    let id = std::fs::read_dir(rind.home().join("data/sessions"))
        .unwrap()
        .count();
    assert_eq!(id, 1);
    // SIGTERM ends the chat, as when another program closes the terminal.
    rind_tests::cli::signal_chat(&rind, "TERM");
    assert_eq!(terminal.ends(), Some(130));
    assert!(terminal.all().contains("not sent"), "{}", terminal.all());
    assert!(rind_tests::cli::is_private(
        &rind.home().join("data/history")
    ));
    drop(terminal);
    let mut terminal = rind
        .terminal(&["chat", "--no-plugins", "-c"], SIZE, &[])
        .unwrap();
    terminal
        .sees("You said: first")
        .keys("\u{1b}[A")
        .sees("› never sent");
    terminal.keys("\u{1b}[A").sees("› first").keys("\u{3}\u{4}");
    assert_eq!(terminal.ends(), Some(0));
}

#[test]
fn what_is_typed_while_a_command_runs_is_a_turn_after_it() {
    for is_plain in [false, true] {
        let rind = Rind::with_script(ECHO);
        // The first turn or command of a session runs this hook and waits until the file `go`
        // exists.
        rind.config(
            "[hooks.scripts.wait]\npoint = \"session-start\"\ntimeout_seconds = 60\n\
             command = [\"sh\", \"-c\", \"while [ ! -e go ]; do sleep 0.05; done\"]\n",
        );
        let mut args = vec!["chat", "--no-plugins"];
        args.extend(is_plain.then_some("--plain"));
        let Some(mut terminal) = rind.terminal(&args, SIZE, &[]) else {
            return;
        };
        terminal.sees("scripted").keys("/compact\r");
        if is_plain {
            terminal.sees("/compact").keys("hello\r");
            terminal.sees("it is sent when the command has ended");
        } else {
            terminal.sees("Enter sends when the command has ended");
            terminal.keys("hello\r").sees("next: hello");
        }
        rind.file("go", "");
        terminal.sees("You said: hello").sees_no("Enter steers");
        terminal.keys("/quit\r");
        assert_eq!(terminal.ends(), Some(0));
    }
}

#[test]
fn each_command_is_an_event_also_during_a_turn_and_a_template_waits_for_its_end() {
    let rind = Rind::with_script(&SLOW.replace("3000", "3600000"));
    rind.user_file(
        "config/prompts/look.md",
        "---\ndescription: Looks\n---\nLook around.\n",
    );
    let file = rind.home().join("events.jsonl");
    let args = [
        "chat",
        "--no-plugins",
        "--events",
        file.to_str().unwrap(),
        "go",
    ];
    let Some(mut terminal) = rind.terminal(&args, (100, 60), &[]) else {
        return;
    };
    let commands = || {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let lines = text
            .lines()
            .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        let commands = lines.filter(|line| line["type"] == "command");
        commands
            .map(|line| line["command"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    terminal.sees("waiting for the model").keys("/look\r");
    terminal
        .sees("/look can run only between turns")
        .sees("› /look");
    terminal
        .keys("\u{15}/permissions 7\r")
        .sees("there is no such number");
    terminal.keys("/help\r").sees("Keys of the chat");
    terminal.until("the events", |_| commands() == ["permissions", "help"]);
    terminal
        .keys("\u{3}")
        .sees("interrupted")
        .sees_no("ending the turn");
    terminal.keys("\u{4}");
    assert_eq!(terminal.ends(), Some(0));
}
