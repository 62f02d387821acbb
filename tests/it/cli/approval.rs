//! Tool calls that somebody has to allow.

#![allow(clippy::print_stderr, reason = "a test that cannot run here says why")]

use std::io::Write;
use std::process::{Command, Stdio};

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

/// Runs with these flags on a terminal that `script` of util-linux makes, with somebody who types this. `None` where there is no `script`.
pub(super) fn at_terminal(rind: &Rind, flags: &[&str], typed: &str) -> Option<String> {
    if !cfg!(target_os = "linux") {
        eprintln!("skipped, `script` is another program here");
        return None;
    }
    let run = rind.command(&[&["run", "write"], flags].concat());
    let words: Vec<String> = std::iter::once(run.get_program())
        .chain(run.get_args())
        .map(|word| format!("'{}'", word.to_str().unwrap()))
        .collect();
    let mut terminal = Command::new("script");
    terminal
        .args(["-q", "-e", "-c", &words.join(" "), "/dev/null"])
        .env_clear()
        .envs(
            run.get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .env("TERM", "xterm")
        .current_dir(rind.workspace())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = match terminal.spawn() {
        Ok(child) => child,
        Err(error) => {
            eprintln!("skipped, `script` of util-linux cannot be run: {error}");
            return None;
        }
    };
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(typed.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    drop(stdin);
    assert!(output.status.success());
    Some(String::from_utf8(output.stdout).unwrap().replace('\r', ""))
}

#[test]
fn at_a_terminal_the_person_is_asked_and_decides() {
    for (typed, is_written, said) in [
        ("y\n", true, "└"),
        ("n\n", false, "refused by user"),
        ("not in this folder\n", false, "not in this folder"),
    ] {
        let rind = Rind::with_script(WRITE);
        let Some(screen) = at_terminal(&rind, &[], typed) else {
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
