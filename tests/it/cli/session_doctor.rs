//! `rind session doctor`: the faults that it finds, and the files after a repair.

use std::fs;
use std::path::PathBuf;

use rind_tests::cli::Rind;
use serde_json::Value;

use super::session_look::{append, only};

const SCRIPT: &str = "[[reply]]\ntext = \"an answer\"\n";

fn machine() -> (Rind, PathBuf, String) {
    let rind = Rind::with_script(SCRIPT);
    rind.run(&["run", "first words"]).exits(0);
    let (sessions, id) = only(&rind);
    (rind, sessions, id)
}

fn faults(rind: &Rind, code: i32) -> Vec<String> {
    let ran = rind.run(&["session", "doctor", "--json"]).exits(code);
    let all: Value = serde_json::from_str(&ran.stdout).unwrap();
    let all = all.as_array().unwrap().iter();
    let faults = all.flat_map(|own| own["faults"].as_array().unwrap());
    faults
        .map(|fault| fault["what"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_session_of_the_program_has_no_fault() {
    let (rind, _, id) = machine();
    assert_eq!(faults(&rind, 0), Vec::<String>::new());
    let shown = rind.run(&["session", "doctor", &id]).exits(0).stdout;
    assert!(shown.contains("turn-end"), "{shown}");
}

#[test]
fn damage_is_found_and_repaired_and_the_file_as_it_was_is_kept() {
    let (rind, sessions, id) = machine();
    let folder = sessions.join(&id);
    let file = folder.join("session.jsonl");
    let text = fs::read_to_string(&file).unwrap();
    // One line is corrupt, and the last one is truncated.
    let mut lines: Vec<&str> = text.lines().collect();
    lines[2] = "{\"damaged";
    // One line has valid JSON with different spaces than this program writes.
    let spaced = lines[3].replacen("\"parent\":", "\"parent\" : ", 1);
    lines[3] = &spaced;
    fs::write(&file, lines.join("\n") + "\n{\"id\":\"x").unwrap();
    let before = fs::read(&file).unwrap();
    fs::create_dir_all(folder.join("agents/orphan")).unwrap();
    fs::write(
        folder.join("agents/orphan/session.jsonl"),
        text.lines().next().unwrap(),
    )
    .unwrap();
    fs::create_dir_all(folder.join("content")).unwrap();
    let name = rind::message::Blob::from_bytes(b"blob", "text/plain").id;
    fs::write(folder.join("content").join(&name), "blob").unwrap();
    fs::write(folder.join("notes"), "x").unwrap();
    std::os::unix::fs::symlink("/etc", folder.join("link")).unwrap();

    let found = faults(&rind, 1).join("\n");
    for words in [
        "line 3 cannot be read",
        "line 4 does not follow",
        "is cut off",
        "no entry refers to content/",
        "no entry names the subagent in agents/orphan/",
        "notes is not a file of a session",
        "link is a link",
    ] {
        assert!(found.contains(words), "{words}\n{found}");
    }
    assert_eq!(
        fs::read(&file).unwrap(),
        before,
        "an examination changes nothing"
    );

    rind.run(&["session", "doctor", "--repair"]).exits(0);
    assert_eq!(faults(&rind, 0), Vec::<String>::new());
    let kept = fs::read_dir(folder.join("kept"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    assert_eq!(fs::read(kept.join("session.jsonl")).unwrap(), before);
    assert!(kept.join("notes").is_file() && kept.join("agents/orphan/session.jsonl").is_file());
    assert!(kept.join("content").join(&name).is_file());
    rind.run(&["run", "--resume", &id, "go on"]).exits(0);
    assert_eq!(faults(&rind, 0), Vec::<String>::new());
}

#[test]
fn one_session_that_cannot_be_examined_hides_no_other() {
    let (rind, sessions, id) = machine();
    fs::create_dir_all(sessions.join("a/session.jsonl")).unwrap();
    fs::create_dir(sessions.join("b")).unwrap();
    fs::write(sessions.join("b/session.jsonl"), b"\xff\x00\n\n").unwrap();
    let newer = sessions.join("c");
    fs::create_dir(&newer).unwrap();
    let text = fs::read_to_string(sessions.join(&id).join("session.jsonl")).unwrap();
    let text = text.replacen("\"version\":1", "\"version\":99", 1) + "damaged\n";
    fs::write(newer.join("session.jsonl"), &text).unwrap();
    append(&sessions.join(&id).join("session.jsonl"), "\u{202e}\n");
    let ran = rind.run(&["session", "doctor"]).exits(1);
    for words in ["✗ a", "✗ b", "▲ c has version 99", &format!("✗ {id}")] {
        assert!(ran.stdout.contains(words), "{words}\n{}", ran.stdout);
    }
    let repaired = rind.run(&["session", "doctor", "--repair"]).exits(1);
    assert!(
        repaired.stderr.contains("cannot repair session c"),
        "{}",
        repaired.stderr
    );
    assert_eq!(
        fs::read_to_string(newer.join("session.jsonl")).unwrap(),
        text
    );
    rind.run(&["session", "doctor", &id]).exits(0);
}
