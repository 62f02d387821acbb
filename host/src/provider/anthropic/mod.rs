//! The Anthropic Messages API.
//!
//! Owns the wire format in both directions: `body` writes requests, `stream` reads answers. It must not know the
//! network (`http`) nor where its key came from (`select`). Start from [`Anthropic`].

mod body;
mod stream;
mod wire;

use futures_util::future::BoxFuture;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::endpoint::Endpoint;
use super::http::{Http, HttpConfig};
use super::profile::ServerProfile;
use super::{Error, Images, Provider, Request, Response, StreamEvent, Wire, models};

pub(super) use stream::Reader;

use crate::model::ModelProfile;

/// The public API.
pub const DEFAULT_URL: &str = "https://api.anthropic.com";

/// Version of the API that this module speaks.
const API_VERSION: &str = "2023-06-01";

/// A client of the Messages API.
pub struct Anthropic {
    http: Http,
    server: ServerProfile,
}

impl Anthropic {
    /// A client of the API at `endpoint`. A base URL with and one without `/v1` mean the same.
    ///
    /// `server` is what is known of it and its models.
    pub fn new(
        mut endpoint: Endpoint,
        config: HttpConfig,
        server: ServerProfile,
    ) -> Result<Self, Error> {
        let path = endpoint.url.path().trim_end_matches('/');
        let path = path.strip_suffix("/v1").unwrap_or(path).to_owned();
        endpoint.url.set_path(&path);
        let mut headers = HeaderMap::new();
        headers.insert(
            HeaderName::from_static("anthropic-version"),
            HeaderValue::from_static(API_VERSION),
        );
        if let Some(value) = endpoint.key_header("")? {
            headers.insert(HeaderName::from_static("x-api-key"), value);
        }
        Ok(Self {
            http: Http::new(Wire::AnthropicMessages, endpoint, headers, config)?,
            server,
        })
    }
}

impl Provider for Anthropic {
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
        Box::pin(models::list(&self.http, "v1/models", "limit=1000", cancel))
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
            let path = "v1/messages";
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
