//! Tests of `/undo` and `/rewind` in a chat: the diff, the choice, and files that were changed
//! since.

use insta::assert_snapshot;
use rind_tests::cli::Rind;

use super::{SIZE, conversation};

const WRITES: &str = r#"
[[reply]]
when = { input = "read" }
tool_calls = [{ name = "read_file", arguments = { path = "a.txt" } }]
[[reply]]
tool_calls = [
    { name = "write_file", arguments = { path = "a.txt", content = "one\nTWO\n" } },
    { name = "write_file", arguments = { path = "b.txt", content = "new\n" } },
]
[[reply]]
text = "Written."
[[reply]]
times = 0
text = "You said: {input}"
"#;

#[test]
fn the_diff_is_shown_first_and_each_part_can_be_chosen() {
    let rind = Rind::with_script(&WRITES.replace("when = { input = \"read\" }\n", ""));
    rind.file("a.txt", "one\ntwo\n");
    let args = ["chat", "--no-plugins", "--yes", "work"];
    let Some(mut terminal) = rind.terminal(&args, (72, 30), &[]) else {
        return;
    };
    terminal.sees("Written.").sees_no("Enter steers");
    terminal.keys("/undo\r").sees("[n]o");
    assert_snapshot!(terminal.picture_from("? go back"), @"
    ? go back to before turn 1: work
      a.txt: changed
        1   one
        2 - TWO
        2 + two
      b.txt: removed, file of 4 B
        1 - new
      [b]oth, [c]onversation, [f]iles or [n]o:
    ›
    ");
    terminal.keys("n\r").sees("nothing was taken back");
    let a = rind.workspace().join("a.txt");
    assert_eq!(std::fs::read_to_string(&a).unwrap(), "one\nTWO\n");

    std::fs::write(&a, "mine\n").unwrap();
    terminal.keys("/rewind 1\r").sees("it was changed since");
    terminal
        .waits(1_000)
        .keys("f\r")
        .sees("overwrite these too");
    terminal
        .waits(1_000)
        .keys("n\r")
        .sees("these stay as they are");
    assert_eq!(std::fs::read_to_string(&a).unwrap(), "mine\n");
    assert!(!rind.workspace().join("b.txt").exists());
    let n_asked = |screen: &str| screen.matches("overwrite these too").count();
    terminal
        .keys("/undo both\r")
        .sees("[y]es or [n]o")
        .waits(1_000);
    let n_before = n_asked(&terminal.all());
    terminal.keys("y\r").waits(1_500);
    assert!(n_asked(&terminal.all()) > n_before, "{}", terminal.all());
    terminal.keys("y\r").sees("took the last turn out");
    assert_eq!(std::fs::read_to_string(&a).unwrap(), "one\ntwo\n");
    // Undoing a turn that changed no files asks nothing.
    terminal
        .keys("again\r")
        .sees("You said: again")
        .sees_no("Enter steers");
    terminal.keys("/undo\r").sees("(2 messages): again");
    terminal.keys("/quit\r");
    assert_eq!(terminal.ends(), Some(0));
    assert!(!conversation(&rind).is_empty());
}

#[test]
fn a_chat_in_lines_asks_too_and_one_from_a_pipe_does_not() {
    let rind = Rind::with_script(&WRITES.replace("when = { input = \"read\" }\n", ""));
    rind.file("a.txt", "one\ntwo\n");
    let piped = rind.run_with_input(&["chat", "--no-plugins", "--yes"], "work\n/undo\n");
    let stdout = piped.exits(0).stdout;
    assert!(
        stdout.contains("the files stay as they are (2 changes)"),
        "{stdout}"
    );
    assert!(rind.workspace().join("b.txt").exists());
    let args = ["chat", "--plain", "--no-plugins", "--yes", "-c"];
    let Some(mut terminal) = rind.terminal(&args, SIZE, &[]) else {
        return;
    };
    terminal
        .sees("\n>")
        .keys("/rewind 1\r")
        .sees("[f]iles or [n]o");
    terminal
        .waits(1_000)
        .keys("f\r")
        .sees("brought back 2 paths");
    terminal.keys("/quit\r");
    assert_eq!(terminal.ends(), Some(0));
    assert!(!rind.workspace().join("b.txt").exists());
}
