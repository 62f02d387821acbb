//! Client of a model API, shared by all wire formats.
//!
//! Combines the headers, paths and decoder of a wire format with a connection to a [`Provider`].
//! The module must not depend on a single wire format; each format is a folder that implements
//! [`WireFormat`]. Start from [`connect`].
//!
//! No client library such as genai, async-openai or rig is used. Those libraries map a conversation
//! to a request and an answer to events in one step, with their own types. In Rind, hooks read and
//! change the request as the JSON that is sent, and read the raw answer. Opaque fields that a
//! library does not model (reasoning items, signatures, fields of a gateway) must be sent back
//! unchanged. A field of a wrong type must not make an answer fail, but derived deserialization
//! would fail.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use reqwest::Url;
use reqwest::header::HeaderMap;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::assemble::AnswerStreamDecoder;
use super::endpoint::ModelApiEndpoint;
use super::fit::{RecipientModelServer, rewrite_conversation};
use super::http::{HttpConfig, ModelApiConnectionPool};
use super::images::RequestImagesByBlobId;
use super::mend::{RequestCorrection, RequestCorrections};
use super::profile::ModelServerProfile;
use super::{
    Error, ModelApiFormat, Provider, Request, Response, StreamEvent, anthropic, gemini, models,
    openai, responses,
};
use crate::lock::lock_ignoring_poison;
use crate::model::ModelProfile;

/// Creates the client of the API at `endpoint`, which uses the wire format `wire`. The client sends
/// nothing before the first request.
///
/// `server` describes the server and its models.
///
/// # Errors
/// The key has characters that are not allowed in an HTTP header, or TLS cannot be set up.
pub fn connect(
    wire: ModelApiFormat,
    endpoint: ModelApiEndpoint,
    http: HttpConfig,
    server: ModelServerProfile,
) -> Result<Arc<dyn Provider>, Error> {
    Ok(match wire {
        ModelApiFormat::AnthropicMessages => {
            build_client(anthropic::AnthropicWireFormat, endpoint, http, server)?
        }
        ModelApiFormat::OpenaiChat => {
            build_client(openai::ChatCompletionsWireFormat, endpoint, http, server)?
        }
        ModelApiFormat::OpenaiResponses => {
            build_client(responses::ResponsesWireFormat, endpoint, http, server)?
        }
        ModelApiFormat::Gemini => build_client(gemini::GeminiWireFormat, endpoint, http, server)?,
    })
}

/// Properties of a wire format that the shared client needs.
pub(super) trait WireFormat: Send + Sync + 'static {
    /// Name of the wire format.
    const API_FORMAT: ModelApiFormat;

    /// Path of the list of models under the base URL, and the query string that requests the
    /// complete list.
    const MODEL_LIST_PATH_AND_QUERY: (&'static str, &'static str);

    /// Decoder of one answer in this wire format.
    type Reader: AnswerStreamDecoder + Default;

    /// Converts the base URL from the settings to the URL to which paths are appended.
    fn adapt_url(&self, _url: &mut Url) {}

    /// Returns the headers of every request, the key among them.
    ///
    /// # Errors
    /// The key has characters that are not allowed in an HTTP header.
    fn headers(&self, endpoint: &ModelApiEndpoint) -> Result<HeaderMap, Error>;

    /// Returns the body of a request. The name of the model is always in the field `model`.
    fn body(&self, request: &Request, images: &RequestImagesByBlobId) -> Value;

    /// Returns the path of a request under the base URL. A field of the body that belongs in the
    /// path is removed from the body.
    fn path(&self, body: &mut Value) -> String;
}

/// Client of one model API, which uses the wire format `F`.
struct ModelApiClient<F> {
    format: F,
    http: ModelApiConnectionPool,
    server: ModelServerProfile,
    /// Corrections of requests that the server's refusals required, by model.
    mends: Mutex<HashMap<String, RequestCorrections>>,
}

fn build_client<F: WireFormat>(
    format: F,
    mut endpoint: ModelApiEndpoint,
    http: HttpConfig,
    server: ModelServerProfile,
) -> Result<Arc<dyn Provider>, Error> {
    format.adapt_url(&mut endpoint.url);
    let headers = format.headers(&endpoint)?;
    Ok(Arc::new(ModelApiClient {
        http: ModelApiConnectionPool::new(F::API_FORMAT, endpoint, headers, http)?,
        format,
        server,
        mends: Mutex::default(),
    }))
}

impl<F: WireFormat> Provider for ModelApiClient<F> {
    fn name(&self) -> &str {
        self.http.provider_name()
    }

    fn profile(&self, model: &str) -> ModelProfile {
        self.server.model_profile(model)
    }

    fn update_model_profile<'a>(
        &'a self,
        model: &'a str,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, ()> {
        Box::pin(self.server.query_profile(&self.http, model, cancel))
    }

    fn answer_token_limit(
        &self,
        model: &str,
        wanted: Option<u32>,
        prompt_tokens: u64,
    ) -> Option<u32> {
        self.server.answer_token_limit(model, wanted, prompt_tokens)
    }

    fn base_url(&self) -> Option<String> {
        Some(self.http.redacted_base_url())
    }

    fn models<'a>(
        &'a self,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Vec<String>, Error>> {
        let (path, query) = F::MODEL_LIST_PATH_AND_QUERY;
        Box::pin(models::list_models(&self.http, path, query, cancel))
    }

    fn build_request_body(&self, request: &Request, images: &RequestImagesByBlobId) -> Value {
        let mends = lock_ignoring_poison(&self.mends)
            .get(&request.model)
            .cloned();
        let mends = mends.unwrap_or_else(|| RequestCorrections::from_preset(self.server.mends));
        let target = RecipientModelServer {
            provider: self.name(),
            wire: F::API_FORMAT,
            mends: &mends,
        };
        let mut body = self
            .format
            .body(&rewrite_conversation(request, &target), images);
        self.server.adapt_request_body(&mut body);
        mends.apply_corrections(&mut body);
        body
    }

    fn remember_correction(&self, mend: &RequestCorrection, request: &Request) -> bool {
        let mut mends = lock_ignoring_poison(&self.mends);
        let mends = mends
            .entry(request.model.clone())
            .or_insert_with(|| RequestCorrections::from_preset(self.server.mends));
        mends.add_correction(mend, &request.messages)
    }

    fn send<'a>(
        &'a self,
        mut body: Value,
        on: &'a mut (dyn FnMut(StreamEvent) + Send),
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Response, Error>> {
        Box::pin(async move {
            let model = body.get("model").and_then(Value::as_str).unwrap_or("?");
            let model = model.to_owned();
            let path = self.format.path(&mut body);
            let decoder = F::Reader::default;
            self.http
                .stream_with_retries(&path, &model, &body, decoder, on, cancel)
                .await
        })
    }
}

/// Removes `version` from the end of a base URL, so that URLs with and without it are equivalent.
pub(super) fn strip_version_suffix(url: &mut Url, version: &str) {
    let path = url.path().trim_end_matches('/');
    let path = path.strip_suffix(version).unwrap_or(path).to_owned();
    url.set_path(&path);
}
