//! The chat on screens of other sizes and terminal types.

use insta::assert_snapshot;
use rind_tests::cli::{Rind, masked};
use rind_tests::guests;

use super::{ECHO, SIZE};

const ANSWER: &str = r#"
[[reply]]
word_ms = 15
text = """
# A title

Words with `code`, *emphasis* and a [link](http://example.org) that go on for longer than any row of this screen is wide.

1. first
2. second
   - nested

```rust
fn main() {
    println!("words");
}
```

| name | what it is |
|------|------------|
| one  | the first  |

The end."""
"#;

#[test]
fn an_answer_is_laid_out_while_it_comes_and_survives_a_change_of_size() {
    let rind = Rind::with_script(ANSWER);
    let Some(mut terminal) = rind.terminal(&["chat", "--no-plugins", "go"], SIZE, &[]) else {
        return;
    };
    terminal.sees("Words with").resize(50, 16);
    terminal.sees("first").resize(90, 24);
    terminal.sees("The end.").sees_no("Enter steers");
    let all = terminal.all();
    for once in [
        "› go",
        "# A title",
        "Words with",
        "1. first",
        "fn main",
        "The end.",
    ] {
        assert_eq!(all.matches(once).count(), 1, "{once}:\n{all}");
    }
    terminal.keys("\u{4}");
    assert_eq!(terminal.ends(), Some(0));
}

#[test]
fn forty_columns_are_enough() {
    let rind = Rind::with_script(ANSWER);
    let Some(mut terminal) = rind.terminal(&["chat", "--no-plugins", "go"], (40, 36), &[]) else {
        return;
    };
    terminal.sees("The end.").sees_no("Enter steers");
    assert_snapshot!(terminal.picture(), @r#"
    scripted · mode ask (Shift-Tab) · /help
      lists commands and keys

    › go

    # A title

    Words with `code`, emphasis and a link
    (http://example.org) that go on for
    longer than any row of this screen is
    wide.

    1. first
    2. second
       • nested

      fn main() {
          println!("words");
      }

    name │ what it is
    ─────┼───────────
    one  │ the first

    The end.

    ›
    scripted · ask · 1.8k/80k tokens (2 %)
    "#);
    terminal.keys("\u{4}");
    assert_eq!(terminal.ends(), Some(0));
}

#[test]
fn without_color_there_is_none() {
    let rind = Rind::with_script(ANSWER);
    let variables = [("NO_COLOR", "1")];
    let Some(mut terminal) = rind.terminal(&["chat", "--no-plugins", "go"], SIZE, &variables)
    else {
        return;
    };
    terminal
        .sees("The end.")
        .sees_no("Enter steers")
        .keys("\u{4}");
    assert_eq!(terminal.ends(), Some(0));
    let bytes = String::from_utf8(terminal.bytes()).unwrap();
    let styles = bytes.split("\u{1b}[").skip(1).filter(|sequence| {
        let end = sequence.find(|c: char| c.is_ascii_alphabetic()).unwrap();
        sequence[end..].starts_with('m') && !sequence.starts_with(['>', '0'])
    });
    assert_eq!(styles.count(), 0, "{bytes:?}");
}

#[test]
fn a_dumb_terminal_gets_lines_and_nothing_else() {
    let rind = Rind::with_script(ECHO);
    let variables = [("TERM", "dumb")];
    let Some(mut terminal) = rind.terminal(&["chat", "--no-plugins"], SIZE, &variables) else {
        return;
    };
    terminal
        .sees("\n>")
        .keys("hello\r")
        .sees("You said: hello")
        .sees("step");
    terminal.keys("/quit\r");
    assert_eq!(terminal.ends(), Some(0));
    let bytes = String::from_utf8(terminal.bytes()).unwrap();
    assert!(!bytes.contains('\u{1b}'), "{bytes:?}");
}

#[test]
fn from_a_pipe_each_line_is_a_turn() {
    let rind = Rind::with_script(ECHO);
    let ran = rind.run_with_input(&["chat", "--no-plugins"], "one\n\n/model\ntwo\n");
    assert_snapshot!(ran.screen(), @r"
    exit 0
    ---- stdout
    You said: one
    scripted (scripted)
    You said: two
    ---- stderr
    model: scripted (the script [FOLDER]/script.toml was asked for)
    session [SESSION] (new)
    1 step · 0 tool calls · [N] tokens in, [N] out · [T]
    1 step · 0 tool calls · [N] tokens in, [N] out · [T]
    ");
}

#[test]
fn alone_without_a_terminal_the_help_is_shown() {
    let rind = Rind::default();
    let ran = rind.run(&[""; 0]).exits(2);
    assert!(
        masked(&ran.stderr).contains("Usage: rind [\"PROMPT\"]"),
        "{}",
        ran.stderr
    );
}

#[test]
fn neither_a_plugin_nor_the_model_nor_a_command_writes_what_the_terminal_obeys() {
    let rind = Rind::with_script(
        r#"
        [[reply]]
        text = "Look\u001b[2J: &#27;[2J `\u001b]0;title\u0007`\n\n```\n\u001b[3A\n```\n"
        [[reply.tool_calls]]
        name = "read_file"
        arguments = { path = "a\u001b[2J.txt" }
        [[reply]]
        text = "The end.\u001b[2J"
        "#,
    );
    let plugin = guests::guest("hostile").to_str().unwrap();
    let set = "plugins.hostile.config.how=error";
    let args = [
        "chat",
        "--no-plugins",
        "--plugin",
        plugin,
        "--grant",
        "hostile",
        "--set",
        set,
    ];
    let Some(mut terminal) = rind.terminal(&args, (100, 40), &[]) else {
        return;
    };
    terminal.sees("/help").keys("go\r").sees("The end.");
    terminal
        .sees_no("Enter steers")
        .keys("\u{f}\r")
        .sees("a\\u001b[2J.txt");
    terminal
        .keys("!printf '\\033[2J\\033]0;x\\007'\r")
        .sees("[exit code 0]");
    assert!(
        terminal.screen().contains("hostile"),
        "{}",
        terminal.screen()
    );
    terminal.keys("\u{4}");
    assert_eq!(terminal.ends(), Some(0));
    let bytes = String::from_utf8(terminal.bytes()).unwrap();
    for obeyed in ["\u{1b}[2J", "\u{1b}]0;", "\u{1b}[3A\u{1b}[0m"] {
        assert!(!bytes.contains(obeyed), "{obeyed:?}: {bytes:?}");
    }
}
