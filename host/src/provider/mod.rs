//! Model APIs: one trait, one client, and one folder for each wire format.
//!
//! A provider turns a [`Request`] into a wire body, sends a body (which hooks may have changed in
//! between), and streams the answer. Our own message types inside, the provider's at the edge. It
//! knows nothing of tools' code, plugins or the loop. Start from [`Provider`].

pub mod anthropic;
mod ask;
mod assemble;
mod client;
mod connect;
mod connection;
pub mod dialect;
pub mod endpoint;
pub mod error;
mod fit;
pub mod gemini;
mod http;
pub mod images;
mod lenient;
pub mod mend;
mod models;
mod named;
pub mod openai;
mod preset;
pub mod profile;
#[doc(hidden)]
pub mod replay;
pub mod responses;
mod retry;
#[cfg(test)]
mod sample;
#[doc(hidden)]
pub mod schema;
#[cfg(feature = "scripted")]
pub mod scripted;
pub mod select;
pub mod server_text;
mod sse;
mod wait;
mod wire;

use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

pub use ask::Ask;
pub use client::connect;
pub use error::Error;
pub use http::HttpConfig;
pub(crate) use http::install_tls;
pub use images::Images;
pub use mend::Mend;
pub use named::{NamedProvider, ProvidersConfig};
#[cfg(feature = "cli")]
pub(crate) use preset::{issuer, local_servers};
pub use select::{Choice, KeySource, Keys, ProviderConfig, Selected, select};
pub use wire::Wire;

pub use crate::message::Finish;
use crate::message::{Message, ToolSpec, Usage};
use crate::model::{ModelProfile, Models};

/// Bytes of a raw answer that are kept for `after-provider-response`.
pub const MAX_RAW_BYTES: usize = 256 << 10;

/// A block of the system prompt; a block ends where the provider may put a cache border.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemBlock {
    /// Text of the block.
    pub text: String,
    /// Whether everything up to the end of this block stays the same between requests.
    pub is_cached: bool,
}

impl SystemBlock {
    /// A block of this text.
    pub fn new(text: impl Into<String>, is_cached: bool) -> Self {
        let text = text.into();
        Self { text, is_cached }
    }
}

/// One request to a model, in our own types.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// Name of the model.
    pub model: String,
    /// The system prompt in blocks, most stable first.
    pub system: Vec<SystemBlock>,
    /// The conversation, oldest first.
    pub messages: Vec<Message>,
    /// Active tools.
    pub tools: Vec<ToolSpec>,
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// Most tokens the model may write; a provider that needs a number has its own default.
    pub max_tokens: Option<u32>,
}

/// Event while an answer streams in.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamEvent {
    /// More text.
    Text(String),
    /// More reasoning.
    Thinking(String),
    /// The model began to write a tool call.
    ToolCall {
        /// Name of the tool.
        name: String,
    },
    /// The request is about to be sent again: what was streamed of its answer is void.
    Retry {
        /// Number of the coming attempt, from 2.
        attempt: u32,
        /// Milliseconds until then.
        delay_ms: u64,
        /// Reason.
        reason: String,
    },
}

impl StreamEvent {
    /// The request was refused for this reason, and goes out again at once in a corrected form.
    pub(crate) fn mended(reason: String) -> Self {
        Self::Retry {
            attempt: 2,
            delay_ms: 0,
            reason,
        }
    }
}

/// A whole answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Response {
    /// Message as the model wrote it.
    pub message: Message,
    /// Name of the model that wrote it, as the provider says; `None` where it says none.
    pub model: Option<String>,
    /// Reason for the end.
    pub finish: Finish,
    /// Usage as the provider reports it; the agent estimates the rest.
    pub usage: Usage,
    /// Cost in US dollars: filled in by the agent, which knows prices. `None` when none is known.
    pub cost_usd: Option<f64>,
    /// HTTP status; 0 when it did not come over HTTP.
    pub status: u16,
    /// Milliseconds from sending the last attempt to the end of the stream.
    pub latency_ms: u64,
    /// The answer as it came over the wire, cut after [`MAX_RAW_BYTES`].
    pub raw: String,
}

/// A client of one model API. Cheap to share; several requests may be on their way at once.
pub trait Provider: Send + Sync {
    /// Name of the provider, as in `--provider`.
    fn name(&self) -> &str;

    /// Returns the abilities of a model, as far as they are known by now. Default: the table that
    /// comes with Rind.
    fn profile(&self, model: &str) -> ModelProfile {
        Models::default().of(model, ModelProfile::default())
    }

    /// Whether images may be sent to a model of this name. For one that refuses them a request with
    /// an image fails as a whole.
    fn takes_images(&self, model: &str) -> bool {
        self.profile(model).images == Some(true)
    }

    /// Asks the server about a model, so that [`profile`](Self::profile) knows more. Called before
    /// each request of the agent; it returns at once when there is nothing to learn, within a few
    /// seconds otherwise, and never fails. Default: does nothing.
    fn learn<'a>(&'a self, _model: &'a str, _cancel: &'a CancellationToken) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Returns the number of tokens to limit an answer to, behind a prompt of about
    /// `prompt_tokens`. `wanted` is the number that settings or hooks want. `None` leaves the limit
    /// to the server. Default: `wanted`.
    fn answer_limit(&self, _model: &str, wanted: Option<u32>, _prompt_tokens: u64) -> Option<u32> {
        wanted
    }

    /// Lists the models that the server offers, by name; none where the provider has no such list.
    fn models<'a>(
        &'a self,
        _cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Vec<String>, Error>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    /// The body to send for `request`, in the wire format, with the `images` that its messages
    /// refer to.
    fn body(&self, request: &Request, images: &Images) -> Value;

    /// Takes up a correction that a refusal of `request` asks for: bodies for its model are
    /// corrected from now on. Returns whether that changes anything, so that the request is worth
    /// sending again.
    fn mend(&self, _mend: &Mend, _request: &Request) -> bool {
        false
    }

    /// Sends a body and streams the answer: `on` is called for every event as it comes, in this
    /// task. Retries what can be retried; after [`StreamEvent::Retry`] the answer begins anew, and
    /// what was streamed of it before is void. A set `cancel` ends it with [`Error::Cancelled`].
    fn send<'a>(
        &'a self,
        body: Value,
        on: &'a mut (dyn FnMut(StreamEvent) + Send),
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Response, Error>>;
}
