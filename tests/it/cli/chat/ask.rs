//! Questions about tool calls in a chat.

use insta::assert_snapshot;
use rind_tests::cli::{Rind, Terminal};

use super::{SIZE, conversation};

fn writes(n_lines: usize) -> String {
    let lines: Vec<String> = (0..n_lines).map(|n| format!("line {n}\\n")).collect();
    let write = |name: &str, content: &str| {
        format!(
            "[[reply]]\ntext = \"Now {name}.\"\n[[reply.tool_calls]]\nname = \"write_file\"\narguments = {{ path = \"{name}\", content = \"{content}\" }}\n"
        )
    };
    write("long.txt", &lines.concat())
        + &write("short.txt", "one\\n")
        + "[[reply]]\ntext = \"You said: {input}\"\n"
        + "[[reply]]\ntimes = 0\ntext = \"Done.\"\n"
}

/// Pages through a question to its end, and returns to its choices.
fn read_to_its_end(terminal: &mut Terminal) {
    while !terminal.screen().contains("end; Enter returns") {
        let before = terminal.screen();
        terminal
            .keys("\r")
            .until("the next page", |screen| screen != before);
    }
    terminal.keys("\r").sees("[y]es").sees_no("[v]iew");
}

#[test]
fn a_question_is_asked_in_place_viewed_whole_and_answered_with_a_reason_that_steers() {
    let rind = Rind::with_script(&writes(60));
    let Some(mut terminal) = rind.terminal(&["chat", "--no-plugins", "write"], SIZE, &[]) else {
        return;
    };
    terminal.sees("[n]o");
    assert_snapshot!(terminal.picture_from("? write_file"), @r"
    ? write_file wants to change files (write)
      file: long.txt
      now: a file that is not there yet
      size: 470 bytes, 60 lines
      + line 0
      + line 1
      + line 2
      + line 3
      + line 4
      + line 5
      + line 6
      + line 7
      + line 8
      … 51 more rows: v shows all
      always covers write_file in the workspace's own folder, not in folders
      ↪  below it
      [v]iew first, then [y]es, [a]lways in this session, or [n]o and why:
    ›
    ");
    terminal.keys("v\r").sees("more rows; Enter shows the next");
    assert_snapshot!(terminal.picture_from("? write_file"), @r"
    ? write_file wants to change files (write)
      file: long.txt
      now: a file that is not there yet
      size: 470 bytes, 60 lines
      + line 0
      + line 1
      + line 2
      + line 3
      + line 4
      + line 5
      + line 6
      + line 7
      + line 8
      + line 9
      + line 10
      + line 11
      50 more rows; Enter shows the next, q returns to the question
    ›
    ");
    terminal
        .keys("\rq\r")
        .sees("[n]o and")
        .keys("a\r")
        .sees("view the whole question first");
    assert!(!rind.workspace().join("long.txt").exists());
    terminal.keys("v\r").sees("more rows; Enter shows the next");
    read_to_its_end(&mut terminal);
    terminal.keys("a\r").sees("Now short.txt.");
    terminal.sees("You said: write");
    terminal.sees_no("Enter steers");
    assert_snapshot!(terminal.picture_from("32 + line 31"), @"
    32 + line 31
      33 + line 32
      34 + line 33
      35 + line 34
      36 + line 35
      37 + line 36
      38 + line 37
      39 + line 38
      40 + line 39
      … 20 more lines

    Now short.txt.

    ● write_file short.txt · 29 B in 1 line, [T]
      1 + one

    You said: write

    ›
    scripted · ask · 2.0k/80k tokens (2 %)
    ");
    // `/permissions` lists what `always` has allowed, and revokes it.
    terminal.keys("/permissions\r").sees("1 write_file");
    terminal
        .keys("/permissions 1\r")
        .sees("taken back: write_file");
    terminal.keys("/permissions\r").sees("nothing was allowed");
    terminal.keys("\u{4}");
    assert_eq!(terminal.ends(), Some(0));
    assert!(rind.workspace().join("long.txt").exists());
}

/// Script of a model that makes two calls at once, then reports that it is done.
const TWO: &str = r#"
[[reply]]
text = "Now both."
[[reply.tool_calls]]
name = "write_file"
arguments = { path = "one.txt", content = "" }
[[reply.tool_calls]]
name = "write_file"
arguments = { path = "two.txt", content = "" }
[[reply]]
text = "Done."
"#;

#[test]
fn an_answer_that_was_typed_twice_answers_one_question_and_is_not_sent_to_the_model() {
    let rind = Rind::with_script(TWO);
    let Some(mut terminal) = rind.terminal(&["chat", "--no-plugins", "write"], SIZE, &[]) else {
        return;
    };
    terminal.sees("[n]o and why").keys("y\ry\r");
    terminal.sees("file: two.txt").sees("[n]o and why");
    assert!(rind.workspace().join("one.txt").exists());
    assert!(!rind.workspace().join("two.txt").exists());
    terminal.keys("n\r").sees("Done.").sees_no("Enter steers");
    terminal.keys("\u{15}\u{4}");
    assert_eq!(terminal.ends(), Some(0));
    let said = conversation(&rind);
    let n_inputs = said.iter().filter(|line| line.starts_with("user: "));
    assert_eq!(n_inputs.count(), 1, "{said:?}");
}

#[test]
fn a_question_that_does_not_fit_on_the_screen_is_read_before_it_is_answered() {
    let rind = Rind::with_script(&writes(60));
    let Some(mut terminal) = rind.terminal(&["chat", "--no-plugins", "write"], (72, 6), &[]) else {
        return;
    };
    terminal
        .sees("? write_file wants")
        .sees("[v]iew first")
        .keys("y\r")
        .sees("view the whole question first");
    assert!(!rind.workspace().join("long.txt").exists());
    terminal.keys("n\r").sees("Now short.txt.");
    terminal
        .sees("[v]iew first")
        .keys("v\r")
        .sees("file: short.txt");
    read_to_its_end(&mut terminal);
    terminal.keys("y\r");
    terminal.sees("You said: write").sees_no("Enter steers");
    terminal.keys("\u{4}");
    assert_eq!(terminal.ends(), Some(0));
    assert!(!rind.workspace().join("long.txt").exists());
    assert!(rind.workspace().join("short.txt").exists());
}

#[test]
fn a_plugin_asks_in_the_chat_and_not_when_it_ends() {
    let rind = Rind::with_script("[[reply]]\ntimes = 0\ntext = \"You said: {input}\"\n");
    rind.managed("asker");
    let Some(mut terminal) = rind.terminal(&["chat"], SIZE, &[]) else {
        return;
    };
    terminal.sees("/help").keys("/confirm Go on?\r");
    terminal.sees("[y]es or [n]o");
    assert_snapshot!(terminal.picture_from("? plugin"), @r"
    ? plugin asker asks: Go on?
      [y]es or [n]o:
    ›
    ");
    terminal.keys("y\r").sees("true").sees_no("Ctrl-C ends");
    // In the answer to a question for text, `v` is ordinary text and not the key for viewing.
    terminal
        .keys("/name\r")
        .sees("Enter alone takes the default above");
    terminal.keys("v\r").sees_no("Enter alone").sees("\nv\n");
    terminal.sees_no("Ctrl-C ends").keys("go\r");
    terminal
        .sees("You said: go")
        .sees_no("Enter steers")
        .keys("\u{4}");
    assert_eq!(terminal.ends(), Some(0));
}

#[test]
fn what_was_being_written_for_a_question_that_went_away_is_in_the_editor() {
    let rind = Rind::with_script(TWO);
    let Some(mut terminal) = rind.terminal(&["chat", "--no-plugins", "write"], SIZE, &[]) else {
        return;
    };
    terminal.sees("[n]o and why").keys("n because it is");
    terminal.sees("› n because it is").keys("\u{3}");
    terminal.sees("interrupted").sees_no("ending the turn");
    terminal.sees("› n because it is").keys(" late\r");
    terminal.sees("Done.").sees_no("Enter steers").keys("\u{4}");
    assert_eq!(terminal.ends(), Some(0));
    let said = conversation(&rind);
    assert!(
        said.contains(&"user: n because it is late".to_owned()),
        "{said:?}"
    );
}

#[test]
fn in_lines_what_was_typed_before_a_question_is_not_its_answer() {
    let script = r#"
        [[reply]]
        tool_calls = [{ name = "bash", arguments = { command = "while [ ! -e go ]; do sleep 0.05; done" } }]
    "#;
    let rind = Rind::with_script(&(script.to_owned() + TWO));
    rind.config("[tools]\nrules = [{ tool = \"bash\", decision = \"allow\" }]\n");
    let args = ["chat", "--no-plugins", "--plain", "write"];
    let Some(mut terminal) = rind.terminal(&args, (120, 40), &[]) else {
        return;
    };
    terminal.sees("bash").keys("yes").sees("\nyes");
    rind.file("go", "");
    terminal
        .sees("file: one.txt")
        .sees("[n]o and why")
        .keys("\r");
    terminal.sees("invalid answer");
    assert!(!rind.workspace().join("one.txt").exists());
    rind_tests::cli::signal_chat(&rind, "TERM");
    assert_eq!(terminal.ends(), Some(130));
    assert!(!rind.workspace().join("one.txt").exists());
}

#[test]
fn a_no_with_a_reason_is_the_result_and_steers() {
    let rind = Rind::with_script(
        r#"
        [[reply]]
        text = "Now both."
        [[reply.tool_calls]]
        name = "write_file"
        arguments = { path = "one.txt", content = "" }
        [[reply.tool_calls]]
        name = "write_file"
        arguments = { path = "two.txt", content = "" }
        [[reply]]
        text = "You said: {input}"
        "#,
    );
    let Some(mut terminal) = rind.terminal(&["chat", "--no-plugins", "write"], SIZE, &[]) else {
        return;
    };
    terminal
        .sees("[n]o and why")
        .keys("maybe\r")
        .sees("invalid answer");
    terminal
        .keys("n use docs/ instead\r")
        .sees("You said: use docs/ instead");
    terminal.keys("\u{4}");
    assert_eq!(terminal.ends(), Some(0));
    assert!(!rind.workspace().join("one.txt").exists());
    assert_snapshot!(conversation(&rind).join("\n"), @r#"
    user: write
    assistant: Now both.; calls write_file; calls write_file
    tool: write_file answers "refused by the user: use docs/ instead\nThe call was not run."
    tool: write_file answers "not run: the user said something before this call began. Read that first; make the call again if it is still wanted"
    user: use docs/ instead
    assistant: You said: use docs/ instead
    "#);
}
