//! Waits for the end of a turn that another program runs.

use std::sync::Arc;
use std::time::Duration;

use rind_lib::point::payload::TurnSummary;
use rind_lib::session::{Body, Entry, SessionStore};

use super::inbox::{SessionInboxClient, root_session_address};
use crate::setup::SESSION_LINES_STREAM_NAME_PART;
use crate::{NatsError, NatsSessions};

/// Interval between two checks whether the turn of the input has ended.
const TURN_END_POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Maximum number of dead letters that are searched for an input.
const MAX_SEARCHED_DEAD_LETTERS: usize = 1_000;

/// Output and summary of a turn that has ended, whichever program ran it.
#[derive(Clone, Debug, PartialEq)]
pub struct EndedTurnResult {
    /// Number of the turn within its session.
    pub turn: u32,
    /// Final output of the turn, for the user.
    pub output: String,
    /// Reason why the turn ended, with its tokens and cost.
    pub summary: TurnSummary,
}

impl SessionInboxClient {
    /// Waits until the turn of an input has ended, and returns its output and summary. Dropping the
    /// future does not stop the turn.
    ///
    /// # Errors
    /// Workers gave up on the input, the session cannot be read, or the servers do not answer.
    pub async fn wait_for_turn_end(
        &self,
        sessions: &NatsSessions,
        session: &str,
        input_id: &str,
    ) -> Result<EndedTurnResult, NatsError> {
        let at = root_session_address(session)?;
        let store = SessionStore::with_backend(Arc::new(sessions.clone()));
        let names = &self.parts.streams.names;
        let stream = names.stream_name(
            SESSION_LINES_STREAM_NAME_PART,
            names.partition_of_session(&at),
        );
        let subject = names.session_log_subject(&at);
        let mut seen = 0;
        loop {
            let last = self.parts.link.last_message(&stream, &subject).await?;
            let last = last.map_or(0, |last| last.sequence);
            if last > seen {
                seen = last;
                let (own, id) = (store.clone(), session.to_owned());
                let read = tokio::task::spawn_blocking(move || own.read_entries(&id)).await;
                let read = read
                    .map_err(|error| NatsError::nats_request_error("reading a session", error))?;
                if let Ok((entries, _)) = read
                    && let Some(ended) = find_ended_turn_of_input(&entries, input_id)
                {
                    return Ok(ended);
                }
            }
            self.require_not_dead_letter(session, input_id).await?;
            tokio::time::sleep(TURN_END_POLL_INTERVAL).await;
        }
    }

    /// Returns an error if the input is a dead letter, which no worker runs.
    async fn require_not_dead_letter(
        &self,
        session: &str,
        input_id: &str,
    ) -> Result<(), NatsError> {
        let at = root_session_address(session)?;
        let dead = self
            .session_dead_letters(
                &self.names.session_subject("DEAD", &at),
                MAX_SEARCHED_DEAD_LETTERS,
            )
            .await?;
        match dead.into_iter().find(|dead| dead.input == input_id) {
            None => Ok(()),
            Some(dead) => Err(NatsError::GivenUp {
                input: dead.input,
                attempts: dead.attempts,
                cause: dead.cause,
            }),
        }
    }
}

/// Finds the turn that ran the input with this id; `None` if no such turn has ended.
fn find_ended_turn_of_input(entries: &[Entry], input_id: &str) -> Option<EndedTurnResult> {
    let mut taken = None;
    for entry in entries {
        match &entry.body {
            Body::TurnStart {
                turn,
                input_id: id,
                continues,
                ..
            } => {
                // Also follow the turn that continues an interrupted turn of this input, because it
                // has a new number.
                let is_of_input = id.as_deref() == Some(input_id);
                if is_of_input || (taken.is_some() && continues.is_some()) {
                    taken = Some(*turn);
                }
            }
            Body::TurnEnd {
                turn,
                summary,
                output,
            } if taken == Some(*turn) => {
                return Some(EndedTurnResult {
                    turn: *turn,
                    output: output.clone(),
                    summary: summary.clone(),
                });
            }
            _ => {}
        }
    }
    None
}
