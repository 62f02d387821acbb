//! Chat completions as OpenAI made them and many servers speak them: Ollama, vLLM, llama.cpp, OpenRouter and others.
//!
//! Owns the wire format in both directions: `body` writes requests, `stream` reads answers. It must not know the
//! network (`http`) nor where its key came from (`select`). Start from [`OpenAi`].

mod body;
mod stream;

use futures_util::future::BoxFuture;
use reqwest::header::{AUTHORIZATION, HeaderMap};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::endpoint::Endpoint;
use super::http::{Http, HttpConfig};
use super::images::{self, Images};
use super::{Error, Provider, Request, Response, StreamEvent, Wire, models};

pub(super) use stream::Reader;

/// The public API.
pub const DEFAULT_URL: &str = "https://api.openai.com/v1";

/// URL on which Ollama listens.
pub const OLLAMA_URL: &str = "http://127.0.0.1:11434/v1";

/// The public API of OpenRouter.
pub const OPENROUTER_URL: &str = "https://openrouter.ai/api/v1";

/// A client of one server.
pub struct OpenAi {
    http: Http,
    token_limit: body::TokenLimit,
    images: Option<bool>,
}

impl OpenAi {
    /// A client of the server at `endpoint`, whose base URL ends in `/v1` for most.
    ///
    /// `images` says whether its models take images; `None` leaves that to their names.
    pub fn new(
        endpoint: Endpoint,
        config: HttpConfig,
        images: Option<bool>,
    ) -> Result<Self, Error> {
        let mut headers = HeaderMap::new();
        if let Some(value) = endpoint.key_header("Bearer ")? {
            headers.insert(AUTHORIZATION, value);
        }
        // OpenAI's own newer models refuse the old name, and most other servers do not know the new one.
        let token_limit = match endpoint.url.host_str() {
            Some("api.openai.com") => body::TokenLimit::MaxCompletionTokens,
            _ => body::TokenLimit::MaxTokens,
        };
        Ok(Self {
            http: Http::new(Wire::OpenaiChat, endpoint, headers, config)?,
            token_limit,
            images,
        })
    }
}

impl Provider for OpenAi {
    fn name(&self) -> &str {
        self.http.provider()
    }

    fn takes_images(&self, model: &str) -> bool {
        self.images
            .unwrap_or_else(|| images::is_known_to_see(model))
    }

    fn models<'a>(
        &'a self,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Vec<String>, Error>> {
        Box::pin(models::list(&self.http, "models", "", cancel))
    }

    fn body(&self, request: &Request, images: &Images) -> Value {
        body::write(request, images, self.token_limit)
    }

    fn send<'a>(
        &'a self,
        body: Value,
        on: &'a mut (dyn FnMut(StreamEvent) + Send),
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Response, Error>> {
        Box::pin(async move {
            self.http
                .exchange("chat/completions", &body, Reader::default, on, cancel)
                .await
        })
    }
}
