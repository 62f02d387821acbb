//! Checks of the sessions of agents on top of a store.

use std::path::PathBuf;

use rind_lib::message::{Message, Role};
use rind_lib::session::{Body, Session, SessionSpec, SessionStore};

use crate::{Checked, StoreHandles, check_equal, named_result};

fn spec() -> SessionSpec {
    SessionSpec {
        workspace: PathBuf::from("/srv"),
        provider: "scripted".to_owned(),
        model: "m".to_owned(),
    }
}

fn say(session: &Session, text: &str) -> Checked {
    let message = Message::text(Role::User, text);
    named_result(
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
    named_result("begin a turn", session.append(body))
}

fn texts(session: &Session) -> Vec<String> {
    session
        .messages()
        .iter()
        .map(Message::joined_text)
        .collect()
}

pub(crate) fn an_agent_finds_its_session_as_it_left_it(store: &StoreHandles) -> Checked {
    let (own, other) = (
        SessionStore::over(store.own.clone()),
        SessionStore::over(store.other.clone()),
    );
    let session = named_result("create a session", own.create(&spec()))?;
    let large = "v".repeat(100_000);
    say(&session, "one")?;
    named_result("set state", session.state_set("p", "large", Some(&large)))?;
    named_result("set state", session.state_set("p", "small", Some("1")))?;
    named_result(
        "set state",
        session.state_set_with_next("p", "next", Some("2")),
    )?;
    say(&session, "two")?;
    named_result("keep a text", session.blobs().put_text("a text"))?;
    let id = session.id().to_string();
    drop(session);
    check_equal(
        "resolved",
        &named_result("resolve", other.resolve(&id[..id.len() - 1]))?,
        &id,
    )?;
    let text = rind_lib::session::SessionBlobs::text_blob_id("a text");
    check_equal(
        "text",
        &named_result("read a text", other.read_text(&id, &text))?,
        &"a text".to_owned(),
    )?;
    let session = named_result("resume", other.resume(&id, &spec()))?;
    check_equal(
        "messages",
        &texts(&session),
        &vec!["one".to_owned(), "two".to_owned()],
    )?;
    for (key, value) in [("large", large.as_str()), ("small", "1"), ("next", "2")] {
        let found = named_result("get state", session.state_get("p", key))?;
        check_equal("state", &found.as_deref(), &Some(value))?;
    }
    named_result("replace state", session.state_set("p", "large", Some("3")))?;
    let found = named_result("get state", session.state_get("p", "large"))?;
    check_equal("state", &found.as_deref(), &Some("3"))?;
    let rows = named_result("list", own.list())?;
    check_equal(
        "workspace",
        &rows.first().map(|row| row.workspace.as_str()),
        &Some("/srv"),
    )
}

pub(crate) fn an_interrupted_turn_is_closed_when_it_is_opened(store: &StoreHandles) -> Checked {
    let own = SessionStore::over(store.own.clone());
    let session = named_result("create a session", own.create(&spec()))?;
    let id = session.id().to_string();
    begin_turn(&session, 1)?;
    say(&session, "one")?;
    drop(session);
    let session = named_result("resume", own.resume(&id, &spec()))?;
    let turn = session.interrupted().map(|turn| turn.turn);
    check_equal("interrupted turn", &turn, &Some(1))?;
    begin_turn(&session, 2)?;
    check_equal("turn", &session.turn(), &2)
}

pub(crate) fn archived_turns_are_found_below_their_session(store: &StoreHandles) -> Checked {
    let own = SessionStore::over(store.own.clone());
    let session = named_result("create a session", own.create(&spec()))?;
    begin_turn(&session, 1)?;
    say(&session, "the turn")?;
    let id = session.id().to_string();
    let (entries, _) = named_result("read", own.read(&id))?;
    let held = session.create_holder_session("held-1", &spec(), entries);
    named_result("create a holder", held)?;
    let agents = named_result("list below", own.session_agent_ids(&id))?;
    check_equal("below", &agents, &vec![format!("{id}/agents/held-1")])?;
    let (entries, notices) = named_result("read", own.read(&agents[0]))?;
    check_equal("notices", &notices, &Vec::new())?;
    let has_turn = entries
        .iter()
        .any(|entry| matches!(&entry.body, Body::Message { message } if message.joined_text() == "the turn"));
    check_equal("whether the holder has the turn", &has_turn, &true)?;
    session.remove_holder_session("held-1");
    check_equal(
        "below",
        &named_result("list below", own.session_agent_ids(&id))?,
        &Vec::new(),
    )
}

pub(crate) fn a_session_of_an_agent_is_forked_at_an_entry(store: &StoreHandles) -> Checked {
    let own = SessionStore::over(store.own.clone());
    let session = named_result("create a session", own.create(&spec()))?;
    let large = "v".repeat(100_000);
    named_result("set state", session.state_set("p", "k", Some(&large)))?;
    say(&session, "one")?;
    let id = session.id().to_string();
    let (entries, _) = named_result("read", own.read(&id))?;
    let until = entries.last().map(|entry| entry.id.clone());
    say(&session, "two")?;
    let fork = named_result("fork", own.fork(&id, until.as_deref(), &spec()))?;
    check_equal("messages", &texts(&fork), &vec!["one".to_owned()])?;
    named_result("remove state", session.state_set("p", "k", None))?;
    let found = named_result("get state", fork.state_get("p", "k"))?;
    check_equal("state of the fork", &found, &Some(large))
}
