//! Prompts of an MCP server as commands: listed, pinned, and fetched only for a person.

use rind_tests::cli::{Ran, Rind};

use super::{MATERIAL, has_python, noted, served_by, unasked_by};

const ANSWERS: &str = "[[reply]]\ntext = \"Done.\"\n";

/// Runs a typed line, and returns the run and its events as JSON text.
fn run_line(rind: &Rind, line: &str) -> (Ran, String) {
    let ran = rind.run(&["run", "--json", line]);
    let said = ran.json_lines().iter().map(ToString::to_string).collect();
    (ran, said)
}

#[test]
fn a_prompt_of_a_server_is_a_command_whose_text_has_its_origin() {
    if !has_python() {
        return;
    }
    let rind = served_by(MATERIAL, "plain", ANSWERS, "");
    let ran = rind.run(&["run", "/help"]);
    for words in [
        "MCP server docs:",
        "/docs:review <path> [style]",
        "Reviews a path.",
    ] {
        assert!(ran.stdout.contains(words), "{words}: {}", ran.stdout);
    }
    let before = noted(&rind).len();
    let (ran, text) = run_line(&rind, "/docs:review 'my src' with great care");
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    for words in [
        "[The user ran the prompt `review` of the MCP server docs; the server wrote the text of it]",
        "User:\\nReview my src with great care.\\n\\nAssistant:\\nI will.",
        "/docs:review of MCP server docs",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let log = noted(&rind)[before..].join("\n");
    assert!(
        log.contains("prompt review {\"path\": \"my src\", \"style\": \"with great care\"}"),
        "{log}"
    );

    // The images of a prompt are included.
    let (ran, text) = run_line(&rind, "/docs:picture");
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    assert!(
        text.contains("Look.") && text.contains("image/png"),
        "{text}"
    );

    // A missing argument is reported before the server is started.
    let before = noted(&rind).len();
    let (ran, _) = run_line(&rind, "/docs:review");
    assert_eq!(ran.code, Some(2));
    assert!(
        ran.stderr
            .contains("`path` is missing; usage: /docs:review <path> [style]"),
        "{}",
        ran.stderr
    );
    // A command without the server's prefix does not run the server's prompt.
    let (ran, _) = run_line(&rind, "/review x");
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("no command /review"), "{}", ran.stderr);
    let ran = rind.run(&["run", "--dry-run", "/docs:review x"]);
    assert_eq!(ran.code, Some(2));
    assert!(
        ran.stderr.contains("a dry run starts no server"),
        "{}",
        ran.stderr
    );
    assert_eq!(noted(&rind).len(), before, "{:?}", noted(&rind));
}

#[test]
fn a_prompt_that_changed_since_the_yes_is_held_until_the_next_one() {
    if !has_python() {
        return;
    }
    let rind = unasked_by(MATERIAL, "plain", ANSWERS, "");
    let (ran, _) = run_line(&rind, "/docs:review x");
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("no command /docs:review"),
        "{}",
        ran.stderr
    );
    let ran = rind.run(&["mcp", "test", "docs", "--yes"]);
    assert!(
        ran.stdout.contains("/docs:review  Reviews a path."),
        "{}",
        ran.stdout
    );
    assert!(
        ran.stderr.contains("0 tools and 12 prompts"),
        "{}",
        ran.stderr
    );
    assert_eq!(run_line(&rind, "/docs:review x").0.code, Some(0));

    std::fs::write(rind.user_home().join("server/log.changed"), "").unwrap();
    let before = noted(&rind).len();
    let (ran, _) = run_line(&rind, "/docs:review x");
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    for words in [
        "does not offer the prompt that you approved",
        "and sends it to me",
        "rind mcp test docs",
    ] {
        assert!(ran.stderr.contains(words), "{words}: {}", ran.stderr);
    }
    let log = noted(&rind)[before..].join("\n");
    assert!(!log.contains("prompt review"), "{log}");
    // The other prompts remain usable.
    assert_eq!(run_line(&rind, "/docs:picture").0.code, Some(0));
    let ran = rind.run(&["mcp", "test", "docs"]);
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.stdout
            .contains("the prompt `review` has changed: description was"),
        "{}",
        ran.stdout
    );
    assert_eq!(rind.run(&["mcp", "test", "docs", "--yes"]).code, Some(0));
    assert_eq!(run_line(&rind, "/docs:review x").0.code, Some(0));
}

#[test]
fn a_prompt_that_does_wrong_is_named_and_nothing_is_sent() {
    if !has_python() {
        return;
    }
    let rind = served_by(MATERIAL, "plain", ANSWERS, "timeout_seconds = 1\n");
    for (name, expected) in [
        ("huge", "a prompt of more than 256 KiB"),
        ("many", "101 messages, more than the maximum of 100"),
        ("dies", "ended with exit code 3: fatal: no more"),
        ("hangs", "did not answer in 1 s"),
        ("refuses", "answered with an error: no"),
        ("empty", "an empty prompt"),
        ("odd", "docs"),
    ] {
        let (ran, events) = run_line(&rind, &format!("/docs:{name}"));
        assert_eq!(ran.code, Some(2), "{name}: {}{}", ran.stdout, ran.stderr);
        assert!(
            ran.stderr.contains("MCP server `docs` ") && ran.stderr.contains(expected),
            "{name}: {}",
            ran.stderr
        );
        assert!(!ran.stderr.contains('\u{1b}'), "{name}: {}", ran.stderr);
        assert!(!events.contains("turn-start"), "{name}: {events}");
    }
    let (ran, events) = run_line(&rind, "/docs:secret");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(!events.contains("IOSFODNN7EXAMPLQ"), "{events}");
    assert!(events.contains("\"outcome\":\"masked\""), "{events}");
    // Invalid image data is replaced by a note in the text.
    let (ran, events) = run_line(&rind, "/docs:nobase");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(events.contains("image of type image/png with 3 bytes"));
}

#[test]
fn prompts_whose_names_do_not_fit_are_refused_by_name() {
    if !has_python() {
        return;
    }
    let rind = served_by(MATERIAL, "hostile", ANSWERS, "");
    let ran = rind.run(&["mcp", "test", "docs"]);
    for words in [
        "2 of its prompts have the command `/docs:two-words`",
        "has no letter or digit for a command",
        "its argument `a=b`",
    ] {
        assert!(ran.stdout.contains(words), "{words}: {}", ran.stdout);
    }
    assert!(!ran.stdout.contains('\u{1b}'), "{}", ran.stdout);
    assert_eq!(run_line(&rind, "/docs:review x").0.code, Some(0));
    // An endless list of prompts is discarded, and a server that declares no prompts is not asked
    // for any.
    let rind = served_by(MATERIAL, "endless", ANSWERS, "");
    let ran = rind.run(&["mcp", "test", "docs"]);
    assert!(
        ran.stdout
            .contains("its prompts: it lists its prompts on more than 200 pages"),
        "{}",
        ran.stdout
    );
    let rind = served_by(MATERIAL, "bare", ANSWERS, "");
    let ran = rind.run(&["mcp", "test", "docs"]);
    assert!(!ran.stdout.contains("prompt"), "{}", ran.stdout);
}

#[test]
fn a_chat_lists_the_prompts_and_completes_their_names() {
    if !has_python() {
        return;
    }
    let rind = served_by(MATERIAL, "plain", ANSWERS, "");
    let Some(mut terminal) = rind.terminal(&["chat", "--no-plugins"], (110, 30), &[]) else {
        return;
    };
    terminal.sees("/help").keys("/docs:rev");
    terminal.sees("docs:review").sees("Reviews a path.");
    terminal.keys("\t").sees("path=");
    terminal
        .keys("src\r")
        .sees("/docs:review of MCP server docs");
    terminal.sees("Done.");
    terminal.keys("\u{4}");
    assert_eq!(terminal.ends(), Some(0));
    assert!(
        noted(&rind)
            .iter()
            .any(|line| line.starts_with("prompt review {\"path\": \"src\""))
    );
}
