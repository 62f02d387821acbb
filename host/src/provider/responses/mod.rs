//! The Responses API of OpenAI, for which OpenAI's current reasoning models are built. It is used
//! statelessly: the server stores nothing (`store: false`), and reasoning is exchanged as encrypted
//! items.
//!
//! Owns the wire format in both directions: `body` writes requests, `stream` reads answers. It must
//! not know the network (`http`) or the source of its key (`select`). Start from
//! [`ResponsesWireFormat`].
//!
//! Format: <https://developers.openai.com/api/reference/resources/responses>.

mod body;
mod stream;

use reqwest::header::HeaderMap;
use serde_json::Value;

use super::client::WireFormat;
use super::endpoint::ModelApiEndpoint;
use super::{Error, ModelApiFormat, Request, RequestImagesByBlobId, openai};

pub(super) use stream::ResponsesStreamDecoder;

/// The Responses format. The base URL of most servers ends in `/v1`.
pub(super) struct ResponsesWireFormat;

impl WireFormat for ResponsesWireFormat {
    const API_FORMAT: ModelApiFormat = ModelApiFormat::OpenaiResponses;
    const MODEL_LIST_PATH_AND_QUERY: (&'static str, &'static str) = ("models", "");
    type Reader = ResponsesStreamDecoder;

    fn headers(&self, endpoint: &ModelApiEndpoint) -> Result<HeaderMap, Error> {
        openai::bearer_headers(endpoint)
    }

    fn body(&self, request: &Request, images: &RequestImagesByBlobId) -> Value {
        body::write_body(request, images)
    }

    fn path(&self, _body: &mut Value) -> String {
        "responses".to_owned()
    }
}
