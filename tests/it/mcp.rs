//! MCP servers: questions, pins, confinement, and servers that misbehave.

mod client;
mod completion;
mod component;
mod deferred;
mod elicit;
mod hostile;
mod http;
mod login;
mod pins;
mod project;
mod prompts;
mod resources;
mod serve;
mod serve_http;
mod serve_offer;
mod serve_upstream;

use std::path::Path;
use std::time::{Duration, Instant};

use rind_tests::cli::{Ran, Rind};
use serde_json::Value;

const SERVER: &str = include_str!("mcp/server.py");

/// A server with prompts and resources.
const MATERIAL: &str = include_str!("mcp/material.py");

/// Interpreter of the test servers: one of the system, which is visible in confinement. Without it
/// the tests are skipped.
const PYTHON: &str = "/usr/bin/python3";

/// A model that calls the tool `echo` of the server `docs`.
const ECHOES: &str = r#"
[[reply]]
tool_calls = [{ name = "mcp__docs__echo", arguments = { text = "hello" } }]
[[reply]]
text = "Done."
"#;

/// Whether these tests can run on this machine. Prints a message if not.
#[allow(clippy::print_stderr, reason = "a test that cannot run here says why")]
fn has_python() -> bool {
    let is_there = Path::new(PYTHON).exists();
    if !is_there {
        eprintln!("skipped: there is no {PYTHON}");
    }
    is_there
}

/// A machine with the approved server `docs` in this mode, and with these additional settings.
fn served(mode: &str, script: &str, settings: &str) -> Rind {
    served_by(SERVER, mode, script, settings)
}

/// A machine with an approved server `docs` whose program is this text.
fn served_by(server: &str, mode: &str, script: &str, settings: &str) -> Rind {
    let rind = unasked_by(server, mode, script, settings);
    let ran = rind.run(&["mcp", "test", "docs", "--yes"]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    rind
}

/// A machine with the server `docs`, which was not approved yet.
fn unasked(mode: &str, script: &str, settings: &str) -> Rind {
    unasked_by(SERVER, mode, script, settings)
}

fn unasked_by(server: &str, mode: &str, script: &str, settings: &str) -> Rind {
    let rind = Rind::with_script(script);
    let folder = rind.user_home().join("server");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("server.py"), server).unwrap();
    let program = folder.join("server.py");
    rind.config(&format!(
        "[mcp.docs]\ncommand = \"{PYTHON}\"\nargs = [\"{}\", \"{mode}\", \"{}\"]\nwrite = [\"~/server\"]\n{settings}",
        program.display(),
        folder.join("log").display(),
    ));
    rind
}

/// Lines that the server wrote to its log.
fn noted(rind: &Rind) -> Vec<String> {
    let log = std::fs::read_to_string(rind.user_home().join("server/log"));
    log.unwrap_or_default().lines().map(str::to_owned).collect()
}

/// The results of the tool calls, as the model sees them.
fn results(ran: &Ran) -> Vec<String> {
    let events = ran.json_lines();
    let ends = events.iter().filter(|event| event["type"] == "tool-end");
    ends.map(|event| match &event["result"]["content"] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    })
    .collect()
}

/// Removes the color codes from a terminal's text.
fn words_of(shown: &str) -> String {
    let colors = regex::Regex::new("\u{1b}\\[[0-9;]*m").unwrap();
    colors.replace_all(shown, "").into_owned()
}

/// Runs a turn with `--yes`.
fn turn(rind: &Rind) -> Ran {
    rind.run(&["run", "--json", "--yes", "go"])
}

#[test]
fn a_call_passes_hooks_policy_and_session_like_that_of_a_plugin() {
    if !has_python() {
        return;
    }
    let rind = served("plain", ECHOES, "");
    let ran = turn(&rind);
    assert_eq!(
        results(&ran),
        ["echo: hello"],
        "{}{}",
        ran.stdout,
        ran.stderr
    );
    let events = ran.json_lines();
    let start = events
        .iter()
        .find(|event| event["type"] == "tool-start")
        .unwrap();
    assert_eq!(start["plugin"], "mcp:docs");
    assert_eq!(start["effect_class"], "execute");
    let session = rind.run(&["session", "export", "last", "--format", "jsonl"]);
    let text = format!("{}{}", session.stdout, session.stderr);
    let begun = text.find("tool-start");
    let ended = text.find("tool-end");
    assert!(begun.is_some() && begun < ended, "{text}");

    // The default policy for programs refuses the call if nobody can be asked.
    let ran = rind.run(&["run", "--json", "go"]);
    assert!(
        results(&ran)[0].contains("needs approval"),
        "{:?}",
        results(&ran)
    );
    // The operator's rules match the tool's full name.
    let config = std::fs::read_to_string(rind.home().join("config/config.toml")).unwrap();
    let rule = "[tools]\nrules = [{ tool = \"mcp__docs__echo\", decision = \"allow\" }]\n";
    rind.config(&format!("{config}\n{rule}"));
    let ran = rind.run(&["run", "--json", "go"]);
    assert_eq!(results(&ran), ["echo: hello"]);
    rind.config(&format!("{config}\n{}", rule.replace("allow", "deny")));
    assert!(results(&turn(&rind))[0].contains("denied by tool rule 1"));
}

#[test]
fn a_server_starts_at_the_first_call_and_ends_with_the_session() {
    if !has_python() {
        return;
    }
    let rind = served("plain", "[[reply]]\ntext = \"Nothing to do.\"\n", "");
    let before = noted(&rind).len();
    assert_eq!(turn(&rind).code, Some(0));
    assert_eq!(noted(&rind).len(), before, "no call, no start");
    rind.script(ECHOES);
    assert_eq!(turn(&rind).code, Some(0));
    assert_eq!(noted(&rind)[before..], ["start", "initialize", "call echo"]);
    let left = std::process::Command::new("pgrep")
        .args([
            "-f",
            &rind
                .user_home()
                .join("server/server.py")
                .display()
                .to_string(),
        ])
        .output();
    if let Ok(left) = left {
        assert_eq!(
            String::from_utf8_lossy(&left.stdout),
            "",
            "the server still runs"
        );
    }
}

#[test]
fn both_eras_of_the_protocol_are_spoken() {
    if !has_python() {
        return;
    }
    let rind = served("modern", ECHOES, "");
    assert_eq!(results(&turn(&rind)), ["echo: hello"]);
    assert!(noted(&rind).contains(&"discover".to_owned()));
    // A fixed protocol version skips the handshake of older versions.
    let rind = served("modern", ECHOES, "protocol = \"2026-07-28\"\n");
    assert_eq!(results(&turn(&rind)), ["echo: hello"]);
    let rind = unasked("plain", ECHOES, "protocol = \"2026-07-28\"\n");
    let ran = rind.run(&["mcp", "test", "docs", "--yes"]);
    assert!(ran.stderr.contains("unknown method"), "{}", ran.stderr);
}

#[test]
fn a_server_reaches_only_what_its_settings_declare() {
    if !has_python() {
        return;
    }
    let script = ECHOES.replace("\"hello\"", "\"WORKSPACE,SECRET,OPEN\"");
    let rind = unasked("reach", "", "");
    rind.file("a.txt", "workspace text");
    let (secret, open) = (
        rind.user_home().join("secret"),
        rind.user_home().join("open"),
    );
    std::fs::write(&secret, "secret text").unwrap();
    std::fs::create_dir_all(&open).unwrap();
    std::fs::write(open.join("file"), "open text").unwrap();
    let script = script
        .replace(
            "WORKSPACE",
            &rind.workspace().join("a.txt").display().to_string(),
        )
        .replace("SECRET", &secret.display().to_string())
        .replace("OPEN", &open.join("file").display().to_string());
    rind.script(&script);
    let config = std::fs::read_to_string(rind.home().join("config/config.toml")).unwrap();
    rind.config(&format!(
        "{config}read = [\"~/open\"]\nenv = [\"DOCS_TOKEN\"]\n"
    ));
    let run = |args: &[&str]| {
        let mut command = rind.command(args);
        command
            .env("DOCS_TOKEN", "given-1")
            .env("OTHER_TOKEN", "kept-1");
        rind.finish(&mut command)
    };
    let ran = run(&["mcp", "test", "docs", "--yes"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let found = results(&run(&["run", "--json", "--yes", "go"]));
    let text = &found[0];
    if text.contains("unconfined") {
        return;
    }
    assert!(
        !text.contains("workspace text") && !text.contains("secret text"),
        "{text}"
    );
    assert!(text.contains("open text"), "{text}");
    assert!(
        text.contains("network ") && !text.contains("connected"),
        "{text}"
    );
    assert!(
        text.contains("TOKEN=given-1") && text.contains("OTHER=none"),
        "{text}"
    );
    // The server is not used if the variable is missing, and the session continues.
    let ran = rind.run(&["run", "--json", "--yes", "go"]);
    assert!(
        ran.stderr.contains("needs the variable `DOCS_TOKEN`"),
        "{}",
        ran.stderr
    );
    assert!(
        results(&ran)[0].contains("there is no tool"),
        "{:?}",
        results(&ran)
    );
}

#[test]
fn a_server_that_is_not_confined_says_so_in_every_question() {
    if !has_python() {
        return;
    }
    let rind = served("plain", ECHOES, "[sandbox]\nbash = \"off\"\n");
    assert_eq!(results(&turn(&rind)), ["echo: hello"]);
    let Some(shown) = rind.at_terminal(&["run", "go"], "n\n") else {
        return;
    };
    let shown = words_of(&shown);
    assert!(shown.contains("with all your rights"), "{shown}");
    assert!(!shown.contains("no network"), "{shown}");
}

#[test]
fn results_keep_their_parts_and_lose_secrets() {
    if !has_python() {
        return;
    }
    let found = results(&turn(&served("images", ECHOES, "")));
    assert!(found[0].contains("\"type\":\"blob\""), "{found:?}");
    assert!(
        found[0].contains("image/png") && found[0].contains("{\"n\":7}"),
        "{found:?}"
    );
    assert!(
        found[0].contains("[resource `file:///../../../etc/passwd`"),
        "{found:?}"
    );
    let ran = turn(&served("secret", ECHOES, ""));
    assert!(!ran.stdout.contains("IOSFODNN7EXAMPLQ"), "{}", ran.stdout);
    assert!(
        ran.stdout.contains("\"outcome\":\"masked\""),
        "{}",
        ran.stdout
    );
    let ran = turn(&served("error", ECHOES, ""));
    assert_eq!(results(&ran), ["it did not work"]);
    assert!(ran.stdout.contains("\"is_error\":true"), "{}", ran.stdout);
    let ran = turn(&served("progress", ECHOES, ""));
    assert!(ran.stdout.contains("2 of 3: reading"), "{}", ran.stdout);
    assert_eq!(results(&ran), ["echo: hello"]);
}

#[test]
fn a_cancelled_call_is_told_to_the_server() {
    if !has_python() {
        return;
    }
    let rind = served("hangs", ECHOES, "");
    // The test uses a chat, in which the server keeps running: a single run would end the server
    // with the program.
    let Some(mut terminal) = rind.terminal(&["chat", "--yes"], (100, 30), &[]) else {
        return;
    };
    terminal.sees("/help").keys("go\r");
    let wait_for = |line: &str| {
        let is_there = || noted(&rind).iter().any(|own| own == line);
        let until = Instant::now() + Duration::from_secs(30);
        while !is_there() {
            assert!(Instant::now() < until, "{line}: {:?}", noted(&rind));
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    wait_for("call echo");
    terminal.keys("\u{3}").sees("interrupted");
    wait_for("cancelled");
    terminal.keys("\u{4}");
    assert_eq!(terminal.ends(), Some(0));
}
