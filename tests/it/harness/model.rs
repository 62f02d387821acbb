//! A provider that sends requests to the scripted model through a closure of the test.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use rind::provider::scripted::Scripted;
use rind::provider::{Error, Provider, Request, RequestImagesByBlobId, Response, StreamEvent};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// A request that is sent, up to its answer.
pub(crate) type Sending<'a> = BoxFuture<'a, Result<Response, Error>>;

/// A provider that formats requests as the scripted model does, and sends them with a closure.
pub(crate) struct ProxyProvider<F> {
    name: &'static str,
    model: Arc<Scripted>,
    send: F,
}

impl<F> ProxyProvider<F>
where
    F: for<'a> Fn(
            &'a Scripted,
            Value,
            &'a mut (dyn FnMut(StreamEvent) + Send),
            &'a CancellationToken,
        ) -> Sending<'a>
        + Send
        + Sync,
{
    /// Creates the provider with its name.
    pub(crate) fn new(name: &'static str, model: Arc<Scripted>, send: F) -> Arc<Self> {
        Arc::new(Self { name, model, send })
    }
}

impl<F> Provider for ProxyProvider<F>
where
    F: for<'a> Fn(
            &'a Scripted,
            Value,
            &'a mut (dyn FnMut(StreamEvent) + Send),
            &'a CancellationToken,
        ) -> Sending<'a>
        + Send
        + Sync,
{
    fn name(&self) -> &str {
        self.name
    }

    fn build_request_body(&self, request: &Request, images: &RequestImagesByBlobId) -> Value {
        self.model.build_request_body(request, images)
    }

    fn send<'a>(
        &'a self,
        body: Value,
        on: &'a mut (dyn FnMut(StreamEvent) + Send),
        cancel: &'a CancellationToken,
    ) -> Sending<'a> {
        (self.send)(&self.model, body, on, cancel)
    }
}
