//! Elicitation: questions of a server are shown to the person under the server's name, never for a
//! secret, and are declined if nobody can answer.

use super::{ECHOES, has_python, noted, results, served, turn};

/// Modes whose questions are declined without asking, with a part of the warning.
const DECLINED: &[(&str, &str)] = &[
    ("asks-form", ""),
    ("asks-address", ""),
    ("asks", "its message looks like a question for a password"),
    (
        "asks-key",
        "its field `apiKey` looks like a question for a password",
    ),
    (
        "asks-hidden",
        "its field `a` looks like a question for a password",
    ),
    (
        "asks-message",
        "its message looks like a question for a password",
    ),
    ("asks-much", "more than 4 fields"),
    ("asks-odd-address", "not a plain `https://` address"),
];

#[test]
fn what_nobody_can_answer_or_must_not_be_asked_is_declined() {
    if !has_python() {
        return;
    }
    for (mode, expected) in DECLINED {
        let rind = served(mode, ECHOES, "");
        let ran = turn(&rind);
        assert_eq!(ran.code, Some(0), "{mode}: {}", ran.stderr);
        let found = results(&ran);
        assert!(
            found[0].contains("{\"action\": \"decline\"}"),
            "{mode}: {found:?}"
        );
        assert!(ran.stdout.contains(expected), "{mode}: {}", ran.stdout);
    }
}

#[test]
fn a_server_asks_three_times_in_a_call_and_no_more() {
    if !has_python() {
        return;
    }
    let ran = turn(&served("asks-often", ECHOES, ""));
    let found = results(&ran);
    assert_eq!(found[0].matches("decline").count(), 5, "{found:?}");
    assert!(
        ran.stdout
            .contains("the server has asked three times in this call already"),
        "{}",
        ran.stdout
    );
}

#[test]
fn a_server_of_the_newer_protocol_asks_by_a_result_and_the_call_is_one() {
    if !has_python() {
        return;
    }
    for (mode, expected) in [
        ("modern-form", ""),
        ("modern-address", ""),
        (
            "modern-key",
            "its field `apiKey` looks like a question for a password",
        ),
    ] {
        let rind = served(mode, ECHOES, "");
        let ran = turn(&rind);
        let found = results(&ran);
        assert!(
            found[0].contains("{\"action\": \"decline\"}"),
            "{mode}: {found:?}"
        );
        assert!(ran.stdout.contains(expected), "{mode}: {}", ran.stdout);
        // The server gets the call twice. Hooks, approval and the session file see one call.
        let calls = noted(&rind);
        assert_eq!(calls.iter().filter(|line| *line == "call echo").count(), 2);
        assert_eq!(rind.entries("tool-start").len(), 1);
    }
    // A call is given up if the server keeps asking.
    let rind = served("modern-often", ECHOES, "");
    let ran = turn(&rind);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.contains("\"is_error\":true"), "{}", ran.stdout);
    let calls = noted(&rind);
    let n_calls = calls.iter().filter(|line| *line == "call echo").count();
    assert!((3..=5).contains(&n_calls), "{calls:?}");
}

#[test]
fn a_person_answers_the_form_of_a_newer_server() {
    if !has_python() {
        return;
    }
    let rind = served("modern-form", ECHOES, "");
    let Some(mut terminal) = rind.terminal(&["chat", "--no-plugins", "--yes"], (120, 40), &[])
    else {
        return;
    };
    terminal.sees("/help").keys("go\r");
    terminal.sees("Do you want to answer?");
    terminal.waits(700).keys("y\r");
    terminal.sees("asks: Your name (minLength 2)");
    terminal.waits(700).keys("Jo\r");
    terminal.sees("asks: colour (may be left out)");
    terminal.waits(700).keys("3\r");
    terminal.sees("asks: news: Whether you want news");
    terminal.waits(700).keys("y\r");
    terminal.sees("Done.").sees_no("Enter steers").keys("\u{4}");
    assert_eq!(terminal.ends(), Some(0));
    let log = noted(&rind);
    let answer = log.iter().find(|line| line.starts_with("answer "));
    assert!(answer.unwrap().contains("\"name\": \"Jo\""), "{log:?}");
}

#[test]
fn a_person_answers_the_form_of_a_server_or_declines_it() {
    if !has_python() {
        return;
    }
    let rind = served("asks-form", &ECHOES.repeat(2), "timeout_seconds = 2\n");
    let Some(mut terminal) = rind.terminal(&["chat", "--no-plugins", "--yes"], (120, 40), &[])
    else {
        return;
    };
    terminal.sees("/help").keys("go\r");
    terminal.sees("? MCP server docs asks: Who are you");
    terminal.sees("(requested: Your name, colour, news) Do you want to answer?");
    // The person's time to answer does not count towards the timeout of the call.
    terminal.waits(3000).keys("y\r");
    terminal
        .sees("asks: Your name (minLength 2)")
        .sees("type no password");
    terminal.waits(700).keys("J\r");
    terminal.sees("asks: Your name (minLength 2) (");
    terminal.waits(700).keys("Jo\r");
    terminal
        .sees("asks: colour (may be left out)")
        .sees("[3] leave it out");
    terminal.waits(700).keys("2\r");
    terminal.sees("asks: news: Whether you want news");
    terminal.waits(700).keys("n\r");
    terminal.sees("Done.").sees_no("Enter steers");
    let answer = "answer {\"action\": \"accept\", \"content\": {\"name\": \"Jo\", \"colour\": \"green\", \"news\": false}}";
    assert!(
        noted(&rind).contains(&answer.to_owned()),
        "{:?}",
        noted(&rind)
    );

    terminal.keys("again\r");
    terminal.until("the second question", |screen| {
        screen.matches("Do you want to answer?").count() == 2
    });
    terminal.waits(700).keys("n\r");
    terminal.until("two answers", |screen| screen.matches("Done.").count() == 2);
    terminal.sees_no("Enter steers").keys("\u{4}");
    assert_eq!(terminal.ends(), Some(0));
    assert!(noted(&rind).contains(&"answer {\"action\": \"decline\"}".to_owned()));
    assert!(!terminal.all().contains("\u{1b}[2J?"), "{}", terminal.all());
}

#[test]
fn an_address_is_shown_and_an_answer_that_is_a_secret_is_kept_back() {
    if !has_python() {
        return;
    }
    let rind = served("asks-address", ECHOES, "");
    let Some(mut terminal) = rind.terminal(&["chat", "--no-plugins", "--yes"], (120, 40), &[])
    else {
        return;
    };
    terminal.sees("/help").keys("go\r");
    terminal
        .sees("https://a.example/login?x=1")
        .sees("Rind does not open it");
    terminal.waits(700).keys("y\r").sees("Done.");
    terminal.sees_no("Enter steers").keys("\u{4}");
    assert_eq!(terminal.ends(), Some(0));
    assert!(noted(&rind).contains(&"answer {\"action\": \"accept\"}".to_owned()));

    let rind = served("asks-often", ECHOES, "");
    let Some(mut terminal) = rind.terminal(&["chat", "--no-plugins", "--yes"], (120, 40), &[])
    else {
        return;
    };
    terminal
        .sees("/help")
        .keys("go\r")
        .sees("Do you want to answer?");
    terminal.waits(700).keys("y\r").sees("asks: city");
    terminal
        .waits(700)
        .keys(&format!("{}{}\r", "AKIA", "IOSFODNN7EXAMPLQ"));
    terminal.sees("looks like a secret");
    terminal
        .keys("\u{3}")
        .sees("interrupted")
        .sees_no("ending the turn");
    terminal.keys("\u{4}\u{4}");
    terminal.ends();
    let log = noted(&rind).join("\n");
    assert!(!log.contains("IOSFODNN7EXAMPLQ"), "{log}");
}
