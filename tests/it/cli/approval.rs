//! Tool calls that somebody has to allow.

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
    ✗ write_file refused by policy: `write_file` needs approval by the default for effect write, and there is no terminal to ask at. The operator can allow it with --yes, or in the configuration with `tools.rules = [{ tool = "write_file", decision = "allow" }]`
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
    model: scripted (the script [FOLDER]/script.toml was asked for)
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
    model: scripted (the script [FOLDER]/script.toml was asked for)
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
    model: scripted (the script [FOLDER]/script.toml was asked for)
    session [SESSION] (new)
    ○ write_file dry run, nothing was done. `write_file` (write) would have been called with: new.txt (6 bytes) +words
    2 steps · 1 tool call · [N] tokens in, [N] out · [T]
    ");
    assert!(!rind.workspace().join("new.txt").exists());
}

#[test]
fn at_a_terminal_the_person_is_asked_and_decides() {
    for (typed, is_written, said) in [
        ("y\n", true, "└"),
        ("n\n", false, "refused by user"),
        ("not in this folder\n", false, "not in this folder"),
    ] {
        let rind = Rind::with_script(WRITE);
        let Some(screen) = rind.at_terminal(&["run", "write"], typed) else {
            return;
        };
        assert!(screen.contains("wants to change files"), "{screen}");
        assert!(screen.contains("+words"), "{screen}");
        assert!(screen.contains(said), "{screen}");
        assert_eq!(screen.matches("So it is.").count(), 1, "{screen}");
        assert_eq!(
            rind.workspace().join("new.txt").exists(),
            is_written,
            "{screen}"
        );
    }
}
