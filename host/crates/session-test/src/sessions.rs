//! Checks of the sessions of agents on top of a store.

use std::path::PathBuf;

use rind_lib::message::{Message, Role};
use rind_lib::session::{Body, Session, SessionSpec, SessionStore};

use crate::{Checked, StoreHandles, check_equal, name_failed_operation};

fn spec() -> SessionSpec {
    SessionSpec {
        workspace: PathBuf::from("/srv"),
        provider: "scripted".to_owned(),
        model: "m".to_owned(),
    }
}

fn append_user_message(session: &Session, text: &str) -> Checked {
    let message = Message::text(Role::User, text);
    name_failed_operation(
        "append a message",
        session.append(Body::Message { message }),
    )
}

fn begin_turn(session: &Session, turn: u32) -> Checked {
    let body = Body::TurnStart {
        turn,
        input: "go".to_owned(),
        source: rind_lib::point::payload::Source::Terminal,
        command: None,
        input_id: None,
        continues: None,
        attached: Vec::new(),
        plugins: None,
    };
    name_failed_operation("begin a turn", session.append(body))
}

fn message_texts(session: &Session) -> Vec<String> {
    session
        .messages()
        .iter()
        .map(Message::joined_text)
        .collect()
}

pub(crate) fn an_agent_finds_its_session_as_it_left_it(store: &StoreHandles) -> Checked {
    let (own, other) = (
        SessionStore::with_backend(store.own.clone()),
        SessionStore::with_backend(store.other.clone()),
    );
    let session = name_failed_operation("create a session", own.create(&spec()))?;
    let large = "v".repeat(100_000);
    append_user_message(&session, "one")?;
    name_failed_operation("set state", session.state_set("p", "large", Some(&large)))?;
    name_failed_operation("set state", session.state_set("p", "small", Some("1")))?;
    name_failed_operation(
        "set state",
        session.state_set_with_next_entry("p", "next", Some("2")),
    )?;
    append_user_message(&session, "two")?;
    name_failed_operation("keep a text", session.blobs().put_text("a text"))?;
    let id = session.id().to_string();
    drop(session);
    check_equal(
        "resolved",
        &name_failed_operation("resolve", other.resolve_session_id(&id[..id.len() - 1]))?,
        &id,
    )?;
    let text = rind_lib::session::SessionBlobs::text_blob_id("a text");
    check_equal(
        "text",
        &name_failed_operation("read a text", other.read_text_blob(&id, &text))?,
        &"a text".to_owned(),
    )?;
    let session = name_failed_operation("resume", other.resume(&id, &spec()))?;
    check_equal(
        "messages",
        &message_texts(&session),
        &vec!["one".to_owned(), "two".to_owned()],
    )?;
    for (key, value) in [("large", large.as_str()), ("small", "1"), ("next", "2")] {
        let found = name_failed_operation("get state", session.state_get("p", key))?;
        check_equal("state", &found.as_deref(), &Some(value))?;
    }
    name_failed_operation("replace state", session.state_set("p", "large", Some("3")))?;
    let found = name_failed_operation("get state", session.state_get("p", "large"))?;
    check_equal("state", &found.as_deref(), &Some("3"))?;
    let rows = name_failed_operation("list", own.list())?;
    check_equal(
        "workspace",
        &rows.first().map(|row| row.workspace.as_str()),
        &Some("/srv"),
    )
}

pub(crate) fn an_interrupted_turn_is_closed_when_it_is_opened(store: &StoreHandles) -> Checked {
    let own = SessionStore::with_backend(store.own.clone());
    let session = name_failed_operation("create a session", own.create(&spec()))?;
    let id = session.id().to_string();
    begin_turn(&session, 1)?;
    append_user_message(&session, "one")?;
    drop(session);
    let session = name_failed_operation("resume", own.resume(&id, &spec()))?;
    let turn = session.interrupted_turn().map(|turn| turn.turn);
    check_equal("interrupted turn", &turn, &Some(1))?;
    begin_turn(&session, 2)?;
    check_equal("turn", &session.last_turn_number(), &2)
}

pub(crate) fn archived_turns_are_found_below_their_session(store: &StoreHandles) -> Checked {
    let own = SessionStore::with_backend(store.own.clone());
    let session = name_failed_operation("create a session", own.create(&spec()))?;
    begin_turn(&session, 1)?;
    append_user_message(&session, "the turn")?;
    let id = session.id().to_string();
    let (entries, _) = name_failed_operation("read", own.read_entries(&id))?;
    let held = session.create_archive_holder_session("held-1", &spec(), entries);
    name_failed_operation("create a holder", held)?;
    let agents = name_failed_operation("list below", own.session_agent_ids(&id))?;
    check_equal("below", &agents, &vec![format!("{id}/agents/held-1")])?;
    let (entries, notices) = name_failed_operation("read", own.read_entries(&agents[0]))?;
    check_equal("notices", &notices, &Vec::new())?;
    let has_turn = entries
        .iter()
        .any(|entry| matches!(&entry.body, Body::Message { message } if message.joined_text() == "the turn"));
    check_equal("whether the holder has the turn", &has_turn, &true)?;
    session.remove_archive_holder_session("held-1");
    check_equal(
        "below",
        &name_failed_operation("list below", own.session_agent_ids(&id))?,
        &Vec::new(),
    )
}

pub(crate) fn a_session_of_an_agent_is_forked_at_an_entry(store: &StoreHandles) -> Checked {
    let own = SessionStore::with_backend(store.own.clone());
    let session = name_failed_operation("create a session", own.create(&spec()))?;
    let large = "v".repeat(100_000);
    name_failed_operation("set state", session.state_set("p", "k", Some(&large)))?;
    append_user_message(&session, "one")?;
    let id = session.id().to_string();
    let (entries, _) = name_failed_operation("read", own.read_entries(&id))?;
    let until = entries.last().map(|entry| entry.id.clone());
    append_user_message(&session, "two")?;
    let fork = name_failed_operation("fork", own.fork(&id, until.as_deref(), &spec()))?;
    check_equal("messages", &message_texts(&fork), &vec!["one".to_owned()])?;
    name_failed_operation("remove state", session.state_set("p", "k", None))?;
    let found = name_failed_operation("get state", fork.state_get("p", "k"))?;
    check_equal("state of the fork", &found, &Some(large))
}
