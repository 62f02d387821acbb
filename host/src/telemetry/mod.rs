//! Turns as OpenTelemetry traces, with the names of the GenAI conventions.
//!
//! Listens to the events of a session like any other: a turn is a span `invoke_agent`, each request in it `chat`, each tool call
//! `execute_tool`, a subagent another `invoke_agent` below the call that started it; hooks that did something or failed are
//! events of the span that they belong to. What is said stays out of it: no prompts, arguments, results, refusals or paths
//! leave, only names, numbers and outcomes. It must not hold a turn up: whoever listens to events is not waited for, spans go
//! into a queue with a bound, and the end waits for the collector no longer than it is told.
//!
//! Where spans go is in the variables of the OpenTelemetry specification, which its library reads by itself:
//! `OTEL_EXPORTER_OTLP_ENDPOINT`, `_HEADERS` and `_TIMEOUT` (each also as `OTEL_EXPORTER_OTLP_TRACES_…`), `OTEL_SERVICE_NAME`,
//! `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_TRACES_SAMPLER`. Start from [`Telemetry`].

mod attributes;
mod names;
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

use crate::event::Stamped;
use crate::provider::install_tls;
use outbox::Outbox;
use tree::Tree;

/// Name of the service where the environment names none.
const SERVICE: &str = "rind";

/// Error that keeps telemetry off.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The settings of the exporter cannot be used.
    #[error(
        "the OpenTelemetry exporter cannot be set up ({0}); look at the variables OTEL_EXPORTER_OTLP_*"
    )]
    Settings(String),
}

/// Spans that did not arrive.
#[derive(Debug, thiserror::Error)]
#[error("{n_spans} OpenTelemetry spans were not sent: {why}")]
pub struct Lost {
    /// Number of spans.
    pub n_spans: u64,
    /// Error of the first of them.
    pub why: String,
}

/// Makes traces of events and sends them.
#[derive(Debug)]
pub struct Telemetry {
    tree: Tree,
    outbox: Outbox,
    sending: JoinHandle<()>,
    /// Provider of the spans, which stop when it is dropped.
    _provider: SdkTracerProvider,
}

impl Telemetry {
    /// Starts to send to where the environment says, over HTTP. To be called in a runtime.
    ///
    /// # Errors
    /// The settings in the environment cannot be used.
    pub fn start() -> Result<Self, Error> {
        install_tls();
        let exporter = opentelemetry_otlp::SpanExporter::builder()
            .with_http()
            .with_protocol(Protocol::HttpBinary)
            .build()
            .map_err(|error| Error::Settings(without_quotes(&error.to_string())))?;
        Ok(Self::over(exporter))
    }

    /// Starts to send with an exporter of one's own. To be called in a runtime.
    pub fn over(mut exporter: impl SpanExporter + 'static) -> Self {
        let resource = resource();
        exporter.set_resource(&resource);
        let (outbox, spans) = Outbox::new();
        let provider = SdkTracerProvider::builder()
            .with_span_processor(outbox.clone())
            .with_resource(resource)
            .build();
        let scope = InstrumentationScope::builder(SERVICE)
            .with_version(env!("CARGO_PKG_VERSION"))
            .build();
        Self {
            tree: Tree::new(provider.tracer_with_scope(scope)),
            sending: tokio::spawn(outbox.clone().send(exporter, spans)),
            outbox,
            _provider: provider,
        }
    }

    /// Takes an event in. Never waits.
    pub fn take(&mut self, event: &Stamped) {
        self.tree.take(event);
    }

    /// Sends what is left, for at most `limit`.
    ///
    /// # Errors
    /// Some spans did not arrive, now or before.
    pub async fn finish(mut self, limit: Duration) -> Result<(), Lost> {
        self.tree.close();
        self.outbox.close();
        let has_ended = tokio::time::timeout(limit, &mut self.sending).await.is_ok();
        self.sending.abort();
        let Some((n_spans, why)) = self.outbox.lost() else {
            return Ok(());
        };
        let why = match why {
            Some(why) => without_quotes(&why),
            None if has_ended => "they came faster than the collector took them".to_owned(),
            None => format!(
                "the collector did not answer within {} s",
                limit.as_secs_f32()
            ),
        };
        Err(Lost { n_spans, why })
    }
}

/// Returns the resource that describes this process, from the environment and defaults.
fn resource() -> Resource {
    let found = Resource::builder().build();
    let get = |key: &'static str| found.get(&Key::from_static_str(key));
    let mut builder = Resource::builder();
    let name = get("service.name").map(|name| name.to_string());
    if name.is_none_or(|name| name.starts_with("unknown_service")) {
        builder = builder.with_service_name(SERVICE);
    }
    if get("service.version").is_none() {
        builder =
            builder.with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
    }
    builder.build()
}

/// The text without what it quotes: an endpoint may hold a password.
fn without_quotes(text: &str) -> String {
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
    use super::without_quotes;

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
            assert_eq!(without_quotes(text), expected);
        }
    }
}
