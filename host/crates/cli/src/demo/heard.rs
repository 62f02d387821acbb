//! Collects the log lines of plugins during a demo for the final report, because log lines are not
//! events.

use std::sync::Mutex;

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use rind_cases::log::{PLUGIN_LOG_TARGET, PluginLogLine};
use rind_lib::lock::lock_ignoring_poison;

/// Maximum number of lines that are kept; a demo produces some dozens.
const MAX_PLUGIN_LOG_LINES: usize = 10_000;

/// Collected lines. They are global because a process has only one subscriber.
static COLLECTED_PLUGIN_LOG_LINES: Mutex<Vec<PluginLogLine>> = Mutex::new(Vec::new());

/// Collects log lines of plugins at level `info` and above.
pub(in super::super) fn log_collecting_layer<S: Subscriber + for<'a> LookupSpan<'a>>()
-> impl Layer<S> {
    // This filter affects only this layer, and lets only the log target of plugins through.
    PluginLogCollectingLayer.with_filter(Targets::new().with_target(PLUGIN_LOG_TARGET, Level::INFO))
}

pub(in super::super) fn take_log_lines() -> Vec<PluginLogLine> {
    std::mem::take(&mut lock_ignoring_poison(&COLLECTED_PLUGIN_LOG_LINES))
}

struct PluginLogCollectingLayer;

impl<S: Subscriber> Layer<S> for PluginLogCollectingLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let Some(line) = PluginLogLine::from_event(event) else {
            return;
        };
        let mut heard = lock_ignoring_poison(&COLLECTED_PLUGIN_LOG_LINES);
        if heard.len() < MAX_PLUGIN_LOG_LINES {
            heard.push(line);
        }
    }
}
