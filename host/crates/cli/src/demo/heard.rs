//! Collects the log lines of plugins during a demo for its report, since they are no events.

use std::sync::Mutex;

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use rind_cases::log::{Line, TARGET};
use rind_lib::lock::lock;

/// Most lines that are kept; a demo has some dozens.
const MAX_LINES: usize = 10_000;

/// The lines. A subscriber is one for the whole process, and so is this.
static HEARD: Mutex<Vec<Line>> = Mutex::new(Vec::new());

/// Collects log lines of plugins at level `info` and above.
pub(in super::super) fn layer<S: Subscriber + for<'a> LookupSpan<'a>>() -> impl Layer<S> {
    // The filter enables only the target of plugins for this layer.
    Hearing.with_filter(Targets::new().with_target(TARGET, Level::INFO))
}

pub(in super::super) fn take() -> Vec<Line> {
    std::mem::take(&mut lock(&HEARD))
}

struct Hearing;

impl<S: Subscriber> Layer<S> for Hearing {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let Some(line) = Line::of(event) else {
            return;
        };
        let mut heard = lock(&HEARD);
        if heard.len() < MAX_LINES {
            heard.push(line);
        }
    }
}
