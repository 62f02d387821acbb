//! The Gemini API of Google: `generateContent`, streamed.
//!
//! Owns the wire format in both directions: `body` writes requests, `stream` reads answers, `model`
//! knows the differences between model versions. It must not know the network (`http`) or the
//! source of its key (`select`). Start from [`GeminiWireFormat`].
//!
//! Format: <https://ai.google.dev/api/generate-content>.

mod body;
mod model;
mod stream;

use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName};
use serde_json::Value;

use super::client::{WireFormat, strip_version_suffix};
use super::endpoint::ModelApiEndpoint;
use super::{Error, ModelApiFormat, Request, RequestImagesByBlobId};

pub(super) use stream::GeminiStreamDecoder;

/// Base URL of the public Gemini API.
pub const DEFAULT_URL: &str = "https://generativelanguage.googleapis.com";

/// The `generateContent` format. Base URLs with and without `/v1beta` are equivalent.
pub(super) struct GeminiWireFormat;

impl WireFormat for GeminiWireFormat {
    const API_FORMAT: ModelApiFormat = ModelApiFormat::Gemini;
    const MODEL_LIST_PATH_AND_QUERY: (&'static str, &'static str) =
        ("v1beta/models", "pageSize=1000");
    type Reader = GeminiStreamDecoder;

    fn adapt_url(&self, url: &mut Url) {
        strip_version_suffix(url, "/v1beta");
        // Without `alt=sse` the API streams one JSON list instead of events.
        url.query_pairs_mut().append_pair("alt", "sse");
    }

    fn headers(&self, endpoint: &ModelApiEndpoint) -> Result<HeaderMap, Error> {
        let mut headers = HeaderMap::new();
        if let Some(value) = endpoint.key_header_with_prefix("")? {
            headers.insert(HeaderName::from_static("x-goog-api-key"), value);
        }
        Ok(headers)
    }

    fn body(&self, request: &Request, images: &RequestImagesByBlobId) -> Value {
        body::write_body(request, images)
    }

    /// Moves the name of the model from the body to the path, because this API refuses unknown
    /// fields.
    fn path(&self, body: &mut Value) -> String {
        let name = body.as_object_mut().and_then(|body| body.remove("model"));
        let name = name.as_ref().and_then(Value::as_str).unwrap_or_default();
        format!("v1beta/{}:streamGenerateContent", model::model_path(name))
    }
}
