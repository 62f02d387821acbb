//! Passes a response that is an event stream (`text/event-stream`) to the caller line by line as it
//! arrives.
//!
//! A server that asks a question or reports progress during a request keeps the response open. If
//! the host read the response to its end first, the question would never be answered. Secrets are
//! masked in complete lines: a secret in a header contains no line break, so none spans two lines.
//!
//! Start from [`PluginSessionEgress::open_event_stream`].

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use http::HeaderMap;
use http::header::CONTENT_TYPE;

use super::budget::ConcurrentRequestPermit;
use super::error::Error;
use super::mask::CredentialMasker;
use super::record::UnwrittenAccessRecord;
use super::send::UnreadResponse;
use super::{EgressRequest, EgressResponse, MAX_RESPONSE_BODY_BYTES, PluginSessionEgress};
use crate::point::trace::Origin;

/// Media type of a response that is a stream of server-sent events.
const EVENT_STREAM_MEDIA_TYPE: &str = "text/event-stream";

/// Purpose of a stream of events, which decides whether it counts as a request or as a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventStreamPurpose {
    /// Stream that ends with the answer to one request, and counts as a request in progress.
    Answer,
    /// Stream that stays open like a WebSocket, and counts as a connection.
    Standing,
}

/// Answer to a request: a complete response, or a stream of events.
pub enum EgressResponseOrStream {
    /// Response that was received completely.
    Whole(EgressResponse),
    /// Response that is a stream of events, which are received one by one.
    Events(EventStreamResponse),
}

/// A stream of events, with the plugin's credentials masked. It counts against the limit on
/// concurrent requests or connections until it is dropped.
pub struct EventStreamResponse {
    /// HTTP status code of the response.
    pub status: u16,
    /// Headers of the response, without those that concern the connection.
    pub headers: HeaderMap,
    /// Complete lines of the response body as they arrive; in total at most
    /// [`MAX_RESPONSE_BODY_BYTES`] before masking.
    pub lines: BoxStream<'static, Result<Bytes, Error>>,
}

impl PluginSessionEgress {
    /// Sends a request as [`send`](Self::send) does, but returns a stream of events as soon as its
    /// headers have arrived. The deadline and the record of the request end at that point, so the
    /// caller must drop a stream that takes too long. If the stream fails later, the failure gets a
    /// record of its own.
    ///
    /// # Errors
    /// As for [`send`](Self::send); a failure after the headers is an error of the stream.
    pub async fn open_event_stream(
        &self,
        request: EgressRequest,
        origin: Origin,
        stream_use: EventStreamPurpose,
    ) -> Result<EgressResponseOrStream, Error> {
        let mut record = self.start_request(&request, origin)?;
        let mut mask = CredentialMasker::default();
        let sending = async {
            let mut reached = self
                .follow_redirects(request, &mut record, &mut mask)
                .await?;
            if !is_event_stream(reached.answer.headers()) {
                return Ok(CompleteOrUnreadResponse::Whole(
                    reached.read_response(&mask).await?,
                ));
            }
            reached.check_headers(&mask)?;
            if stream_use == EventStreamPurpose::Standing {
                reached.place =
                    ConcurrentRequestPermit::acquire_connection_slot(&self.shared.connections)?;
            }
            Ok(CompleteOrUnreadResponse::Open(Box::new(reached)))
        };
        let answer = self.await_within_request_deadline(sending).await;
        let answer = answer.map_err(|error| mask.mask_error(error));
        let target = record.target();
        record.write_record(answer.as_ref().err());
        Ok(match answer? {
            CompleteOrUnreadResponse::Whole(response) => EgressResponseOrStream::Whole(response),
            CompleteOrUnreadResponse::Open(reached) => {
                EgressResponseOrStream::Events(EventStreamResponse {
                    status: reached.answer.status().as_u16(),
                    headers: reached.masked_headers(&mask, 0),
                    lines: stream_masked_lines(EventStreamBody {
                        reached: *reached,
                        mask,
                        record,
                        target: target.unwrap_or_default(),
                        begun: Vec::new(),
                        n_bytes: 0,
                    }),
                })
            }
        })
    }
}

enum CompleteOrUnreadResponse {
    Whole(EgressResponse),
    Open(Box<UnreadResponse>),
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|own| own.to_str().ok());
    let kind = kind.and_then(|own| own.split(';').next());
    kind.is_some_and(|own| own.trim().eq_ignore_ascii_case(EVENT_STREAM_MEDIA_TYPE))
}

/// Body of an event stream that a plugin is reading.
struct EventStreamBody {
    reached: UnreadResponse,
    mask: CredentialMasker,
    /// Record of the request, which is already written. If the stream fails, a new record is
    /// written for the failure.
    record: UnwrittenAccessRecord,
    /// Target of the request, for the record of a failure.
    target: String,
    /// Received bytes of a line of the event stream whose end has not arrived yet.
    begun: Vec<u8>,
    n_bytes: usize,
}

impl EventStreamBody {
    /// Returns the next complete lines. At the end of the body, returns the incomplete last line,
    /// and after that `None`.
    async fn next_lines(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            let Some(piece) = self.reached.read_body_piece().await? else {
                let rest = std::mem::take(&mut self.begun);
                return Ok((!rest.is_empty()).then(|| self.mask_lines(rest)));
            };
            self.n_bytes = self.n_bytes.saturating_add(piece.len());
            if self.n_bytes > MAX_RESPONSE_BODY_BYTES {
                return Err(Error::response_too_long_error());
            }
            self.begun.extend_from_slice(&piece);
            if !piece.contains(&b'\n') {
                continue;
            }
            let end = self.begun.iter().rposition(|byte| *byte == b'\n');
            let rest = self.begun.split_off(end.map_or(0, |at| at + 1));
            let lines = std::mem::replace(&mut self.begun, rest);
            return Ok(Some(self.mask_lines(lines)));
        }
    }

    fn mask_lines(&self, lines: Vec<u8>) -> Bytes {
        Bytes::from(self.mask.mask_bytes(&lines).unwrap_or(lines))
    }
}

/// Streams the lines until the body ends, is interrupted or exceeds the limit.
fn stream_masked_lines(body: EventStreamBody) -> BoxStream<'static, Result<Bytes, Error>> {
    let next = |body: Option<EventStreamBody>| async move {
        let mut body = body?;
        match body.next_lines().await {
            Ok(lines) => lines.map(|lines| (Ok(lines), Some(body))),
            Err(error) => {
                let error = body.mask.mask_error(error);
                body.record.set_target(std::mem::take(&mut body.target));
                body.record.write_record(Some(&error));
                Some((Err(error), None))
            }
        }
    };
    stream::unfold(Some(body), next).boxed()
}
