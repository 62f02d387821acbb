//! The holder's side of calls: answers requests for the sessions that this program holds.

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

use super::SessionCalls;
use super::parts::{FROM, PART, PATH, PartKind, head_headers, read_request};
use crate::NatsError;
use crate::worker::root_address;

/// Interval at which a caller is notified that the answer takes longer.
const BEAT: Duration = Duration::from_secs(4);

/// Timeout for the caller's acknowledgment of a part.
const TAKEN: Duration = Duration::from_secs(20);

/// Maximum size of a part of an answer, in bytes.
const PART_BYTES: usize = 256 << 10;

/// Handler of requests for a session.
pub trait CallHandler: Send + Sync {
    /// Answers a request. The future or the body is dropped if the caller is gone.
    fn answer(
        &self,
        session: &str,
        request: Request<Bytes>,
    ) -> BoxFuture<'static, Response<BoxStream<'static, Bytes>>>;
}

/// Keeps answering requests for a session until it is dropped.
#[derive(Debug)]
pub struct AnsweredSession(AbortHandle);

impl Drop for AnsweredSession {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Error: the caller no longer waits for the answer.
struct CallerDropped;

impl SessionCalls {
    /// Answers requests for a session that this program holds, until the result is dropped.
    ///
    /// # Errors
    /// The session's id is invalid, or the servers cannot be reached.
    pub async fn answer(
        &self,
        session: &str,
        handler: Arc<dyn CallHandler>,
    ) -> Result<AnsweredSession, NatsError> {
        let at = root_address(session)?;
        let mut requests = self.subscribe(self.subject(&at)).await?;
        let held = self.held_subject(&at);
        // Notifies readers that already wait for the session; later ones find the holder when they
        // call.
        if let Err(error) = self.parts.link.client().publish(held, Bytes::new()).await {
            tracing::debug!(%error, "readers that wait for a session find out late that it is open here");
        }
        let own = self.clone();
        let task = tokio::spawn(async move {
            // Each answer runs in a task of its own, so it is still completed after the session is
            // closed.
            while let Some(message) = requests.next().await {
                own.begin_answer(&at, message, &handler);
            }
        });
        Ok(AnsweredSession(task.abort_handle()))
    }

    /// Subscribes, and waits until the server has processed the subscription.
    pub(super) async fn subscribe(
        &self,
        subject: String,
    ) -> Result<async_nats::Subscriber, NatsError> {
        const WHAT: &str = "a subscription to requests";
        let client = self.parts.link.client();
        let subscribed = client.subscribe(subject).await;
        let subscribed = subscribed.map_err(|error| NatsError::unanswered(WHAT, error))?;
        let flushed = client.flush().await;
        flushed.map_err(|error| NatsError::unanswered(WHAT, error))?;
        Ok(subscribed)
    }

    fn begin_answer(&self, at: &SessionAddress, message: Message, handler: &Arc<dyn CallHandler>) {
        let Some(to) = message.reply else {
            return;
        };
        let caller = Caller {
            client: self.parts.link.client().clone(),
            to,
            from: uuid::Uuid::new_v4().to_string(),
        };
        let headers = message.headers.unwrap_or_default();
        let path = headers.get(PATH).map_or("", |path| path.as_str());
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
                let _ = caller.refuse(http::StatusCode::TOO_MANY_REQUESTS).await;
            });
            return;
        };
        let answer = read_request(&headers, message.payload)
            .map(|request| handler.answer(at.as_str(), request));
        tokio::spawn(async move {
            let sent = match answer {
                Some(answer) => caller.send_answer(answer).await,
                None => caller.refuse(http::StatusCode::BAD_REQUEST).await,
            };
            if sent.is_err() {
                tracing::debug!("a caller left before the end of its answer");
            }
            drop(permit);
        });
    }
}

/// The program that sent a request, and the subject for the answer.
struct Caller {
    client: Client,
    to: async_nats::Subject,
    /// Id of this answer, because several programs may answer one request.
    from: String,
}

impl Caller {
    async fn send_answer(
        &self,
        mut answer: BoxFuture<'static, Response<BoxStream<'static, Bytes>>>,
    ) -> Result<(), CallerDropped> {
        let mut beat = tokio::time::interval_at(tokio::time::Instant::now() + BEAT, BEAT);
        let answer = loop {
            tokio::select! {
                answer = &mut answer => break answer,
                _ = beat.tick() => self.send_empty(PartKind::Wait).await?,
            }
        };
        let head = head_headers(&answer);
        self.send(PartKind::Head, head, Bytes::new()).await?;
        let mut body = answer.into_body();
        loop {
            let next = tokio::select! {
                next = body.next() => next,
                _ = beat.tick() => {
                    self.send_empty(PartKind::Wait).await?;
                    continue;
                }
            };
            let Some(mut bytes) = next else {
                return self.send_empty(PartKind::End).await;
            };
            while !bytes.is_empty() {
                let part = bytes.split_to(bytes.len().min(PART_BYTES));
                self.send(PartKind::Body, HeaderMap::new(), part).await?;
            }
        }
    }

    async fn refuse(&self, status: http::StatusCode) -> Result<(), CallerDropped> {
        let mut answer = Response::new(());
        *answer.status_mut() = status;
        let head = head_headers(&answer);
        self.send(PartKind::Head, head, Bytes::new()).await?;
        self.send_empty(PartKind::End).await
    }

    async fn send_empty(&self, kind: PartKind) -> Result<(), CallerDropped> {
        self.send(kind, HeaderMap::new(), Bytes::new()).await
    }

    /// Sends a part and waits for the caller's acknowledgment.
    async fn send(
        &self,
        kind: PartKind,
        mut headers: HeaderMap,
        payload: Bytes,
    ) -> Result<(), CallerDropped> {
        headers.insert(PART, kind.name());
        headers.insert(FROM, self.from.as_str());
        let part = async_nats::Request::new()
            .headers(headers)
            .payload(payload)
            .timeout(Some(TAKEN));
        let taken = self.client.send_request(self.to.clone(), part).await;
        taken.map(drop).map_err(|_| CallerDropped)
    }
}
