//! Attaches a chat to a session of the cluster: connects to the session and reads its conversation
//! so far.

use std::sync::Arc;

use anyhow::Context;
use rind_lib::message::Message;
use rind_lib::session::{Body, Entry, Error, SessionStore};
use rind_nats::worker::SessionInboxClient;

use super::super::exit_code::bail_usage;
use super::args::AttachArgs;
use super::shared_session::ClusterSessionClient;

/// Session of the cluster that a chat shows and sends input to.
#[derive(Clone)]
pub(crate) struct AttachedClusterSession {
    pub(crate) session: ClusterSessionClient,
    pub(crate) inbox: SessionInboxClient,
    /// Class of the workers that run the turns of this session.
    pub(crate) class: String,
    /// Messages of the session from the time before the chat attached.
    pub(crate) earlier: Vec<Message>,
    /// Number of the last turn whose messages `earlier` contains.
    pub(crate) n_past: u32,
}

impl AttachArgs {
    /// Connects to the session with this id, which need not exist yet.
    ///
    /// # Errors
    /// The servers do not answer, an argument is wrong, or the session cannot be read.
    pub(crate) async fn attach(self, id: &str) -> anyhow::Result<AttachedClusterSession> {
        let Some(nats) = self.remote.store.into_nats_args() else {
            bail_usage!("pass --nats");
        };
        let (sessions, inbox) = nats.connect_with_session_inbox().await?;
        let session = ClusterSessionClient::new(&sessions, id);
        let store = SessionStore::with_backend(Arc::new(sessions.clone()));
        // Check whether a program has the session open before reading the entries, so that a turn
        // that begins in between is shown by its events.
        let is_held = session.is_session_held().await.unwrap_or(true);
        let own = id.to_owned();
        let read = tokio::task::spawn_blocking(move || match store.check_session_exists(&own) {
            Ok(()) => store.read_entries(&own).map(|(entries, _)| entries),
            Err(Error::Unknown { .. }) => Ok(Vec::new()),
            Err(error) => Err(error),
        });
        let entries = read.await.context("cannot read the session")??;
        let (earlier, n_past) = messages_before_running_turn(entries, is_held);
        Ok(AttachedClusterSession {
            session,
            inbox,
            class: self.remote.class,
            earlier,
            n_past,
        })
    }
}

/// Returns the messages of the session and the number of its last turn, without a turn that is
/// running now, because the events of the program that runs it show that turn.
fn messages_before_running_turn(entries: Vec<Entry>, is_held: bool) -> (Vec<Message>, u32) {
    let (mut messages, mut last) = (Vec::new(), 0);
    // If the last turn has not ended, the number of the turn before it, and the number of messages
    // before it; otherwise `None`.
    let mut open = None;
    for entry in entries {
        match entry.body {
            Body::TurnStart { turn, .. } => {
                open = Some((last, messages.len()));
                last = turn;
            }
            Body::TurnEnd { .. } => open = None,
            Body::Message { message } => messages.push(message),
            _ => {}
        }
    }
    match open {
        Some((before, n_messages)) if is_held => {
            messages.truncate(n_messages);
            (messages, before)
        }
        _ => (messages, last),
    }
}
