//! Daily use of the chat: the menu, leaving, the history, modes and commands.

use std::fs;

use rind_tests::cli::{Rind, pasted};

use super::{ECHO, SIZE, conversation};

const ESC: &str = "\u{1b}";
const DOWN: &str = "\u{1b}[B";
const UP: &str = "\u{1b}[A";
const SHIFT_TAB: &str = "\u{1b}[Z";
const CTRL_C: &str = "\u{3}";
const CTRL_D: &str = "\u{4}";
const CTRL_R: &str = "\u{12}";

/// Columns and rows of a screen on which a long list fits.
const TALL: (u16, u16) = (100, 60);

/// Script of a model that writes a file if the prompt contains `write`, and otherwise answers.
const WRITE: &str = r#"
[[reply]]
when = { contains = "write", step = 1 }
times = 0
text = "Here is the plan."
tool_calls = [{ name = "write_file", arguments = { path = "new.txt", content = "words\n" } }]

[[reply]]
when = { contains = "Carry it out", step = 1 }
times = 0
tool_calls = [{ name = "write_file", arguments = { path = "done.txt", content = "words\n" } }]

[[reply]]
times = 0
text = "So it is."
"#;

#[test]
fn enter_takes_the_marked_entry_of_the_menu_and_nothing_goes_to_the_model() {
    let rind = Rind::with_script(ECHO);
    let Some(mut terminal) = rind.terminal(&["chat", "--no-plugins"], TALL, &[]) else {
        return;
    };
    terminal
        .sees_no("Enter steers")
        .sees("›\nscripted")
        .keys("/")
        .sees("▸ help");
    terminal
        .keys("\r")
        .sees("Built in:")
        .sees_no("Enter steers")
        .sees("›\nscripted");
    terminal
        .keys("/co")
        .sees("▸ cost")
        .keys(DOWN)
        .sees("▸ context");
    terminal.keys("\r").sees("tokens in all, estimated");
    // For a command that needs arguments, Enter only completes the name.
    terminal
        .keys("/ren")
        .sees("▸ rename")
        .keys("\r")
        .sees("› /rename");
    terminal
        .keys("Tides\r")
        .sees("the title of this session is now Tides");
    // With the menu closed, a slash alone is not sent as a message.
    terminal
        .keys("/")
        .sees("▸ help")
        .keys(ESC)
        .sees_no("▸ help");
    terminal.keys("\r").sees("type the name of a command");
    assert!(conversation(&rind).is_empty());
    terminal.keys(CTRL_C).keys("\u{15}/quit\r");
    assert_eq!(terminal.ends(), Some(0));
}

#[test]
fn one_ctrl_c_on_an_empty_line_never_leaves_and_leaving_says_how_to_go_on() {
    let rind = Rind::with_script(ECHO);
    let Some(mut terminal) = rind.terminal(&["chat", "--no-plugins"], SIZE, &[]) else {
        return;
    };
    terminal
        .sees_no("Enter steers")
        .sees("›\nscripted")
        .keys(CTRL_C);
    terminal
        .sees("Ctrl-C again quits")
        .sees_no("Ctrl-C again quits");
    terminal
        .keys("hello\r")
        .sees("You said: hello")
        .sees_no("Enter steers")
        .sees("›\nscripted");
    terminal
        .keys(CTRL_C)
        .sees("Ctrl-C again quits")
        .keys(CTRL_C);
    assert_eq!(terminal.ends(), Some(0));
    let all = terminal.all();
    assert!(all.contains("to continue: rind -c, or rind -r"), "{all}");
}

#[test]
fn a_chat_in_which_nothing_was_said_ends_without_a_word() {
    let rind = Rind::with_script(ECHO);
    let Some(mut terminal) = rind.terminal(&["chat", "--no-plugins"], SIZE, &[]) else {
        return;
    };
    terminal
        .sees_no("Enter steers")
        .sees("›\nscripted")
        .keys(CTRL_D);
    assert_eq!(terminal.ends(), Some(0));
    assert!(!terminal.all().contains("to go on"));
}

#[test]
fn escape_and_ctrl_d_answer_a_question_with_no_and_end_the_turn() {
    for key in [ESC, CTRL_D] {
        let rind = Rind::with_script(WRITE);
        let Some(mut terminal) = rind.terminal(&["chat", "--no-plugins"], TALL, &[]) else {
            return;
        };
        terminal
            .sees_no("Enter steers")
            .sees("›\nscripted")
            .keys("write\r")
            .sees("[n]o and why");
        terminal
            .keys(key)
            .sees("interrupted")
            .sees_no("Enter steers")
            .sees("›\nscripted");
        let all = terminal.all();
        assert!(
            all.contains("? write_file wants to") && all.contains("\n  no\n"),
            "{all}"
        );
        assert!(!rind.workspace().join("new.txt").exists());
        terminal.keys("/quit\r");
        assert_eq!(terminal.ends(), Some(0));
    }
}

#[test]
fn ctrl_r_finds_what_was_typed_and_a_paste_comes_back_as_its_note() {
    let rind = Rind::with_script(ECHO);
    let Some(mut terminal) = rind.terminal(&["chat", "--no-plugins"], TALL, &[]) else {
        return;
    };
    let block = "a line\n".repeat(40);
    terminal
        .sees_no("Enter steers")
        .sees("›\nscripted")
        .keys("look at ")
        .keys(&pasted(&block));
    terminal
        .sees("[paste 1: 40 lines]")
        .keys("\r")
        .sees("You said")
        .sees_no("Enter steers")
        .sees("›\nscripted");
    terminal
        .keys("first thing\r")
        .sees("You said: first thing")
        .sees_no("Enter steers")
        .sees("›\nscripted");
    terminal.keys(UP).sees("› first thing").keys(UP);
    terminal.sees("› look at [paste 1: 40 lines]");
    terminal
        .keys(CTRL_C)
        .keys(CTRL_R)
        .sees("history:")
        .keys("FIRST");
    terminal
        .sees("› first thing")
        .keys(CTRL_R)
        .sees("no older match");
    terminal
        .keys(ESC)
        .sees_no("history:")
        .sees_no("Enter steers")
        .sees("›\nscripted");
    terminal
        .keys(CTRL_R)
        .keys("look at")
        .sees("› look at [paste")
        .keys("\r");
    terminal.sees_no("history:").sees("› look at [paste");
    terminal.keys(CTRL_C).keys("/quit\r");
    assert_eq!(terminal.ends(), Some(0));
}

#[test]
fn shift_tab_switches_the_mode_and_the_screen_always_says_which() {
    let rind = Rind::with_script(WRITE);
    let Some(mut terminal) = rind.terminal(&["chat", "--no-plugins"], TALL, &[]) else {
        return;
    };
    terminal.sees("mode ask").sees("scripted · ask");
    terminal.keys(SHIFT_TAB).sees("scripted · accept-edits");
    terminal
        .keys("write\r")
        .sees("So it is.")
        .sees_no("Enter steers");
    assert!(rind.workspace().join("new.txt").exists());
    fs::remove_file(rind.workspace().join("new.txt")).unwrap();
    terminal.keys(SHIFT_TAB).sees("scripted · plan");
    terminal
        .keys("write again\r")
        .sees("carry out this plan")
        .sees("[a]ccept");
    assert!(!rind.workspace().join("new.txt").exists());
    terminal
        .waits(700)
        .keys("a\r")
        .sees("scripted · accept-edits");
    terminal.until("the file of the plan", |_| {
        rind.workspace().join("done.txt").exists()
    });
    terminal.keys(SHIFT_TAB).sees("scripted · plan");
    terminal.keys(SHIFT_TAB).sees("scripted · ask");
    terminal
        .keys("/permissions\r")
        .sees("mode ask: what no rule allows");
    terminal
        .keys("/mode full\r")
        .sees("scripted · full: nothing is asked");
    terminal
        .keys("/permissions\r")
        .sees("the mode full decides");
    terminal.keys("/quit\r");
    assert_eq!(terminal.ends(), Some(0));
}

#[test]
fn yes_and_dry_run_stand_on_the_screen_and_in_the_permissions() {
    let rind = Rind::with_script(WRITE);
    let args = ["chat", "--no-plugins", "--yes", "--dry-run"];
    let Some(mut terminal) = rind.terminal(&args, TALL, &[]) else {
        return;
    };
    terminal.sees("scripted · full: nothing is asked · dry run");
    terminal
        .keys("/permissions\r")
        .sees("mode full")
        .sees("--dry-run: calls");
    terminal.keys(SHIFT_TAB).sees("scripted · ask · dry run");
    terminal.keys("/quit\r");
    assert_eq!(terminal.ends(), Some(0));
}

#[test]
fn a_new_conversation_begins_in_the_same_program_and_the_old_one_can_be_chosen_again() {
    let rind = Rind::with_script(ECHO);
    let Some(mut terminal) = rind.terminal(&["chat", "--no-plugins"], TALL, &[]) else {
        return;
    };
    terminal
        .sees_no("Enter steers")
        .sees("›\nscripted")
        .keys("first\r")
        .sees("You said: first")
        .sees_no("Enter steers")
        .sees("›\nscripted");
    let opened = |n: usize| move |screen: &str| screen.matches("/help lists").count() == n;
    terminal.keys("/clear\r").until("the new chat", opened(2));
    terminal
        .keys("second\r")
        .sees("You said: second")
        .sees_no("Enter steers")
        .sees("›\nscripted");
    terminal
        .keys("/status\r")
        .sees("session  ")
        .sees("1 turn")
        .sees("mode     ask");
    terminal
        .keys("/resume\r")
        .sees("which session")
        .sees("1 turn · first");
    terminal
        .keys("nothing like it")
        .sees("nothing fits")
        .keys("\u{15}");
    terminal
        .keys("first")
        .sees("▸")
        .keys("\r")
        .until("the first chat", opened(3));
    terminal.keys("/copy\r").sees("sent to the clipboard");
    let bytes = String::from_utf8_lossy(&terminal.bytes()).into_owned();
    assert!(bytes.contains("\u{1b}]52;c;WW91IHNhaWQ6IGZpcnN0\u{7}"));
    terminal.keys("/reload\r").until("the same chat", opened(4));
    terminal
        .keys("third\r")
        .sees("You said: third")
        .sees_no("Enter steers")
        .sees("›\nscripted");
    terminal.keys("/quit\r");
    assert_eq!(terminal.ends(), Some(0));
    let sessions = rind.run(&["session", "list"]).exits(0).stdout;
    assert_eq!(sessions.lines().count(), 2, "{sessions}");
}

#[test]
fn commands_that_only_look_answer_while_a_turn_runs() {
    let slow = "[[reply]]\ntimes = 0\ndelay_ms = 3600000\ntext = \"late\"\n";
    let rind = Rind::with_script(slow);
    let Some(mut terminal) = rind.terminal(&["chat", "--no-plugins"], TALL, &[]) else {
        return;
    };
    terminal
        .sees_no("Enter steers")
        .sees("›\nscripted")
        .keys("wait\r")
        .sees("waiting for the model");
    terminal.keys("/cost\r").sees("0 turns: 0 tokens in");
    terminal.keys("/context\r").sees("tokens in all, estimated");
    terminal.keys("/status\r").sees("settings ");
    terminal
        .keys("/diff\r")
        .sees("no turn of this session has changed a file");
    terminal.keys("/mode\r").sees("▸ ask");
    terminal
        .keys("/new\r")
        .sees("can run only between turns")
        .keys("\u{15}");
    terminal.keys(CTRL_C).sees("interrupted").keys("/quit\r");
    assert_eq!(terminal.ends(), Some(0));
}

#[test]
fn the_changes_of_a_turn_are_shown_by_diff() {
    let rind = Rind::with_script(WRITE);
    let args = ["chat", "--no-plugins", "--mode", "accept-edits"];
    let Some(mut terminal) = rind.terminal(&args, TALL, &[]) else {
        return;
    };
    terminal
        .sees_no("Enter steers")
        .sees("›\nscripted")
        .keys("write\r")
        .sees("So it is.")
        .sees_no("Enter steers")
        .sees("›\nscripted");
    terminal
        .keys("/diff\r")
        .sees("turn 1: 1 change")
        .sees("new.txt: ");
    terminal.keys("/quit\r");
    assert_eq!(terminal.ends(), Some(0));
}

#[test]
fn a_run_in_plan_mode_changes_nothing_and_says_how_to_carry_the_plan_out() {
    let rind = Rind::with_script(WRITE);
    let ran = rind.run(&["run", "write", "--mode", "plan"]).exits(0);
    assert!(ran.stderr.contains(" · mode plan\n"), "{}", ran.stderr);
    assert!(ran.stderr.contains("--mode accept-edits"), "{}", ran.stderr);
    assert!(!rind.workspace().join("new.txt").exists());
    let text = rind.run(&["session", "prompt", "--text"]).exits(0).stdout;
    assert!(text.contains("You are in plan mode"), "{text}");
    let ran = rind
        .run(&["run", "write", "--mode", "accept-edits"])
        .exits(0);
    assert!(rind.workspace().join("new.txt").exists(), "{}", ran.stderr);
    for wrong in [
        &["run", "x", "--mode", "yolo"][..],
        &["run", "x", "--yes", "--mode", "ask"],
    ] {
        rind.run(wrong).exits(2);
    }
}
