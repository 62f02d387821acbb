//! Tests of the audit log: the host reports each gap in it, and a hook that must see everything
//! ends the turn when it fails.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use rind_tests::cli::{Ran, Rind};
use rind_tests::guests;

/// Script of a call that only reads, and of an answer that comes after 4 s.
const SLOW: &str = "[[reply]]\n[[reply.tool_calls]]\nname = \"list_files\"\narguments = {}\n\
                    [[reply]]\ntext = \"done\"\ndelay_ms = 4000\n";

const QUICK: &str = "[[reply]]\n[[reply.tool_calls]]\nname = \"list_files\"\narguments = {}\n\
                     [[reply]]\ntext = \"done\"\n";

fn logged(script: &str, is_required: bool) -> Rind {
    let rind = Rind::with_script(script);
    rind.managed("audit-log").config("");
    if is_required {
        let policy = "[plugins.audit-log]\nrequire = true\n";
        fs::write(rind.home().join("config/policy.toml"), policy).unwrap();
    }
    rind
}

#[track_caller]
fn verified(rind: &Rind, code: i32) -> Ran {
    rind.run(&["session", "audit", "--verify"]).exits(code)
}

/// Starts a run and limits it to three file descriptors once its tool has run. Returns the ended
/// run.
fn without_descriptors(rind: &Rind) -> Ran {
    let mut running = rind.start(&["run", "look"]);
    running.wait_until(|rind| {
        let sessions = rind.home().join("data/sessions");
        let is_there = fs::read_dir(sessions).is_ok_and(|found| found.count() == 1);
        is_there && !rind.entries("tool-end").is_empty()
    });
    let pid = format!("--pid={}", running.id());
    let limited = Command::new("prlimit")
        .args([&pid, "--nofile=3:3"])
        .status();
    assert!(limited.unwrap().success());
    running.end()
}

#[test]
fn a_host_without_descriptors_leaves_a_gap_that_is_told() {
    let rind = logged(SLOW, false);
    let ran = without_descriptors(&rind).exits(0);
    assert!(
        ran.stderr.contains("the audit log has a gap"),
        "{}",
        ran.stderr
    );
    assert!(!rind.entries("audit-gap").is_empty());
    let audit = verified(&rind, 1);
    assert!(audit.stderr.contains("is incomplete: "), "{}", audit.stderr);
    assert!(
        audit
            .stderr
            .contains("a gap: turn 1 main: the hook at message-end failed")
    );
    let json = rind
        .run(&["session", "audit", "--verify", "--json"])
        .exits(1);
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["whole"], false);
    assert!(!json["gaps"].as_array().unwrap().is_empty());
}

#[test]
fn a_host_without_descriptors_ends_the_turn_where_the_log_is_required() {
    let rind = logged(SLOW, true);
    let ran = without_descriptors(&rind).exits(3);
    assert!(
        ran.stderr
            .contains("[stopped: plugin audit-log must observe every event"),
        "{}",
        ran.stderr
    );
    verified(&rind, 1);
}

/// Returns the path of the audit log of the only session.
fn log(rind: &Rind) -> PathBuf {
    let folder = rind.home().join("data/plugins/audit-log/files");
    let mut found = fs::read_dir(folder).unwrap();
    found.next().unwrap().unwrap().path()
}

#[test]
fn a_log_that_cannot_be_written_leaves_a_gap_or_ends_the_turn_before_anything_is_done() {
    for is_required in [false, true] {
        let rind = logged(QUICK, is_required);
        rind.run(&["run", "look"]).exits(0);
        verified(&rind, 0);
        let log = log(&rind);
        fs::remove_dir_all(&log).unwrap();
        fs::write(&log, "a file").unwrap();
        let ran = rind.run(&["run", "--resume", "last", "again"]);
        let ran = ran.exits(if is_required { 3 } else { 0 });
        let n_tools = rind.entries("tool-start").len();
        assert_eq!(n_tools, if is_required { 1 } else { 2 }, "{}", ran.stderr);
        assert!(!rind.entries("audit-gap").is_empty());
        fs::remove_file(&log).unwrap();
        let audit = verified(&rind, 1);
        assert!(
            audit.stderr.contains("a gap: turn 2 main"),
            "{}",
            audit.stderr
        );
    }
}

#[test]
fn a_turn_without_the_plugin_is_a_gap_in_the_log_of_its_session() {
    let rind = logged(QUICK, false);
    rind.run(&["run", "look"]).exits(0);
    fs::remove_dir_all(rind.home().join("managed/audit-log")).unwrap();
    rind.run(&["run", "--resume", "last", "again"]).exits(0);
    let audit = verified(&rind, 1);
    let says = "a gap: turn 2 main: the turn ended, but the audit log has no line about its end";
    assert!(audit.stderr.contains(says), "{}", audit.stderr);
}

#[test]
fn a_copy_of_the_plugin_that_cannot_be_loaded_keeps_the_run_from_starting() {
    let rind = logged(QUICK, false);
    let component = rind.home().join("managed/audit-log/audit_log.wasm");
    fs::write(component, "\0asm").unwrap();
    let ran = rind.run(&["run", "look"]).exits(3);
    assert!(
        ran.stderr
            .contains("only the administrator can switch it off"),
        "{}",
        ran.stderr
    );
    let ran = rind
        .run(&["run", "look", "--without", "audit-log"])
        .exits(2);
    assert!(
        ran.stderr.contains("/etc/rind/policy.toml"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_hook_that_only_looks_and_blocks_when_it_fails_ends_the_turn_at_every_point() {
    let points = [
        ("session-start", 0),
        ("after-provider-response", 0),
        ("message-end", 0),
        ("post-output", 1),
        ("turn-end", 1),
        ("session-end", 1),
    ];
    for (point, n_tools) in points {
        for is_async in [false, true] {
            let rind = Rind::with_script(QUICK);
            guests::put("scripted-hook", &rind.home().join("managed"), |manifest| {
                format!("{manifest}\n[hooks.{point}]\nasync = {is_async}\n")
            });
            rind.config(&format!(
                "[plugins.scripted-hook.hooks.{point}]\non_failure = \"block\"\n\
                 [plugins.scripted-hook.config.answers.{point}]\nfail = \"out of ideas\"\n"
            ));
            let ran = rind.run(&["run", "look"]).exits(3);
            let all = format!("{}{}", ran.stdout, ran.stderr);
            let says =
                format!("its hook at {point} failed: the call reported an error: out of ideas");
            assert!(all.contains(&says), "{point} {is_async}\n{all}");
            if !is_async {
                assert_eq!(rind.entries("tool-start").len(), n_tools, "{point}");
            }
        }
    }
}

#[test]
fn a_text_of_the_session_that_was_changed_is_named_by_the_check_of_the_log() {
    const CALLS: &str = "[[reply]]\ntext = \"First I look.\"\n[[reply.tool_calls]]\nname = \"list_files\"\narguments = { path = \".\" }\n\
                         [[reply]]\ntext = \"nothing there\"\n";
    for (from, to, said) in [
        ("", "", ""),
        ("look around", "look away", "turn 1: the input in message "),
        (
            "First I look.",
            "I do nothing.",
            "turn 1: the reply in message ",
        ),
        (
            "nothing there",
            "something there",
            "turn 1: the reply in message ",
        ),
        (
            "\"path\":\".\"",
            "\"path\":\"..\"",
            "turn 1: the call in message ",
        ),
        ("a.txt", "b.txt", "turn 1: the result in message "),
    ] {
        let rind = logged(CALLS, false);
        rind.file("a.txt", "");
        rind.run(&["run", "look around"]).exits(0);
        verified(&rind, 0);
        let sessions = rind.home().join("data/sessions");
        let session = fs::read_dir(sessions).unwrap().next().unwrap().unwrap();
        let path = session.path().join("session.jsonl");
        let text = fs::read_to_string(&path).unwrap();
        let changed: String = text
            .split_inclusive('\n')
            .map(
                |line| match line.contains("\"type\":\"message\"") && !from.is_empty() {
                    true => line.replace(from, to),
                    false => line.to_owned(),
                },
            )
            .collect();
        assert_eq!(changed != text, !from.is_empty(), "{from}: {text}");
        fs::write(&path, changed).unwrap();
        if from.is_empty() {
            verified(&rind, 0);
            continue;
        }
        let audit = verified(&rind, 1);
        assert!(audit.stderr.contains(said), "{from}: {}", audit.stderr);
        let what = "the messages of session ";
        assert!(audit.stderr.contains(what), "{from}: {}", audit.stderr);
    }
}
