//! Tests that only a line that is typed after a question is shown answers the question.

use rind_tests::cli::Step;

use super::{plain, with_commands, with_writes};

const ASKED: &str = "[n]o and why: ";

fn step<'a>(once: &'a str, typed: &'a str) -> Step<'a> {
    Step {
        once,
        meanwhile: Box::new(|| {}),
        typed,
    }
}

#[test]
fn an_unknown_answer_is_asked_again_and_the_end_of_input_is_a_no() {
    let rind = with_writes(&[("a.txt", "x"), ("b.txt", "x")]);
    let Some(shown) = rind.at_terminal(&["run", "x"], "what?\n\nyess\nya\ny\n\u{4}") else {
        return;
    };
    let shown = plain(&shown);
    assert_eq!(
        shown.matches("type one of the letters").count(),
        4,
        "{shown}"
    );
    assert!(rind.workspace().join("a.txt").exists(), "{shown}");
    assert!(!rind.workspace().join("b.txt").exists(), "{shown}");
}

#[test]
fn what_was_typed_before_a_question_stood_there_does_not_answer_it() {
    let rind = with_commands(&["sleep 1; touch one", "touch two"]);
    rind.config("[[tools.rules]]\ncommand = \"sleep *\"\ndecision = \"allow\"\n[[tools.rules]]\ncommand = \"touch one\"\ndecision = \"allow\"\n");
    let steps = vec![
        // Typed while the first command runs.
        step("model: ", "y\ny\na\n"),
        step(ASKED, "n\n"),
    ];
    let Some(shown) = rind.at_terminal_with(&["run", "x"], "true", steps) else {
        return;
    };
    assert!(rind.workspace().join("one").exists(), "{shown}");
    assert!(!rind.workspace().join("two").exists(), "{shown}");
}

#[test]
fn what_is_left_on_the_terminal_after_a_run_does_not_reach_the_shell() {
    let rind = with_commands(&["sleep 1"]);
    rind.config("[[tools.rules]]\ntool = \"bash\"\ndecision = \"allow\"\n");
    let steps = vec![step("model: ", "echo typed-ahead\n")];
    // After the program ends, `read` takes the remaining input of the terminal.
    let Some(shown) = rind.at_terminal_then(
        &["run", "x"],
        "IFS= read -t 1 -r line; echo \"left: <$line>\"",
        steps,
    ) else {
        return;
    };
    assert!(shown.contains("left: <>"), "{shown}");
}

#[test]
fn always_covers_the_program_and_its_first_argument_and_says_so() {
    let rind = with_commands(&[
        "touch a b",
        "touch a c",
        "touch a; touch d",
        "touch a $(touch e)",
        "X=1 touch a f",
    ]);
    let Some(shown) = rind.at_terminal(&["run", "x"], "a\nn\nn\nn\n") else {
        return;
    };
    let shown = plain(&shown);
    assert!(shown.contains("always covers touch a …"), "{shown}");
    assert!(
        shown.contains("always covers touch a …; touch d"),
        "{shown}"
    );
    assert!(shown.contains("asks every time: "), "{shown}");
    for (file, is_there) in [
        ("b", true),
        ("c", true),
        ("d", false),
        ("e", false),
        ("f", false),
    ] {
        assert_eq!(
            rind.workspace().join(file).exists(),
            is_there,
            "{file}: {shown}"
        );
    }
}

#[test]
fn always_for_a_file_covers_its_folder() {
    let rind = with_writes(&[
        ("docs/a.txt", "x"),
        ("docs/b.txt", "x"),
        ("docs/in/c.txt", "x"),
        ("docs/../d.txt", "x"),
    ]);
    let Some(shown) = rind.at_terminal(&["run", "x"], "a\nn\nn\n") else {
        return;
    };
    assert!(plain(&shown).contains("always covers write_file in docs/, not in folders below it"));
    for (file, is_there) in [
        ("docs/a.txt", true),
        ("docs/b.txt", true),
        ("docs/in/c.txt", false),
        ("d.txt", false),
    ] {
        assert_eq!(
            rind.workspace().join(file).exists(),
            is_there,
            "{file}: {shown}"
        );
    }
}

#[test]
fn who_refused_is_said_once() {
    let rind = with_commands(&["touch a"]);
    let Some(shown) = rind.at_terminal(&["run", "x"], "n not now\n") else {
        return;
    };
    let shown = plain(&shown);
    assert!(shown.contains("refused by user: not now"), "{shown}");
    assert!(!shown.contains("refused by the user"), "{shown}");
}

#[test]
fn always_for_a_program_that_runs_its_arguments_covers_exactly_them() {
    let rind = with_commands(&["sed -n p a", "sed p a", "sed p a -e '1e touch x'"]);
    rind.file("a", "x\n");
    let Some(shown) = rind.at_terminal(&["run", "x"], "n\na\nn\n") else {
        return;
    };
    let shown = plain(&shown);
    assert!(
        shown.contains("always covers sed p a\n") || shown.contains("always covers sed p a\r"),
        "{shown}"
    );
    assert!(!rind.workspace().join("x").exists(), "{shown}");
}
