//! Traces for OpenTelemetry: whether the environment asks for them, and what the user is told when they get lost.

#[cfg(not(feature = "otel"))]
use super::setup;
use crate::event::Stamped;

/// Variables with the endpoint for traces; the second applies to traces only. Everything else of theirs is read by the library
/// itself.
const ENDPOINTS: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
];

/// The variable that asks for traces, unless another one switches them off.
fn asked_by(env: &dyn Fn(&str) -> Option<String>) -> Option<&'static str> {
    let is = |name: &str, value: &str| env(name).is_some_and(|v| v.eq_ignore_ascii_case(value));
    if is("OTEL_SDK_DISABLED", "true") || is("OTEL_TRACES_EXPORTER", "none") {
        return None;
    }
    ENDPOINTS.into_iter().rev().find(|name| env(name).is_some())
}

/// Exporter of traces, if it is enabled.
#[derive(Default)]
pub(super) struct Telemetry {
    #[cfg(feature = "otel")]
    sending: Option<crate::telemetry::Telemetry>,
}

#[cfg(feature = "otel")]
mod sent {
    use std::time::Duration;

    use super::super::{render, setup};
    use super::{Stamped, Telemetry, asked_by};

    /// Time that the end of the program waits for a collector.
    const FLUSH: Duration = Duration::from_secs(2);

    impl Telemetry {
        pub(in super::super) fn from_env() -> Self {
            let sending = asked_by(&setup::env).and_then(|_| {
                let started = crate::telemetry::Telemetry::start();
                started
                    .inspect_err(|error| render::warn(&error.to_string()))
                    .ok()
            });
            Self { sending }
        }

        pub(in super::super) fn take(&mut self, event: &Stamped) {
            if let Some(sending) = &mut self.sending {
                sending.take(event);
            }
        }

        pub(in super::super) async fn finish(self) {
            let Some(sending) = self.sending else { return };
            if let Err(lost) = sending.finish(FLUSH).await {
                let name = asked_by(&setup::env).unwrap_or_default();
                render::warn(&format!("{lost}; the collector is the one in {name}"));
            }
        }
    }
}

#[cfg(not(feature = "otel"))]
impl Telemetry {
    /// Says what is missing when the environment asks for it.
    pub(super) fn from_env() -> Self {
        if let Some(name) = asked_by(&setup::env) {
            super::render::warn(&format!(
                "{name} is set and this build sends no traces: build Rind with `--features otel`"
            ));
        }
        Self::default()
    }

    pub(super) fn take(&mut self, _event: &Stamped) {}

    pub(super) async fn finish(self) {}
}

#[cfg(test)]
mod tests {
    use super::asked_by;

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
            assert_eq!(asked_by(&env), expected, "{variables:?}");
        }
    }
}
