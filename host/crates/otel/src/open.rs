//! A span that has started and not yet ended, with the state that is needed until its end.

use std::borrow::Cow;
use std::time::SystemTime;

use opentelemetry::trace::{Span as _, Status};
use opentelemetry::{Context, KeyValue, Value};
use opentelemetry_sdk::trace::Span;

use super::names as n;

#[derive(Debug)]
pub(super) struct UnfinishedSpan {
    pub(super) span: Span,
    pub(super) context: Context,
    has_failed: bool,
    /// Number of hook calls and their total duration in microseconds; only for the span of a turn
    /// or of a subagent.
    pub(super) hooks: Option<(i64, f64)>,
}

impl UnfinishedSpan {
    pub(super) fn new(span: Span, context: Context, is_turn: bool) -> Self {
        Self {
            span,
            context,
            has_failed: false,
            hooks: is_turn.then_some((0, 0.0)),
        }
    }

    pub(super) fn set_attribute(&mut self, key: &'static str, value: impl Into<Value>) {
        self.span.set_attribute(KeyValue::new(key, value));
    }

    pub(super) fn add_event(
        &mut self,
        name: &'static str,
        at: SystemTime,
        attributes: Vec<KeyValue>,
    ) {
        self.span.add_event_with_timestamp(name, at, attributes);
    }

    /// Marks the span as failed. Only the first failure is recorded, because it usually causes the
    /// later ones.
    pub(super) fn mark_failed(&mut self, kind: impl Into<Cow<'static, str>>) {
        if std::mem::replace(&mut self.has_failed, true) {
            return;
        }
        let kind: Cow<'static, str> = kind.into();
        self.set_attribute(n::ERROR_TYPE_ATTRIBUTE, kind);
        // Leave out the description: it would be content, which must not leave the process.
        self.span.set_status(Status::error(""));
    }

    pub(super) fn end_span(mut self, at: SystemTime) {
        if let Some((n_hooks, micros)) = self.hooks {
            self.set_attribute(n::HOOK_CALL_COUNT_ATTRIBUTE, n_hooks);
            self.set_attribute(n::HOOK_TOTAL_MICROS_ATTRIBUTE, micros);
        }
        self.span.end_with_timestamp(at);
    }

    /// Ends a span for which no end event arrived. Marks it as cancelled, unless it is the span of
    /// a turn or a subagent.
    pub(super) fn end_unfinished_span(mut self, at: SystemTime) {
        if self.hooks.is_none() {
            self.mark_failed(n::UNFINISHED_OPERATION_ERROR_TYPE);
        }
        self.end_span(at);
    }
}
