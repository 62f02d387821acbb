//! Chat completions as OpenAI made them and many servers speak them: Ollama, vLLM, llama.cpp, OpenRouter and others.
//!
//! Owns the wire format in both directions: `body` writes requests, `stream` reads answers. It must not know the
//! network (`http`) nor where its key came from (`select`). Start from [`OpenAi`].

mod body;
mod stream;
mod wire;

use futures_util::future::BoxFuture;
use reqwest::header::{AUTHORIZATION, HeaderMap};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::endpoint::Endpoint;
use super::http::{Http, HttpConfig};
use super::profile::ServerProfile;
use super::{Error, Images, Provider, Request, Response, StreamEvent, Wire, models};

pub(super) use stream::Reader;

use crate::model::ModelProfile;

/// The public API.
pub const DEFAULT_URL: &str = "https://api.openai.com/v1";

/// A client of one server.
pub struct OpenAi {
    http: Http,
    server: ServerProfile,
}

impl OpenAi {
    /// A client of the server at `endpoint`, whose base URL ends in `/v1` for most.
    ///
    /// `server` is what is known of it and its models.
    pub fn new(
        endpoint: Endpoint,
        config: HttpConfig,
        server: ServerProfile,
    ) -> Result<Self, Error> {
        let mut headers = HeaderMap::new();
        if let Some(value) = endpoint.key_header("Bearer ")? {
            headers.insert(AUTHORIZATION, value);
        }
        Ok(Self {
            http: Http::new(Wire::OpenaiChat, endpoint, headers, config)?,
            server,
        })
    }
}

impl Provider for OpenAi {
    fn name(&self) -> &str {
        self.http.provider()
    }

    fn profile(&self, model: &str) -> ModelProfile {
        self.server.of(model)
    }

    fn learn<'a>(&'a self, model: &'a str, cancel: &'a CancellationToken) -> BoxFuture<'a, ()> {
        Box::pin(self.server.learn(&self.http, model, cancel))
    }

    fn answer_limit(&self, model: &str, wanted: Option<u32>, prompt_tokens: u64) -> Option<u32> {
        self.server.answer_limit(model, wanted, prompt_tokens)
    }

    fn models<'a>(
        &'a self,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Vec<String>, Error>> {
        Box::pin(models::list(&self.http, "models", "", cancel))
    }

    fn body(&self, request: &Request, images: &Images) -> Value {
        let mut body = body::write(request, images);
        self.server.finish(&mut body);
        body
    }

    fn send<'a>(
        &'a self,
        body: Value,
        on: &'a mut (dyn FnMut(StreamEvent) + Send),
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Response, Error>> {
        Box::pin(async move {
            let path = "chat/completions";
            let answer = self.http.exchange(path, &body, Reader::default, on, cancel);
            let answer = answer.await;
            let refusal = answer.as_ref().err();
            let Some(body) = refusal.and_then(|error| self.server.mended(&body, error)) else {
                return answer;
            };
            self.http
                .exchange(path, &body, Reader::default, on, cancel)
                .await
        })
    }
}
