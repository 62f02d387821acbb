//! Tests of sessions after a crash: torn lines, open calls, a file that ends anywhere.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use proptest::prelude::*;
use rind::provider::scripted::Reply;
use rind::session::{Body, Entry};
use serde_json::json;

use super::{TempStore, calls, lines, result, turn_end, turn_start, user, write};
use crate::harness::{Setup, check_pairs, session_spec};

#[test]
fn calls_of_an_interrupted_turn_get_results_when_it_is_resumed() {
    let place = TempStore::new();
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
    let (entries, _) = place.store.read_entries(&id).unwrap();
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
    let place = TempStore::new();
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
    let torn = fs::read_dir(session.local_folder().unwrap())
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
    let place = TempStore::new();
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

#[tokio::test]
async fn a_host_that_is_killed_in_the_middle_of_a_turn_can_go_on() {
    // The host may be killed at every length that the session file has during a turn.
    let script = || {
        vec![
            Reply::call("read_file", json!({"path": "a.txt"}))
                .with_tool_call("read_file", json!({"path": "b.txt"})),
            Reply::text("done"),
        ]
    };
    let setup = Setup::new(script());
    let store = setup.store();
    let mut running = setup.build();
    running.turn("go on with the work").await;
    let id = running.session.id().to_string();
    let file = running
        .session
        .local_folder()
        .unwrap()
        .join("session.jsonl");
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
        let turns = session.last_turn_number();
        let mut running = setup.build_on(session);
        let outcome = running.turn("where were we").await;
        assert_eq!(
            (outcome.turn, outcome.output.as_str()),
            (turns + 1, "go on")
        );
        check_pairs(&running.session.messages());
    }
}

/// File of a session with many kinds of entries and with characters of several bytes.
static WHOLE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let place = TempStore::new();
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
        .append_custom_entry("p", "n", json!({"deep": {"er": [null, true, 1.5]}}))
        .unwrap();
    write(
        &session,
        vec![turn_end(1), turn_start(2), user("more"), calls(&["3"])],
    );
    fs::read(place.file(session.id())).unwrap()
});

/// Returns the entries of which the first `at` bytes contain the complete line, except perhaps its
/// line feed.
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

/// Generates a length at which the file is cut: half of them anywhere, half near the end of a line.
fn cut() -> impl Strategy<Value = usize> {
    let is_end = |at: &usize| WHOLE[*at] == b'\n';
    let ends: Vec<usize> = (0..WHOLE.len()).filter(is_end).collect();
    let near =
        (prop::sample::select(ends), 0..3_usize).prop_map(|(end, by)| (end + by).saturating_sub(1));
    prop_oneof![0..=WHOLE.len(), near.prop_map(|at| at.min(WHOLE.len()))]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_file_cut_at_any_byte_opens_with_every_complete_entry(at in cut()) {
        let place = TempStore::new();
        place.put("s", &WHOLE[..at]);
        let session = place.resume("s").unwrap();
        let expected = complete(at);
        check_pairs(&session.messages());
        session.append(user("after")).unwrap();
        drop(session);
        let (entries, notices) = place.store.read_entries("s").unwrap();
        prop_assert!(notices.is_empty());
        prop_assert_eq!(&entries[..expected.len()], &expected[..]);
        // A second opening has nothing left to repair.
        let again = place.resume("s").unwrap();
        prop_assert!(again.notices().is_empty());
        prop_assert_eq!(lines(&again).pop().unwrap(), "user: after");
    }
}
