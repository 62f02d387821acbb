//! Sends a request to a model API and reads the streamed answer.
//!
//! The only module of the provider layer that creates an HTTP client, waits, retries and handles
//! cancellation. It must not know any wire format: an [`AnswerStreamDecoder`] reads the events.
//! Start from [`ModelApiConnectionPool::stream_with_retries`].

mod callback;

use std::path::PathBuf;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use backon::{ExponentialBuilder, Retryable};
use callback::StreamEventCallback;
use reqwest::Url;
use reqwest::header::{CONTENT_TYPE, HeaderMap};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::assemble::{AnswerStreamDecoder, AnswerStreamError};
use super::endpoint::ModelApiEndpoint;
use super::error::Error;
use super::replay::SseToDecoderFeeder;
use super::retry::{
    RequestAttemptErrorContext, RequestAttemptFailure, http_status_failure,
    request_failure_from_stream_error,
};
use super::sse::{MAX_STREAMED_ANSWER_BYTES, TruncatedRawAnswer};
use super::wait::RequestAttemptTimeouts;
use super::{ModelApiFormat, Response, StreamEvent, connection};
use crate::config::number;
use crate::message::{Message, Writer};

/// Maximum bytes read of an error body. Only the error message in it is shown, which is shorter.
const MAX_ERROR_BODY_BYTES: usize = 64 << 10;

/// Maximum size in bytes of a response that is not an answer of a model, such as a list of models.
const MAX_NON_ANSWER_BODY_BYTES: usize = 4 << 20;

/// Maximum time to wait, after a complete answer, for the token counts and the end of the stream.
const STREAM_END_WAIT_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum white space before an answer, in bytes. Some servers send it as a keep-alive.
const MAX_LEADING_WHITESPACE_BYTES: usize = 64 << 10;

/// Longest delay between two attempts if the server does not ask for a delay.
const MAX_RETRY_BACKOFF: Duration = Duration::from_secs(16);

/// Timeouts and retries of requests to a model API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HttpConfig {
    /// Timeout of connecting to the server, in milliseconds. Default: 10,000 (10 s).
    #[serde(deserialize_with = "number::within::<1, 86_400_000, _, _>")]
    pub connect_timeout_ms: u64,
    /// Timeout from sending a request to the first byte of the answer; 120 s, because a local
    /// server may first load the model and read a long prompt.
    #[serde(deserialize_with = "number::within::<1, 86_400_000, _, _>")]
    pub first_byte_timeout_ms: u64,
    /// Longest time without any data within an answer; 90 s. Comments and pings count as data.
    #[serde(deserialize_with = "number::within::<1, 86_400_000, _, _>")]
    pub idle_timeout_ms: u64,
    /// Longest time with nothing but comments and pings; 10 minutes. Claude sends only pings while
    /// it writes long arguments, and routers send comments while they wait for a model; 80 to 330 s
    /// were measured.
    #[serde(deserialize_with = "number::within::<1, 86_400_000, _, _>")]
    pub ping_timeout_ms: u64,
    /// Timeout of one request with all attempts and the delays between them; 30 minutes.
    #[serde(deserialize_with = "number::within::<1, 86_400_000, _, _>")]
    pub total_timeout_ms: u64,
    /// Longest answer in bytes: its text, its reasoning and the arguments of its tool calls; 4 MiB.
    /// The longest outputs of current models are below 1 MiB, and the whole answer is stored in the
    /// session.
    #[serde(deserialize_with = "number::within::<1024, 0x0400_0000, _, _>")]
    pub max_answer_bytes: usize,
    /// Maximum number of attempts for one request. Default: 4.
    #[serde(deserialize_with = "number::within::<1, 100, _, _>")]
    pub max_attempts: u32,
    /// Delay before the second attempt, doubled for each further one; 500 ms.
    #[serde(deserialize_with = "number::within::<0, 3_600_000, _, _>")]
    pub retry_delay_ms: u64,
    /// Longest `Retry-After` that is waited for; 60 s. If a server asks for more, the call fails
    /// without a retry.
    #[serde(deserialize_with = "number::within::<0, 86_400_000, _, _>")]
    pub max_retry_after_ms: u64,
    /// PEM file with certificate authorities that are trusted in addition to those of the system. A
    /// relative path is resolved from the folder of `config.toml`.
    pub ca_file: Option<PathBuf>,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            connect_timeout_ms: 10_000,
            first_byte_timeout_ms: 120_000,
            idle_timeout_ms: 90_000,
            ping_timeout_ms: 600_000,
            total_timeout_ms: 1_800_000,
            max_answer_bytes: 4 << 20,
            max_attempts: 4,
            retry_delay_ms: 500,
            max_retry_after_ms: 60_000,
            ca_file: None,
        }
    }
}

impl HttpConfig {
    fn total_timeout(&self) -> Duration {
        Duration::from_millis(self.total_timeout_ms)
    }
}

/// Installs ring as the crypto provider of rustls. Call before building a `reqwest::Client`:
/// without a default provider the builder panics.
pub fn install_crypto_provider() {
    static CRYPTO_PROVIDER_INSTALLATION: Once = Once::new();
    CRYPTO_PROVIDER_INSTALLATION.call_once(|| {
        // An error means that a default is already installed, which works as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

/// Pool of connections to one model API.
pub(crate) struct ModelApiConnectionPool {
    client: reqwest::Client,
    wire: ModelApiFormat,
    endpoint: ModelApiEndpoint,
    headers: HeaderMap,
    config: HttpConfig,
}

impl ModelApiConnectionPool {
    /// Creates a connection pool that sends `headers` with every request and reads answers in the
    /// format `wire`.
    pub(crate) fn new(
        wire: ModelApiFormat,
        endpoint: ModelApiEndpoint,
        headers: HeaderMap,
        config: HttpConfig,
    ) -> Result<Self, Error> {
        let mut headers = headers;
        headers.extend(endpoint.headers.clone());
        Ok(Self {
            client: connection::build_http_client(&endpoint, &config)?,
            wire,
            endpoint,
            headers,
            config,
        })
    }

    pub(crate) fn provider_name(&self) -> &str {
        &self.endpoint.provider
    }

    /// Returns the base URL without credentials and query.
    pub(super) fn redacted_base_url(&self) -> String {
        let mut url = self.endpoint.url.clone();
        // These calls fail only for URLs that cannot have credentials.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        url.set_query(None);
        url.set_fragment(None);
        url.to_string()
    }

    /// Sends `body`, a request to `model`, with POST to `path` under the base URL, and streams the
    /// answer. Retries failed attempts; each attempt has a new decoder `D`.
    pub(crate) async fn stream_with_retries<D: AnswerStreamDecoder>(
        &self,
        path: &str,
        model: &str,
        body: &Value,
        decoder: impl Fn() -> D + Sync,
        on: &mut (dyn FnMut(StreamEvent) + Send),
        cancel: &CancellationToken,
    ) -> Result<Response, Error> {
        let bytes = body.to_string().into_bytes();
        let listener = StreamEventCallback::new(on);
        let number = AtomicU32::new(0);
        let backoff = ExponentialBuilder::new()
            .with_min_delay(Duration::from_millis(self.config.retry_delay_ms))
            .with_max_delay(MAX_RETRY_BACKOFF)
            .with_max_times(self.config.max_attempts.saturating_sub(1) as usize)
            .with_jitter();
        let attempts = (|| {
            let attempt = RequestAttemptErrorContext {
                endpoint: &self.endpoint,
                model,
                path,
                number: number.fetch_add(1, Ordering::Relaxed) + 1,
            };
            self.attempt_stream(attempt, bytes.clone(), decoder(), &listener)
        })
        .retry(backoff)
        .when(|failure| failure.is_retryable)
        .adjust(|failure, delay| self.retry_delay(failure, number.load(Ordering::Relaxed), delay))
        .notify(|failure, delay| {
            listener.announce_retry(number.load(Ordering::Relaxed) + 1, delay, &failure.error);
        });
        let outcome = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(Error::Cancelled),
            outcome = tokio::time::timeout(self.config.total_timeout(), attempts) => outcome,
        };
        match outcome {
            Ok(outcome) => outcome.map_err(|failure| *failure.error),
            Err(_) => Err(Error::TookTooLong {
                provider: self.endpoint.provider.clone(),
                after_ms: self.config.total_timeout_ms,
            }),
        }
    }

    /// Downloads the JSON document at `path` under the base URL. Makes one attempt. An empty
    /// `query` adds no query to the URL.
    pub(super) async fn get_json_document(
        &self,
        path: &str,
        query: &str,
        cancel: &CancellationToken,
    ) -> Result<Value, Error> {
        let attempt = RequestAttemptErrorContext {
            endpoint: &self.endpoint,
            model: "?",
            path,
            number: 1,
        };
        tokio::select! {
            biased;
            () = cancel.cancelled() => Err(Error::Cancelled),
            document = self.fetch_document(attempt, query) => document.map_err(|failure| *failure.error),
        }
    }

    async fn fetch_document(
        &self,
        attempt: RequestAttemptErrorContext<'_>,
        query: &str,
    ) -> Result<Value, RequestAttemptFailure> {
        let mut url = self.endpoint.join(attempt.path);
        if !query.is_empty() {
            url.set_query(Some(query));
        }
        self.send_request_and_parse_json(attempt, self.client.get(url))
            .await
    }

    /// Returns the URL of `path` under the base URL.
    pub(super) fn join_url(&self, path: &str) -> Url {
        self.endpoint.join(path)
    }

    /// Returns the URL of `path` under the base URL without its version, for the native API of a
    /// server.
    pub(super) fn join_unversioned_url(&self, path: &str) -> Url {
        self.endpoint.join_server_root(path)
    }

    /// Requests the JSON document at a `url` of this server: with POST if `body` is `Some`,
    /// otherwise with GET. Makes one attempt; `None` if the attempt fails.
    pub(super) async fn try_request_json_document(
        &self,
        url: &Url,
        body: Option<&Value>,
        cancel: &CancellationToken,
    ) -> Option<Value> {
        let attempt = RequestAttemptErrorContext {
            endpoint: &self.endpoint,
            model: "?",
            path: "",
            number: 1,
        };
        let request = match body {
            Some(body) => self.client.post(url.clone()).json(body),
            None => self.client.get(url.clone()),
        };
        tokio::select! {
            biased;
            () = cancel.cancelled() => None,
            document = self.send_request_and_parse_json(attempt, request) => document.ok(),
        }
    }

    async fn send_request_and_parse_json(
        &self,
        attempt: RequestAttemptErrorContext<'_>,
        request: reqwest::RequestBuilder,
    ) -> Result<Value, RequestAttemptFailure> {
        let mut wait =
            RequestAttemptTimeouts::start_timer(&self.endpoint, &self.config, Instant::now());
        let mut response = self.send_request(attempt, request, &mut wait).await?;
        let mut body = Vec::new();
        while let Some(piece) = wait.wait_for_data(response.chunk()).await? {
            body.extend_from_slice(&piece);
            if body.len() > MAX_NON_ANSWER_BODY_BYTES {
                let what = format!("more than {} MiB", MAX_NON_ANSWER_BODY_BYTES >> 20);
                return Err(request_failure_from_stream_error(
                    attempt,
                    AnswerStreamError::from_bad_event(what, ""),
                ));
            }
        }
        serde_json::from_slice(&body).map_err(|error| {
            let body = String::from_utf8_lossy(&body);
            request_failure_from_stream_error(
                attempt,
                AnswerStreamError::from_bad_event(format!("no JSON ({error})"), &body),
            )
        })
    }

    /// Sends a request. Returns the response if its status is 2xx, and otherwise an error.
    async fn send_request(
        &self,
        attempt: RequestAttemptErrorContext<'_>,
        request: reqwest::RequestBuilder,
        wait: &mut RequestAttemptTimeouts<'_>,
    ) -> Result<reqwest::Response, RequestAttemptFailure> {
        let sending = request.headers(self.headers.clone()).send();
        let mut response = wait.wait_for_data(sending).await?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        let body = read_error_body(&mut response, wait).await;
        Err(http_status_failure(attempt, status, &headers, &body))
    }

    /// Returns the delay between attempt `n_attempts`, which failed, and the next attempt; `None`
    /// means no retry.
    fn retry_delay(
        &self,
        failure: &RequestAttemptFailure,
        n_attempts: u32,
        backoff: Option<Duration>,
    ) -> Option<Duration> {
        let backoff = backoff?;
        // Retry without a delay only once: a server that closes every connection may be overloaded.
        if failure.is_unanswered && n_attempts == 1 {
            return Some(Duration::ZERO);
        }
        match failure.retry_after {
            Some(asked) if asked.as_millis() > u128::from(self.config.max_retry_after_ms) => None,
            Some(asked) => Some(asked),
            None => Some(backoff),
        }
    }

    async fn attempt_stream<D: AnswerStreamDecoder>(
        &self,
        attempt: RequestAttemptErrorContext<'_>,
        body: Vec<u8>,
        decoder: D,
        listener: &StreamEventCallback<'_>,
    ) -> Result<Response, RequestAttemptFailure> {
        let started = Instant::now();
        let mut wait = RequestAttemptTimeouts::start_timer(&self.endpoint, &self.config, started);
        tracing::debug!(
            provider = self.endpoint.provider,
            model = attempt.model,
            attempt = attempt.number,
            bytes = body.len(),
            "sending a request"
        );
        let request = self
            .client
            .post(self.endpoint.join(attempt.path))
            .header(CONTENT_TYPE, "application/json")
            .body(body);
        let response = self.send_request(attempt, request, &mut wait).await?;
        let status = response.status().as_u16();
        let mut reading = StreamedAnswerReader {
            attempt,
            response,
            wait,
            decoder,
            listener,
            max_bytes: self.config.max_answer_bytes,
        };
        let raw = reading.read_answer_body().await?;
        let answer = reading.decoder.finish();
        let answer = answer.map_err(|fault| request_failure_from_stream_error(attempt, fault))?;
        let writer = Writer {
            provider: self.endpoint.provider.clone(),
            wire: self.wire.name().to_owned(),
            model: attempt.model.to_owned(),
        };
        Ok(Response {
            message: Message {
                writer: Some(writer),
                ..answer.message
            },
            model: answer.model,
            finish: answer.finish,
            usage: answer.usage,
            cost_usd: None,
            status,
            latency_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            raw,
        })
    }
}

/// Reader of the response body of one attempt.
struct StreamedAnswerReader<'a, 'l, D> {
    attempt: RequestAttemptErrorContext<'a>,
    response: reqwest::Response,
    wait: RequestAttemptTimeouts<'a>,
    decoder: D,
    listener: &'a StreamEventCallback<'l>,
    max_bytes: usize,
}

/// Kind of a response body. The first character decides, because gateways send wrong content types.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ResponseBodyKind {
    /// Server-sent events.
    Stream,
    /// A JSON document: from a server that does not stream, or an error with status 200.
    Document,
    /// HTML page, for example from a gateway.
    Page,
}

impl ResponseBodyKind {
    /// Recognizes the kind of a body that begins with this chunk; `None` if it has only white
    /// space.
    fn detect_body_kind(piece: &[u8]) -> Option<Self> {
        let piece = piece.strip_prefix(b"\xef\xbb\xbf").unwrap_or(piece);
        Some(match piece.trim_ascii_start().first()? {
            b'{' | b'[' => Self::Document,
            b'<' => Self::Page,
            _ => Self::Stream,
        })
    }
}

impl<D: AnswerStreamDecoder> StreamedAnswerReader<'_, '_, D> {
    async fn read_answer_body(&mut self) -> Result<String, RequestAttemptFailure> {
        let (mut start, mut n_blank) = (Vec::new(), 0);
        let kind = loop {
            let Some(piece) = self.wait.wait_for_data(self.response.chunk()).await? else {
                break ResponseBodyKind::Stream;
            };
            start.extend_from_slice(&piece);
            if let Some(kind) = ResponseBodyKind::detect_body_kind(&start) {
                break kind;
            }
            // Skip white space before the body, whatever the kind of the body is.
            n_blank += start.len();
            start.clear();
            if n_blank > MAX_LEADING_WHITESPACE_BYTES {
                let what = format!(
                    "the answer has more than {} KiB of white space",
                    MAX_LEADING_WHITESPACE_BYTES >> 10
                );
                return self.check_answer_size(Err(AnswerStreamError::from_bad_event(what, "")));
            }
            self.wait.restart_idle_timeout();
        };
        match kind {
            ResponseBodyKind::Stream => self.read_sse_answer(&start).await,
            ResponseBodyKind::Document => self.read_non_sse_answer(start).await,
            ResponseBodyKind::Page => {
                let rest = read_error_body(&mut self.response, &mut self.wait).await;
                let page = String::from_utf8_lossy(&start) + &*rest;
                let fault = AnswerStreamError::from_bad_event("it is a web page", &page);
                Err(request_failure_from_stream_error(self.attempt, fault))
            }
        }
    }

    async fn read_sse_answer(&mut self, start: &[u8]) -> Result<String, RequestAttemptFailure> {
        let mut feed = SseToDecoderFeeder::default();
        self.push(&mut feed, start)?;
        while !self.decoder.is_stream_complete() {
            let next = if self.decoder.has_finish_reason() {
                self.wait
                    .wait_for_trailing_data(STREAM_END_WAIT_TIMEOUT, self.response.chunk())
                    .await
                    .flatten()
            } else {
                self.wait.wait_for_data(self.response.chunk()).await?
            };
            let Some(piece) = next else {
                break;
            };
            self.push(&mut feed, &piece)?;
        }
        Ok(feed.into_raw_answer_text())
    }

    fn push(
        &mut self,
        feed: &mut SseToDecoderFeeder,
        piece: &[u8],
    ) -> Result<(), RequestAttemptFailure> {
        let had_ended = self.decoder.has_finish_reason();
        let emit = &mut |event| self.listener.emit_event(event);
        let pushed = feed.push(&mut self.decoder, piece, emit);
        match self.check_answer_size(pushed)? {
            // After a complete answer, one fixed deadline applies to the wait for further data, so
            // do not restart a timeout.
            _ if had_ended => {}
            true => self.wait.restart_all_timeouts(),
            false => self.wait.restart_idle_timeout(),
        }
        Ok(())
    }

    async fn read_non_sse_answer(
        &mut self,
        mut body: Vec<u8>,
    ) -> Result<String, RequestAttemptFailure> {
        let mut raw = TruncatedRawAnswer::default();
        raw.push(&body);
        self.wait.restart_all_timeouts();
        while let Some(piece) = self.wait.wait_for_data(self.response.chunk()).await? {
            self.wait.restart_all_timeouts();
            raw.push(&piece);
            body.extend_from_slice(&piece);
            if body.len() > MAX_STREAMED_ANSWER_BYTES {
                let what = format!("more than {} MiB", MAX_STREAMED_ANSWER_BYTES >> 20);
                return self.check_answer_size(Err(AnswerStreamError::from_bad_event(what, "")));
            }
        }
        let emit = &mut |event| self.listener.emit_event(event);
        let document = String::from_utf8_lossy(&body);
        // Some servers send one event on each line (`application/x-ndjson`), and some send all
        // chunks in one list.
        let lines: Vec<&str> = if serde_json::from_str::<Value>(&document).is_ok() {
            vec![&document]
        } else {
            document
                .lines()
                .filter(|line| !line.trim().is_empty())
                .collect()
        };
        for line in lines {
            let read = self.decoder.read_event(line, emit);
            self.check_answer_size(read)?;
        }
        Ok(raw.into_text())
    }

    /// Converts a fault of the decoder to a failure of the attempt. Also fails if the answer is
    /// larger than `max_bytes`, because answers are kept in memory and stored in the session.
    fn check_answer_size<T>(
        &self,
        mut read: Result<T, AnswerStreamError>,
    ) -> Result<T, RequestAttemptFailure> {
        let max_bytes = self.max_bytes;
        if read.is_ok() && self.decoder.n_answer_bytes() > max_bytes {
            read = Err(AnswerStreamError::TooLong { max_bytes });
        }
        read.map_err(|fault| request_failure_from_stream_error(self.attempt, fault))
    }
}

/// Reads the start of the body of an error response. If the connection breaks, returns the bytes
/// received so far, because the HTTP status alone already describes the error.
async fn read_error_body(
    response: &mut reqwest::Response,
    wait: &mut RequestAttemptTimeouts<'_>,
) -> String {
    let mut body = Vec::new();
    while body.len() < MAX_ERROR_BODY_BYTES
        && let Ok(Some(piece)) = wait.wait_for_data(response.chunk()).await
    {
        body.extend_from_slice(&piece);
    }
    body.truncate(MAX_ERROR_BODY_BYTES);
    String::from_utf8_lossy(&body).into_owned()
}
