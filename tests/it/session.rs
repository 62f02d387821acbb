//! Sessions on disk: what outlives a crash, a full disk's leavings, another version and another process.

mod crash;

use std::fs;
use std::path::{Path, PathBuf};

use rind::message::{Content, Message, Role, ToolCall, ToolResult};
use rind::point::handle::{AgentHandle, HandleError};
use rind::point::payload::{Source, StopReason, TurnSummary};
use rind::session::{
    Body, Error, INLINE_BYTES, MAX_KEY_BYTES, MAX_VALUE_BYTES, Session, SessionStore,
};
use serde_json::json;

use crate::harness::{line, session_spec};

/// A store in a folder of its own.
struct Place {
    folder: tempfile::TempDir,
    store: SessionStore,
}

impl Place {
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

    /// Puts a file with this content in the place of a session.
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
    let call = |id: &&str| {
        Content::ToolCall(ToolCall {
            id: (*id).to_owned(),
            name: "bash".to_owned(),
            arguments: json!({"command": "make"}),
        })
    };
    Body::Message {
        message: Message::new(Role::Assistant, ids.iter().map(call).collect()),
    }
}

fn result(id: &str) -> Body {
    let result = ToolResult {
        call_id: id.to_owned(),
        name: "bash".to_owned(),
        content: "ok".to_owned(),
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
            duration_ms: 1,
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
    let place = Place::new();
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
    assert_eq!(session.turn(), 1);
    assert_eq!(
        session.state_get("memo", "key").unwrap().as_deref(),
        Some("value")
    );
    let (entries, _) = place.store.read(&id).unwrap();
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
    let place = Place::new();
    let session = place.create();
    let id = session.id().to_string();
    drop(session);
    let mut text = fs::read_to_string(place.file(&id)).unwrap();
    text.push_str("{\"id\":\"x\",\"parent\":null,\"time\":1,\"type\":\"hologram\",\"depth\":3}\n");
    fs::write(place.file(&id), &text).unwrap();
    let session = place.resume(&id).unwrap();
    assert!(session.notices().is_empty());
    let (entries, notices) = place.store.read(&id).unwrap();
    assert!(notices.is_empty());
    let Body::Unknown { fields } = &entries[1].body else {
        panic!("{:?}", entries[1]);
    };
    assert_eq!(fields["depth"], 3);
}

#[test]
fn a_file_of_a_newer_version_is_refused() {
    let place = Place::new();
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
    let place = Place::new();
    let session = place.create();
    let id = session.id().to_string();
    let error = place.resume(&id).unwrap_err().to_string();
    assert!(
        error.contains(&format!("(pid {})", std::process::id())),
        "{error}"
    );
    // Reading needs no lock.
    assert_eq!(place.store.read(&id).unwrap().0.len(), 1);
    drop(session);
    place.resume(&id).unwrap();
}

#[test]
fn large_values_of_the_state_are_blobs() {
    let place = Place::new();
    let session = place.create();
    let large = "x".repeat(INLINE_BYTES + 1);
    session.state_set("p", "small", Some("s")).unwrap();
    session.state_set("p", "large", Some(&large)).unwrap();
    session.state_set("p", "gone", Some("g")).unwrap();
    session.state_set("p", "gone", None).unwrap();
    session.state_set("q", "small", Some("other")).unwrap();
    let (id, blobs) = (session.id().to_string(), session.folder().join("blobs"));
    assert_eq!(fs::read_dir(&blobs).unwrap().count(), 1);
    assert!(fs::metadata(place.file(&id)).unwrap().len() < 4096);
    drop(session);

    let session = place.resume(&id).unwrap();
    assert_eq!(session.state_keys("p", ""), ["large", "small"]);
    assert_eq!(session.state_keys("p", "sm"), ["small"]);
    assert_eq!(session.state_get("p", "large").unwrap(), Some(large));
    assert_eq!(session.state_get("p", "gone").unwrap(), None);
    assert_eq!(
        session.state_get("q", "small").unwrap().as_deref(),
        Some("other")
    );
    // A blob that nothing refers to any more goes.
    session.state_set("p", "large", Some("short")).unwrap();
    assert_eq!(fs::read_dir(&blobs).unwrap().count(), 0);
}

#[test]
fn a_blob_that_was_changed_is_an_error() {
    let place = Place::new();
    let session = place.create();
    session
        .state_set("p", "k", Some(&"x".repeat(INLINE_BYTES + 1)))
        .unwrap();
    let blobs = session.folder().join("blobs");
    let blob = fs::read_dir(&blobs)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    fs::write(blob, "something else").unwrap();
    assert!(matches!(
        session.state_get("p", "k"),
        Err(Error::Blob { .. })
    ));
}

#[test]
fn state_has_limits() {
    let place = Place::new();
    let session = place.create();
    let set = |key: &str, value: &str| session.state_set("p", key, Some(value));
    assert!(matches!(
        set(&"k".repeat(MAX_KEY_BYTES + 1), "v"),
        Err(Error::Limit { .. })
    ));
    set(&"k".repeat(MAX_KEY_BYTES), "v").unwrap();
    let largest = "x".repeat(MAX_VALUE_BYTES);
    assert!(matches!(
        set("k", &format!("{largest}x")),
        Err(Error::Limit { .. })
    ));
    for n in 0..3 {
        set(&format!("{n}"), &largest).unwrap();
    }
    let error = set("3", &largest).unwrap_err().to_string();
    assert!(error.contains("plugin `p` went over a limit"), "{error}");
    // A value that takes the place of another counts once, and another plugin has limits of its own.
    set("2", &largest).unwrap();
    session.state_set("q", "0", Some(&largest)).unwrap();
}

#[test]
fn the_list_is_by_last_use_and_ids_may_be_cut_short() {
    let place = Place::new();
    assert!(place.store.list().unwrap().is_empty());
    assert!(matches!(
        place.store.resolve("last"),
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
    assert_eq!(place.store.resolve("last").unwrap(), "20260101-a");
    assert_eq!(place.store.resolve("20260102").unwrap(), "20260102-b");
    assert!(matches!(
        place.store.resolve("2026"),
        Err(Error::Ambiguous { .. })
    ));
    assert!(matches!(
        place.store.resolve("../x"),
        Err(Error::Unknown { .. })
    ));
    assert!(matches!(
        place.store.resolve(""),
        Err(Error::Unknown { .. })
    ));
}

#[test]
fn a_fork_begins_like_the_other_session_and_leaves_it_alone() {
    let place = Place::new();
    let session = place.create();
    let large = "x".repeat(INLINE_BYTES + 1);
    session.state_set("p", "k", Some(&large)).unwrap();
    write(
        &session,
        vec![turn_start(1), user("one"), calls(&["1"]), result("1")],
    );
    let (id, before) = (
        session.id().to_string(),
        fs::read(place.file(session.id())).unwrap(),
    );
    let (entries, _) = place.store.read(&id).unwrap();
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
    let place = Place::new();
    let session = place.create();
    session
        .state_set("p", "k", Some(&"x".repeat(INLINE_BYTES + 1)))
        .unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(session.folder()), 0o700);
    assert_eq!(mode(&place.file(session.id())), 0o600);
}

#[tokio::test]
async fn plugins_reach_the_session_through_their_handle() {
    let place = Place::new();
    let session = std::sync::Arc::new(place.create());
    session.append(user("hi")).unwrap();
    let (events, mut receiver) = rind::event::Events::channel();
    let handle =
        rind::agent::SessionHandle::new(session.clone(), events, std::sync::Arc::new(|_, _, _| {}));
    handle.state_set("p", "k", Some("v")).unwrap();
    assert_eq!(handle.state_get("p", "k").as_deref(), Some("v"));
    assert_eq!(handle.state_get("q", "k"), None);
    assert_eq!(handle.messages(5).len(), 1);
    handle.append("p", "note", json!({"a": 1})).unwrap();
    assert!(matches!(
        handle.append("p", "", json!(1)),
        Err(HandleError::InvalidInput(_))
    ));
    assert!(matches!(
        handle.append("p", "n", json!("x".repeat(2 << 20))),
        Err(HandleError::Limit(_))
    ));
    let long = "k".repeat(MAX_KEY_BYTES + 1);
    assert!(matches!(
        handle.state_set("p", &long, Some("")),
        Err(HandleError::Limit(_))
    ));
    let caller = rind::point::caller::Caller::default();
    let called = handle.call_point("p", "extract", json!({}), caller).await;
    assert_eq!(
        called,
        Err(HandleError::NotFound(
            "there is no point `p.extract`".into()
        ))
    );
    let metric = rind::point::outcome::Effect::Metric {
        name: "m".into(),
        value: 2.0,
    };
    handle.effect("p", metric);
    assert_eq!(receiver.try_recv().unwrap().name(), "metric");
}
