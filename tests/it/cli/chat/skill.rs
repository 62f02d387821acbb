//! Skills in the chat: the status line, `/skills` and `/done`.

use rind_tests::cli::Rind;

use super::{ECHO, SIZE};

const TUTOR: &str = "---
skill_format: corteza.skill/v1
name: tutor
description: Teaches a language.
interaction: conversational
tools:
  allow: [read_file]
---
Teach $ARGUMENTS.
";

#[test]
fn a_skill_that_stays_is_in_the_line_of_status_until_done() {
    let rind = Rind::with_script(ECHO);
    rind.user_file("config/skills/tutor/SKILL.md", TUTOR);
    let Some(mut terminal) = rind.terminal(&["chat", "--no-plugins"], SIZE, &[]) else {
        return;
    };
    terminal.sees("scripted").keys("/tut").sees("▸ tutor");
    terminal
        .keys("\t rust\r")
        .sees("· skill tutor")
        .sees_no("Enter steers");
    terminal.keys("/skills\r").sees("active");
    terminal.keys("/done\r").sees("ended: tutor");
    terminal.sees_no("· skill tutor");
    terminal.keys("/quit\r");
    assert_eq!(terminal.ends(), Some(0));
}

#[test]
fn a_skill_that_returns_is_in_the_line_of_status_while_it_works() {
    let script =
        "[[reply]]\ntimes = 0\nword_ms = 300\ntext = \"looking at every part of it now\"\n";
    let rind = Rind::with_script(script);
    let look = TUTOR.replace("conversational", "returning");
    rind.user_file(
        "config/skills/look/SKILL.md",
        &look.replace("tutor", "look"),
    );
    let Some(mut terminal) = rind.terminal(&["chat", "--no-plugins"], SIZE, &[]) else {
        return;
    };
    terminal
        .sees("scripted")
        .keys("/look here\r")
        .sees("· skill look");
    terminal
        .sees("it now")
        .sees_no("Enter steers")
        .sees_no("· skill look");
    terminal.keys("/quit\r");
    assert_eq!(terminal.ends(), Some(0));
}

#[test]
fn a_question_about_a_projects_skill_says_what_it_declares_and_no_refuses_it() {
    let rind = Rind::with_script(ECHO);
    let side_effects = "side_effects: [network]\ninteraction: returning";
    let text = TUTOR.replace("interaction: conversational", side_effects);
    rind.file(".rind/skills/tutor/SKILL.md", &text);
    let args = ["chat", "--no-plugins", "--trust-project"];
    let Some(mut terminal) = rind.terminal(&args, SIZE, &[]) else {
        return;
    };
    terminal
        .sees("scripted")
        .keys("/tutor rust\r")
        .sees("says that it uses the network")
        .sees("it is asked once per session")
        .sees("[n]o");
    terminal
        .keys("n\r")
        .sees("the skill tutor was refused by the user");
    terminal.sees_no("· skill tutor").keys("/quit\r");
    assert_eq!(terminal.ends(), Some(0));
}
