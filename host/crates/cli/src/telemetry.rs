//! Exports traces to OpenTelemetry if the environment asks for that, and warns the user of lost
//! traces.

use std::time::Duration;

#[cfg(not(feature = "otel"))]
use self::missing::TraceExporter as Exporter;
use super::{environment, render};
use rind_lib::event::Stamped;
#[cfg(feature = "otel")]
use rind_otel::EventTraceExporter as Exporter;

/// Maximum time that the program waits for a collector when it ends.
const TELEMETRY_FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// Environment variables with the endpoint: for all signals, and only for traces, which takes
/// precedence. The OpenTelemetry library reads their values itself.
const OTLP_ENDPOINT_ENV_VARIABLES: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
];

/// Returns the environment variable that requests the export of traces; `None` if none is set or
/// another variable turns traces off.
fn env_variable_requesting_trace_export(
    env: &dyn Fn(&str) -> Option<String>,
) -> Option<&'static str> {
    let is = |name: &str, value: &str| env(name).is_some_and(|v| v.eq_ignore_ascii_case(value));
    if is("OTEL_SDK_DISABLED", "true") || is("OTEL_TRACES_EXPORTER", "none") {
        return None;
    }
    OTLP_ENDPOINT_ENV_VARIABLES
        .into_iter()
        .rev()
        .find(|name| env(name).is_some())
}

/// Exporter of traces; does nothing if the environment configures none.
pub(super) struct TraceExporter(Option<Exporter>);

impl TraceExporter {
    pub(super) fn from_env() -> Self {
        let started = env_variable_requesting_trace_export(&environment::environment_variable)
            .map(|_| Exporter::start());
        Self(started.and_then(|started| {
            started
                .inspect_err(|error| render::print_warning(&error.to_string()))
                .ok()
        }))
    }

    pub(super) fn export_event(&mut self, event: &Stamped) {
        if let Some(exporter) = &mut self.0 {
            exporter.record_event(event);
        }
    }

    pub(super) async fn flush_and_stop(self) {
        let Some(exporter) = self.0 else { return };
        if let Err(lost) = exporter.finish(TELEMETRY_FLUSH_TIMEOUT).await {
            let name = env_variable_requesting_trace_export(&environment::environment_variable)
                .unwrap_or_default();
            render::print_warning(&format!(
                "{lost}; the variable {name} has the address of the collector"
            ));
        }
    }
}

/// Replaces the exporter in a build without the feature `otel`: reports that traces cannot be sent.
#[cfg(not(feature = "otel"))]
mod missing {
    pub(super) enum TraceExporter {}

    impl TraceExporter {
        pub(super) fn start() -> Result<Self, String> {
            let name = super::env_variable_requesting_trace_export(
                &super::environment::environment_variable,
            )
            .unwrap_or_default();
            Err(format!(
                "{name} is set, but this build cannot send traces: build Rind with `--features otel`"
            ))
        }

        pub(super) fn record_event(&mut self, _: &super::Stamped) {
            match *self {}
        }

        pub(super) async fn finish(self, _: super::Duration) -> Result<(), String> {
            match self {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::env_variable_requesting_trace_export;

    #[test]
    fn traces_are_asked_for_by_an_endpoint_and_switched_off_by_two_variables() {
        let (any, traces) = (
            "OTEL_EXPORTER_OTLP_ENDPOINT",
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
        );
        let both = format!("{any}=http://a {traces}=http://b");
        let table = [
            ("", None),
            (&format!("{any}=http://a"), Some(any)),
            (&both, Some(traces)),
            (&format!("{both} OTEL_SDK_DISABLED=TRUE"), None),
            (&format!("{both} OTEL_TRACES_EXPORTER=none"), None),
        ];
        for (variables, expected) in table {
            let env = |name: &str| {
                let mut all = variables.split(' ');
                let value = all.find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
                value.map(str::to_owned)
            };
            assert_eq!(
                env_variable_requesting_trace_export(&env),
                expected,
                "{variables:?}"
            );
        }
    }
}
