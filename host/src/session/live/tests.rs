//! A session on a disk that is full.

use super::*;
use crate::message::Role;

fn user(text: &str) -> Body {
    Body::Message {
        message: Message::text(Role::User, text),
    }
}

#[test]
fn an_entry_that_could_not_be_written_is_not_in_memory_either() {
    let (session, make_room) = Session::on_small_disk(500);
    session.append(user("first")).unwrap();
    let long = "x".repeat(1000);
    session.append(user(&long)).unwrap_err();
    session.state_set("p", "k", Some(&long)).unwrap_err();
    assert_eq!(session.n_messages(), 1);
    assert_eq!(session.state_get("p", "k").unwrap(), None);
    make_room(100_000);
    session.append(user(&long)).unwrap();
    session.sync().unwrap();
    assert_eq!(session.n_messages(), 2);
}

#[test]
fn a_failure_that_nobody_could_be_told_of_comes_with_the_next_sync() {
    let (session, make_room) = Session::on_small_disk(0);
    session.append_or_defer(user("lost"));
    make_room(100_000);
    session.sync().unwrap_err();
    session.sync().unwrap();
}
