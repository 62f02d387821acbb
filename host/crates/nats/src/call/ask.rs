//! Sends requests to the program that has a session open (its holder), and streams the answers.

use std::time::Duration;

use async_nats::{Client, Message, StatusCode, Subscriber};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use http::{Request, Response};

use super::parts::{AnswerPartKind, FROM, decode_answer_head, request_headers};
use super::{MAX_CALL_BYTES, SessionRequests};
use crate::NatsError;
use crate::worker::root_session_address;

/// Time without a part of the answer after which the program that has the session open is
/// considered dead. A live program sends a part at least every four seconds.
const SILENCE: Duration = Duration::from_secs(10);

/// Maximum wait for a program that holds a session's lease to announce that it answers for the
/// session.
const OPENING: Duration = Duration::from_millis(200);

/// Reason why a call failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// No program holds the session.
    #[error("the session is open in no program that answers requests from other programs")]
    NoHolder,
    /// The body of the request is larger than [`MAX_CALL_BYTES`].
    #[error(
        "the body of the request has more than {} KiB, the maximum for sessions that are open on another machine",
        MAX_CALL_BYTES >> 10
    )]
    TooLarge,
    /// The holder did not answer in time, but it may have carried out the request.
    #[error(
        "the program that has the session open does not answer; it may have received the request. If it died, another \
         worker continues the session soon"
    )]
    Silent,
    /// The answer does not follow the format of answers between programs.
    #[error("the program that has the session open gave an answer that cannot be read")]
    Unreadable,
    /// The servers cannot be reached.
    #[error(transparent)]
    Nats(#[from] NatsError),
}

/// Body of an answer, streamed in parts. It ends with an error if the holder is gone.
pub type CallBody = BoxStream<'static, Result<Bytes, CallError>>;

impl SessionRequests {
    /// Sends a request to the program that holds a session, and returns its answer.
    ///
    /// # Errors
    /// No program holds the session, the request is too large, or no answer arrives.
    pub async fn ask(
        &self,
        session: &str,
        request: Request<Bytes>,
    ) -> Result<Response<CallBody>, CallError> {
        const WHAT: &str = "a request to the program that has a session open";
        let at = root_session_address(session)?;
        if request.body().len() > MAX_CALL_BYTES {
            return Err(CallError::TooLarge);
        }
        let client = self.parts.link.client();
        let inbox = client.new_inbox();
        let parts = client.subscribe(inbox.clone()).await;
        let parts = parts.map_err(|error| NatsError::nats_request_error(WHAT, error))?;
        let headers = request_headers(&request);
        let sent = client.publish_with_reply_and_headers(
            self.subject(&at),
            inbox,
            headers,
            request.into_body(),
        );
        sent.await
            .map_err(|error| NatsError::nats_request_error(WHAT, error))?;
        let mut answer = AnswerReader {
            client: client.clone(),
            parts,
            from: None,
        };
        loop {
            let (kind, message) = answer.receive_next_part().await?;
            match kind {
                AnswerPartKind::Wait => {}
                AnswerPartKind::Head => {
                    let headers = message.headers.unwrap_or_default();
                    let read = decode_answer_head(&headers, answer.into_body());
                    return read.ok_or(CallError::Unreadable);
                }
                AnswerPartKind::Body | AnswerPartKind::End => return Err(CallError::Unreadable),
            }
        }
    }

    /// Whether a program has a session open and answers requests.
    ///
    /// # Errors
    /// The servers cannot be reached, or the program that has the session open does not answer.
    pub async fn is_session_held(&self, session: &str) -> Result<bool, CallError> {
        // Request the path `/`, which does not exist: even an error response proves that a program
        // holds the session.
        let mut request = Request::new(Bytes::new());
        *request.uri_mut() = http::Uri::from_static("/");
        match self.ask(session, request).await {
            Ok(_) => Ok(true),
            Err(CallError::NoHolder) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl SessionRequests {
    /// Waits at most the duration `time` until a program announces that it has opened the session.
    ///
    /// # Errors
    /// The session's id is invalid, or the servers cannot be reached.
    pub async fn wait_for_holder(&self, session: &str, time: Duration) -> Result<(), NatsError> {
        let at = root_session_address(session)?;
        let mut held = self.subscribe(self.session_held_subject(&at)).await?;
        let is_held = self.parts.leases.holder(&at).await?.is_some();
        // If a program holds the lease of the session, wait only briefly: a live program soon
        // announces that it answers for the session.
        let time = if is_held { time.min(OPENING) } else { time };
        let _ = tokio::time::timeout(time, held.next()).await;
        Ok(())
    }
}

/// Reader of the parts of an answer.
struct AnswerReader {
    client: Client,
    parts: Subscriber,
    /// Id of the answer whose part arrived first. Parts of other answers are ignored: a former
    /// holder that was paused may send a second answer.
    from: Option<String>,
}

impl AnswerReader {
    /// Waits for the next part of the answer and acknowledges it.
    async fn receive_next_part(&mut self) -> Result<(AnswerPartKind, Message), CallError> {
        let until = tokio::time::Instant::now() + SILENCE;
        loop {
            let next = tokio::time::timeout_at(until, self.parts.next()).await;
            let message = match next {
                Ok(Some(message)) => message,
                Ok(None) => return Err(NatsError::Ended.into()),
                Err(_) => return Err(CallError::Silent),
            };
            if message.status == Some(StatusCode::NO_RESPONDERS) {
                // The server reports that no program has the session open before any part arrives.
                // Ignore a later report.
                if self.from.is_none() {
                    return Err(CallError::NoHolder);
                }
                continue;
            }
            let headers = message.headers.as_ref();
            let from = headers.and_then(|headers| headers.get(FROM));
            let Some(from) = from.map(async_nats::HeaderValue::as_str) else {
                continue;
            };
            if self.from.get_or_insert_with(|| from.to_owned()) != from {
                continue;
            }
            let kind = headers.and_then(AnswerPartKind::from_headers);
            if let Some(reply) = message.reply.clone() {
                let _ = self.client.publish(reply, Bytes::new()).await;
            }
            match kind {
                Some(kind) => return Ok((kind, message)),
                None => return Err(CallError::Unreadable),
            }
        }
    }

    fn into_body(self) -> CallBody {
        let parts = stream::unfold(Some(self), |reader| async move {
            let mut reader = reader?;
            loop {
                match reader.receive_next_part().await {
                    Ok((AnswerPartKind::Wait, _)) => {}
                    Ok((AnswerPartKind::Body, message)) => {
                        return Some((Ok(message.payload), Some(reader)));
                    }
                    Ok((AnswerPartKind::End, _)) => return None,
                    Ok((AnswerPartKind::Head, _)) => {
                        return Some((Err(CallError::Unreadable), None));
                    }
                    Err(error) => return Some((Err(error), None)),
                }
            }
        });
        parts.boxed()
    }
}
