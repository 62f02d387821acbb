//! Ctrl-C at any moment: the running work ends, typed text is kept, and the terminal is restored.

use rind_tests::cli::Rind;

use super::{SIZE, conversation};

const SCRIPT: &str = r#"
[[reply]]
when = { contains = "wait" }
times = 0
delay_ms = 3600000
text = "late"

[[reply]]
when = { contains = "stream" }
times = 0
word_ms = 150
text = "one two three four five six seven eight nine ten and so on, for a long time: one two three four five six seven eight"

[[reply]]
when = { contains = "tool", step = 1 }
times = 0
[[reply.tool_calls]]
name = "list_files"
arguments = { path = "." }
[[reply.tool_calls]]
name = "write_file"
arguments = { path = "a.txt", content = "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\nl\nm\nn\no\np\nq\nr\ns\nt\nu\nv\nw\nx\ny\nz\n" }

[[reply]]
times = 0
text = "You said: {input}"
"#;

const CTRL_C: &str = "\u{3}";

/// Keys to type, the screen text at which Ctrl-C is pressed, and two texts that appear afterwards.
const MOMENTS: [(&[&str], &str, [&str; 2]); 10] = [
    (&["text that is cleared"], "› text that", ["›\nscripted"; 2]),
    (&["/co"], "▸ cost", ["›\nscripted"; 2]),
    (&["wait\r"], "› wait", ["interrupted", "›\nscripted"]),
    (
        &["wait\r"],
        "waiting for the model",
        ["interrupted", "›\nscripted"],
    ),
    (
        &["wait\r", "half a line"],
        "half a line",
        ["interrupted", "› half a line"],
    ),
    (
        &["wait\r", "steering\r"],
        "next: steering",
        ["interrupted", "› steering"],
    ),
    (
        &["stream\r"],
        "one two three",
        ["interrupted", "›\nscripted"],
    ),
    (&["tool\r"], "[n]o and why", ["interrupted", "›\nscripted"]),
    (
        &["tool\r", "v\r"],
        "more rows",
        ["interrupted", "›\nscripted"],
    ),
    (
        &["!sleep 60\r"],
        "! sleep 60 runs",
        ["[stopped", "›\nscripted"],
    ),
];

#[test]
fn ctrl_c_at_any_moment_ends_what_runs_and_loses_nothing() {
    for (keys, before, [then, at_last]) in MOMENTS {
        let rind = Rind::with_script(SCRIPT);
        let Some(mut terminal) = rind.terminal(&["chat", "--no-plugins"], SIZE, &[]) else {
            return;
        };
        terminal.sees("/help");
        for keys in keys {
            match *keys {
                // `v` typed before the question would be a message to the model.
                "v\r" => _ = terminal.sees("[n]o and why"),
                // Typed before the first request, it would be part of this request.
                "steering\r" => _ = terminal.sees("waiting for the model"),
                _ => {}
            }
            terminal.keys(keys).waits(30);
        }
        terminal.sees(before).keys(CTRL_C).sees(then).sees(at_last);
        terminal.sees_no("ending the turn").sees_no("runs; Ctrl-C");
        // The chat still works: the next turn gets an answer.
        terminal.keys("\u{15}\u{15}hello\r").sees("You said:");
        terminal.sees_no("Enter steers").keys("\u{4}");
        assert_eq!(terminal.ends(), Some(0), "{keys:?}");
        let said = conversation(&rind);
        assert!(
            said.iter()
                .any(|line| line.starts_with("assistant: You said:") && line.ends_with("hello")),
            "{said:?}"
        );
    }
}

#[test]
fn ctrl_c_twice_quits_and_what_waited_is_on_the_screen() {
    let rind = Rind::with_script(SCRIPT);
    let Some(mut terminal) = rind.terminal(&["chat", "--no-plugins", "wait"], SIZE, &[]) else {
        return;
    };
    terminal.sees("waiting for the model").keys("later on\t");
    terminal.sees("later: later on").keys("and more\u{3}\u{3}");
    assert_eq!(terminal.ends(), Some(130));
    let all = terminal.all();
    let unsent = all.split_once("not sent").map(|(_, unsent)| unsent);
    let unsent = unsent.expect("it says what was not sent");
    assert!(unsent.contains("later on\nand more"), "{all}");
}

#[test]
fn ctrl_c_where_nothing_runs_and_nothing_is_typed_quits_when_it_is_pressed_twice() {
    let rind = Rind::with_script(SCRIPT);
    let Some(mut terminal) = rind.terminal(&["chat", "--no-plugins"], SIZE, &[]) else {
        return;
    };
    terminal
        .sees("/help")
        .keys(CTRL_C)
        .sees("Ctrl-C again quits")
        .keys(CTRL_C);
    assert_eq!(terminal.ends(), Some(0));
}

#[test]
fn escape_ends_a_turn_whose_model_writes_faster_than_an_escape_is_waited_for() {
    let words = "word ".repeat(4_000);
    let rind = Rind::with_script(&format!("[[reply]]\nword_ms = 5\ntext = \"{words}\"\n"));
    let Some(mut terminal) = rind.terminal(&["chat", "--no-plugins", "go"], SIZE, &[]) else {
        return;
    };
    terminal
        .sees("word word")
        .keys("\u{1b}")
        .sees("interrupted");
    terminal.sees_no("ending the turn").keys("\u{4}");
    assert_eq!(terminal.ends(), Some(0));
}

#[test]
fn a_text_that_the_history_does_not_keep_is_not_lost_when_it_is_cleared() {
    let rind = Rind::with_script(SCRIPT);
    let Some(mut terminal) = rind.terminal(&["chat", "--no-plugins"], SIZE, &[]) else {
        return;
    };
    terminal
        .sees("/help")
        .keys(" hidden words")
        .sees("›  hidden words");
    terminal.keys(CTRL_C).sees("not kept in the history");
    terminal.keys("\u{1f}").sees("›  hidden words");
    terminal.keys("\u{3}\u{3}");
    assert_eq!(terminal.ends(), Some(0));
    let all = terminal.all();
    let unsent = all.split_once("not sent:").map(|(_, unsent)| unsent);
    assert!(
        unsent.is_some_and(|unsent| unsent.contains("hidden words")),
        "{all}"
    );
    let history = std::fs::read_to_string(rind.home().join("data/history"));
    assert!(!history.unwrap_or_default().contains("hidden"));
}
