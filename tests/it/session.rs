//! Tests of sessions on disk: their content, locks and lookup.

mod blobs;
mod crash;
mod durable;
pub(crate) mod every;
mod state;

use std::fs;
use std::path::{Path, PathBuf};

use rind::message::{Content, Message, Role, ToolCall, ToolResult};
use rind::point::payload::{Source, StopReason, TurnSummary};
use rind::session::{Body, Error, MAX_INLINE_STATE_VALUE_BYTES, Session, SessionStore};
use serde_json::json;

use crate::harness::{line, session_spec};

/// A store in a folder of its own.
struct TempStore {
    folder: tempfile::TempDir,
    store: SessionStore,
}

impl TempStore {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = SessionStore::new(folder.path());
        Self { folder, store }
    }

    fn create(&self) -> Session {
        self.store.create(&session_spec(Path::new("/w"))).unwrap()
    }

    fn resume(&self, id: &str) -> Result<Session, Error> {
        self.store.resume(id, &session_spec(Path::new("/w")))
    }

    fn file(&self, id: &str) -> PathBuf {
        self.folder.path().join(id).join("session.jsonl")
    }

    /// Writes this content as the file of a session.
    fn put(&self, id: &str, bytes: &[u8]) {
        fs::create_dir_all(self.folder.path().join(id)).unwrap();
        fs::write(self.file(id), bytes).unwrap();
    }
}

fn user(text: &str) -> Body {
    Body::Message {
        message: Message::text(Role::User, text),
    }
}

fn calls(ids: &[&str]) -> Body {
    let call =
        |id: &&str| Content::ToolCall(ToolCall::new(*id, "bash", json!({"command": "make"})));
    Body::Message {
        message: Message::new(Role::Assistant, ids.iter().map(call).collect()),
    }
}

fn result(id: &str) -> Body {
    let result = ToolResult {
        call_id: id.to_owned(),
        name: "bash".to_owned(),
        content: "ok".into(),
        is_error: false,
    };
    Body::Message {
        message: Message::new(Role::Tool, vec![Content::ToolResult(result)]),
    }
}

fn turn_start(turn: u32) -> Body {
    Body::TurnStart {
        turn,
        input: format!("input {turn}"),
        source: Source::Terminal,
        command: None,
        input_id: None,
        continues: None,
        attached: Vec::new(),
        plugins: None,
    }
}

fn turn_end(turn: u32) -> Body {
    Body::TurnEnd {
        turn,
        summary: TurnSummary {
            stop: StopReason::Done,
            steps: 1,
            tool_calls: 0,
            usage: rind::message::Usage::default(),
            cost_usd: 0.0,
            unpriced_tokens: 0,
            duration_ms: 1,
            output: String::new(),
        },
        output: "done".to_owned(),
    }
}

fn write(session: &Session, bodies: Vec<Body>) {
    for body in bodies {
        session.append(body).unwrap();
    }
}

fn lines(session: &Session) -> Vec<String> {
    session.messages().iter().map(line).collect()
}

#[test]
fn a_session_goes_on_where_it_ended() {
    let place = TempStore::new();
    let session = place.create();
    write(
        &session,
        vec![
            turn_start(1),
            user("hi"),
            calls(&["1"]),
            result("1"),
            turn_end(1),
        ],
    );
    session.state_set("memo", "key", Some("value")).unwrap();
    let (id, messages) = (session.id().to_string(), session.messages());
    drop(session);

    let session = place.resume(&id).unwrap();
    assert!(session.is_resumed());
    assert!(session.notices().is_empty());
    assert_eq!(session.messages(), messages);
    assert_eq!(session.last_turn_number(), 1);
    assert_eq!(
        session.state_get("memo", "key").unwrap().as_deref(),
        Some("value")
    );
    let (entries, _) = place.store.read_entries(&id).unwrap();
    assert!(
        entries
            .windows(2)
            .all(|pair| pair[1].parent.as_ref() == Some(&pair[0].id))
    );
    assert!(
        !entries
            .iter()
            .any(|entry| matches!(entry.body, Body::Cut { .. }))
    );
}

#[test]
fn entries_of_an_unknown_type_are_kept() {
    let place = TempStore::new();
    let session = place.create();
    let id = session.id().to_string();
    drop(session);
    let mut text = fs::read_to_string(place.file(&id)).unwrap();
    text.push_str("{\"id\":\"x\",\"parent\":null,\"time\":1,\"type\":\"hologram\",\"depth\":3}\n");
    fs::write(place.file(&id), &text).unwrap();
    let session = place.resume(&id).unwrap();
    assert!(session.notices().is_empty());
    let (entries, notices) = place.store.read_entries(&id).unwrap();
    assert!(notices.is_empty());
    let Body::Unknown { fields } = &entries[1].body else {
        panic!("{:?}", entries[1]);
    };
    assert_eq!(fields["depth"], 3);
}

#[test]
fn a_file_of_a_newer_version_is_refused() {
    let place = TempStore::new();
    let session = place.create();
    let id = session.id().to_string();
    drop(session);
    let text = fs::read_to_string(place.file(&id)).unwrap();
    fs::write(
        place.file(&id),
        text.replace("\"version\":1", "\"version\":99"),
    )
    .unwrap();
    let error = place.resume(&id).unwrap_err();
    assert!(matches!(error, Error::Newer { found: 99, .. }), "{error}");
}

#[test]
fn a_session_has_one_writer_and_the_error_names_the_other() {
    let place = TempStore::new();
    let session = place.create();
    let id = session.id().to_string();
    let error = place.resume(&id).unwrap_err().to_string();
    assert!(
        error.contains(&format!("(pid {})", std::process::id())),
        "{error}"
    );
    // Reading needs no lock.
    assert_eq!(place.store.read_entries(&id).unwrap().0.len(), 1);
    drop(session);
    place.resume(&id).unwrap();
}

#[test]
fn the_list_is_by_last_use_and_ids_may_be_cut_short() {
    let place = TempStore::new();
    assert!(place.store.list().unwrap().is_empty());
    assert!(matches!(
        place.store.resolve_session_id("last"),
        Err(Error::Unknown { .. })
    ));
    let text = |id: &str| {
        format!(
            "{{\"id\":\"{id}\",\"parent\":null,\"time\":5,\"type\":\"session\",\"version\":1,\"workspace\":\"/w\",\"provider\":\"p\",\"model\":\"m\"}}\n"
        )
    };
    place.put("20260101-a", text("a").as_bytes());
    place.put("20260102-b", text("b").as_bytes());
    fs::create_dir(place.folder.path().join("not-a-session")).unwrap();
    let old = fs::File::options()
        .write(true)
        .open(place.file("20260102-b"))
        .unwrap();
    old.set_modified(std::time::SystemTime::now() - std::time::Duration::from_secs(60))
        .unwrap();
    let session = place.resume("20260101-a").unwrap();
    session.append(turn_start(1)).unwrap();

    let rows = place.store.list().unwrap();
    let ids: Vec<&str> = rows.iter().map(|row| row.id.as_str()).collect();
    assert_eq!(ids, ["20260101-a", "20260102-b"]);
    assert_eq!(rows[0].first_input.as_deref(), Some("input 1"));
    assert_eq!((rows[1].created, rows[1].model.as_str()), (5, "m"));
    assert_eq!(
        place.store.resolve_session_id("last").unwrap(),
        "20260101-a"
    );
    assert_eq!(
        place.store.resolve_session_id("20260102").unwrap(),
        "20260102-b"
    );
    assert!(matches!(
        place.store.resolve_session_id("2026"),
        Err(Error::Ambiguous { .. })
    ));
    assert!(matches!(
        place.store.resolve_session_id("../x"),
        Err(Error::Unknown { .. })
    ));
    assert!(matches!(
        place.store.resolve_session_id(""),
        Err(Error::Unknown { .. })
    ));
}

#[test]
fn a_fork_begins_like_the_other_session_and_leaves_it_alone() {
    let place = TempStore::new();
    let session = place.create();
    let large = "x".repeat(MAX_INLINE_STATE_VALUE_BYTES + 1);
    session.state_set("p", "k", Some(&large)).unwrap();
    write(
        &session,
        vec![turn_start(1), user("one"), calls(&["1"]), result("1")],
    );
    let (id, before) = (
        session.id().to_string(),
        fs::read(place.file(session.id())).unwrap(),
    );
    let (entries, _) = place.store.read_entries(&id).unwrap();
    let until = &entries[4].id;

    let spec = session_spec(Path::new("/w"));
    let fork = place.store.fork(&id, Some(until), &spec).unwrap();
    assert_eq!(lines(&fork).len(), 3);
    assert!(lines(&fork)[2].starts_with("tool!: [interrupted: "));
    fork.state_set("p", "k", None).unwrap();
    assert_eq!(session.state_get("p", "k").unwrap(), Some(large));
    assert_eq!(fs::read(place.file(&id)).unwrap(), before);
    assert_eq!(
        place.store.fork(&id, None, &spec).unwrap().messages(),
        session.messages()
    );
    assert!(matches!(
        place.store.fork(&id, Some("x"), &spec),
        Err(Error::Unknown { .. })
    ));
}

#[cfg(unix)]
#[test]
fn only_the_owner_may_read_a_session() {
    use std::os::unix::fs::PermissionsExt;
    let place = TempStore::new();
    let session = place.create();
    session
        .state_set(
            "p",
            "k",
            Some(&"x".repeat(MAX_INLINE_STATE_VALUE_BYTES + 1)),
        )
        .unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&session.local_folder().unwrap()), 0o700);
    assert_eq!(mode(&place.file(session.id())), 0o600);
}
