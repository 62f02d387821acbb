//! Tests that files that the model has not read are not overwritten, and that the first file of a
//! subfolder brings the subfolder's context files.

use rind::event::Event;
use serde_json::{Value, json};

use super::*;

fn read(path: &str) -> Reply {
    Reply::call("read_file", json!({ "path": path }))
}

fn write(path: &str, content: &str) -> Reply {
    Reply::call("write_file", json!({"path": path, "content": content}))
}

fn edit(path: &str, old: &str, new: &str) -> Reply {
    Reply::call(
        "edit_file",
        json!({"path": path, "old_text": old, "new_text": new}),
    )
}

fn bash(command: &str) -> Reply {
    Reply::call("bash", json!({ "command": command }))
}

/// Runs a turn of these calls in a workspace whose `a.txt` is `one\ntwo\n`. Returns text and
/// `is_error` of each result, and the final text of `a.txt`.
async fn played(calls: Vec<Reply>) -> (Vec<(String, bool)>, String) {
    let setup = Setup::new(calls.into_iter().chain([Reply::text("done")]).collect());
    let file = setup.workspace().join("a.txt");
    std::fs::write(&file, "one\ntwo\n").unwrap();
    let mut running = setup.build();
    running.turn("work").await;
    let results = running.results().into_iter();
    let results = results
        .map(|(text, is_error, _)| (text, is_error))
        .collect();
    (results, std::fs::read_to_string(file).unwrap())
}

#[tokio::test]
async fn a_file_is_overwritten_only_by_a_model_that_knows_it() {
    const OLD: &str = "one\ntwo\n";
    let part = Reply::call("read_file", json!({"path": "a.txt", "limit": 1}));
    let rest = Reply::call("read_file", json!({"path": "a.txt", "offset": 2}));
    for (calls, why, after) in [
        (vec![write("a.txt", "new")], "not read it", OLD),
        (vec![read("a.txt"), write("a.txt", "new")], "", "new"),
        (
            vec![
                read("./a.txt"),
                write("a.txt", "new"),
                write("a.txt", "newer"),
            ],
            "",
            "newer",
        ),
        (
            vec![part.clone(), write("a.txt", "new")],
            "all of its text",
            OLD,
        ),
        (vec![part, rest, write("a.txt", "new")], "", "new"),
        (vec![write("a.txt", OLD)], "", OLD),
        (
            vec![
                read("a.txt"),
                bash("echo three >> a.txt"),
                write("a.txt", "new"),
            ],
            "changed since",
            "one\ntwo\nthree\n",
        ),
        (
            vec![
                read("a.txt"),
                bash("echo three >> a.txt"),
                edit("a.txt", "one", "1"),
            ],
            "changed since",
            "one\ntwo\nthree\n",
        ),
        (
            vec![read("a.txt"), bash("touch a.txt"), write("a.txt", "new")],
            "",
            "new",
        ),
        // The host removes an argument that is null, which does not count as a change by a hook.
        (
            vec![
                read("a.txt"),
                Reply::call(
                    "edit_file",
                    json!({"path": "a.txt", "old_text": "one", "new_text": "1", "replace_all": null}),
                ),
                write("a.txt", "new"),
            ],
            "",
            "new",
        ),
        // An edit only needs to know the text that it replaces.
        (vec![edit("a.txt", "one", "1")], "", "1\ntwo\n"),
        (
            vec![edit("a.txt", "one", "1"), write("a.txt", "new")],
            "all of its text",
            "1\ntwo\n",
        ),
        (
            vec![
                read("a.txt"),
                edit("a.txt", "one", "1"),
                write("a.txt", "new"),
            ],
            "",
            "new",
        ),
        (
            vec![
                write("new.txt", "b"),
                edit("new.txt", "b", "c"),
                write("new.txt", "d"),
            ],
            "",
            OLD,
        ),
    ] {
        let shown = format!("{calls:?}");
        let (results, content) = played(calls).await;
        let (text, is_error) = results.last().unwrap();
        assert_eq!(*is_error, !why.is_empty(), "{shown} {results:?}");
        assert!(text.contains(why), "{shown} {text}");
        assert_eq!(content, after, "{shown}");
    }
}

#[tokio::test]
async fn the_person_is_not_asked_about_a_write_that_is_refused() {
    let setup = Setup::new(vec![write("a.txt", "new"), Reply::text("done")]).asking(Vec::new());
    std::fs::write(setup.workspace().join("a.txt"), "one\n").unwrap();
    let mut running = setup.build();
    running.turn("work").await;
    let (text, is_error, _) = &running.results()[0];
    assert!(
        *is_error && text.contains("Read it with read_file first"),
        "{text}"
    );
}

#[tokio::test]
async fn the_context_files_of_a_subfolder_come_once_and_the_system_prompt_stays() {
    let script = vec![
        read("pkg/a.py"),
        edit("pkg/a.py", "x", "y"),
        Reply::text("done"),
        read("pkg/b.py"),
        Reply::text("done"),
    ];
    let setup = Setup::new(script);
    for (name, text) in [
        ("AGENTS.md", "ROOT"),
        ("pkg/AGENTS.md", "PKG"),
        ("pkg/a.py", "x = 1\n"),
        ("pkg/b.py", "x = 2\n"),
        ("other/AGENTS.md", "OTHER"),
    ] {
        let path = setup.workspace().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let mut running = setup.build();
    running.turn("work").await;
    running.turn("go on").await;
    let results: Vec<String> = running
        .results()
        .into_iter()
        .map(|(text, ..)| text)
        .collect();
    assert!(
        results[0].starts_with("x = 1\n")
            && results[0].contains("<file path=\"pkg/AGENTS.md\">\nPKG"),
        "{results:?}"
    );
    let all = running.lines().join("\n");
    assert_eq!(all.matches("PKG").count(), 1, "{all}");
    assert!(!all.contains("OTHER"), "{all}");
    let bodies = running.provider.recorded_request_bodies();
    let systems: Vec<&Value> = bodies.iter().map(|body| &body["system"]).collect();
    assert!(systems.iter().all(|system| *system == systems[0]));
    let is_told = |event: &Event| matches!(event, Event::Notice { text, .. } if text.contains("added pkg/AGENTS.md to the conversation"));
    assert!(running.events.iter().any(is_told));
}
