//! Sessions on disk: what outlives a crash, a full disk's leavings, another version and another process.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use proptest::prelude::*;
use rind::message::{Content, Message, Role, ToolCall, ToolResult};
use rind::point::handle::{AgentHandle, HandleError};
use rind::point::payload::{Source, StopReason, TurnSummary};
use rind::session::{
    Body, Entry, Error, INLINE_BYTES, MAX_KEY_BYTES, MAX_VALUE_BYTES, Session, SessionStore,
};
use serde_json::json;

use crate::harness::{Setup, check_pairs, line, session_spec};

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
fn calls_of_an_interrupted_turn_get_results_when_it_is_resumed() {
    let place = Place::new();
    let session = place.create();
    write(
        &session,
        vec![turn_start(1), user("hi"), calls(&["1", "2"]), result("2")],
    );
    let id = session.id().to_string();
    drop(session);

    let session = place.resume(&id).unwrap();
    check_pairs(&session.messages());
    let last = lines(&session).pop().unwrap();
    assert!(last.starts_with("tool!: [interrupted: "), "{last}");
    let (entries, _) = place.store.read(&id).unwrap();
    let cut = entries.iter().find_map(|entry| match &entry.body {
        Body::Cut { turn, calls, .. } => Some((*turn, calls.clone())),
        _ => None,
    });
    assert_eq!(cut, Some((1, vec!["1".to_owned()])));
    let messages = session.messages();
    drop(session);
    assert_eq!(place.resume(&id).unwrap().messages(), messages);
}

#[test]
fn a_torn_last_line_is_kept_aside() {
    let place = Place::new();
    let session = place.create();
    write(&session, vec![user("one"), user("two")]);
    let id = session.id().to_string();
    drop(session);
    let bytes = fs::read(place.file(&id)).unwrap();
    fs::write(place.file(&id), &bytes[..bytes.len() - 10]).unwrap();

    let session = place.resume(&id).unwrap();
    assert_eq!(lines(&session), ["user: one"]);
    assert!(
        session.notices()[0].contains("was cut off"),
        "{:?}",
        session.notices()
    );
    let torn = fs::read_dir(session.folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|end| end == "torn"))
        .unwrap();
    let before = String::from_utf8(bytes).unwrap();
    let last = before.lines().last().unwrap();
    assert_eq!(fs::read_to_string(torn).unwrap(), last[..last.len() - 9]);
}

#[test]
fn a_bad_line_in_the_middle_is_left_out_by_file_and_line() {
    let place = Place::new();
    let session = place.create();
    write(
        &session,
        vec![user("one"), calls(&["1"]), result("1"), user("two")],
    );
    let id = session.id().to_string();
    drop(session);
    let text = fs::read_to_string(place.file(&id)).unwrap();
    let mut all: Vec<&str> = text.lines().collect();
    all[3] = "{\"type\": \u{0}garbage";
    let spoiled = all.join("\n") + "\n";
    fs::write(place.file(&id), &spoiled).unwrap();

    let session = place.resume(&id).unwrap();
    let notices = session.notices();
    assert!(
        notices[0].contains("session.jsonl:4: this line cannot be read"),
        "{notices:?}"
    );
    check_pairs(&session.messages());
    assert_eq!(lines(&session)[0], "user: one");
    assert_eq!(lines(&session)[3], "user: two");
    assert!(
        fs::read_to_string(place.file(&id))
            .unwrap()
            .starts_with(&spoiled)
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

#[tokio::test]
async fn a_host_that_is_killed_in_the_middle_of_a_turn_can_go_on() {
    use rind::provider::scripted::Reply;
    // Every length that the file had at some moment of a turn is a moment when the host may be killed.
    let script = || {
        vec![
            Reply::call("read_file", json!({"path": "a.txt"}))
                .and_call("read_file", json!({"path": "b.txt"})),
            Reply::text("done"),
        ]
    };
    let setup = Setup::new(script());
    let store = setup.store();
    let mut running = setup.build();
    running.turn("go on with the work").await;
    let id = running.session.id().to_string();
    let file = running.session.folder().join("session.jsonl");
    let whole = fs::read(&file).unwrap();
    drop((running.agent, running.session));
    let ends: Vec<usize> = whole
        .iter()
        .enumerate()
        .filter(|(_, b)| **b == b'\n')
        .map(|(at, _)| at + 1)
        .collect();
    for end in ends {
        fs::write(&file, &whole[..end]).unwrap();
        let setup = Setup::new(vec![Reply::text("go on")]);
        let session = store.resume(&id, &session_spec(Path::new("/w"))).unwrap();
        let turns = session.turn();
        let mut running = setup.build_on(session);
        let outcome = running.turn("where were we").await;
        assert_eq!(
            (outcome.turn, outcome.output.as_str()),
            (turns + 1, "go on")
        );
        check_pairs(&running.session.messages());
    }
}

/// A session with every kind of entry and with texts that are awkward to cut.
static WHOLE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let place = Place::new();
    let session = place.create();
    write(
        &session,
        vec![
            turn_start(1),
            user("grüße \u{1f980} \"quoted\\\" {}\n"),
            calls(&["1", "2"]),
            result("1"),
            result("2"),
        ],
    );
    session
        .state_set("p", "k", Some("{\"a\": [1, 2]}"))
        .unwrap();
    session
        .append_custom("p", "n", json!({"deep": {"er": [null, true, 1.5]}}))
        .unwrap();
    write(
        &session,
        vec![turn_end(1), turn_start(2), user("more"), calls(&["3"])],
    );
    fs::read(place.file(session.id())).unwrap()
});

/// The entries whose last byte before the line feed is within the first `at` bytes.
fn complete(at: usize) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut end = 0;
    for line in WHOLE.split_inclusive(|byte| *byte == b'\n') {
        end += line.len();
        if end - 1 <= at {
            entries.push(serde_json::from_slice(line).unwrap());
        }
    }
    entries
}

/// Any byte, and more often one near the end of a line, where the cases differ.
fn cut() -> impl Strategy<Value = usize> {
    let is_end = |at: &usize| WHOLE[*at] == b'\n';
    let ends: Vec<usize> = (0..WHOLE.len()).filter(is_end).collect();
    let near =
        (prop::sample::select(ends), 0..3_usize).prop_map(|(end, by)| (end + by).saturating_sub(1));
    prop_oneof![0..=WHOLE.len(), near.prop_map(|at| at.min(WHOLE.len()))]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_file_cut_at_any_byte_opens_with_every_complete_entry(at in cut()) {
        let place = Place::new();
        place.put("s", &WHOLE[..at]);
        let session = place.resume("s").unwrap();
        let expected = complete(at);
        check_pairs(&session.messages());
        session.append(user("after")).unwrap();
        drop(session);
        let (entries, notices) = place.store.read("s").unwrap();
        prop_assert!(notices.is_empty());
        prop_assert_eq!(&entries[..expected.len()], &expected[..]);
        // A second opening has nothing left to repair.
        let again = place.resume("s").unwrap();
        prop_assert!(again.notices().is_empty());
        prop_assert_eq!(lines(&again).pop().unwrap(), "user: after");
    }
}
