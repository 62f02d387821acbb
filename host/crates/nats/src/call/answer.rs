//! Answers requests for the sessions that this program has open.

use std::sync::Arc;
use std::time::Duration;

use async_nats::{Client, HeaderMap, Message};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use http::{Request, Response};
use rind_lib::session::SessionAddress;
use tokio::task::AbortHandle;

use super::SessionRequestMessenger;
use super::parts::{
    ANSWER_ID_NATS_HEADER, ANSWER_PART_KIND_NATS_HEADER, AnswerPartKind, HTTP_PATH_NATS_HEADER,
    decode_request, encode_answer_headers,
};
use crate::NatsError;
use crate::worker::root_session_address;

/// Interval at which the session's holder notifies the caller that it is still preparing the answer
/// to the request.
const ANSWER_HEARTBEAT_INTERVAL: Duration = Duration::from_secs(4);

/// Maximum time for the caller to acknowledge a part of an answer.
const ANSWER_PART_ACK_TIMEOUT: Duration = Duration::from_secs(20);

/// Maximum size of a part of an answer, in bytes.
const MAX_ANSWER_PART_BYTES: usize = 256 << 10;

/// Answers the requests of other programs for a session that this program holds.
pub trait SessionRequestHandler: Send + Sync {
    /// Answers a request. The future or the body is dropped if the caller is gone.
    fn answer(
        &self,
        session: &str,
        request: Request<Bytes>,
    ) -> BoxFuture<'static, Response<BoxStream<'static, Bytes>>>;
}

/// Guard of the task that answers requests for a session. Dropping the guard stops the task.
#[derive(Debug)]
pub struct SessionRequestTaskGuard(AbortHandle);

impl Drop for SessionRequestTaskGuard {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Error for a caller that no longer waits for the answer.
struct CallerNoLongerWaitsError;

impl SessionRequestMessenger {
    /// Answers requests for a session that this program has open, until the returned guard is
    /// dropped.
    ///
    /// # Errors
    /// The session's id is invalid, or the servers cannot be reached.
    pub async fn answer_session_requests(
        &self,
        session: &str,
        handler: Arc<dyn SessionRequestHandler>,
    ) -> Result<SessionRequestTaskGuard, NatsError> {
        let at = root_session_address(session)?;
        let mut requests = self.subscribe(self.session_requests_subject(&at)).await?;
        let held = self.session_opened_subject(&at);
        // Notify the programs that already wait for the session. Later programs find the holder
        // when they send a request.
        if let Err(error) = self.parts.link.client().publish(held, Bytes::new()).await {
            tracing::debug!(%error, "programs that wait for this session were not notified that it is open here; they notice it later");
        }
        let own = self.clone();
        let task = tokio::spawn(async move {
            // Answer each request in a task of its own, so that the answer is completed even after
            // the session is closed.
            while let Some(message) = requests.next().await {
                own.spawn_answer_task(&at, message, &handler);
            }
        });
        Ok(SessionRequestTaskGuard(task.abort_handle()))
    }

    /// Subscribes, and waits until the server has processed the subscription.
    pub(super) async fn subscribe(
        &self,
        subject: String,
    ) -> Result<async_nats::Subscriber, NatsError> {
        const WHAT: &str = "a subscription to requests";
        let client = self.parts.link.client();
        let subscribed = client.subscribe(subject).await;
        let subscribed = subscribed.map_err(|error| NatsError::nats_request_error(WHAT, error))?;
        let flushed = client.flush().await;
        flushed.map_err(|error| NatsError::nats_request_error(WHAT, error))?;
        Ok(subscribed)
    }

    fn spawn_answer_task(
        &self,
        at: &SessionAddress,
        message: Message,
        handler: &Arc<dyn SessionRequestHandler>,
    ) {
        let Some(to) = message.reply else {
            return;
        };
        let caller = RequestReplyChannel {
            client: self.parts.link.client().clone(),
            to,
            from: uuid::Uuid::new_v4().to_string(),
        };
        let headers = message.headers.unwrap_or_default();
        let path = headers
            .get(HTTP_PATH_NATS_HEADER)
            .map_or("", |path| path.as_str());
        let is_stream = path
            .split('?')
            .next()
            .is_some_and(|path| path.ends_with("/events"));
        let permits = match is_stream {
            true => &self.streaming,
            false => &self.answering,
        };
        let Ok(permit) = permits.clone().try_acquire_owned() else {
            tokio::spawn(async move {
                let _ = caller
                    .send_refusal(http::StatusCode::TOO_MANY_REQUESTS)
                    .await;
            });
            return;
        };
        let answer = decode_request(&headers, message.payload)
            .map(|request| handler.answer(at.as_str(), request));
        tokio::spawn(async move {
            let sent = match answer {
                Some(answer) => caller.send_answer(answer).await,
                None => caller.send_refusal(http::StatusCode::BAD_REQUEST).await,
            };
            if sent.is_err() {
                tracing::debug!("a caller left before the end of its answer");
            }
            drop(permit);
        });
    }
}

/// Connection and subject by which the answer to a request is sent to the caller.
struct RequestReplyChannel {
    client: Client,
    to: async_nats::Subject,
    /// Id of the answer of this program, by which the caller distinguishes the answers of several
    /// programs.
    from: String,
}

impl RequestReplyChannel {
    async fn send_answer(
        &self,
        mut answer: BoxFuture<'static, Response<BoxStream<'static, Bytes>>>,
    ) -> Result<(), CallerNoLongerWaitsError> {
        let mut beat = tokio::time::interval_at(
            tokio::time::Instant::now() + ANSWER_HEARTBEAT_INTERVAL,
            ANSWER_HEARTBEAT_INTERVAL,
        );
        let answer = loop {
            tokio::select! {
                answer = &mut answer => break answer,
                _ = beat.tick() => self.send_empty_answer_part(AnswerPartKind::Wait).await?,
            }
        };
        let head = encode_answer_headers(&answer);
        self.send(AnswerPartKind::Head, head, Bytes::new()).await?;
        let mut body = answer.into_body();
        loop {
            let next = tokio::select! {
                next = body.next() => next,
                _ = beat.tick() => {
                    self.send_empty_answer_part(AnswerPartKind::Wait).await?;
                    continue;
                }
            };
            let Some(mut bytes) = next else {
                return self.send_empty_answer_part(AnswerPartKind::End).await;
            };
            while !bytes.is_empty() {
                let part = bytes.split_to(bytes.len().min(MAX_ANSWER_PART_BYTES));
                self.send(AnswerPartKind::Body, HeaderMap::new(), part)
                    .await?;
            }
        }
    }

    async fn send_refusal(&self, status: http::StatusCode) -> Result<(), CallerNoLongerWaitsError> {
        let mut answer = Response::new(());
        *answer.status_mut() = status;
        let head = encode_answer_headers(&answer);
        self.send(AnswerPartKind::Head, head, Bytes::new()).await?;
        self.send_empty_answer_part(AnswerPartKind::End).await
    }

    async fn send_empty_answer_part(
        &self,
        kind: AnswerPartKind,
    ) -> Result<(), CallerNoLongerWaitsError> {
        self.send(kind, HeaderMap::new(), Bytes::new()).await
    }

    /// Sends a part of an answer, and waits until the caller has acknowledged it.
    async fn send(
        &self,
        kind: AnswerPartKind,
        mut headers: HeaderMap,
        payload: Bytes,
    ) -> Result<(), CallerNoLongerWaitsError> {
        headers.insert(ANSWER_PART_KIND_NATS_HEADER, kind.name());
        headers.insert(ANSWER_ID_NATS_HEADER, self.from.as_str());
        let part = async_nats::Request::new()
            .headers(headers)
            .payload(payload)
            .timeout(Some(ANSWER_PART_ACK_TIMEOUT));
        let taken = self.client.send_request(self.to.clone(), part).await;
        taken.map(drop).map_err(|_| CallerNoLongerWaitsError)
    }
}
