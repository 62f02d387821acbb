//! Collects the log lines of plugins during a demo for its report, since they are no events.

use std::fmt::Debug;
use std::sync::{Mutex, PoisonError};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

const TARGET: &str = "plugin";

/// Most lines that are kept; a demo has some dozens.
const MAX_LINES: usize = 10_000;

/// The lines. A subscriber is one for the whole process, and so is this.
static HEARD: Mutex<Vec<Line>> = Mutex::new(Vec::new());

#[derive(Default)]
pub(in super::super) struct Line {
    pub(in super::super) plugin: String,
    pub(in super::super) text: String,
}

/// Hears what plugins say at the level `info` and above.
pub(in super::super) fn layer<S: Subscriber + for<'a> LookupSpan<'a>>() -> impl Layer<S> {
    Hearing.with_filter(Targets::new().with_target(TARGET, Level::INFO))
}

pub(in super::super) fn take() -> Vec<Line> {
    std::mem::take(&mut HEARD.lock().unwrap_or_else(PoisonError::into_inner))
}

struct Hearing;

impl<S: Subscriber> Layer<S> for Hearing {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut line = Line::default();
        event.record(&mut line);
        let mut heard = HEARD.lock().unwrap_or_else(PoisonError::into_inner);
        if heard.len() < MAX_LINES {
            heard.push(line);
        }
    }
}

impl Visit for Line {
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
