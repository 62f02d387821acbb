//! Lists the open sessions of all programs: each program answers a request with its board, the list
//! of the sessions that it holds.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use rind_lib::session::SessionAddress;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::SessionCalls;
use crate::NatsError;
use crate::names::id_in_last_subject_token;

/// Maximum time to wait for the boards of all holders. Holders that were killed do not answer.
const WINDOW: Duration = Duration::from_millis(600);

/// Time without an answer after which the caller checks whether boards are missing.
const QUIET: Duration = Duration::from_millis(20);

/// Maximum number of sessions without a board whose leases are read, to check whether a program
/// holds them.
const MAX_LOOKED_AT: usize = 64;

/// Maximum number of boards that are read for one request.
const MAX_BOARDS: usize = 1_000;

/// Maximum size of a board, in bytes.
const MAX_BOARD_BYTES: usize = 700 << 10;

/// Answer of a program to a request for boards: the list of the sessions that it holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HeldSessionsBoard {
    /// Name of the holder, unique for each run of a program.
    #[serde(default)]
    pub from: String,
    /// Ids of the sessions that the program holds.
    pub sessions: Vec<String>,
    /// Data about these sessions, in the holder's own format.
    pub told: Value,
}

/// Guard of the task that answers requests for boards. Dropping the guard stops the task.
#[derive(Debug)]
pub struct BoardAnswerTaskGuard(AbortHandle);

impl Drop for BoardAnswerTaskGuard {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl SessionCalls {
    /// Answers requests for this program's board until the returned guard is dropped. `tell`
    /// returns the ids of the sessions and the data about them.
    ///
    /// # Errors
    /// The servers cannot be reached.
    pub async fn answer_board_requests(
        &self,
        tell: Arc<dyn Fn() -> BoxFuture<'static, (Vec<String>, Value)> + Send + Sync>,
    ) -> Result<BoardAnswerTaskGuard, NatsError> {
        let mut requests = self.subscribe(self.board_requests_subject()).await?;
        let client = self.parts.link.client().clone();
        let from = self.parts.writer().to_owned();
        let task = tokio::spawn(async move {
            while let Some(message) = requests.next().await {
                let Some(to) = message.reply else {
                    continue;
                };
                let (sessions, told) = tell().await;
                let from = from.clone();
                let board = HeldSessionsBoard {
                    from,
                    sessions,
                    told,
                };
                match serde_json::to_vec(&board) {
                    Ok(board) if board.len() <= MAX_BOARD_BYTES => {
                        let _ = client.publish(to, Bytes::from(board)).await;
                    }
                    Ok(board) => {
                        tracing::warn!(
                            bytes = board.len(),
                            "the list of open sessions is too long to be sent"
                        );
                    }
                    Err(error) => {
                        tracing::warn!(%error, "the list of open sessions cannot be sent")
                    }
                }
            }
        });
        Ok(BoardAnswerTaskGuard(task.abort_handle()))
    }

    /// Requests and collects the boards of all other programs.
    ///
    /// # Errors
    /// The servers cannot be reached.
    pub async fn request_other_holders_boards(&self) -> Result<Vec<HeldSessionsBoard>, NatsError> {
        const WHAT: &str = "a question to the programs that have sessions open";
        let client = self.parts.link.client();
        let inbox = client.new_inbox();
        let answers = client.subscribe(inbox.clone()).await;
        let mut answers = answers.map_err(|error| NatsError::nats_request_error(WHAT, error))?;
        let asked = client.publish_with_reply(self.board_requests_subject(), inbox, Bytes::new());
        asked
            .await
            .map_err(|error| NatsError::nats_request_error(WHAT, error))?;
        let until = Instant::now() + WINDOW;
        let mut boards: Vec<HeldSessionsBoard> = Vec::new();
        let mut n_messages = 0;
        while Instant::now() < until && n_messages < MAX_BOARDS {
            n_messages += 1;
            let quiet = (Instant::now() + QUIET).min(until);
            match tokio::time::timeout_at(quiet, answers.next()).await {
                Ok(Some(message)) if message.status.is_some() => break,
                Ok(Some(message)) => boards.extend(serde_json::from_slice(&message.payload).ok()),
                Ok(None) => return Err(NatsError::Ended),
                Err(_) if self.do_boards_cover_held_sessions(&boards).await? => break,
                Err(_) => {}
            }
        }
        boards.retain(|board| board.from != self.parts.writer());
        Ok(boards)
    }

    /// Whether every session with a held lease is on a board or open in this program.
    async fn do_boards_cover_held_sessions(
        &self,
        boards: &[HeldSessionsBoard],
    ) -> Result<bool, NatsError> {
        let names = &self.parts.streams.names;
        let stream = names.lease_stream();
        let told: BTreeSet<&str> = boards
            .iter()
            .flat_map(|board| board.sessions.iter().map(String::as_str))
            .collect();
        let leases = self.parts.link.subjects(&stream, ">").await?;
        let missing: Vec<SessionAddress> = leases
            .iter()
            .filter_map(|lease| SessionAddress::parse(&id_in_last_subject_token(lease)))
            .filter(|at| !told.contains(at.as_str()) && !self.parts.is_open(at))
            .collect();
        if missing.len() > MAX_LOOKED_AT {
            return Ok(false);
        }
        for at in missing {
            if self.parts.leases.holder(&at).await?.is_some() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
