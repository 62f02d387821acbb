//! The Anthropic Messages API.
//!
//! Owns the wire format in both directions: `body` writes requests, `stream` reads answers. The
//! module must not depend on the network (`http`) or on the source of the key (`select`). Start
//! from [`AnthropicWireFormat`].

mod body;
mod stream;

use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

use super::client::{WireFormat, strip_version_suffix};
use super::endpoint::ModelApiEndpoint;
use super::{Error, ModelApiFormat, Request, RequestImagesByBlobId};

pub(super) use stream::AnthropicStreamDecoder;

/// Base URL of Anthropic's public API.
pub const DEFAULT_URL: &str = "https://api.anthropic.com";

/// Version of the API that each request names in a header.
const API_VERSION: &str = "2023-06-01";

/// The Messages format. Base URLs with and without `/v1` are equivalent.
pub(super) struct AnthropicWireFormat;

impl WireFormat for AnthropicWireFormat {
    const API_FORMAT: ModelApiFormat = ModelApiFormat::AnthropicMessages;
    const MODEL_LIST_PATH_AND_QUERY: (&'static str, &'static str) = ("v1/models", "limit=1000");
    type Reader = AnthropicStreamDecoder;

    fn adapt_url(&self, url: &mut Url) {
        strip_version_suffix(url, "/v1");
    }

    fn headers(&self, endpoint: &ModelApiEndpoint) -> Result<HeaderMap, Error> {
        let mut headers = HeaderMap::new();
        headers.insert(
            HeaderName::from_static("anthropic-version"),
            HeaderValue::from_static(API_VERSION),
        );
        if let Some(value) = endpoint.key_header_with_prefix("")? {
            headers.insert(HeaderName::from_static("x-api-key"), value);
        }
        Ok(headers)
    }

    fn body(&self, request: &Request, images: &RequestImagesByBlobId) -> Value {
        body::write_body(request, images)
    }

    fn path(&self, _body: &mut Value) -> String {
        "v1/messages".to_owned()
    }
}
