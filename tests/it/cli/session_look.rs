//! `rind session list`, `show` and `search`: output for people and for programs.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use insta::assert_snapshot;
use rind_tests::cli::{Rind, masked};
use serde_json::Value;

/// A model that reads a file and answers with control characters that are hostile to terminals.
const SCRIPT: &str = r#"
[[reply]]
text = "I look."
tool_calls = [{ name = "read_file", arguments = { path = "notes.txt" } }]
[[reply]]
text = "Found the Needle\u001b[2K\u202e here."
"#;

/// A machine with one session of one turn.
fn one_turn() -> Rind {
    let rind = Rind::with_script(SCRIPT);
    rind.file("notes.txt", "a needle in a haystack\n");
    rind.run(&["run", "look for it\nand say so"]).exits(0);
    rind
}

/// Folder of all sessions, and the id of the only one.
pub(super) fn only(rind: &Rind) -> (PathBuf, String) {
    let sessions = rind.home().join("data/sessions");
    let names = fs::read_dir(&sessions).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut ids: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
    assert_eq!(ids.len(), 1, "{ids:?}");
    (sessions, ids.remove(0))
}

/// Appends a line to the file of a session.
pub(super) fn append(file: &std::path::Path, line: &str) {
    let text = fs::read_to_string(file).unwrap();
    fs::write(file, text + line).unwrap();
}

fn json(rind: &Rind, args: &[&str]) -> Value {
    let ran = rind.run(args).exits(0);
    serde_json::from_str(&ran.stdout).unwrap_or_else(|e| panic!("{e}: {}", ran.stdout))
}

#[test]
fn entries_are_numbered_lines_of_which_a_program_reads_the_rest() {
    let rind = one_turn();
    let (sessions, id) = only(&rind);
    let file = sessions.join(&id).join("session.jsonl");
    append(
        &file,
        "not an entry\n{\"id\":\"z\",\"parent\":null,\"time\":1,\"type\":\"title\",\"title\":\"t\"}\n{\"id\":",
    );
    let lines = fs::read_to_string(&file).unwrap().lines().count() as u64;
    let all = rind.run(&["session", "entries"]).exits(0);
    let numbers: Vec<u64> = all
        .json_lines()
        .iter()
        .map(|own| own["n"].as_u64().unwrap())
        .collect();
    let expected: Vec<u64> = (1..lines - 2).chain([lines - 1]).collect();
    assert_eq!(numbers, expected);
    assert!(all.stderr.contains("cannot be read"), "{}", all.stderr);
    let after = (lines - 2).to_string();
    let rest = rind
        .run(&["session", "entries", &id, "--after", &after])
        .exits(0);
    let rest = rest.json_lines();
    assert_eq!((rest.len(), &rest[0]["type"]), (1, &"title".into()));
    let none = rind
        .run(&["session", "entries", "--after", "18446744073709551615"])
        .exits(0);
    assert_eq!(none.stdout, "");
}

#[test]
fn the_list_shows_titles_states_and_only_this_folder() {
    let rind = one_turn();
    let (sessions, id) = only(&rind);
    let rows = json(&rind, &["session", "list", "--json"]);
    assert_eq!(rows[0]["title"], "look for it");
    assert_eq!(rows[0]["state"], "finished");
    assert_eq!(
        (&rows[0]["turns"], &rows[0]["damaged"]),
        (&1.into(), &0.into())
    );

    // A session of another folder with an open turn and a damaged line.
    let text = fs::read_to_string(sessions.join(&id).join("session.jsonl")).unwrap();
    let here = rind.workspace().display().to_string();
    let other = sessions.join("elsewhere");
    fs::create_dir(&other).unwrap();
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.contains("\"turn-end\""))
        .collect();
    let open = lines.join("\n").replace(&here, "/elsewhere") + "\nnot json\n";
    fs::write(other.join("session.jsonl"), open).unwrap();
    assert_eq!(
        json(&rind, &["session", "list", "--json"])
            .as_array()
            .unwrap()
            .len(),
        1
    );
    let all = rind.run(&["session", "list", "--all"]).exits(0).stdout;
    assert!(
        all.contains("open turn · 1 damaged line · /elsewhere"),
        "{all}"
    );
    let found = json(
        &rind,
        &[
            "session", "list", "--all", "--json", "--title", "LOOK", "--limit", "1",
        ],
    );
    assert_eq!(found.as_array().unwrap().len(), 1);
    let none = json(
        &rind,
        &["session", "list", "--all", "--json", "--title", "nothing"],
    );
    assert_eq!(none.as_array().unwrap().len(), 0);
    assert_eq!(
        json(&rind, &["session", "list", "--json", "--since", "1h"])[0]["id"],
        *id
    );
    let later = json(
        &rind,
        &["session", "list", "--json", "--since", "2999-01-01"],
    );
    assert_eq!(later.as_array().unwrap().len(), 0);
    rind.run(&["session", "list", "--since", "soon"]).exits(2);
}

#[test]
fn the_cache_of_the_list_is_never_trusted_over_the_files() {
    let rind = one_turn();
    let (sessions, id) = only(&rind);
    let cache = sessions.join(".heads.json");
    let title = || json(&rind, &["session", "list", "--json"])[0]["title"].clone();
    assert_eq!(title(), "look for it");
    // The cache is used only as long as the session file is unchanged.
    let cached = fs::read_to_string(&cache).unwrap();
    fs::write(&cache, cached.replace("\"look for it\"", "\"forged\"")).unwrap();
    assert_eq!(title(), "forged");
    append(&sessions.join(&id).join("session.jsonl"), "\n");
    assert_eq!(title(), "look for it");
    for damaged in ["", "{", "{\"version\":9,\"heads\":{}}"] {
        fs::write(&cache, damaged).unwrap();
        assert_eq!(title(), "look for it");
    }
    fs::remove_file(&cache).unwrap();
    symlink(rind.home().join("elsewhere"), &cache).unwrap();
    assert_eq!(title(), "look for it");
    assert!(!rind.home().join("elsewhere").exists());
}

#[test]
fn hostile_folders_hide_no_session_and_hang_nothing() {
    let rind = one_turn();
    let (sessions, id) = only(&rind);
    for name in ["pipe", "link", "folder", "empty"] {
        fs::create_dir(sessions.join(name)).unwrap();
    }
    let pipe = sessions.join("pipe/session.jsonl");
    assert!(
        std::process::Command::new("mkfifo")
            .arg(pipe)
            .status()
            .unwrap()
            .success()
    );
    symlink("/etc/passwd", sessions.join("link/session.jsonl")).unwrap();
    fs::create_dir(sessions.join("folder/session.jsonl")).unwrap();
    symlink(sessions.join(&id), sessions.join("other")).unwrap();
    fs::write(sessions.join("file"), "x").unwrap();
    let ran = rind.run(&["session", "list", "--all"]).exits(0);
    assert_eq!(ran.stdout.lines().count(), 1, "{}", ran.stdout);
    for name in ["pipe", "link", "folder"] {
        assert!(
            ran.stderr
                .contains(&format!("session {name} is not listed")),
            "{}",
            ran.stderr
        );
        rind.run(&["session", "show", name]).exits(2);
    }
    let found = rind.run(&["session", "search", "root:"]).exits(0);
    assert_eq!(found.stdout, "");
    rind.run(&["session", "search", "needle"]).exits(0);
    rind.run(&["session", "show"]).exits(0);
    for wanted in ["../sessions", "..", "last/agents/../x", "a/b", ""] {
        rind.run(&["session", "show", wanted]).exits(2);
    }
}

#[test]
fn a_turn_is_shown_with_calls_and_cleaned_texts() {
    let rind = one_turn();
    let shown = rind.run(&["session", "show"]).exits(0).stdout;
    assert!(!shown.contains(['\u{1b}', '\u{202e}']), "{shown:?}");
    for text in [
        "> look for it",
        "read_file",
        "{\"path\":\"notes.txt\"}",
        "a needle in a haystack",
        "Found the Needle\\u{1b}[2K\\u{202e} here.",
    ] {
        assert!(shown.contains(text), "{text}\n{shown}");
    }
    let view = json(&rind, &["session", "show", "--json", "--turn", "1"]);
    let items = view["turns"][0]["items"].as_array().unwrap();
    let call = items.iter().find(|item| item["kind"] == "call").unwrap();
    assert_eq!(call["arguments"]["path"], "notes.txt");
    assert!(call["result"].as_str().unwrap().contains("haystack"));
    let line = call["line"].to_string();
    let entry = json(
        &rind,
        &["session", "show", "last", "--json", "--entry", &line],
    );
    assert_eq!(entry["type"], "message");
    rind.run(&["session", "show", "--turn", "7"]).exits(2);
    rind.run(&["session", "show", "--entry", "999"]).exits(2);
}

/// A model that makes two calls in two steps, and answers in a third.
const STEPS: &str = r#"
[[reply]]
text = "First."
tool_calls = [{ name = "read_file", arguments = { path = "a.txt" } }]
[[reply]]
text = "Second."
tool_calls = [{ name = "read_file", arguments = { path = "b.txt" } }]
[[reply]]
text = "Third."
times = 0
"#;

#[test]
fn a_step_and_a_call_are_shown_alone() {
    let rind = Rind::with_script(STEPS);
    rind.file("a.txt", "content of a\n")
        .file("b.txt", "content of b\n");
    rind.run(&["run", "read"]).exits(0);
    rind.run(&["run", "again", "--resume", "last"]).exits(0);
    let step = |n: &str| {
        json(
            &rind,
            &["session", "show", "--json", "--turn", "1", "--step", n],
        )
    };
    for (n, said, path, other) in [
        ("1", "First.", "a.txt", "Second."),
        ("2", "Second.", "b.txt", "Third."),
    ] {
        let view = step(n);
        let turns = view["turns"].as_array().unwrap();
        assert_eq!((turns.len(), &turns[0]["turn"]), (1, &1.into()));
        let items = turns[0]["items"].as_array().unwrap();
        assert_eq!(items[0]["kind"], "step", "{items:?}");
        let call = items.iter().find(|item| item["kind"] == "call").unwrap();
        assert_eq!(call["arguments"]["path"], path);
        assert!(call["result"].as_str().unwrap().contains("content of"));
        let text = view.to_string();
        assert!(text.contains(said) && !text.contains(other), "{text}");
    }
    let last = step("3");
    assert!(last.to_string().contains("Third."), "{last}");
    let shown = rind
        .run(&["session", "show", "--turn", "1", "--step", "2"])
        .exits(0)
        .stdout;
    assert!(
        shown.contains("Second.") && !shown.contains("First."),
        "{shown}"
    );

    let view = json(&rind, &["session", "show", "--json", "--turn", "1"]);
    let items = view["turns"][0]["items"].as_array().unwrap();
    let call = items.iter().rfind(|item| item["kind"] == "call").unwrap();
    let id = call["id"].as_str().unwrap();
    let alone = json(&rind, &["session", "show", "last", "--json", "--call", id]);
    assert_eq!(alone["turns"][0]["items"], Value::from(vec![call.clone()]));
    let shown = rind.run(&["session", "show", "--call", id]).exits(0).stdout;
    assert!(
        shown.contains("content of b") && !shown.contains("content of a"),
        "{shown}"
    );

    for (wrong, why) in [
        (
            &["--turn", "1", "--step", "4"][..],
            "has no step 4; its last one is 3",
        ),
        (
            &["--turn", "1", "--step", "0"],
            "has no step 0; its last one is 3",
        ),
        (&["--call", "none"], "has no tool call \"none\" there"),
        (&["--turn", "2", "--call", id], "has no tool call"),
        (&["--step", "1"], "--turn <N>"),
        (
            &["--turn", "1", "--step", "1", "--call", id],
            "cannot be used with",
        ),
    ] {
        let ran = rind
            .run(&[&["session", "show", "last"], wrong].concat())
            .exits(2);
        assert!(ran.stderr.contains(why), "{wrong:?}\n{}", ran.stderr);
    }
}

#[test]
fn entries_that_another_process_writes_are_followed() {
    let rind = one_turn();
    let (sessions, id) = only(&rind);
    let file = sessions.join(&id).join("session.jsonl");
    let n_lines = fs::read_to_string(&file).unwrap().lines().count();
    let mut command = rind.command(&["session", "entries", &id, "--follow"]);
    let mut following = command
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines =
        std::io::BufRead::lines(std::io::BufReader::new(following.stdout.take().unwrap()));
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    let first: Vec<Value> = (0..n_lines).map(|_| next()).collect();
    assert_eq!(first.last().unwrap()["n"], n_lines);
    // An incomplete line is awaited. A line that is not an entry is skipped but counted.
    let title = |id: &str| {
        format!(
            "{{\"id\":\"{id}\",\"parent\":null,\"time\":1,\"type\":\"title\",\"title\":\"{id}\"}}\n"
        )
    };
    let (one, two) = (title("one"), title("two"));
    let (before, after) = one.split_at(20);
    append(&file, before);
    std::thread::sleep(std::time::Duration::from_millis(600));
    append(&file, after);
    assert_eq!(next()["title"], "one");
    append(&file, "no entry\n\n");
    append(&file, &two);
    let own = next();
    assert_eq!(
        (&own["title"], &own["n"]),
        (&"two".into(), &(n_lines + 4).into())
    );
    following.kill().unwrap();
    following.wait().unwrap();
    // The command ends at the next write if nobody reads its output.
    let mut command = rind.command(&["session", "entries", &id, "--follow", "--after", "1"]);
    let mut following = command
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(following.stdout.take());
    assert_eq!(following.wait().unwrap().code(), Some(0));
}

#[test]
fn long_texts_are_cut_with_a_note() {
    let rind = Rind::with_script("[[reply]]\ntext = \"short\"\n");
    rind.run(&["run", &"long ".repeat(2_000)]).exits(0);
    let shown = rind.run(&["session", "show"]).exits(0).stdout;
    assert!(shown.contains("more; --full shows all"), "{shown}");
    let full = rind.run(&["session", "show", "--full"]).exits(0).stdout;
    assert!(full.matches("long").count() >= 2_000);
}

#[test]
fn a_text_is_found_in_inputs_answers_and_results_of_every_session() {
    let rind = one_turn();
    let (sessions, id) = only(&rind);
    let file = sessions.join(&id).join("session.jsonl");
    append(&file, "{\"needle\": torn\n");
    let held = sessions.join(&id).join("agents/held-1");
    fs::create_dir_all(&held).unwrap();
    fs::copy(&file, held.join("session.jsonl")).unwrap();
    let ran = rind.run(&["session", "search", "NEEDLE"]).exits(0);
    assert!(ran.stdout.contains("result read_file"), "{}", ran.stdout);
    assert!(
        ran.stdout.contains("assistant: Found the Needle\\u{1b}"),
        "{}",
        ran.stdout
    );
    assert!(
        ran.stdout.contains(&format!("{id}/agents/held-1")),
        "{}",
        ran.stdout
    );
    assert!(
        ran.stderr.contains("this line cannot be searched"),
        "{}",
        ran.stderr
    );
    let hits = json(&rind, &["session", "search", "needle", "--json"]);
    let roles = hits["hits"]
        .as_array()
        .unwrap()
        .iter()
        .map(|hit| hit["role"].as_str().unwrap());
    let roles: Vec<&str> = roles.collect();
    assert_eq!(
        roles,
        [
            "result read_file",
            "assistant",
            "result read_file",
            "assistant"
        ]
    );
    let cut = json(
        &rind,
        &["session", "search", "needle", "--json", "--limit", "1"],
    );
    assert_eq!(cut["is_cut"], true);
    assert_eq!(
        json(&rind, &["session", "search", "look for it", "--json"])["hits"][0]["role"],
        "user"
    );
    rind.run(&["session", "search", " "]).exits(2);
    assert_snapshot!(masked(&rind.run(&["session", "search", "nowhere at all"]).screen()), @r"
    exit 0
    ---- stderr
    no session has this text
    ");
}

#[test]
fn an_output_that_a_plugin_kept_aside_is_found() {
    let script = "[[reply]]\ntool_calls = [{ name = \"read_file\", arguments = { path = \"long.txt\" } }]\n[[reply]]\ntext = \"Read.\"\n";
    let rind = Rind::with_script(script);
    rind.managed("tool-output-sandbox");
    let mut rows: Vec<String> = (0..2_000)
        .map(|n| format!("row {n}: nothing is here"))
        .collect();
    rows[1_000] = "row 1000: the \"Hidden\" needle\u{1b}[2K".to_owned();
    rind.file("long.txt", &rows.join("\n"));
    rind.run(&["run", "read it"]).exits(0);
    assert!(
        !rind
            .session_lines()
            .iter()
            .any(|line| line.contains("Hidden"))
    );
    let ran = rind
        .run(&["session", "search", "the \"hidden\" NEEDLE"])
        .exits(0);
    for part in [
        "of plugin tool-output-sandbox",
        "row 1000: the \"Hidden\" needle\\u{1b}",
    ] {
        assert!(ran.stdout.contains(part), "{part}\n{}", ran.stdout);
    }
    assert!(!ran.stdout.contains('\u{1b}'), "{}", ran.stdout);
    let hits = rind
        .run(&["session", "search", "hidden", "--json"])
        .exits(0);
    let (_, id) = only(&rind);
    assert!(
        hits.stdout.contains(&id) && hits.stdout.contains("\"turn\""),
        "{}",
        hits.stdout
    );
    let none = rind.run(&["session", "search", "row 5000"]).exits(0);
    assert_eq!(none.stdout, "");
}

#[test]
fn the_system_prompt_is_kept_as_it_was_sent() {
    let rind = Rind::with_script("[[reply]]\ntext = \"Read.\"\n");
    rind.file("AGENTS.md", "Prefer tabs.\n");
    rind.run(&["run", "hello"]).exits(0);
    rind.file("AGENTS.md", "Prefer blanks.\n");
    rind.run(&["run", "again", "--resume", "last"]).exits(0);
    let text = |args: &[&str]| {
        let all = [&["session", "prompt", "last", "--text"], args].concat();
        rind.run(&all).exits(0).stdout
    };
    let (last, first) = (text(&[]), text(&["--turn", "1"]));
    assert!(
        last.contains("Prefer blanks.") && !last.contains("Prefer tabs."),
        "{last}"
    );
    assert!(
        first.contains("Prefer tabs.") && first.contains("You are an agent"),
        "{first}"
    );
    let all = [
        "session", "prompt", "last", "--text", "--json", "--turn", "1",
    ];
    let whole = json(&rind, &all);
    assert_eq!(whole["turn"], 1);
    let blocks = whole["blocks"].as_array().unwrap();
    let texts: Vec<&str> = blocks
        .iter()
        .map(|own| own["text"].as_str().unwrap())
        .collect();
    assert!(texts.concat().contains("Prefer tabs."), "{whole}");
    let kept = &rind.entries("prompt")[0];
    let hashes: Vec<Value> = blocks.iter().map(|own| own["hash"].clone()).collect();
    assert_eq!(kept["sent"], Value::from(hashes.clone()));
    let (sessions, id) = only(&rind);
    let length = |hash: &Value| {
        let file = sessions
            .join(&id)
            .join("content")
            .join(hash.as_str().unwrap());
        file.metadata().unwrap().len()
    };
    let lengths: Vec<u64> = hashes.iter().map(length).collect();
    assert_eq!(kept["sent_bytes"], Value::from(lengths));
    rind.run(&["session", "prompt", "last", "--text", "--turn", "3"])
        .exits(2);
    let examined = rind.run(&["session", "doctor"]).exits(0).stdout;
    assert!(!examined.contains('▲'), "{examined}");
    // A text that is missing or was changed is an error, and only that text is affected.
    let sessions = std::fs::read_dir(rind.home().join("data/sessions")).unwrap();
    let folder = sessions
        .map(|one| one.unwrap().path())
        .find(|path| path.is_dir())
        .unwrap();
    for file in std::fs::read_dir(folder.join("content")).unwrap() {
        std::fs::remove_file(file.unwrap().path()).unwrap();
    }
    rind.run(&["session", "prompt", "last", "--text"]).exits(1);
    rind.run(&["session", "doctor"]).exits(0);
    rind.run(&["run", "and on", "--resume", "last"]).exits(0);
    assert!(text(&[]).contains("Prefer blanks."));
}
