//! Exports turns as OpenTelemetry traces, with the names of the GenAI semantic conventions.
//!
//! A listener passes the events of a session to [`EventTraceExporter`]. A turn is a span
//! `invoke_agent`, each request of the turn to a model a span `chat`, and each tool call a span
//! `execute_tool`. A subagent is another span `invoke_agent`, whose parent is the tool call that
//! started it. Hooks that changed something or failed are events of the span to which they belong.
//!
//! Invariants: no content leaves the process, so spans have names, numbers and outcomes, but no
//! prompts, arguments, results, refusals or paths. Telemetry never delays a turn: events arrive
//! through a channel, spans go to a bounded queue, and only [`EventTraceExporter::finish`] waits
//! for the collector, up to a timeout.
//!
//! The destination is configured with the environment variables of the OpenTelemetry specification,
//! which the OpenTelemetry library reads itself: `OTEL_EXPORTER_OTLP_ENDPOINT`, `_HEADERS` and
//! `_TIMEOUT` (each also as `OTEL_EXPORTER_OTLP_TRACES_…`), `OTEL_SERVICE_NAME`,
//! `OTEL_RESOURCE_ATTRIBUTES` and `OTEL_TRACES_SAMPLER`.
//!
//! Start from [`EventTraceExporter`]; metrics of a worker are in [`numbers`].

mod attributes;
mod names;
pub mod numbers;
mod open;
mod outbox;
mod tree;

use std::time::Duration;

use opentelemetry::trace::TracerProvider;
use opentelemetry::{InstrumentationScope, Key, KeyValue};
use opentelemetry_otlp::{Protocol, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanExporter};
use tokio::task::JoinHandle;

use outbox::SpanExportQueue;
use rind_lib::event::Stamped;
use rind_lib::provider::install_crypto_provider;
use tree::SpanTree;

/// Service name in exported traces if the environment sets none.
const DEFAULT_SERVICE_NAME: &str = "rind";

/// Error that prevents telemetry from starting.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The settings of the exporter cannot be used.
    #[error(
        "the OpenTelemetry exporter cannot be set up ({0}); check the variables OTEL_EXPORTER_OTLP_*"
    )]
    Settings(String),
}

/// Error that some spans were not sent to the OpenTelemetry collector.
#[derive(Debug, thiserror::Error)]
#[error("{n_spans} OpenTelemetry spans were not sent: {why}")]
pub struct LostSpansError {
    /// Number of spans that were not sent.
    pub n_spans: u64,
    /// First error of an export, or the reason for which spans were dropped.
    pub why: String,
}

/// Builds OpenTelemetry traces from events of sessions and sends them to a collector.
#[derive(Debug)]
pub struct EventTraceExporter {
    tree: SpanTree,
    outbox: SpanExportQueue,
    sending: JoinHandle<()>,
    /// Provider of the tracer, which passes ended spans to `outbox`. Dropping its last reference
    /// closes the queue of `outbox` for new spans.
    _provider: SdkTracerProvider,
}

impl EventTraceExporter {
    /// Starts the export over HTTP to the destination that the environment configures. Must be
    /// called in a Tokio runtime.
    pub fn start() -> Result<Self, Error> {
        install_crypto_provider();
        let exporter = opentelemetry_otlp::SpanExporter::builder()
            .with_http()
            .with_protocol(Protocol::HttpBinary)
            .build()
            .map_err(|error| Error::Settings(redact_quoted_text(&error.to_string())))?;
        Ok(Self::with_exporter(exporter))
    }

    /// Starts the export with the given exporter. Must be called in a Tokio runtime.
    pub fn with_exporter(mut exporter: impl SpanExporter + 'static) -> Self {
        let resource = telemetry_resource();
        exporter.set_resource(&resource);
        let (outbox, spans) = SpanExportQueue::new();
        let provider = SdkTracerProvider::builder()
            .with_span_processor(outbox.clone())
            .with_resource(resource)
            .build();
        let scope = InstrumentationScope::builder(DEFAULT_SERVICE_NAME)
            .with_version(env!("CARGO_PKG_VERSION"))
            .build();
        Self {
            tree: SpanTree::new(provider.tracer_with_scope(scope)),
            sending: tokio::spawn(outbox.clone().send_spans(exporter, spans)),
            outbox,
            _provider: provider,
        }
    }

    /// Starts, extends or ends spans for an event. Never blocks.
    pub fn record_event(&mut self, event: &Stamped) {
        self.tree.handle_event(event);
    }

    /// Ends all spans, and waits until they are sent, for at most `limit`.
    ///
    /// # Errors
    /// Some spans did not reach the collector, now or earlier.
    pub async fn finish(mut self, limit: Duration) -> Result<(), LostSpansError> {
        self.tree.end_all_spans();
        self.outbox.close_outbox();
        let has_ended = tokio::time::timeout(limit, &mut self.sending).await.is_ok();
        self.sending.abort();
        let Some((n_spans, why)) = self.outbox.lost_count_and_error() else {
            return Ok(());
        };
        let why = match why {
            Some(why) => redact_quoted_text(&why),
            None if has_ended => {
                "they were produced faster than the collector accepted them".to_owned()
            }
            None => format!(
                "the collector did not answer within {} s",
                limit.as_secs_f32()
            ),
        };
        Err(LostSpansError { n_spans, why })
    }
}

/// Returns the resource that describes this process, from the environment and defaults.
fn telemetry_resource() -> Resource {
    let found = Resource::builder().build();
    let get = |key: &'static str| found.get(&Key::from_static_str(key));
    let mut builder = Resource::builder();
    let name = get("service.name").map(|name| name.to_string());
    if name.is_none_or(|name| name.starts_with("unknown_service")) {
        builder = builder.with_service_name(DEFAULT_SERVICE_NAME);
    }
    if get("service.version").is_none() {
        builder =
            builder.with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
    }
    builder.build()
}

/// Removes the quoted part of an error text: it may be the URL of an endpoint with a password.
fn redact_quoted_text(text: &str) -> String {
    let quoted = text
        .split_once('\'')
        .and_then(|(before, rest)| Some((before, rest.rsplit_once('\'')?.1)));
    match quoted {
        Some((before, after)) => format!("{}{after}", before.trim_end()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::redact_quoted_text;

    #[test]
    fn what_is_quoted_is_not_repeated() {
        let table = [
            (
                "invalid endpoint 'http://me:it's@h': bad",
                "invalid endpoint: bad",
            ),
            ("no quotes", "no quotes"),
            ("it's one", "it's one"),
        ];
        for (text, expected) in table {
            assert_eq!(redact_quoted_text(text), expected);
        }
    }
}
