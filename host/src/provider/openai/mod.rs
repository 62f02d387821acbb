//! Chat completions, the API of OpenAI that many other servers offer as well: Ollama, vLLM,
//! llama.cpp, OpenRouter and others.
//!
//! Owns the wire format in both directions: `body` writes requests, `stream` reads answers. It must
//! not know the network (`http`) or the source of its key (`select`). Start from
//! [`ChatCompletionsWireFormat`].

mod body;
mod stream;

use reqwest::header::{AUTHORIZATION, HeaderMap};
use serde_json::Value;

use super::client::WireFormat;
use super::endpoint::ModelApiEndpoint;
use super::{Error, ModelApiFormat, Request, RequestImagesByBlobId};

pub(super) use stream::{ChatCompletionsStreamDecoder, http_status_of_stream_error};

/// Base URL of OpenAI's public API.
pub const DEFAULT_URL: &str = "https://api.openai.com/v1";

/// Base URL of an Ollama server on this machine, at its default port.
pub const OLLAMA_URL: &str = "http://127.0.0.1:11434/v1";

/// Base URL of OpenRouter's public API.
pub const OPENROUTER_URL: &str = "https://openrouter.ai/api/v1";

/// The chat completions format. The base URL of most servers ends in `/v1`.
pub(super) struct ChatCompletionsWireFormat;

impl WireFormat for ChatCompletionsWireFormat {
    const API_FORMAT: ModelApiFormat = ModelApiFormat::OpenaiChat;
    const MODEL_LIST_PATH_AND_QUERY: (&'static str, &'static str) = ("models", "");
    type Reader = ChatCompletionsStreamDecoder;

    fn headers(&self, endpoint: &ModelApiEndpoint) -> Result<HeaderMap, Error> {
        bearer_headers(endpoint)
    }

    fn body(&self, request: &Request, images: &RequestImagesByBlobId) -> Value {
        body::write_body(request, images)
    }

    fn path(&self, _body: &mut Value) -> String {
        "chat/completions".to_owned()
    }
}

/// Returns the request headers of OpenAI's APIs: the key as a bearer token, if there is one.
pub(super) fn bearer_headers(endpoint: &ModelApiEndpoint) -> Result<HeaderMap, Error> {
    let mut headers = HeaderMap::new();
    if let Some(value) = endpoint.key_header_with_prefix("Bearer ")? {
        headers.insert(AUTHORIZATION, value);
    }
    Ok(headers)
}
