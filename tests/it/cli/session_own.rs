//! `rind session fork`, `rename`, `rm` and `gc`.

use std::fs;
use std::path::PathBuf;

use rind_tests::cli::{Rind, Step};
use serde_json::Value;

use super::session_look::only;

const SCRIPT: &str = "[[reply]]\ntext = \"an answer\"\n";

fn machine() -> (Rind, PathBuf, String) {
    let rind = Rind::with_script(SCRIPT);
    rind.run(&["run", "first words"]).exits(0);
    let (sessions, id) = only(&rind);
    (rind, sessions, id)
}

fn list(rind: &Rind) -> Vec<Value> {
    let ran = rind.run(&["session", "list", "--json"]).exits(0);
    serde_json::from_str(&ran.stdout).unwrap()
}

#[test]
fn a_title_is_one_more_entry_and_changes_nothing_else() {
    let (rind, sessions, id) = machine();
    let file = sessions.join(&id).join("session.jsonl");
    let before = fs::read_to_string(&file).unwrap();
    rind.run(&["session", "rename", "last", "other\nwords\u{1b}"])
        .exits(0);
    let after = fs::read_to_string(&file).unwrap();
    let added = after.strip_prefix(&before).unwrap();
    assert_eq!(added.lines().count(), 1);
    assert!(
        added.contains("\"type\":\"title\",\"title\":\"other words"),
        "{added}"
    );
    assert!(
        list(&rind)[0]["title"]
            .as_str()
            .unwrap()
            .starts_with("other words")
    );
    let shown = rind.run(&["session", "list"]).exits(0).stdout;
    assert!(shown.contains("other words\\u{1b}"), "{shown}");
    rind.run(&["session", "doctor", &id]).exits(0);
    rind.run(&["session", "rename", "last", " "]).exits(2);
    rind.run(&["run", "--resume", &id, "go on"]).exits(0);
}

#[test]
fn a_plugin_has_a_model_give_the_title_until_a_person_does() {
    let rind = Rind::with_script(
        "[[reply]]\ntext = \"It is done.\"\n[[reply]]\ntext = \"\\\"Words of a \\u001b[2Jmodel\\\"\"\n",
    );
    rind.managed("titles");
    rind.run(&["run", "first words"]).exits(0);
    let (_, id) = only(&rind);
    assert_eq!(list(&rind)[0]["title"], "Words of a \u{1b}[2Jmodel");
    let shown = rind.run(&["session", "list"]).exits(0).stdout;
    assert!(
        shown.contains("Words of a") && !shown.contains('\u{1b}'),
        "{shown}"
    );
    let view = rind
        .run(&["session", "show", &id, "--json"])
        .exits(0)
        .stdout;
    assert!(view.contains("\"title\": \"Words of a"), "{view}");
    // The model is asked for a title only once.
    rind.script("[[reply]]\ntext = \"More.\"\n");
    rind.run(&["run", "--resume", &id, "more"]).exits(0);
    assert_eq!(rind.entries("asked").len(), 1);
    rind.run(&["session", "rename", &id, "Mine"]).exits(0);
    assert_eq!(list(&rind)[0]["title"], "Mine");
}

#[test]
fn a_copy_ends_where_it_was_told_to() {
    let (rind, _, id) = machine();
    rind.run(&["run", "--resume", "last", "second words"])
        .exits(0);
    let whole = rind.run(&["session", "fork", &id]).exits(0).stdout;
    let shown = rind
        .run(&["session", "show", "--json", &id])
        .exits(0)
        .stdout;
    let view: Value = serde_json::from_str(&shown).unwrap();
    let last = view["turns"][0]["items"]
        .as_array()
        .unwrap()
        .last()
        .unwrap();
    let line = last["line"].to_string();
    let part = rind
        .run(&["session", "fork", &id, "--at", &line])
        .exits(0)
        .stdout;
    let turns = |wanted: &str| {
        let rows = list(&rind);
        let row = rows.iter().find(|row| row["id"] == wanted.trim()).unwrap();
        row["turns"].as_u64().unwrap()
    };
    assert_eq!((turns(&whole), turns(&part), turns(&id)), (2, 1, 2));
    rind.run(&["session", "fork", &id, "--at", "9999"]).exits(2);
    rind.run(&["session", "doctor"]).exits(0);
    rind.run(&["run", "--resume", part.trim(), "go on"])
        .exits(0);
}

#[test]
fn sessions_are_removed_only_with_a_yes_and_never_while_they_run() {
    let (rind, sessions, id) = machine();
    let refused = rind.run(&["session", "rm", &id]).exits(2);
    assert!(refused.stderr.contains("add --yes"), "{}", refused.stderr);
    let lock = fs::File::open(sessions.join(&id).join("lock")).unwrap();
    lock.lock().unwrap();
    for args in [
        &["session", "rm", "--yes", &id][..],
        &["session", "gc", "--max-size", "0", "--yes"],
        &["session", "rename", &id, "x"],
        &["session", "doctor", "--repair", &id],
    ] {
        let refused = rind.run(args).exits(1);
        assert!(
            refused.stderr.contains("open in another process"),
            "{}",
            refused.stderr
        );
    }
    lock.unlock().unwrap();
    drop(lock);
    assert!(sessions.join(&id).is_dir());
    let no = Step {
        once: "[n]o",
        meanwhile: Box::new(|| {}),
        typed: "n\n",
    };
    if let Some(screen) = rind.at_terminal_then(&["session", "rm", &id], "true", vec![no]) {
        assert!(screen.contains("first words"), "{screen}");
        assert!(sessions.join(&id).is_dir());
    }
    rind.run(&["session", "rm", "--yes", "last"]).exits(0);
    let left = fs::read_dir(&sessions)
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = left.filter(|name| name != ".heads.json").collect();
    assert!(left.is_empty(), "{left:?}");
    rind.run(&["session", "rm", "--yes", "last"]).exits(2);
    rind.run(&["session", "rm", "--yes", "../x"]).exits(2);
}

#[test]
fn a_link_in_a_session_leads_no_removal_elsewhere() {
    let (rind, sessions, id) = machine();
    let elsewhere = rind.home().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::write(elsewhere.join("file"), "x").unwrap();
    std::os::unix::fs::symlink(&elsewhere, sessions.join(&id).join("blobs")).unwrap();
    rind.run(&["session", "rm", "--yes", &id]).exits(0);
    assert!(elsewhere.join("file").exists());
}

#[test]
fn old_sessions_are_listed_first_and_removed_on_a_yes() {
    let (rind, sessions, id) = machine();
    let old = sessions.join("old");
    fs::create_dir(&old).unwrap();
    fs::copy(
        sessions.join(&id).join("session.jsonl"),
        old.join("session.jsonl"),
    )
    .unwrap();
    let file = fs::File::options()
        .write(true)
        .open(old.join("session.jsonl"))
        .unwrap();
    file.set_modified(std::time::UNIX_EPOCH).unwrap();
    drop(file);
    rind.run(&["session", "gc"]).exits(2);
    let listed = rind.run(&["session", "gc", "--older-than", "30d"]).exits(0);
    assert!(listed.stdout.starts_with("old"), "{}", listed.stdout);
    assert!(
        listed.stderr.contains("nothing was removed"),
        "{}",
        listed.stderr
    );
    assert!(old.is_dir());
    let json = rind
        .run(&["session", "gc", "--max-size", "0", "--json"])
        .exits(0)
        .stdout;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["surplus"].as_array().unwrap().len(), 2);
    rind.run(&["session", "gc", "--older-than", "30d", "--yes"])
        .exits(0);
    assert!(!old.exists() && sessions.join(&id).is_dir());
}

#[test]
fn an_audit_log_outlives_its_session_until_old_logs_are_removed() {
    let rind = Rind::bare();
    rind.script(SCRIPT);
    rind.run(&["run", "first words"]).exits(0);
    let (sessions, id) = only(&rind);
    rind.run(&["run", "other words"]).exits(0);
    let logs = sessions.with_file_name("plugins").join("audit-log/files");
    let logs_left = || fs::read_dir(&logs).unwrap().count();
    assert_eq!(logs_left(), 2);
    rind.run(&["session", "rm", "--yes", &id]).exits(0);
    let gc = |args: &[&str]| rind.run(&[&["session", "gc"], args].concat());
    gc(&["--audit-logs"]).exits(2);
    gc(&["--older-than", "1d", "--audit-logs", "--yes"]).exits(0);
    assert_eq!(logs_left(), 2, "none is that old");

    for log in fs::read_dir(&logs).unwrap() {
        let file = fs::File::options()
            .write(true)
            .open(log.unwrap().path().join("0001.jsonl"));
        file.unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    }
    let elsewhere = rind.home().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, logs.join("link")).unwrap();
    let listed = gc(&["--older-than", "1d", "--audit-logs"]).exits(0);
    assert!(
        listed.stderr.contains("1 audit log without a session"),
        "{}",
        listed.stderr
    );
    let json = gc(&["--older-than", "1d", "--audit-logs", "--json"]).exits(0);
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["audit_logs"]["logs"], 1);
    assert_eq!(logs_left(), 3, "they were only listed");
    gc(&["--older-than", "1d", "--yes"]).exits(0);
    assert_eq!(logs_left(), 3, "nobody asked for it");
    let away = sessions.with_file_name("away");
    fs::rename(&sessions, &away).unwrap();
    let refused = gc(&["--older-than", "1d", "--audit-logs", "--yes"]).exits(1);
    assert!(
        refused.stderr.contains("there is no folder of sessions"),
        "{}",
        refused.stderr
    );
    fs::rename(&away, &sessions).unwrap();
    assert_eq!(logs_left(), 3);
    let removed = gc(&["--older-than", "1d", "--audit-logs", "--yes"]).exits(0);
    assert!(
        removed.stderr.contains("removed 1 audit log"),
        "{}",
        removed.stderr
    );
    assert!(elsewhere.is_dir(), "a link is not followed");
    let (_, other) = only(&rind);
    let file = fs::File::options()
        .write(true)
        .open(sessions.join(&other).join("session.jsonl"));
    file.unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    let lock = fs::File::open(sessions.join(&other).join("lock")).unwrap();
    lock.lock().unwrap();
    let is_open = gc(&["--older-than", "1d", "--audit-logs", "--yes"]).exits(1);
    assert!(
        is_open.stderr.contains("removed 0 audit logs"),
        "{}",
        is_open.stderr
    );
    lock.unlock().unwrap();
    fs::remove_file(logs.join("link")).unwrap();
    assert_eq!(logs_left(), 1, "that of the other session is kept");
    rind.run(&["session", "audit", "last", "--verify"]).exits(0);
}
