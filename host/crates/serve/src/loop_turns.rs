//! Runs the turns of loops in the open sessions of the server, so that clients can follow, steer
//! and interrupt these turns and answer their questions, as for turns started over HTTP.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use rind_lib::agent::TurnOutcome;
use rind_lib::host::{LoopTurnRunner, PluginLoopTurnRequest};
use rind_lib::point::payload::Source;

use crate::live::OpenSessions;

/// Runs turns of loops in the sessions of a server.
pub(crate) struct ServerLoopTurnRunner(pub(crate) Arc<OpenSessions>);

impl LoopTurnRunner for ServerLoopTurnRunner {
    fn run_turn(
        &self,
        turn: PluginLoopTurnRequest,
    ) -> BoxFuture<'static, Result<TurnOutcome, String>> {
        let sessions = self.0.clone();
        Box::pin(async move {
            let ordered = sessions.request_plugin_loop_turn(turn).await;
            let ordered = ordered.map_err(|error| error.message)?;
            let closed = |_| "the session was closed before the turn".to_owned();
            let end = ordered.outcome.await.map_err(closed)?;
            end.map_err(|error| error.text)
        })
    }

    fn steer_turn<'a>(&'a self, session: &'a str, text: String) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            let live = self.0.find_open_session(session).await;
            let number = live.and_then(|live| live.steer_turn(text, Source::LoopPlugin, false));
            number.is_some()
        })
    }
}
