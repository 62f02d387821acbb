//! `rind serve --also-workspace`: sessions in several folders, each under the rules of its own
//! folder, and in no other folder.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rind_tests::api::{Answer, Api};
use rind_tests::cli::Rind;
use serde_json::json;

/// A model that reads `a.txt` of the session's folder in each turn.
const READ: &str = r#"
[[reply]]
when = { step = 1 }
text = "I read it."
tool_calls = [{ name = "read_file", arguments = { path = "a.txt" } }]
times = 0
[[reply]]
when = { step = 2 }
text = "Read."
times = 0
"#;

/// A machine with a second folder. Each folder has a file `a.txt`.
fn two_folders() -> (Rind, PathBuf) {
    let rind = Rind::with_script(READ);
    rind.file("a.txt", "text of the first");
    let other = rind.user_home().join("other");
    fs::create_dir_all(&other).unwrap();
    fs::write(other.join("a.txt"), "text of the other").unwrap();
    (rind, other)
}

fn serve_both<'r>(rind: &'r Rind, other: &Path, more: &[&str]) -> Api<'r> {
    let also = ["--also-workspace", other.to_str().unwrap()];
    Api::start_with(rind, &[&also, more].concat())
}

fn create(api: &Api<'_>, folder: &str) -> Answer {
    api.post("/v1/sessions", &json!({ "workspace": folder }))
}

/// Creates a session in the folder and returns its id.
fn session_in(api: &Api<'_>, folder: &str) -> String {
    let made = create(api, folder).has_status(201).json();
    made["id"].as_str().unwrap().to_owned()
}

/// Runs a turn and returns the answer.
fn turn(api: &Api<'_>, session: &str) -> Answer {
    let body = json!({ "text": "read it", "wait": true });
    api.post(&format!("/v1/sessions/{session}/turns"), &body)
}

#[test]
fn each_session_works_in_its_own_folder_and_goes_on_there() {
    let (rind, other) = two_folders();
    let path = other.to_str().unwrap();
    let api = serve_both(&rind, &other, &[]);
    let listed = api.get("/v1/workspaces").has_status(200).json();
    let first = rind.workspace();
    let first = first.to_str().unwrap();
    assert_eq!(listed["workspaces"], json!([first, path]));
    let sessions = [
        (api.new_session(), "text of the first"),
        (session_in(&api, first), "text of the first"),
        (session_in(&api, path), "text of the other"),
        // A different spelling of the same folder.
        (
            session_in(&api, &format!("{path}/../other/.")),
            "text of the other",
        ),
    ];
    for (session, text) in &sessions {
        assert_eq!(
            turn(&api, session).has_status(200).json()["output"],
            "Read."
        );
        let shown = api.get(&format!("/v1/sessions/{session}")).body;
        assert!(shown.contains(text), "{text}: {shown}");
    }
    let page = api.get("/").has_status(200).body;
    assert!(
        page.contains(&format!("<option value=\"{path}\">")),
        "{page}"
    );
    drop(api);
    let [.., (session, text)] = &sessions;
    let at = format!("/v1/sessions/{session}");
    // A server without the other folder can show the folder's session but runs no turn in it.
    let api = Api::start(&rind);
    assert!(!api.get("/").body.contains("<option"));
    let refused = turn(&api, session).has_status(403).body;
    assert!(
        refused.contains(path) && refused.contains(first),
        "{refused}"
    );
    assert!(api.get(&at).has_status(200).body.contains(text));
    drop(api);
    let api = serve_both(&rind, &other, &[]);
    assert_eq!(turn(&api, session).status, 200);
    assert_eq!(api.get(&at).body.matches("I read it.").count(), 2);
}

#[test]
fn paths_that_lead_elsewhere_are_refused_by_name() {
    let (rind, other) = two_folders();
    let path = other.display();
    let api = serve_both(&rind, &other, &[]);
    symlink("/etc", other.join("link")).unwrap();
    fs::create_dir(other.join("below")).unwrap();
    for wanted in [
        "/etc".to_owned(),
        format!("{path}/.."),
        format!("{path}/link"),
        format!("{path}/below"),
        format!("{path}/a.txt"),
        "other".to_owned(),
        ".".to_owned(),
        String::new(),
        "/nowhere".to_owned(),
        format!("{path}\0"),
    ] {
        let refused = create(&api, &wanted);
        assert_eq!(refused.status, 403, "{wanted}: {refused:?}");
        assert!(
            refused.body.contains("is not a folder of this server"),
            "{refused:?}"
        );
    }
    // The folder is moved away and replaced by a link to another one.
    fs::rename(&other, other.with_extension("old")).unwrap();
    symlink("/etc", &other).unwrap();
    assert_eq!(create(&api, &path.to_string()).status, 403);
    drop(api);
    let file = rind.workspace().join("a.txt");
    for (folder, words) in [
        (file.to_str().unwrap(), "is not a folder"),
        ("/nowhere", "/nowhere"),
    ] {
        let ran = rind.run(&[
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--also-workspace",
            folder,
        ]);
        assert!(ran.exits(2).stderr.contains(words));
    }
}

#[test]
fn trust_in_the_first_folder_is_no_trust_in_another() {
    let (rind, other) = two_folders();
    let settings = "[agent]\nmax_steps = 1\n";
    for folder in [rind.workspace(), other.clone()] {
        fs::create_dir(folder.join(".rind")).unwrap();
        fs::write(folder.join(".rind/config.toml"), settings).unwrap();
    }
    let api = serve_both(&rind, &other, &["--trust-project"]);
    for (folder, stop) in [(rind.workspace(), "max-steps"), (other.clone(), "done")] {
        let session = session_in(&api, folder.to_str().unwrap());
        let ended = turn(&api, &session).has_status(200).json();
        assert_eq!(ended["summary"]["stop"], stop, "{ended}");
    }
}
