//! Metrics that are exported at an interval, such as the load of a worker.
//!
//! The OpenTelemetry library reads its settings from the environment: `OTEL_EXPORTER_OTLP_ENDPOINT`
//! or `OTEL_EXPORTER_OTLP_METRICS_ENDPOINT`, and `OTEL_METRIC_EXPORT_INTERVAL`. The values of a
//! failed export are lost. Counters are cumulative, so the next export includes the lost counts.
//! Start from [`MetricsExporter`].

use std::sync::Arc;
use std::time::Duration;

use opentelemetry::metrics::MeterProvider;
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_otlp::{MetricExporter, Protocol, WithExportConfig};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::metrics::{SdkMeterProvider, Temporality};
use rind_lib::provider::install_crypto_provider;
use tokio::runtime::Handle;

use crate::{DEFAULT_SERVICE_NAME, Error, redact_quoted_text, telemetry_resource};

/// Definition of an exported metric: name, unit, description and kind.
#[derive(Clone, Copy, Debug)]
pub struct MetricDefinition {
    /// Name of the metric, such as `rind.worker.turns`.
    pub name: &'static str,
    /// Unit of the metric, such as `{turn}` or `ms`.
    pub unit: &'static str,
    /// Description of the metric for operators.
    pub description: &'static str,
    /// Whether the value never decreases (a counter, not a gauge).
    pub is_sum: bool,
}

/// Exports metrics to a collector until the value is dropped.
#[derive(Debug)]
pub struct MetricsExporter {
    provider: SdkMeterProvider,
}

impl MetricsExporter {
    /// Starts to export metrics, each with these attributes. `read` returns the present value of a
    /// metric by its name. Must be called in a Tokio runtime.
    ///
    /// # Errors
    /// A setting in the environment is invalid.
    pub fn start(
        numbers: &[MetricDefinition],
        attributes: &[(&'static str, String)],
        read: Arc<dyn Fn(&'static str) -> u64 + Send + Sync>,
    ) -> Result<Self, Error> {
        install_crypto_provider();
        let exporter = MetricExporter::builder()
            .with_http()
            .with_protocol(Protocol::HttpBinary)
            .build()
            .map_err(|error| Error::Settings(redact_quoted_text(&error.to_string())))?;
        let exporter = MetricExporterOnTokioRuntime {
            exporter,
            runtime: Handle::current(),
        };
        let provider = SdkMeterProvider::builder()
            .with_periodic_exporter(exporter)
            .with_resource(telemetry_resource())
            .build();
        let scope = InstrumentationScope::builder(DEFAULT_SERVICE_NAME)
            .with_version(env!("CARGO_PKG_VERSION"))
            .build();
        let meter = provider.meter_with_scope(scope);
        let attributes: Vec<KeyValue> = attributes
            .iter()
            .map(|(key, value)| KeyValue::new(*key, value.clone()))
            .collect();
        for number in numbers {
            let (read, attributes, name) = (read.clone(), attributes.clone(), number.name);
            // The provider owns the instrument, so the returned handle is not stored.
            if number.is_sum {
                meter
                    .u64_observable_counter(name)
                    .with_unit(number.unit)
                    .with_description(number.description)
                    .with_callback(move |observer| observer.observe(read(name), &attributes))
                    .build();
            } else {
                meter
                    .u64_observable_gauge(name)
                    .with_unit(number.unit)
                    .with_description(number.description)
                    .with_callback(move |observer| observer.observe(read(name), &attributes))
                    .build();
            }
        }
        Ok(Self { provider })
    }

    /// Exports the last values and stops. Blocks for at most `limit`.
    ///
    /// # Errors
    /// The last values did not reach the collector.
    pub fn finish(self, limit: Duration) -> Result<(), String> {
        let ended = self.provider.shutdown_with_timeout(limit);
        ended.map_err(|error| redact_quoted_text(&error.to_string()))
    }
}

/// Exports on the Tokio runtime of the program: the HTTP client needs a Tokio runtime, and the
/// thread that the library would use has none.
#[derive(Debug)]
struct MetricExporterOnTokioRuntime {
    exporter: MetricExporter,
    runtime: Handle,
}

impl PushMetricExporter for MetricExporterOnTokioRuntime {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        self.runtime.block_on(self.exporter.export(metrics))
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn temporality(&self) -> Temporality {
        self.exporter.temporality()
    }
}
