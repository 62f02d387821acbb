//! Questions about tool calls within a chat.

use insta::assert_snapshot;
use rind_tests::cli::Rind;

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

#[test]
fn a_question_is_asked_in_place_viewed_whole_and_answered_with_a_reason_that_steers() {
    let rind = Rind::with_script(&writes(60));
    let Some(mut terminal) = rind.terminal(&["chat", "--no-plugins", "write"], SIZE, &[]) else {
        return;
    };
    terminal.sees("[n]o and why");
    assert_snapshot!(terminal.picture_from("? write_file"), @r"
    ? write_file wants to change files (write)
      file: long.txt
      size: 470 bytes, 60 lines
      + line 0
      + line 1
      + line 2
      + line 3
      + line 4
      + line 5
      + line 6
      + line 7
      … 52 more rows: v shows all
      always covers write_file in the workspace's own folder, not in folders
      ↪  below it
      [v]iew all, [y]es, [a]lways in this session, or [n]o and why:
    ›
    ");
    terminal.keys("v\r").sees("more rows; Enter shows the next");
    assert_snapshot!(terminal.picture_from("? write_file"), @r"
    ? write_file wants to change files (write)
      file: long.txt
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
      + line 12
      49 more rows; Enter shows the next, q returns to the question
    ›
    ");
    terminal
        .keys("\rq\r")
        .sees("[n]o and why")
        .keys("a\r")
        .sees("Now short.txt.");
    terminal.sees("You said: write");
    terminal.sees_no("Enter steers");
    assert_snapshot!(terminal.picture_from("32 + line 31"), @r"
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
    scripted · 1.8k/80k tokens (2 %)
    ");
    // What always covers is listed, and taken back.
    terminal.keys("/permissions\r").sees("1 write_file");
    terminal
        .keys("/permissions 1\r")
        .sees("taken back: write_file");
    terminal.keys("/permissions\r").sees("nothing was allowed");
    terminal.keys("\u{4}");
    assert_eq!(terminal.ends(), Some(0));
    assert!(rind.workspace().join("long.txt").exists());
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
