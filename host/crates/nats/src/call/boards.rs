//! Boards: when a program lists all sessions, each holder answers with a list of its own sessions.

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
use crate::names::last_id;

/// Maximum time to wait for the boards of all holders. Holders that were killed do not answer.
const WINDOW: Duration = Duration::from_millis(600);

/// Pause without an answer after which the caller checks whether boards are missing.
const QUIET: Duration = Duration::from_millis(20);

/// Maximum number of missing sessions whose leases are read to check whether they have a holder.
const MAX_LOOKED_AT: usize = 64;

/// Maximum number of answers that are read.
const MAX_BOARDS: usize = 1_000;

/// Maximum size of a board, in bytes.
const MAX_BOARD_BYTES: usize = 700 << 10;

/// Answer of a holder: the sessions that it holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HolderBoard {
    /// Name of the holder, unique for each run of a program.
    #[serde(default)]
    pub from: String,
    /// Ids of the sessions that the program holds.
    pub sessions: Vec<String>,
    /// Data about these sessions, in the holder's own format.
    pub told: Value,
}

/// Keeps answering requests for boards until it is dropped.
#[derive(Debug)]
pub struct AnsweredBoards(AbortHandle);

impl Drop for AnsweredBoards {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl SessionCalls {
    /// Answers requests for this program's board until the result is dropped. `tell` returns the
    /// ids of the sessions and the data about them.
    ///
    /// # Errors
    /// The servers cannot be reached.
    pub async fn answer_boards(
        &self,
        tell: Arc<dyn Fn() -> BoxFuture<'static, (Vec<String>, Value)> + Send + Sync>,
    ) -> Result<AnsweredBoards, NatsError> {
        let mut requests = self.subscribe(self.boards_subject()).await?;
        let client = self.parts.link.client().clone();
        let from = self.parts.writer().to_owned();
        let task = tokio::spawn(async move {
            while let Some(message) = requests.next().await {
                let Some(to) = message.reply else {
                    continue;
                };
                let (sessions, told) = tell().await;
                let from = from.clone();
                let board = HolderBoard {
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
        Ok(AnsweredBoards(task.abort_handle()))
    }

    /// Collects the boards of all other holders.
    ///
    /// # Errors
    /// The servers cannot be reached.
    pub async fn boards(&self) -> Result<Vec<HolderBoard>, NatsError> {
        const WHAT: &str = "a question to the programs that have sessions open";
        let client = self.parts.link.client();
        let inbox = client.new_inbox();
        let answers = client.subscribe(inbox.clone()).await;
        let mut answers = answers.map_err(|error| NatsError::unanswered(WHAT, error))?;
        let asked = client.publish_with_reply(self.boards_subject(), inbox, Bytes::new());
        asked
            .await
            .map_err(|error| NatsError::unanswered(WHAT, error))?;
        let until = Instant::now() + WINDOW;
        let mut boards: Vec<HolderBoard> = Vec::new();
        let mut n_messages = 0;
        while Instant::now() < until && n_messages < MAX_BOARDS {
            n_messages += 1;
            let quiet = (Instant::now() + QUIET).min(until);
            match tokio::time::timeout_at(quiet, answers.next()).await {
                Ok(Some(message)) if message.status.is_some() => break,
                Ok(Some(message)) => boards.extend(serde_json::from_slice(&message.payload).ok()),
                Ok(None) => return Err(NatsError::Ended),
                Err(_) if self.are_complete(&boards).await? => break,
                Err(_) => {}
            }
        }
        boards.retain(|board| board.from != self.parts.writer());
        Ok(boards)
    }

    /// Whether every session with a held lease is on a board or open in this program.
    async fn are_complete(&self, boards: &[HolderBoard]) -> Result<bool, NatsError> {
        let names = &self.parts.streams.names;
        let stream = names.lease_stream();
        let told: BTreeSet<&str> = boards
            .iter()
            .flat_map(|board| board.sessions.iter().map(String::as_str))
            .collect();
        let leases = self.parts.link.subjects(&stream, ">").await?;
        let missing: Vec<SessionAddress> = leases
            .iter()
            .filter_map(|lease| SessionAddress::parse(&last_id(lease)))
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
