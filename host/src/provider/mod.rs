//! Model APIs: one trait, one client, and one folder per wire format.
//!
//! A provider converts a [`Request`] to a wire body, sends a body (which hooks may have changed in
//! between), and streams the answer. Conversations use the host's own message types everywhere
//! else; the wire formats stay inside this layer.
//!
//! The layer must not know the code of tools, plugins or the agent loop. Start from [`Provider`].

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
mod output;
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

pub use ask::ModelInfoApiKind;
pub use client::connect;
pub use error::Error;
pub use http::HttpConfig;
#[doc(hidden)]
pub use http::install_crypto_provider;
pub use images::RequestImagesByBlobId;
pub use mend::RequestCorrection;
pub use named::{CustomProviderSettings, ProvidersConfig};
pub use output::JsonAnswerFormat;
#[doc(hidden)]
pub use preset::{detect_key_issuer, local_servers};
pub use select::{
    EnvironmentAndApiKeyLookup, NonEnvironmentApiKeySource, ProviderConfig,
    ProviderSelectionSettings, SelectedProviderAndModel, select_provider,
};
pub use wire::ModelApiFormat;

pub use crate::message::Finish;
use crate::message::{Message, ToolSpec, Usage};
use crate::model::{ModelProfile, Models};

/// Maximum number of bytes of a model's raw answer that are kept for the hooks at
/// `after-provider-response`.
pub const MAX_KEPT_RAW_ANSWER_BYTES: usize = 256 << 10;

/// Block of the system prompt. The provider may set a cache breakpoint at the end of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemPromptBlock {
    /// Text of the block, as sent to the model.
    pub text: String,
    /// Whether the system prompt from its start to the end of this block is the same in every
    /// request.
    pub is_cached: bool,
}

impl SystemPromptBlock {
    /// Creates a block of the system prompt with this text.
    pub fn new(text: impl Into<String>, is_cached: bool) -> Self {
        let text = text.into();
        Self { text, is_cached }
    }
}

/// Request to a model, in the host's own types.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// Name of the model that gets the request.
    pub model: String,
    /// System prompt as blocks, the most stable first.
    pub system: Vec<SystemPromptBlock>,
    /// Conversation, oldest message first.
    pub messages: Vec<Message>,
    /// Tools that the model may call.
    pub tools: Vec<ToolSpec>,
    /// Sampling temperature; `None` leaves it to the provider.
    pub temperature: Option<f64>,
    /// Maximum number of tokens that the model may write; `None` leaves it to the provider.
    pub max_tokens: Option<u32>,
    /// Format of the answer; `None` for free text. Wire formats without such a field ignore it.
    pub output: Option<JsonAnswerFormat>,
}

/// Event of a streamed answer.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamEvent {
    /// Text was added to the answer.
    Text(String),
    /// Reasoning was added to the answer.
    Thinking(String),
    /// The model began to write a tool call.
    ToolCall {
        /// Name of the tool that the model calls.
        name: String,
    },
    /// The request is about to be sent again. Everything streamed so far is void.
    Retry {
        /// Number of the next attempt, from 2.
        attempt: u32,
        /// Delay before the next attempt, in milliseconds.
        delay_ms: u64,
        /// Reason why the last attempt failed.
        reason: String,
    },
}

impl StreamEvent {
    /// Returns the event for a refused request that is sent again immediately, after a correction.
    pub(crate) fn new_correction_retry(reason: String) -> Self {
        Self::Retry {
            attempt: 2,
            delay_ms: 0,
            reason,
        }
    }
}

/// Complete answer of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Response {
    /// Message of the answer, as the model wrote it.
    pub message: Message,
    /// Name of the model that answered, as the provider reports it; `None` if it does not.
    pub model: Option<String>,
    /// Reason why the answer ended.
    pub finish: Finish,
    /// Token counts that the provider reported; the agent estimates missing counts.
    pub usage: Usage,
    /// Cost in US dollars, set by the agent, which knows prices; `None` if no price is known.
    pub cost_usd: Option<f64>,
    /// HTTP status; 0 if the answer did not arrive over HTTP.
    pub status: u16,
    /// Milliseconds from sending the last attempt to the end of the stream.
    pub latency_ms: u64,
    /// Answer as received, truncated to [`MAX_KEPT_RAW_ANSWER_BYTES`].
    pub raw: String,
}

/// Client of one model API. Cheap to share; requests may run concurrently.
///
/// The agent calls [`update_model_profile`](Self::update_model_profile), then
/// [`build_request_body`](Self::build_request_body), runs the hooks that may change the body, and
/// passes the result to [`send`](Self::send). Every request contains the whole conversation.
pub trait Provider: Send + Sync {
    /// Name of the provider, as in `--provider`.
    fn name(&self) -> &str;

    /// Returns the known properties of a model. Default: from the built-in table of models.
    fn profile(&self, model: &str) -> ModelProfile {
        Models::default().model_profile(model, ModelProfile::default())
    }

    /// Whether the model is known to accept images. A model that does not accept them refuses the
    /// complete request.
    fn takes_images(&self, model: &str) -> bool {
        self.profile(model).images == Some(true)
    }

    /// Queries the server about a model, so that [`profile`](Self::profile) knows more. Called
    /// before each request of the agent. Must return immediately if there is nothing to learn and
    /// within a few seconds otherwise, and must not fail. Default: does nothing.
    fn update_model_profile<'a>(
        &'a self,
        _model: &'a str,
        _cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Returns the maximum number of tokens of an answer to a prompt of about `prompt_tokens`.
    /// `wanted` is the limit from settings or hooks. `None` leaves the limit to the server.
    /// Default: `wanted`.
    fn answer_token_limit(
        &self,
        _model: &str,
        wanted: Option<u32>,
        _prompt_tokens: u64,
    ) -> Option<u32> {
        wanted
    }

    /// Returns the base URL of the server, without credentials, for display. Default: none.
    fn base_url(&self) -> Option<String> {
        None
    }

    /// Lists the names of the models that the server offers; empty if the provider has no such
    /// list.
    fn models<'a>(
        &'a self,
        _cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Vec<String>, Error>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    /// Converts `request` to a body in the wire format. `images` has the images that the messages
    /// refer to.
    fn build_request_body(&self, request: &Request, images: &RequestImagesByBlobId) -> Value;

    /// Remembers a correction that was found in the refusal of a request, and applies it to all
    /// later bodies for the same model. Returns whether the correction is new, so that the request
    /// is worth sending again.
    fn remember_correction(&self, _mend: &RequestCorrection, _request: &Request) -> bool {
        false
    }

    /// Sends a body and streams the answer. `on` is called for every event as it arrives, while the
    /// returned future is polled. Retries temporary failures: after [`StreamEvent::Retry`],
    /// everything streamed so far is void and the answer starts over. If `cancel` is cancelled,
    /// returns [`Error::Cancelled`].
    fn send<'a>(
        &'a self,
        body: Value,
        on: &'a mut (dyn FnMut(StreamEvent) + Send),
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Response, Error>>;
}
