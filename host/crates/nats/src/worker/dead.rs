//! Manages dead letters: inputs whose turns failed repeatedly. They are stored with the cause, and
//! no longer block later inputs.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::inbox::{QueuedInput, SessionInboxClient, root_session_address};
use crate::NatsError;
use crate::names::id_in_last_subject_token;
use rind_lib::session::SessionAddress;

/// Maximum length of the stored reason for a dead letter, in bytes.
const MAX_DEAD_LETTER_CAUSE_BYTES: usize = 2_000;

/// Dead letter: an input that no worker tries again, and the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLetter {
    /// Id of the session to which the input was sent.
    #[serde(default)]
    pub session: String,
    /// Id of the input that no worker tries again.
    pub input: String,
    /// Text of that input.
    pub text: String,
    /// Class of the workers that tried to run the input.
    pub class: String,
    /// Number of attempts to run the input.
    pub attempts: u32,
    /// Reason why the last attempt to run the input failed, with control characters removed.
    pub cause: String,
    /// Time at which workers gave up on the input, in milliseconds since 1970.
    pub time: i64,
}

/// Number of attempts to run the first queued input of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct QueuedInputAttempts {
    pub(crate) sequence: u64,
    pub(crate) attempts: u32,
    pub(crate) cause: String,
}

impl SessionInboxClient {
    /// Returns how often workers have tried to run an input, and why the last attempt failed.
    pub(crate) async fn recorded_attempts(
        &self,
        at: &SessionAddress,
        input: &QueuedInput,
    ) -> Result<QueuedInputAttempts, NatsError> {
        let subject = self.names.session_subject("TRY", at);
        let last = self
            .parts
            .link
            .last_message(&self.names.stream_name("TRY"), &subject)
            .await?;
        let known =
            last.and_then(|last| serde_json::from_slice::<QueuedInputAttempts>(&last.payload).ok());
        let of_input = known.filter(|known| known.sequence == input.sequence);
        Ok(of_input.unwrap_or(QueuedInputAttempts {
            sequence: input.sequence,
            attempts: 0,
            cause: String::new(),
        }))
    }

    /// Records how often workers have tried to run an input, and why the last attempt failed.
    pub(crate) async fn record_input_attempts(
        &self,
        at: &SessionAddress,
        attempts: &QueuedInputAttempts,
    ) -> Result<(), NatsError> {
        let payload = encode_json(attempts)?;
        let subject = self.names.session_subject("TRY", at);
        self.publish_with_retries(subject, async_nats::HeaderMap::new(), payload)
            .await
    }

    /// Moves an input of a session to the dead letters, so that no worker tries it again.
    pub(crate) async fn move_to_dead_letters(
        &self,
        at: &SessionAddress,
        input: &QueuedInput,
        attempts: &QueuedInputAttempts,
    ) -> Result<(), NatsError> {
        let cause = match attempts.cause.is_empty() {
            true => "every worker that ran it ended in the middle of the turn",
            false => attempts.cause.as_str(),
        };
        let payload = encode_json(&DeadLetter {
            session: at.as_str().to_owned(),
            input: input.id.clone(),
            text: input.text.clone(),
            class: input.class.clone(),
            attempts: attempts.attempts,
            cause: rind_lib::text::escape_and_truncate_line(cause, MAX_DEAD_LETTER_CAUSE_BYTES),
            time: rind_lib::clock::now_ms(),
        })?;
        let subject = self.names.session_subject("DEAD", at);
        self.publish_with_retries(subject, async_nats::HeaderMap::new(), payload)
            .await?;
        self.remove_inputs_through(at, input).await
    }

    /// Returns the dead letters, at most `limit` for each session.
    ///
    /// # Errors
    /// The servers do not answer.
    pub async fn list_dead_letters(&self, limit: usize) -> Result<Vec<DeadLetter>, NatsError> {
        let stream = self.names.stream_name("DEAD");
        let mut dead = Vec::new();
        for subject in self.parts.link.list_subjects(&stream, ">").await? {
            dead.extend(self.session_dead_letters(&subject, limit).await?);
        }
        dead.sort_by_key(|dead| dead.time);
        Ok(dead)
    }

    /// Returns at most `limit` dead letters of the session with this subject, the oldest first.
    pub(crate) async fn session_dead_letters(
        &self,
        subject: &str,
        limit: usize,
    ) -> Result<Vec<DeadLetter>, NatsError> {
        let (stream, session) = (
            self.names.stream_name("DEAD"),
            id_in_last_subject_token(subject),
        );
        let (mut dead, mut from) = (Vec::new(), 1);
        while dead.len() < limit
            && let Some(message) = self
                .parts
                .link
                .first_message_from_sequence(&stream, subject, from)
                .await?
        {
            from = message.sequence + 1;
            if let Ok(found) = serde_json::from_slice::<DeadLetter>(&message.payload) {
                // Sanitize the cause, because any client that may publish can store a dead letter.
                dead.push(DeadLetter {
                    session: session.clone(),
                    cause: rind_lib::text::escape_and_truncate_line(
                        &found.cause,
                        MAX_DEAD_LETTER_CAUSE_BYTES,
                    ),
                    ..found
                });
            }
        }
        Ok(dead)
    }

    /// Sends the dead letters of a session again in their order, and returns their number. The
    /// inputs get new ids, because turns with the old ids have already begun in the session and
    /// other turns may have followed.
    ///
    /// # Errors
    /// The session's id is invalid, or the servers do not answer.
    pub async fn resend_dead_letters(&self, session: &str) -> Result<usize, NatsError> {
        let at = root_session_address(session)?;
        let (stream, subject) = (
            self.names.stream_name("DEAD"),
            self.names.session_subject("DEAD", &at),
        );
        let mut n_sent = 0;
        while let Some(message) = self
            .parts
            .link
            .first_message_from_sequence(&stream, &subject, 1)
            .await?
        {
            if let Ok(dead) = serde_json::from_slice::<DeadLetter>(&message.payload) {
                let id = rind_lib::clock::new_uuid_v7();
                self.send(session, &dead.class, &id, &dead.text).await?;
                n_sent += 1;
            }
            let link = &self.parts.link;
            link.purge_subject_before(&stream, &subject, message.sequence + 1)
                .await?;
        }
        Ok(n_sent)
    }
}

fn encode_json(value: &impl Serialize) -> Result<Bytes, NatsError> {
    let encoded = serde_json::to_vec(value);
    encoded
        .map(Bytes::from)
        .map_err(|error| NatsError::nats_request_error("a message of the queue", error))
}
