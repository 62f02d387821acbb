//! Implements a provider for hosts without a model, which refuses every request.

use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use rind_lib::provider::{Error, Provider, Request, RequestImagesByBlobId, Response, StreamEvent};

/// Provider that refuses every request, for hosts without a model.
pub(crate) struct RefusingModelProvider;

impl Provider for RefusingModelProvider {
    fn name(&self) -> &str {
        "none"
    }

    fn build_request_body(&self, _: &Request, _: &RequestImagesByBlobId) -> Value {
        Value::Null
    }

    fn send<'a>(
        &'a self,
        _: Value,
        _: &'a mut (dyn FnMut(StreamEvent) + Send),
        _: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Response, Error>> {
        Box::pin(async {
            Err(Error::MissingKey {
                provider: "a model".to_owned(),
                key_env: "ANTHROPIC_API_KEY, OPENAI_API_KEY or OPENAI_BASE_URL".to_owned(),
            })
        })
    }
}
