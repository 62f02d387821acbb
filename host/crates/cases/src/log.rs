//! Captures the log lines of plugins while a case runs. The lines are part of the observed
//! behavior, so they are captured and not logged. All other tracing events are passed to the
//! previous subscriber.

use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Dispatch, Event, Level, Metadata, Subscriber};

use rind_lib::lock::lock_ignoring_poison;

/// Target of the tracing events that plugins log.
pub const PLUGIN_LOG_TARGET: &str = "plugin";

/// Maximum number of captured lines. The host lets a plugin log far fewer in the two sessions of a
/// case.
const MAX_CAPTURED_LOG_LINES: usize = 10_000;

/// Line that a plugin logged.
#[derive(Debug, Default)]
pub struct PluginLogLine {
    pub plugin: String,
    pub text: String,
}

impl PluginLogLine {
    /// Returns the log line of a tracing event; `None` if the event is not from a plugin or is
    /// below level `info`.
    pub fn from_event(event: &Event<'_>) -> Option<Self> {
        is_captured_log_event(event.metadata()).then(|| {
            let mut line = Self::default();
            event.record(&mut line);
            line
        })
    }
}

/// Captured log lines, shared by the tracing subscriber and the test case.
#[derive(Clone, Default)]
pub(super) struct CapturedLogLines(Arc<Mutex<Vec<PluginLogLine>>>);

impl CapturedLogLines {
    /// Creates a subscriber that captures log lines of plugins at level `info` and above.
    pub(super) fn create_capture_subscriber(&self) -> Dispatch {
        Dispatch::new(LogCaptureSubscriber {
            heard: self.clone(),
            before: tracing::dispatcher::get_default(Clone::clone),
        })
    }

    /// Returns the captured log lines, and removes them from the list.
    pub(super) fn take_captured_lines(&self) -> Vec<PluginLogLine> {
        std::mem::take(&mut lock_ignoring_poison(&self.0))
    }
}

struct LogCaptureSubscriber {
    heard: CapturedLogLines,
    before: Dispatch,
}

fn is_captured_log_event(metadata: &Metadata<'_>) -> bool {
    metadata.target() == PLUGIN_LOG_TARGET && *metadata.level() <= Level::INFO
}

impl Subscriber for LogCaptureSubscriber {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        // Do not let tracing cache whether the event is enabled, because the level of the previous
        // subscriber may change.
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        is_captured_log_event(metadata) || self.before.enabled(metadata)
    }

    fn event(&self, event: &Event<'_>) {
        if let Some(line) = PluginLogLine::from_event(event) {
            let mut heard = lock_ignoring_poison(&self.heard.0);
            if heard.len() < MAX_CAPTURED_LOG_LINES {
                heard.push(line);
            }
        } else if self.before.enabled(event.metadata()) {
            self.before.event(event);
        }
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.before.new_span(span)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        self.before.record(span, values);
    }

    fn record_follows_from(&self, span: &Id, follows: &Id) {
        self.before.record_follows_from(span, follows);
    }

    fn enter(&self, span: &Id) {
        self.before.enter(span);
    }

    fn exit(&self, span: &Id) {
        self.before.exit(span);
    }

    fn clone_span(&self, span: &Id) -> Id {
        self.before.clone_span(span)
    }

    fn try_close(&self, span: Id) -> bool {
        self.before.try_close(span)
    }
}

impl Visit for PluginLogLine {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "plugin" {
            value.clone_into(&mut self.plugin);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.text = format!("{value:?}");
        }
    }
}
