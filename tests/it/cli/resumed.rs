//! Resumed sessions and the run that was interrupted before: open turns continue in the chat,
//! images of an input that hooks had not accepted yet survive, and so do status lines and answers.

use std::fs;

use rind_tests::cli::Rind;

use super::chat::SIZE;
use super::continued::kill_at_command;
use crate::image::DOT;

/// A model that runs a slow command and then answers.
const WAITS: &str = r#"
[[reply]]
tool_calls = [{ name = "bash", arguments = { command = "echo once >> ran; echo $$ > pid; exec sleep 20" } }]
[[reply]]
text = "Done."
"#;

const GOES_ON: &str = "[[reply]]\ntext = \"I go on.\"\ntimes = 0\n";

#[test]
fn an_open_turn_continues_by_itself_in_a_chat_unless_there_is_a_prompt_or_it_was_cut_again() {
    for (n_kills, prompt, said, answers) in [
        (1, None, "it continues now, and Ctrl-C stops it", true),
        (
            1,
            Some("something else"),
            "your prompt takes the place of the rest",
            true,
        ),
        (2, None, "/continue resumes it", false),
    ] {
        let rind = Rind::with_script(WAITS);
        kill_at_command(&rind, &["run", "work", "--yes"]);
        for _ in 1..n_kills {
            kill_at_command(&rind, &["run", "--resume", "last", "--yes"]);
        }
        rind.script(GOES_ON);
        let args = ["chat", "--resume", "last"];
        let args: Vec<&str> = args.into_iter().chain(prompt).collect();
        let ran = rind.run_with_input(&args, "").exits(0);
        assert!(ran.stderr.contains(said), "{said}\n{}", ran.stderr);
        assert_eq!(ran.stdout.contains("I go on."), answers, "{}", ran.stdout);
        let starts = rind.entries("turn-start");
        let last = &starts.last().unwrap()["continues"];
        assert_eq!(last.is_null(), prompt.is_some(), "{starts:?}");
        if !answers {
            let ran = rind.run_with_input(&args, "/continue\n").exits(0);
            assert!(ran.stdout.contains("I go on."), "{}", ran.stdout);
        }
        // The turn is complete now, so no interruption is reported.
        let ran = rind
            .run_with_input(&["chat", "--resume", "last"], "")
            .exits(0);
        assert!(!ran.stderr.contains("interrupted"), "{}", ran.stderr);
    }
}

#[test]
fn esc_stops_a_turn_that_continues_in_a_chat_and_a_question_is_asked() {
    let rind = Rind::with_script(WAITS);
    kill_at_command(&rind, &["run", "work", "--yes"]);
    let asks = "[[reply]]\ntool_calls = [{ name = \"write_file\", arguments = { path = \"a.txt\", content = \"x\" } }]\n\
                [[reply]]\ntext = \"Written.\"\n";
    rind.script(asks);
    let Some(mut terminal) = rind.terminal(&["chat", "-r", "last"], SIZE, &[]) else {
        return;
    };
    terminal.sees("it continues now, and Esc stops it");
    terminal.sees("? write_file wants to").sees("[n]o and why");
    let stopped = |screen: &str| screen.matches("interrupted").count() >= 2;
    terminal
        .keys("\u{1b}")
        .until("the end of the turn", stopped);
    terminal.keys("/quit\r");
    assert_eq!(terminal.ends(), Some(0));
    assert!(!rind.workspace().join("a.txt").exists());
    // The person interrupted the turn, so the next chat does not continue it by itself.
    let ran = rind
        .run_with_input(&["chat", "--resume", "last"], "")
        .exits(0);
    assert!(!ran.stderr.contains("continues"), "{}", ran.stderr);
}

#[test]
fn images_of_an_input_that_hooks_had_not_let_in_survive_a_kill() {
    let rind = Rind::with_script(GOES_ON);
    fs::write(rind.workspace().join("dot.png"), DOT).unwrap();
    let pid = rind.workspace().join("pid");
    rind.config(&format!(
        "[hooks.scripts.judge]\npoint = \"pre-assess\"\ncommand = [\"sh\", \"-c\", \"echo $$ > {}; exec sleep 20\"]\n",
        pid.display()
    ));
    kill_at_command(&rind, &["run", "look at it", "--image", "dot.png"]);
    assert!(rind.entries("message").is_empty());
    let attached = rind.entries("turn-start")[0]["attached"].clone();
    assert_eq!(attached[0]["media_type"], "image/png");
    let examined = rind.run(&["session", "doctor"]).exits(0).stdout;
    assert!(
        examined.contains('✓') && !examined.contains('▲'),
        "{examined}"
    );
    rind.config("");
    rind.run(&["run", "--resume", "last"]).exits(0);
    let content = rind.entries("message")[0]["message"]["content"].clone();
    assert_eq!(content[0]["text"], "look at it");
    assert_eq!(content[1]["id"], attached[0]["id"], "{content}");
    let fork = rind.run(&["session", "fork"]).exits(0).stdout;
    rind.run(&["session", "doctor", fork.trim()]).exits(0);
}

#[test]
fn calls_that_were_allowed_for_the_run_before_are_named_once() {
    let script = "[[reply]]\ntool_calls = [{ name = \"write_file\", arguments = { path = \"a.txt\", content = \"x\" } }]\n\
                  [[reply]]\ntext = \"Written.\"\ntimes = 0\n";
    let rind = Rind::with_script(script);
    let Some(_) = rind.at_terminal(&["run", "write"], "a\n") else {
        return;
    };
    assert_eq!(rind.entries("allowed").len(), 1);
    rind.script(GOES_ON);
    const TOLD: &str =
        "calls that you allowed for the previous run are asked about again: write_file";
    let said = |prompt: &str| {
        rind.run(&["run", prompt, "--resume", "last"])
            .exits(0)
            .stderr
    };
    let first = said("on");
    assert_eq!(first.matches(TOLD).count(), 1, "{first}");
    let second = said("and on");
    assert!(!second.contains("asked about again"), "{second}");
    let shown = rind.run(&["session", "show"]).exits(0).stdout;
    assert!(
        shown.contains("a person allowed write_file for the session"),
        "{shown}"
    );
}

#[test]
fn status_lines_are_kept_while_their_plugins_run_and_told_as_gone_otherwise() {
    let rind = Rind::with_script(GOES_ON);
    rind.managed("asker");
    rind.run(&["run", "/line on main"]).exits(0);
    let kept = rind.entries("status");
    assert_eq!((kept.len(), &kept[0]["text"]), (1, &"on main".into()));
    let on = rind
        .run(&["run", "on", "--resume", "last", "--json"])
        .exits(0);
    let lines = on.json_lines();
    let shown = lines.iter().filter(|line| line["type"] == "status");
    let texts: Vec<_> = shown.map(|line| line["text"].clone()).collect();
    assert_eq!(texts, ["on main"], "{}", on.stdout);
    // The same status line again is not recorded a second time.
    rind.run(&["run", "/line on main", "--resume", "last"])
        .exits(0);
    assert_eq!(rind.entries("status").len(), 1);
    let without = rind
        .run(&["run", "on", "--resume", "last", "--no-plugins"])
        .exits(0);
    const GONE: &str = "status lines of plugins that no longer run are gone: asker";
    assert!(without.stderr.contains(GONE), "{}", without.stderr);
}
