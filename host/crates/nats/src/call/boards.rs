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

use super::SessionRequestMessenger;
use crate::NatsError;
use crate::names::id_in_last_subject_token;

/// Maximum time to wait until all holders have answered with their lists of sessions (boards).
/// Holders that were killed do not answer.
const SESSION_LISTS_COLLECTION_TIMEOUT: Duration = Duration::from_millis(600);

/// Time without an answer after which the caller checks whether the lists of some programs' open
/// sessions (boards) are missing.
const SESSION_LISTS_IDLE_TIMEOUT: Duration = Duration::from_millis(20);

/// Maximum number of sessions that are on no holder's list (board) and whose leases are therefore
/// read, to check whether a program holds them.
const MAX_UNLISTED_SESSION_LEASE_READS: usize = 64;

/// Maximum number of programs whose lists of open sessions (boards) are read for one request.
const MAX_SESSION_LISTS_PER_REQUEST: usize = 1_000;

/// Maximum size of a program's list of open sessions (board), in bytes.
const MAX_OPEN_SESSION_LIST_BYTES: usize = 700 << 10;

/// Answer of a program to a request for boards: the list of the sessions that it holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProgramSessionList {
    /// Name of the holder, unique for each run of a program.
    #[serde(default)]
    pub from: String,
    /// Ids of the sessions that the program holds.
    pub sessions: Vec<String>,
    /// Data about the sessions in `sessions`, in a format of the program that has them open.
    pub told: Value,
}

/// Guard of the task that answers other programs' requests for this program's board. Dropping the
/// guard stops the task.
#[derive(Debug)]
pub struct SessionListResponderGuard(AbortHandle);

impl Drop for SessionListResponderGuard {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl SessionRequestMessenger {
    /// Answers other programs' requests for the list of sessions that this program has open, until
    /// the returned guard is dropped. `tell` returns the ids of the sessions and the data about
    /// them.
    ///
    /// # Errors
    /// The servers cannot be reached.
    pub async fn answer_session_list_requests(
        &self,
        tell: Arc<dyn Fn() -> BoxFuture<'static, (Vec<String>, Value)> + Send + Sync>,
    ) -> Result<SessionListResponderGuard, NatsError> {
        let mut requests = self.subscribe(self.session_list_requests_subject()).await?;
        let client = self.parts.link.client().clone();
        let from = self.parts.writer_name().to_owned();
        let task = tokio::spawn(async move {
            while let Some(message) = requests.next().await {
                let Some(to) = message.reply else {
                    continue;
                };
                let (sessions, told) = tell().await;
                let from = from.clone();
                let board = ProgramSessionList {
                    from,
                    sessions,
                    told,
                };
                match serde_json::to_vec(&board) {
                    Ok(board) if board.len() <= MAX_OPEN_SESSION_LIST_BYTES => {
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
        Ok(SessionListResponderGuard(task.abort_handle()))
    }

    /// Requests from all other programs the lists of the sessions that they have open (boards), and
    /// collects the answers.
    ///
    /// # Errors
    /// The servers cannot be reached.
    pub async fn collect_remote_session_lists(&self) -> Result<Vec<ProgramSessionList>, NatsError> {
        const WHAT: &str = "a question to the programs that have sessions open";
        let client = self.parts.link.client();
        let inbox = client.new_inbox();
        let answers = client.subscribe(inbox.clone()).await;
        let mut answers = answers.map_err(|error| NatsError::nats_request_error(WHAT, error))?;
        let asked =
            client.publish_with_reply(self.session_list_requests_subject(), inbox, Bytes::new());
        asked
            .await
            .map_err(|error| NatsError::nats_request_error(WHAT, error))?;
        let until = Instant::now() + SESSION_LISTS_COLLECTION_TIMEOUT;
        let mut boards: Vec<ProgramSessionList> = Vec::new();
        let mut n_messages = 0;
        while Instant::now() < until && n_messages < MAX_SESSION_LISTS_PER_REQUEST {
            n_messages += 1;
            let quiet = (Instant::now() + SESSION_LISTS_IDLE_TIMEOUT).min(until);
            match tokio::time::timeout_at(quiet, answers.next()).await {
                Ok(Some(message)) if message.status.is_some() => break,
                Ok(Some(message)) => boards.extend(serde_json::from_slice(&message.payload).ok()),
                Ok(None) => return Err(NatsError::Ended),
                Err(_) if self.lists_cover_all_held_sessions(&boards).await? => break,
                Err(_) => {}
            }
        }
        boards.retain(|board| board.from != self.parts.writer_name());
        Ok(boards)
    }

    /// Whether every session with a held lease is on one of the holders' lists (boards), or open in
    /// this program.
    async fn lists_cover_all_held_sessions(
        &self,
        boards: &[ProgramSessionList],
    ) -> Result<bool, NatsError> {
        let names = &self.parts.streams.names;
        let stream = names.lease_stream();
        let told: BTreeSet<&str> = boards
            .iter()
            .flat_map(|board| board.sessions.iter().map(String::as_str))
            .collect();
        let leases = self.parts.link.list_subjects(&stream, ">").await?;
        let missing: Vec<SessionAddress> = leases
            .iter()
            .filter_map(|lease| SessionAddress::parse(&id_in_last_subject_token(lease)))
            .filter(|at| !told.contains(at.as_str()) && !self.parts.is_open(at))
            .collect();
        if missing.len() > MAX_UNLISTED_SESSION_LEASE_READS {
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
