//! Tool calls that need the person's approval.

use insta::assert_snapshot;
use rind_tests::cli::Rind;

const WRITE: &str = r#"
[[reply]]
tool_calls = [{ name = "write_file", arguments = { path = "new.txt", content = "words\n" } }]
[[reply]]
text = "So it is."
"#;

#[test]
fn without_a_terminal_a_write_is_refused_with_the_flag_that_would_allow_it() {
    let rind = Rind::with_script(WRITE);
    assert_snapshot!(rind.run(&["run", "write"]).screen(), @r#"
    exit 0
    ---- stdout
    So it is.
    ---- stderr
    model: scripted (the script [FOLDER]/script.toml was asked for)
    session [SESSION] (new)
    ✗ write_file refused by policy: `write_file` needs approval (the default for effect write), and there is no terminal to ask at. The operator can pass --yes, or add `tools.rules = [{ tool = "write_file", path = "new.txt", decision = "allow" }]` to config.toml
    2 steps · 1 tool call · [N] tokens in, [N] out · [T]
    "#);
    assert!(!rind.workspace().join("new.txt").exists());
}

#[test]
fn yes_allows_it() {
    let rind = Rind::with_script(WRITE);
    assert_snapshot!(rind.run(&["run", "write", "--yes"]).screen(), @r"
    exit 0
    ---- stdout
    So it is.
    ---- stderr
    model: scripted (the script [FOLDER]/script.toml was asked for) · mode full
    session [SESSION] (new)
    ● write_file new.txt
      └ 27 B in 1 line, [T]
    2 steps · 1 tool call · [N] tokens in, [N] out · [T]
    ");
    let written = std::fs::read_to_string(rind.workspace().join("new.txt"));
    assert_eq!(written.unwrap(), "words\n");
}

#[test]
fn yes_does_not_allow_what_the_settings_deny() {
    let rind = Rind::with_script(WRITE);
    rind.config("[[tools.rules]]\ntool = \"write_file\"\ndecision = \"deny\"\n");
    assert_snapshot!(rind.run(&["run", "write", "--yes"]).screen(), @r"
    exit 0
    ---- stdout
    So it is.
    ---- stderr
    model: scripted (the script [FOLDER]/script.toml was asked for) · mode full
    session [SESSION] (new)
    ✗ write_file refused by policy: `write_file` is denied by tool rule 1 (`write_file`)
    2 steps · 1 tool call · [N] tokens in, [N] out · [T]
    ");
    assert!(!rind.workspace().join("new.txt").exists());
}

#[test]
fn a_dry_run_says_what_would_be_done() {
    let rind = Rind::with_script(WRITE);
    assert_snapshot!(rind.run(&["run", "write", "--dry-run"]).screen(), @r"
    exit 0
    ---- stdout
    So it is.
    ---- stderr
    model: scripted (the script [FOLDER]/script.toml was asked for) · dry run
    session [SESSION] (new)
    ○ write_file dry run, nothing was done. `write_file` (write) would have been called with:
        file: new.txt
        size: 6 bytes, 1 line
        + words
    2 steps · 1 tool call · [N] tokens in, [N] out · [T]
    ");
    assert!(!rind.workspace().join("new.txt").exists());
}

#[test]
fn at_a_terminal_the_person_is_asked_and_decides() {
    for (typed, is_written, said) in [
        ("y\n", true, "└"),
        ("n\n", false, "refused by user"),
        ("no, not in this folder\n", false, " not in this folder"),
        // The question is asked again after an invalid answer.
        (
            "not in this folder\n\nyes\n",
            true,
            "type one of the letters",
        ),
    ] {
        let rind = Rind::with_script(WRITE);
        let Some(screen) = rind.at_terminal(&["run", "write"], typed) else {
            return;
        };
        assert!(screen.contains("wants to change files"), "{screen}");
        assert!(screen.contains("+ words"), "{screen}");
        assert!(screen.contains(said), "{screen}");
        assert_eq!(screen.matches("So it is.").count(), 1, "{screen}");
        assert_eq!(
            rind.workspace().join("new.txt").exists(),
            is_written,
            "{screen}"
        );
    }
}

#[test]
fn the_question_about_a_plugin_says_what_it_may_do_and_that_it_makes_the_call() {
    let script = r#"
        [[reply]]
        [[reply.tool_calls]]
        name = "act"
        arguments = { what = "call", text = "write_file", arguments = { path = "new.txt", content = "words\n" } }
        [[reply]]
        text = "So it is."
    "#;
    let rind = Rind::with_script(script);
    rind.managed("external");
    let Some(screen) = rind.at_terminal(&["run", "write"], "y\ny\n") else {
        return;
    };
    let plain: String = strip(&screen);
    assert!(
        plain.contains("? act of plugin external wants to reach outside (external)"),
        "{plain}"
    );
    assert!(
        plain.contains("may: read the conversation and change prompts, messages, tool calls and the model; ask the model,"),
        "{plain}"
    );
    assert!(
        plain.contains("? plugin external calls write_file, which wants to change files (write)"),
        "{plain}"
    );
    assert!(plain.contains("● external write_file new.txt"), "{plain}");
    assert!(rind.workspace().join("new.txt").exists(), "{plain}");
}

#[test]
fn a_subagent_is_shown_in_few_lines() {
    let script = r#"
        [[reply]]
        tool_calls = [{ name = "act", arguments = { what = "run", text = "Look into it", tools = ["list_files"] } }]
        [[reply]]
        tool_calls = [{ name = "list_files" }]
        [[reply]]
        text = "nothing there"
        [[reply]]
        text = "So it is."
    "#;
    let rind = Rind::with_script(script);
    rind.managed("external");
    let screen = rind.run(&["run", "look", "--yes"]).screen();
    assert!(screen.contains("◆ external [AGENT]"), "{screen}");
    assert!(screen.contains(" Look into it\n"), "{screen}");
    assert!(screen.contains(" ● list_files"), "{screen}");
    assert!(screen.contains(" answered: nothing there "), "{screen}");
    assert_eq!(screen.matches("nothing there").count(), 1, "{screen}");
    assert!(screen.contains("2 steps · 1 tool call"), "{screen}");
}

/// Removes the escape sequences that set colors.
fn strip(screen: &str) -> String {
    let mut plain = String::new();
    let mut parts = screen.split('\u{1b}');
    plain.push_str(parts.next().unwrap_or_default());
    for part in parts {
        plain.push_str(part.split_once('m').map_or(part, |(_, rest)| rest));
    }
    plain
}
