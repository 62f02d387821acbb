//! Spans that have not ended: one, and those of an agent whose turn runs.

use std::borrow::Cow;
use std::collections::HashMap;
use std::time::SystemTime;

use opentelemetry::trace::{Span as _, Status};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::Span;

use super::names as n;

/// A span that has not ended.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) span: Span,
    /// Context for child spans.
    pub(super) context: Context,
    has_failed: bool,
}

impl Open {
    pub(super) fn new(span: Span, context: Context) -> Self {
        Self {
            span,
            context,
            has_failed: false,
        }
    }

    pub(super) fn note(&mut self, name: &'static str, at: SystemTime, attributes: Vec<KeyValue>) {
        self.span.add_event_with_timestamp(name, at, attributes);
    }

    /// Marks the span as failed; the first of several failures is kept, as the cause of the others.
    pub(super) fn fail(&mut self, kind: Cow<'static, str>) {
        if std::mem::replace(&mut self.has_failed, true) {
            return;
        }
        self.span.set_attribute(KeyValue::new(n::ERROR_TYPE, kind));
        // Without a description: it would be somebody's words.
        self.span.set_status(Status::error(""));
    }

    pub(super) fn end(mut self, at: SystemTime) {
        self.span.end_with_timestamp(at);
    }
}

/// One agent whose turn runs.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) turn: Open,
    /// Span of compaction or archival.
    pub(super) aside: Option<Open>,
    pub(super) requests: HashMap<u32, Open>,
    pub(super) calls: HashMap<String, Open>,
    pub(super) n_hooks: i64,
    pub(super) hook_micros: f64,
}

impl Running {
    pub(super) fn new(turn: Open) -> Self {
        Self {
            turn,
            aside: None,
            requests: HashMap::new(),
            calls: HashMap::new(),
            n_hooks: 0,
            hook_micros: 0.0,
        }
    }

    /// Returns the parent span: the tool call, compaction or archival, or the turn.
    pub(super) fn above(&mut self, call: Option<&str>) -> &mut Open {
        let call = call.and_then(|id| self.calls.get_mut(id));
        match (call, &mut self.aside) {
            (Some(call), _) => call,
            (None, Some(aside)) => aside,
            (None, None) => &mut self.turn,
        }
    }

    /// Ends what has no end of its own, then itself.
    pub(super) fn end(mut self, at: SystemTime) {
        let requests = self.requests.drain().map(|(_, open)| open);
        let calls = self.calls.drain().map(|(_, open)| open);
        for mut open in requests.chain(calls).chain(self.aside.take()) {
            open.fail(n::CANCELLED.into());
            open.end(at);
        }
        let counts = [
            KeyValue::new(n::HOOK_CALLS, self.n_hooks),
            KeyValue::new(n::HOOK_MICROS, self.hook_micros),
        ];
        self.turn.span.set_attributes(counts);
        self.turn.end(at);
    }
}
