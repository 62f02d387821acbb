//! Colors, links, diffs of changed files, signals and images from the clipboard.

use std::os::unix::fs::PermissionsExt;

use insta::assert_snapshot;
use rind_tests::cli::{Rind, Terminal, pasted};

use super::{ECHO, SIZE};

const CODE: &str = r#"
[[reply]]
text = """
See <http://example.org> and [words](http://example.org/a).

```rust
fn main() {}
```

```no\u001b[31m-language
\u001b[2J\u001b]8;;http://evil.example\u0007x
```

```sh
echo "\u001b]0;title\u0007" # \u009b2J
```

The end."""
"#;

/// Returns the Rust keyword `fn` with the escape sequence of this color number.
fn keyword(color: u8) -> String {
    format!("\u{1b}[38;5;{color}mfn\u{1b}[0m")
}

fn ended(terminal: &mut Terminal) -> String {
    terminal.sees_no("Enter steers").keys("\u{4}");
    assert_eq!(terminal.ends(), Some(0));
    String::from_utf8(terminal.bytes()).unwrap()
}

#[test]
fn code_is_colored_for_the_background_that_the_settings_or_the_terminal_tell() {
    for (set, variable, answer, color) in [
        ("chat.theme=dark", "0;15", "", Some(182)),
        ("chat.theme=light", "15;0", "", Some(90)),
        ("chat.theme=auto", "15;0", "", Some(182)),
        ("chat.theme=auto", "0;15", "", Some(90)),
        ("chat.theme=auto", "", "", None),
        (
            "chat.theme=auto",
            "15;0",
            "\u{1b}]11;rgb:ffff/ffff/ffff\u{1b}\\\u{1b}[?62c",
            Some(90),
        ),
    ] {
        let rind = Rind::with_script(CODE);
        let variables = [("COLORFGBG", variable)];
        let args = ["chat", "--no-plugins", "--set", set];
        let Some(mut terminal) = rind.terminal(&args, SIZE, &variables) else {
            return;
        };
        terminal
            .sees("/help")
            .keys(answer)
            .keys("go\r")
            .sees("The end.");
        let bytes = ended(&mut terminal);
        let expected = color.map_or("\u{1b}[35mfn\u{1b}[0m".to_owned(), keyword);
        assert!(bytes.contains(&expected), "{set} {variable}: {bytes:?}");
    }
}

#[test]
fn without_color_and_with_hostile_code_nothing_reaches_the_terminal_but_text() {
    for variables in [[("NO_COLOR", "1")], [("FORCE_HYPERLINK", "1")]] {
        let rind = Rind::with_script(CODE);
        let Some(mut terminal) = rind.terminal(&["chat", "--no-plugins", "go"], SIZE, &variables)
        else {
            return;
        };
        terminal.sees("The end.");
        let bytes = ended(&mut terminal);
        for obeyed in [
            "\u{1b}[2J",
            "\u{1b}]0;",
            "evil.example\u{7}",
            "\u{9b}",
            "\u{1b}[31m-",
        ] {
            assert!(!bytes.contains(obeyed), "{obeyed:?}: {bytes:?}");
        }
        let has_links = variables[0].0 == "FORCE_HYPERLINK";
        assert_eq!(
            bytes.contains(&keyword(182)) || bytes.contains("\u{1b}[35mfn"),
            has_links
        );
        for address in ["http://example.org", "http://example.org/a"] {
            let link = format!("\u{1b}]8;;{address}\u{1b}\\");
            assert_eq!(bytes.contains(&link), has_links, "{address}: {bytes:?}");
        }
        assert!(!bytes.contains("\u{1b}]8;;http://evil"), "{bytes:?}");
    }
}

#[test]
fn a_question_about_an_edit_or_an_overwrite_shows_the_change_of_the_file() {
    let rind = Rind::with_script(
        r#"
        [[reply]]
        tool_calls = [{ name = "read_file", arguments = { path = "a.rs" } }]
        [[reply]]
        tool_calls = [{ name = "edit_file", arguments = { path = "a.rs", old_text = "line 6\n", new_text = "new \u001b[2J\n" } }]
        [[reply]]
        tool_calls = [{ name = "write_file", arguments = { path = "a.rs", content = "line 1\nline 2\nother\nline 4\nline 5" } }]
        [[reply]]
        text = "The end."
        "#,
    );
    let lines: String = (1..=12).map(|n| format!("line {n}\n")).collect();
    rind.file("a.rs", &lines);
    let Some(mut terminal) = rind.terminal(&["chat", "--no-plugins", "go"], (72, 30), &[]) else {
        return;
    };
    terminal.sees("[n]o and why:");
    assert_snapshot!(terminal.picture_from("? edit_file"), @r"
    ? edit_file wants to change files (write)
      file: a.rs
      now: line 6
       3   line 3
       4   line 4
       5   line 5
       6 - line 6
       6 + new \u{1b}[2J
       7   line 7
       8   line 8
       9   line 9
      always covers edit_file in the workspace's own folder, not in folders
      ↪ below it
      [y]es, [a]lways in this session, or [n]o and why:
    ›
    ");
    terminal
        .keys("y\r")
        .sees("? write_file")
        .sees("[n]o and why:");
    assert_snapshot!(terminal.picture_from("? write_file"), @r"
    ? write_file wants to change files (write)
      file: a.rs
      now: replaces 89 bytes, 12 lines
      size: 33 bytes, 5 lines
       1   line 1
       2   line 2
       3 - line 3
       3 + other
       4   line 4
       5 - line 5
       6 - new \u{1b}[2J
       7 - line 7
       8 - line 8
       9 - line 9
      10 - line 10
      11 - line 11
      12 - line 12
       5 + line 5
         \ no line break at the end
      always covers write_file in the workspace's own folder, not in folders
      ↪  below it
      [y]es, [a]lways in this session, or [n]o and why:
    ›
    ");
    terminal.keys("y\r").sees("The end.");
    let bytes = ended(&mut terminal);
    assert!(!bytes.contains("\u{1b}[2J"), "{bytes:?}");
    let written = std::fs::read_to_string(rind.workspace().join("a.rs")).unwrap();
    assert_eq!(written, "line 1\nline 2\nother\nline 4\nline 5");
}

#[test]
fn a_change_that_does_not_fit_must_be_viewed() {
    let rind = Rind::with_script(
        r#"
        [[reply]]
        tool_calls = [{ name = "edit_file", arguments = { path = "a.txt", old_text = "x", new_text = "y", replace_all = true } }]
        [[reply]]
        text = "The end."
        "#,
    );
    rind.file("a.txt", &"x\n".repeat(40));
    let Some(mut terminal) = rind.terminal(&["chat", "--no-plugins", "go"], SIZE, &[]) else {
        return;
    };
    terminal
        .sees("[v]iew first")
        .keys("y\r")
        .sees("view the whole question first")
        .keys("n\r")
        .sees("The end.");
    ended(&mut terminal);
    let kept = std::fs::read_to_string(rind.workspace().join("a.txt")).unwrap();
    assert_eq!(kept, "x\n".repeat(40));
}

#[test]
fn a_terminal_that_is_not_in_front_is_signalled_with_fixed_words() {
    for (way, signal) in [
        ("bell", "\u{7}"),
        ("osc9", "\u{1b}]9;Rind has ended its turn\u{1b}\\"),
        (
            "osc777",
            "\u{1b}]777;notify;Rind;Rind has ended its turn\u{1b}\\",
        ),
        ("off", ""),
    ] {
        let rind = Rind::with_script(ECHO);
        let set = format!("chat.notify={way}");
        let args = ["chat", "--no-plugins", "--set", &set];
        let Some(mut terminal) = rind.terminal(&args, SIZE, &[]) else {
            return;
        };
        let signals = |terminal: &Terminal| {
            let bytes = String::from_utf8(terminal.bytes()).unwrap();
            assert!(!bytes.contains("\u{7}") || way == "bell", "{bytes:?}");
            bytes
                .matches(if signal.is_empty() { "\u{7}" } else { signal })
                .count()
        };
        terminal.sees("/help").keys("one\r").sees("You said: one");
        terminal.sees_no("Enter steers");
        assert_eq!(signals(&terminal), 0, "{way}");
        terminal.keys("two\r\u{1b}[O").sees("You said: two");
        terminal.sees_no("Enter steers").waits(200);
        assert_eq!(signals(&terminal), usize::from(way != "off"), "{way}");
        terminal.keys("\u{1b}[Ithree\r").sees("You said: three");
        ended(&mut terminal);
        assert_eq!(signals(&terminal), usize::from(way != "off"), "{way}");
    }
}

#[test]
fn an_image_of_the_clipboard_is_attached_when_the_key_is_pressed() {
    let rind = Rind::with_script(ECHO);
    let folder = rind.workspace();
    std::fs::copy(
        concat!(env!("CARGO_MANIFEST_DIR"), "/recorded/dot.png"),
        folder.join("clip"),
    )
    .unwrap();
    let program = folder.join("wl-paste");
    let script = format!("#!/bin/sh\ncat '{}'\n", folder.join("clip").display());
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let variables = [("PATH", path.as_str()), ("WAYLAND_DISPLAY", "wayland-0")];
    let Some(mut terminal) = rind.terminal(&["chat", "--no-plugins"], (120, 20), &variables) else {
        return;
    };
    terminal
        .sees("/help")
        .keys("\u{16}")
        .sees("rind-clipboard-");
    terminal
        .keys("look\r")
        .sees("[image/png, 70 B]")
        .sees("You said: @");
    // Clipboard content that is not an image is not attached.
    terminal.sees_no("Enter steers");
    rind.file("clip", "text\u{1b}[2J");
    terminal.keys("\u{16}").sees("no image was pasted");
    ended(&mut terminal);
    let address = format!("file://{}", folder.join("a%20b.png").display());
    std::fs::copy(
        concat!(env!("CARGO_MANIFEST_DIR"), "/recorded/dot.png"),
        folder.join("a b.png"),
    )
    .unwrap();
    let mut terminal = rind
        .terminal(&["chat", "--no-plugins"], (120, 20), &[])
        .unwrap();
    terminal
        .sees("/help")
        .keys(&pasted(&address))
        .sees("a b.png\"");
    terminal
        .keys("\u{16}")
        .sees("no program reads the clipboard here");
    terminal.keys("\u{15}\u{4}");
    assert_eq!(terminal.ends(), Some(0));
}

#[test]
fn a_long_call_is_paged_through_whole() {
    let rind = Rind::with_script(
        "[[reply]]\ntool_calls = [{ name = \"read_file\", arguments = { path = \"a.rs\" } }]\n[[reply]]\ntext = \"The end.\"\n",
    );
    let lines: String = (1..=1_000)
        .map(|n| format!("fn line_{n}() {{}}\n"))
        .collect();
    rind.file("a.rs", &lines);
    let Some(mut terminal) = rind.terminal(&["chat", "--no-plugins", "go"], SIZE, &[]) else {
        return;
    };
    terminal.sees("The end.").sees_no("Enter steers");
    for (n_left, until) in [
        ("603 more lines: Ctrl-O twice", "fn line_397()"),
        ("203 more lines: Ctrl-O twice", "fn line_797()"),
        ("fn line_1000()", "fn line_1000()"),
    ] {
        terminal.keys("\u{f}\u{f}").sees(n_left).sees(until);
    }
    let bytes = ended(&mut terminal);
    assert!(
        bytes.contains("\u{1b}[35mfn\u{1b}[0m"),
        "colored by its language"
    );
    let all = terminal.all();
    assert!(all.contains("read_file from line 401"), "{all}");
    for n in 1..=1_000 {
        assert_eq!(all.matches(&format!("fn line_{n}()")).count(), 1, "{n}");
    }
}

#[test]
fn a_run_at_a_terminal_lays_out_what_a_pipe_gets_as_it_is() {
    let text = "# Title\n\nWords with **bold** [link](http://a.b).\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```rust\nfn main() {}\n```\n";
    let rind = Rind::with_script(&format!("[[reply]]\ntext = {text:?}\n"));
    let piped = rind.run(&["run", "--no-plugins", "go"]).exits(0);
    assert_eq!(piped.stdout, text);
    let rind = Rind::with_script(&format!("[[reply]]\ntext = {text:?}\n"));
    let args = ["run", "--no-plugins", "go"];
    let Some(mut terminal) = rind.terminal(&args, SIZE, &[]) else {
        return;
    };
    assert_eq!(terminal.ends(), Some(0));
    let screen = terminal.screen();
    for row in [
        "# Title\n",
        "Words with bold link (http://a.b).\n",
        "a │ b\n──┼──\n1 │ 2\n",
        "  fn main() {}\n",
    ] {
        assert!(screen.contains(row), "{row}: {screen}");
    }
}
