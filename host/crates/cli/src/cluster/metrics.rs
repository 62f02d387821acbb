//! Exports the metrics of a worker to an OpenTelemetry collector, if environment variables name
//! one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rind_nats::worker::NatsWorkerStatusHandle;
use rind_otel::numbers::{MetricDefinition, MetricsExporter};
use tokio::task::AbortHandle;

use super::super::{environment, render};

/// Environment variables that set the endpoint. The first is for all signals, the second for
/// metrics only.
const OTLP_ENDPOINT_VARIABLES: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
];

/// Interval between two measurements of the age of the class's queue.
const QUEUE_AGE_POLL_INTERVAL: Duration = Duration::from_secs(5);

/// Timeout for sending the final values of the metrics when the worker ends.
const FINAL_METRICS_FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// Name of the metric for the age of the queue of a worker class.
const QUEUE_AGE_METRIC_NAME: &str = "rind.queue.age";

const WORKER_METRIC_DEFINITIONS: [MetricDefinition; 7] = [
    new_worker_metric_definition(
        "rind.worker.slots",
        "{session}",
        "Sessions that the worker can work on at once",
        false,
    ),
    new_worker_metric_definition(
        "rind.worker.busy",
        "{session}",
        "Sessions that the worker works on",
        false,
    ),
    new_worker_metric_definition(
        "rind.worker.claims",
        "{session}",
        "Sessions that the worker opened",
        true,
    ),
    new_worker_metric_definition("rind.worker.turns", "{turn}", "Turns that ended", true),
    new_worker_metric_definition(
        "rind.worker.fences",
        "{session}",
        "Sessions that others took over",
        true,
    ),
    new_worker_metric_definition(
        "rind.worker.dead_letters",
        "{input}",
        "Inputs that were given up",
        true,
    ),
    new_worker_metric_definition(
        QUEUE_AGE_METRIC_NAME,
        "ms",
        "Time that the first session of the class has waited",
        false,
    ),
];

const fn new_worker_metric_definition(
    name: &'static str,
    unit: &'static str,
    description: &'static str,
    is_sum: bool,
) -> MetricDefinition {
    MetricDefinition {
        name,
        unit,
        description,
        is_sum,
    }
}

/// Exports the metrics of a worker until [`finish`](Self::finish).
pub(super) struct WorkerMetricsExporter {
    sent: Option<MetricsExporter>,
    looking: Option<AbortHandle>,
}

impl WorkerMetricsExporter {
    /// Starts the export of metrics if the environment configures an endpoint for it.
    pub(super) fn from_env(watch: NatsWorkerStatusHandle, worker: &str) -> Self {
        let none = Self {
            sent: None,
            looking: None,
        };
        if !is_export_enabled(&environment::environment_variable) {
            return none;
        }
        let age = Arc::new(AtomicU64::new(0));
        let (own, seen) = (watch.clone(), age.clone());
        let class = watch.status().class;
        let attributes = [("rind.class", class), ("rind.worker", worker.to_owned())];
        let read = move |name: &'static str| read_metric_value(&own, &seen, name);
        match MetricsExporter::start(&WORKER_METRIC_DEFINITIONS, &attributes, Arc::new(read)) {
            Ok(sent) => {
                let looking = tokio::spawn(poll_queue_age(watch, age));
                Self {
                    sent: Some(sent),
                    looking: Some(looking.abort_handle()),
                }
            }
            Err(error) => {
                render::print_warning(&error.to_string());
                none
            }
        }
    }

    /// Sends the last values of the metrics, and stops the exporter.
    pub(super) async fn flush_and_stop(self) {
        if let Some(looking) = self.looking {
            looking.abort();
        }
        let Some(sent) = self.sent else {
            return;
        };
        let ended =
            tokio::task::spawn_blocking(move || sent.finish(FINAL_METRICS_FLUSH_TIMEOUT)).await;
        if let Ok(Err(why)) = ended {
            render::print_warning(&format!(
                "the last OpenTelemetry metrics were not sent: {why}"
            ));
        }
    }
}

/// Whether the environment configures an endpoint and does not switch metrics off.
fn is_export_enabled(env: &dyn Fn(&str) -> Option<String>) -> bool {
    let is = |name: &str, value: &str| env(name).is_some_and(|v| v.eq_ignore_ascii_case(value));
    !is("OTEL_SDK_DISABLED", "true")
        && !is("OTEL_METRICS_EXPORTER", "none")
        && OTLP_ENDPOINT_VARIABLES
            .into_iter()
            .any(|name| env(name).is_some())
}

fn read_metric_value(watch: &NatsWorkerStatusHandle, age: &AtomicU64, name: &str) -> u64 {
    let status = watch.status();
    match name {
        "rind.worker.slots" => status.slots as u64,
        "rind.worker.busy" => status.busy as u64,
        "rind.worker.claims" => status.claims,
        "rind.worker.turns" => status.turns,
        "rind.worker.fences" => status.fenced,
        "rind.worker.dead_letters" => status.dead,
        _ => age.load(Ordering::Relaxed),
    }
}

async fn poll_queue_age(watch: NatsWorkerStatusHandle, age: Arc<AtomicU64>) {
    loop {
        match watch.oldest_wake_message_age().await {
            Ok(ms) => age.store(ms, Ordering::Relaxed),
            Err(error) => tracing::debug!(%error, "the age of the queue is not known"),
        }
        tokio::time::sleep(QUEUE_AGE_POLL_INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_asked_for_by_an_endpoint_and_switched_off_by_two_variables() {
        let endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT=http://a";
        for (variables, expected) in [
            (String::new(), false),
            (endpoint.to_owned(), true),
            (
                "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=http://a".to_owned(),
                true,
            ),
            (format!("{endpoint} OTEL_METRICS_EXPORTER=none"), false),
            (format!("{endpoint} OTEL_SDK_DISABLED=true"), false),
        ] {
            let env = |name: &str| {
                let mut all = variables.split(' ');
                let value = all.find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
                value.map(str::to_owned)
            };
            assert_eq!(is_export_enabled(&env), expected, "{variables:?}");
        }
    }
}
