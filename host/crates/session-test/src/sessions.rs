//! Checks of agents' sessions on top of a store.

use std::path::PathBuf;

use rind_lib::message::{Message, Role};
use rind_lib::session::{Body, Session, SessionSpec, SessionStore};

use crate::{Checked, StoreHandles, done, same};

fn spec() -> SessionSpec {
    SessionSpec {
        workspace: PathBuf::from("/srv"),
        provider: "scripted".to_owned(),
        model: "m".to_owned(),
    }
}

fn say(session: &Session, text: &str) -> Checked {
    let message = Message::text(Role::User, text);
    done(
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
    done("begin a turn", session.append(body))
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
    let session = done("create a session", own.create(&spec()))?;
    let large = "v".repeat(100_000);
    say(&session, "one")?;
    done("set state", session.state_set("p", "large", Some(&large)))?;
    done("set state", session.state_set("p", "small", Some("1")))?;
    done(
        "set state",
        session.state_set_with_next("p", "next", Some("2")),
    )?;
    say(&session, "two")?;
    done("keep a text", session.blobs().put_text("a text"))?;
    let id = session.id().to_string();
    drop(session);
    same(
        "resolved",
        &done("resolve", other.resolve(&id[..id.len() - 1]))?,
        &id,
    )?;
    let text = rind_lib::session::SessionBlobs::text_id("a text");
    same(
        "text",
        &done("read a text", other.read_text(&id, &text))?,
        &"a text".to_owned(),
    )?;
    let session = done("resume", other.resume(&id, &spec()))?;
    same(
        "messages",
        &texts(&session),
        &vec!["one".to_owned(), "two".to_owned()],
    )?;
    for (key, value) in [("large", large.as_str()), ("small", "1"), ("next", "2")] {
        let found = done("get state", session.state_get("p", key))?;
        same("state", &found.as_deref(), &Some(value))?;
    }
    done("replace state", session.state_set("p", "large", Some("3")))?;
    let found = done("get state", session.state_get("p", "large"))?;
    same("state", &found.as_deref(), &Some("3"))?;
    let rows = done("list", own.list())?;
    same(
        "workspace",
        &rows.first().map(|row| row.workspace.as_str()),
        &Some("/srv"),
    )
}

pub(crate) fn an_interrupted_turn_is_closed_when_it_is_opened(store: &StoreHandles) -> Checked {
    let own = SessionStore::over(store.own.clone());
    let session = done("create a session", own.create(&spec()))?;
    let id = session.id().to_string();
    begin_turn(&session, 1)?;
    say(&session, "one")?;
    drop(session);
    let session = done("resume", own.resume(&id, &spec()))?;
    let turn = session.interrupted().map(|turn| turn.turn);
    same("interrupted turn", &turn, &Some(1))?;
    begin_turn(&session, 2)?;
    same("turn", &session.turn(), &2)
}

pub(crate) fn archived_turns_are_found_below_their_session(store: &StoreHandles) -> Checked {
    let own = SessionStore::over(store.own.clone());
    let session = done("create a session", own.create(&spec()))?;
    begin_turn(&session, 1)?;
    say(&session, "the turn")?;
    let id = session.id().to_string();
    let (entries, _) = done("read", own.read(&id))?;
    let held = session.create_holder("held-1", &spec(), entries);
    done("create a holder", held)?;
    let agents = done("list below", own.agents_of(&id))?;
    same("below", &agents, &vec![format!("{id}/agents/held-1")])?;
    let (entries, notices) = done("read", own.read(&agents[0]))?;
    same("notices", &notices, &Vec::new())?;
    let has_turn = entries
        .iter()
        .any(|entry| matches!(&entry.body, Body::Message { message } if message.joined_text() == "the turn"));
    same("whether the holder has the turn", &has_turn, &true)?;
    session.remove_holder("held-1");
    same(
        "below",
        &done("list below", own.agents_of(&id))?,
        &Vec::new(),
    )
}

pub(crate) fn a_session_of_an_agent_is_forked_at_an_entry(store: &StoreHandles) -> Checked {
    let own = SessionStore::over(store.own.clone());
    let session = done("create a session", own.create(&spec()))?;
    let large = "v".repeat(100_000);
    done("set state", session.state_set("p", "k", Some(&large)))?;
    say(&session, "one")?;
    let id = session.id().to_string();
    let (entries, _) = done("read", own.read(&id))?;
    let until = entries.last().map(|entry| entry.id.clone());
    say(&session, "two")?;
    let fork = done("fork", own.fork(&id, until.as_deref(), &spec()))?;
    same("messages", &texts(&fork), &vec!["one".to_owned()])?;
    done("remove state", session.state_set("p", "k", None))?;
    let found = done("get state", fork.state_get("p", "k"))?;
    same("state of the fork", &found, &Some(large))
}
