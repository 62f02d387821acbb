//! The Anthropic Messages API.
//!
//! Owns the wire format in both directions: `body` writes requests, `stream` reads answers. It must not know the
//! network (`http`) nor where its key came from (`select`). Start from [`Anthropic`].

mod body;
mod stream;

use futures_util::future::BoxFuture;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::endpoint::Endpoint;
use super::http::{Http, HttpConfig};
use super::images::{self, Images};
use super::{Error, Provider, Request, Response, StreamEvent, Wire, models};

pub(super) use stream::Reader;

/// The public API.
pub const DEFAULT_URL: &str = "https://api.anthropic.com";

/// Version of the API that this module speaks.
const API_VERSION: &str = "2023-06-01";

/// A client of the Messages API.
pub struct Anthropic {
    http: Http,
    images: Option<bool>,
}

impl Anthropic {
    /// A client of the API at `endpoint`. A base URL with and one without `/v1` mean the same.
    ///
    /// `images` says whether its models take images; `None` leaves that to their names.
    pub fn new(
        mut endpoint: Endpoint,
        config: HttpConfig,
        images: Option<bool>,
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
            images,
        })
    }
}

impl Provider for Anthropic {
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
        Box::pin(models::list(&self.http, "v1/models", "limit=1000", cancel))
    }

    fn body(&self, request: &Request, images: &Images) -> Value {
        body::write(request, images)
    }

    fn send<'a>(
        &'a self,
        body: Value,
        on: &'a mut (dyn FnMut(StreamEvent) + Send),
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Response, Error>> {
        Box::pin(async move {
            self.http
                .exchange("v1/messages", &body, Reader::default, on, cancel)
                .await
        })
    }
}
