//! Tests of a session on a disk that is full or broken.

use super::*;
use crate::message::Role;

/// Path of a folder that cannot be created, because its parent is not a folder.
const NO_FOLDER: &str = "/dev/null/session";

impl Session {
    /// Creates a session on a disk with `room` bytes. The returned function changes this size.
    pub(crate) fn session_on_small_disk(room: usize) -> (Self, impl Fn(usize)) {
        let (disk, log) = crate::session::log::tests::SmallDisk::log(room);
        let make_room = move |room| disk.0.lock().unwrap().1 = room;
        (Self::session_on_test_log(log), make_room)
    }

    /// Creates a session on a disk that accepts writes but fails to sync.
    pub(crate) fn session_on_broken_disk() -> Self {
        let log = crate::session::log::tests::BrokenDisk::new_session_log();
        Self::session_on_test_log(log)
    }

    fn session_on_test_log(log: crate::session::log::SessionLog) -> Self {
        let address = SessionAddress::parse("test").unwrap();
        let store = Arc::new(crate::session::FileSessionBackend::new(NO_FOLDER));
        Self::new_without_entries(Box::new(log), address, store)
    }
}

fn user_entry(text: &str) -> Body {
    Body::Message {
        message: Message::text(Role::User, text),
    }
}

#[test]
fn an_entry_that_could_not_be_written_is_not_in_memory_either() {
    let (session, make_room) = Session::session_on_small_disk(500);
    session.append(user_entry("first")).unwrap();
    let long = "x".repeat(1000);
    session.append(user_entry(&long)).unwrap_err();
    session.state_set("p", "k", Some(&long)).unwrap_err();
    assert_eq!(session.n_messages(), 1);
    assert_eq!(session.state_get("p", "k").unwrap(), None);
    make_room(100_000);
    session.append(user_entry(&long)).unwrap();
    session.sync().unwrap();
    assert_eq!(session.n_messages(), 2);
}

#[tokio::test]
async fn a_task_that_waits_for_the_disk_blocks_no_other_task() {
    let session = Session::session_on_broken_disk();
    session.append(user_entry("first")).unwrap();
    // The runtime has a single thread, which runs the other task only while this task is suspended.
    let other = tokio::spawn(async {});
    let error = session.sync_on_blocking_thread().await.unwrap_err();
    assert!(other.is_finished());
    assert!(error.to_string().contains("s.jsonl"), "{error}");
}

#[test]
fn a_deferred_write_error_is_returned_by_the_next_sync() {
    let (session, make_room) = Session::session_on_small_disk(0);
    session.append_or_defer_error(user_entry("lost"));
    make_room(100_000);
    session.sync().unwrap_err();
    session.sync().unwrap();
}

#[test]
fn buffered_state_is_readable_at_once_and_written_with_the_next_entry() {
    let (session, make_room) = Session::session_on_small_disk(0);
    session
        .state_set_with_next_entry("p", "k", Some("v"))
        .unwrap();
    assert_eq!(session.state_get("p", "k").unwrap().as_deref(), Some("v"));
    session.write_deferred_lines().unwrap_err();
    make_room(100_000);
    session.append(user_entry("first")).unwrap();
    session.write_deferred_lines().unwrap();
    assert_eq!(session.state_get("p", "k").unwrap().as_deref(), Some("v"));
}
