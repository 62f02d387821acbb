//! Line editing in the chat: completion of commands and files, pastes, and shell commands of the
//! person.

use insta::assert_snapshot;
use rind_tests::cli::{Rind, pasted};

use super::{ECHO, SIZE, conversation};

#[test]
fn a_paste_of_five_hundred_lines_is_a_note_until_it_is_sent_whole() {
    let rind = Rind::with_script(ECHO);
    let Some(mut terminal) = rind.terminal(&["chat", "--no-plugins"], SIZE, &[]) else {
        return;
    };
    let lines: Vec<String> = (0..500).map(|n| format!("line {n}\n")).collect();
    terminal.sees("scripted").keys("sum up: ");
    terminal.keys(&pasted(&lines.concat())).keys(" in short");
    assert_snapshot!(terminal.sees("in short").picture(), @r"
    scripted · mode ask (Shift-Tab) · /help lists commands and keys

    › sum up: [paste 1: 500 lines] in short
    scripted · ask
    ");
    terminal
        .keys("\r")
        .sees("Enter steers")
        .sees_no("Enter steers");
    terminal.keys("\u{4}");
    assert_eq!(terminal.ends(), Some(0));
    let said = &conversation(&rind)[0];
    assert_eq!(*said, format!("user: sum up: {} in short", lines.concat()));
}

#[test]
fn names_of_commands_and_files_are_completed() {
    let rind = Rind::with_script(ECHO);
    rind.file("docs/guide.md", "").file("docs/other.md", "");
    let Some(mut terminal) = rind.terminal(&["chat", "--no-plugins"], SIZE, &[]) else {
        return;
    };
    terminal.sees("scripted").keys("/co").sees("▸ cost");
    assert_snapshot!(terminal.picture(), @r"
    scripted · mode ask (Shift-Tab) · /help lists commands and keys

    › /co
      ▸ cost Show tokens and cost of this session
        context Show what fills the model's context window
        compact Replace older messages with a summary now
        continue Continue the turn that was interrupted when the program end
        copy Put the last answer into the clipboard, through the terminal
    scripted · ask
    ");
    terminal
        .keys("\u{15}see @gui")
        .sees("▸ docs/guide.md")
        .keys("\tplease\r");
    terminal.sees("You said: see @docs/guide.md please");
    terminal
        .sees_no("Enter steers")
        .keys("/nothing\r")
        .sees("there is no command /nothing");
    terminal.keys("\u{15}/quit\r");
    assert_eq!(terminal.ends(), Some(0));
}

#[test]
fn a_command_of_ones_own_is_told_to_the_model_with_the_next_words_or_not_at_all() {
    let rind = Rind::with_script(ECHO);
    let Some(mut terminal) = rind.terminal(&["chat", "--no-plugins"], SIZE, &[]) else {
        return;
    };
    terminal
        .sees("scripted")
        .keys("!echo told; exit 3\r")
        .sees("[exit code 3]");
    terminal
        .keys("!!echo secret\r")
        .sees("[exit code 0]")
        .keys("what was that?\r");
    terminal
        .sees("› what was that?")
        .sees("You said: I ran this command");
    terminal
        .keys("!sleep 60\r")
        .sees("! sleep 60 runs; Ctrl-C ends it")
        .keys("\u{3}")
        .sees("[stopped");
    terminal.keys("\u{4}");
    assert_eq!(terminal.ends(), Some(0));
    let said = &conversation(&rind)[0];
    assert!(said.contains("told\n[exit code 3]"), "{said}");
    assert!(
        said.ends_with("\n\nwhat was that?") && !said.contains("secret"),
        "{said}"
    );
}

#[test]
fn a_text_is_written_in_an_editor_of_ones_own() {
    let rind = Rind::with_script(ECHO);
    let editor = rind
        .file("edit.sh", "sed -i 's/^/edited /' \"$1\"\n")
        .workspace();
    let editor = format!("sh {}/edit.sh", editor.display());
    let variables = [("VISUAL", editor.as_str())];
    let Some(mut terminal) = rind.terminal(&["chat", "--no-plugins"], SIZE, &variables) else {
        return;
    };
    terminal
        .sees("scripted")
        .keys("wor\u{1a}ds\u{7}")
        .sees("› edited words");
    terminal
        .keys("\r")
        .sees("You said: edited words")
        .keys("\u{4}");
    assert_eq!(terminal.ends(), Some(0));
}

#[test]
fn a_text_in_another_encoding_is_kept_as_far_as_it_can_be_read() {
    let rind = Rind::with_script(ECHO);
    rind.file("edit.sh", "printf 'caf\\351 and more\\n' > \"$1\"\n");
    let editor = format!("sh {}/edit.sh", rind.workspace().display());
    let variables = [("VISUAL", editor.as_str())];
    let Some(mut terminal) = rind.terminal(&["chat", "--no-plugins"], SIZE, &variables) else {
        return;
    };
    terminal
        .sees("scripted")
        .keys("\u{7}")
        .sees("is not UTF-8")
        .sees("› caf")
        .sees(" and more");
    terminal.keys("\u{3}\u{4}");
    assert_eq!(terminal.ends(), Some(0));
}

#[test]
fn in_lines_a_command_of_ones_own_is_not_sent_to_the_model() {
    let rind = Rind::with_script(ECHO);
    let args = ["chat", "--no-plugins", "--plain"];
    let Some(mut terminal) = rind.terminal(&args, SIZE, &[]) else {
        return;
    };
    terminal
        .sees("scripted")
        .keys("!!pass show bank\r")
        .sees("need the chat on the full");
    terminal.keys(" !important\r").sees("You said: !important");
    terminal.keys("/quit\r");
    assert_eq!(terminal.ends(), Some(0));
    let said = conversation(&rind).concat();
    assert!(!said.contains("bank"), "{said}");
    // The same holds for a line from a pipe.
    let ran = rind.run_with_input(&["chat", "--no-plugins"], "!!pass show bank\nhello\n");
    let ran = ran.exits(0);
    assert_eq!(ran.stdout, "You said: hello\n");
    assert!(ran.stderr.contains("full screen"), "{}", ran.stderr);
}

#[test]
fn what_the_end_of_a_session_says_is_shown_below_the_chat() {
    let rind = Rind::with_script(ECHO);
    rind.file(
        "bye.json",
        r#"{"effects": [{"notify": {"level": "warn", "text": "the archive is full"}}]}"#,
    );
    rind.config(
        "[hooks.scripts.bye]\npoint = \"session-end\"\ncommand = [\"cat\", \"bye.json\"]\n",
    );
    let Some(mut terminal) = rind.terminal(&["chat", "--no-plugins"], SIZE, &[]) else {
        return;
    };
    terminal
        .sees("scripted")
        .keys("hello\r")
        .sees("You said: hello")
        .sees_no("Enter steers")
        .keys("/quit\r");
    assert_eq!(terminal.ends(), Some(0));
    let all = terminal.all();
    assert!(all.contains("the archive is full"), "{all}");
}

#[test]
fn a_change_of_a_file_is_shown_with_its_line_numbers() {
    let rind = Rind::with_script(
        r#"
        [[reply]]
        [[reply.tool_calls]]
        name = "edit_file"
        arguments = { path = "a.txt", old_text = "five", new_text = "FIVE" }
        [[reply]]
        text = "The end."
        "#,
    );
    rind.file(
        "a.txt",
        "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\n",
    );
    let args = ["chat", "--no-plugins", "--yes", "go"];
    let Some(mut terminal) = rind.terminal(&args, SIZE, &[]) else {
        return;
    };
    terminal.sees("The end.").sees_no("Enter steers");
    assert_snapshot!(terminal.picture(), @"
    scripted · mode full (Shift-Tab) · /help lists commands and keys

    › go

    ● edit_file a.txt · 88 B in 10 lines, [T]
      2   two
      3   three
      4   four
      5 - five
      5 + FIVE
      6   six
      7   seven
      8   eight

    The end.

    ›
    scripted · full: nothing is asked · 1.8k/80k tokens (2 %)
    ");
    terminal.keys("\u{4}");
    assert_eq!(terminal.ends(), Some(0));
}

#[test]
fn outputs_of_commands_and_texts_that_begin_with_a_blank_never_reach_the_history() {
    let rind = Rind::with_script(
        "[[reply]]\nwhen = { contains = \"wait\" }\ndelay_ms = 3600000\ntext = \"late\"\n[[reply]]\ntimes = 0\ntext = \"You said: {input}\"\n",
    );
    rind.file("a.txt", "words of the file\n");
    let Some(mut terminal) = rind.terminal(&["chat", "--no-plugins", "wait"], SIZE, &[]) else {
        return;
    };
    terminal.sees("waiting for the model").keys("!cat a.txt\r");
    terminal
        .sees("[exit code 0]")
        .keys("about it\r")
        .sees("next: about it");
    terminal
        .keys("\u{1b}[A")
        .sees_no("next: about it")
        .sees("› about it");
    terminal.keys("\r").sees("next: about it");
    terminal.keys(" hidden\r").sees("next: hidden");
    // Ctrl-C puts both texts back into the input, without the command's output; the second Ctrl-C
    // clears them.
    terminal
        .keys("\u{3}")
        .sees("interrupted")
        .sees("›  about it");
    terminal
        .sees_no("ending the turn")
        // A second Ctrl-C within one second would leave the chat.
        .waits(1100)
        .keys("\u{3}")
        .sees_no("›  about it");
    terminal
        .keys("hello\r")
        .sees("You said: I ran this command");
    terminal.sees_no("Enter steers").keys("\u{4}");
    assert_eq!(terminal.ends(), Some(0));
    let history = std::fs::read_to_string(rind.home().join("data/history")).unwrap();
    assert!(
        history.contains("about it") && history.contains("hello"),
        "{history}"
    );
    for kept_out in ["words of the file", "hidden"] {
        assert!(!history.contains(kept_out), "{history}");
    }
    let said = conversation(&rind);
    let last = &said[said.len() - 2];
    assert!(
        last.contains("words of the file") && last.ends_with("hello"),
        "{said:?}"
    );
}

#[test]
fn a_command_of_ones_own_ends_with_its_chat_and_ctrl_c_ends_the_turn_first() {
    let rind = Rind::with_script(
        "[[reply]]\nwhen = { contains = \"wait\" }\ndelay_ms = 3600000\ntext = \"late\"\n[[reply]]\ntimes = 0\ntext = \"You said: {input}\"\n",
    );
    rind.run(&["run", "first"]).exits(0);
    let sessions = rind.home().join("data/sessions");
    let mut ids = std::fs::read_dir(sessions).unwrap();
    let id = ids.next().unwrap().unwrap().file_name();
    let id = id.to_str().unwrap();
    let Some(mut terminal) = rind.terminal(&["chat", "--no-plugins"], SIZE, &[]) else {
        return;
    };
    // The duration is unique among the tests, so that `is_running` finds only this command.
    terminal
        .sees("/help")
        .keys("!sleep 86413\r")
        .sees("runs; Ctrl-C ends it");
    terminal.until("the begin of the command", |_| is_running("86413"));
    terminal.keys("wait\r").sees("Ctrl-C ends the turn first");
    terminal
        .keys("\u{3}")
        .sees("interrupted")
        .sees("runs; Ctrl-C ends it");
    assert!(is_running("86413"));
    terminal
        .keys(&format!("/resume {id}\r"))
        .sees("You said: first");
    terminal.until("the end of the command", |_| !is_running("86413"));
    terminal
        .keys("second\r")
        .sees("You said: second")
        .sees_no("Enter steers");
    terminal.keys("\u{4}");
    assert_eq!(terminal.ends(), Some(0));
}

/// Whether any process has this word among its arguments.
fn is_running(word: &str) -> bool {
    let mut processes = std::fs::read_dir("/proc").unwrap();
    processes.any(|process| {
        let arguments = std::fs::read(process.unwrap().path().join("cmdline"));
        let arguments = String::from_utf8_lossy(&arguments.unwrap_or_default()).into_owned();
        arguments.split('\0').any(|argument| argument == word)
    })
}

#[test]
fn a_paste_closes_the_menu_of_what_was_typed_before() {
    let rind = Rind::with_script(ECHO);
    let Some(mut terminal) = rind.terminal(&["chat", "--no-plugins"], SIZE, &[]) else {
        return;
    };
    terminal.sees("scripted").keys("/co").sees("▸ cost");
    terminal
        .keys(&pasted("py that"))
        .sees("› /copy that")
        .sees_no("▸");
    terminal.keys("\u{15}\u{4}");
    assert_eq!(terminal.ends(), Some(0));
}
