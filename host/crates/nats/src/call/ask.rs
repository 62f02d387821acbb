//! Sends requests to the program that has a session open (its holder), and streams the answers.

use std::time::Duration;

use async_nats::{Client, Message, StatusCode, Subscriber};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use http::{Request, Response};

use super::parts::{
    ANSWER_ID_NATS_HEADER, AnswerPartKind, decode_answer_head, encode_request_headers,
};
use super::{MAX_REQUEST_BODY_BYTES, SessionRequestMessenger};
use crate::NatsError;
use crate::worker::root_session_address;

/// Time without a part of the answer after which the program that has the session open is
/// considered dead. A live program sends a part at least every four seconds.
const ANSWER_SILENCE_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum wait for a program that holds a session's lease to announce that it answers for the
/// session.
const LEASE_HOLDER_ANNOUNCEMENT_TIMEOUT: Duration = Duration::from_millis(200);

/// Reason why a request for a session that is open in another program failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionRequestError {
    /// No program that answers requests holds the session.
    #[error("no program that answers requests from other programs has the session open")]
    NoHolder,
    /// The body of the request is larger than [`MAX_REQUEST_BODY_BYTES`].
    #[error(
        "the body of the request has more than {} KiB, the maximum for sessions that are open on another machine",
        MAX_REQUEST_BODY_BYTES >> 10
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
    /// The NATS servers cannot be reached.
    #[error(transparent)]
    Nats(#[from] NatsError),
}

/// Body of an answer, streamed in parts. It ends with an error if the holder is gone.
pub type AnswerBodyStream = BoxStream<'static, Result<Bytes, SessionRequestError>>;

impl SessionRequestMessenger {
    /// Sends a request to the program that holds a session, and returns its answer.
    ///
    /// # Errors
    /// No program holds the session, the request is too large, or no answer arrives.
    pub async fn send_session_request(
        &self,
        session: &str,
        request: Request<Bytes>,
    ) -> Result<Response<AnswerBodyStream>, SessionRequestError> {
        const WHAT: &str = "a request to the program that has a session open";
        let at = root_session_address(session)?;
        if request.body().len() > MAX_REQUEST_BODY_BYTES {
            return Err(SessionRequestError::TooLarge);
        }
        let client = self.parts.link.client();
        let inbox = client.new_inbox();
        let parts = client.subscribe(inbox.clone()).await;
        let parts = parts.map_err(|error| NatsError::nats_request_error(WHAT, error))?;
        let headers = encode_request_headers(&request);
        let sent = client.publish_with_reply_and_headers(
            self.session_requests_subject(&at),
            inbox,
            headers,
            request.into_body(),
        );
        sent.await
            .map_err(|error| NatsError::nats_request_error(WHAT, error))?;
        let mut answer = AnswerPartReader {
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
                    return read.ok_or(SessionRequestError::Unreadable);
                }
                AnswerPartKind::Body | AnswerPartKind::End => {
                    return Err(SessionRequestError::Unreadable);
                }
            }
        }
    }

    /// Whether a program has a session open and answers requests.
    ///
    /// # Errors
    /// The servers cannot be reached, or the program that has the session open does not answer.
    pub async fn is_session_held(&self, session: &str) -> Result<bool, SessionRequestError> {
        // Request the path `/`, which does not exist: even an error response proves that a program
        // holds the session.
        let mut request = Request::new(Bytes::new());
        *request.uri_mut() = http::Uri::from_static("/");
        match self.send_session_request(session, request).await {
            Ok(_) => Ok(true),
            Err(SessionRequestError::NoHolder) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl SessionRequestMessenger {
    /// Waits at most the duration `time` until a program announces that it has opened the session.
    ///
    /// # Errors
    /// The session's id is invalid, or the servers cannot be reached.
    pub async fn wait_until_session_opened(
        &self,
        session: &str,
        time: Duration,
    ) -> Result<(), NatsError> {
        let at = root_session_address(session)?;
        let mut held = self.subscribe(self.session_opened_subject(&at)).await?;
        let is_held = self.parts.leases.holder(&at).await?.is_some();
        // If a program holds the lease of the session, wait only briefly: a live program soon
        // announces that it answers for the session.
        let time = if is_held {
            time.min(LEASE_HOLDER_ANNOUNCEMENT_TIMEOUT)
        } else {
            time
        };
        let _ = tokio::time::timeout(time, held.next()).await;
        Ok(())
    }
}

/// Reader that receives the parts of an answer in order.
struct AnswerPartReader {
    client: Client,
    parts: Subscriber,
    /// Id of the answer whose part arrived first. Parts of other answers are ignored: a former
    /// holder that was paused may send a second answer.
    from: Option<String>,
}

impl AnswerPartReader {
    /// Waits for the next part of the answer and acknowledges it.
    async fn receive_next_part(
        &mut self,
    ) -> Result<(AnswerPartKind, Message), SessionRequestError> {
        let until = tokio::time::Instant::now() + ANSWER_SILENCE_TIMEOUT;
        loop {
            let next = tokio::time::timeout_at(until, self.parts.next()).await;
            let message = match next {
                Ok(Some(message)) => message,
                Ok(None) => return Err(NatsError::Ended.into()),
                Err(_) => return Err(SessionRequestError::Silent),
            };
            if message.status == Some(StatusCode::NO_RESPONDERS) {
                // The server reports that no program has the session open before any part arrives.
                // Ignore a later report.
                if self.from.is_none() {
                    return Err(SessionRequestError::NoHolder);
                }
                continue;
            }
            let headers = message.headers.as_ref();
            let from = headers.and_then(|headers| headers.get(ANSWER_ID_NATS_HEADER));
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
                None => return Err(SessionRequestError::Unreadable),
            }
        }
    }

    fn into_body(self) -> AnswerBodyStream {
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
                        return Some((Err(SessionRequestError::Unreadable), None));
                    }
                    Err(error) => return Some((Err(error), None)),
                }
            }
        });
        parts.boxed()
    }
}
