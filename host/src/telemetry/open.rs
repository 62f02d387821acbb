//! A span that has not ended.

use std::borrow::Cow;
use std::time::SystemTime;

use opentelemetry::trace::{Span as _, Status};
use opentelemetry::{Context, KeyValue, Value};
use opentelemetry_sdk::trace::Span;

use super::names as n;

#[derive(Debug)]
pub(super) struct Open {
    pub(super) span: Span,
    pub(super) context: Context,
    has_failed: bool,
    /// Hook calls and the microseconds that they took; only of a whole turn.
    pub(super) hooks: Option<(i64, f64)>,
}

impl Open {
    pub(super) fn new(span: Span, context: Context, is_turn: bool) -> Self {
        Self {
            span,
            context,
            has_failed: false,
            hooks: is_turn.then_some((0, 0.0)),
        }
    }

    pub(super) fn set(&mut self, key: &'static str, value: impl Into<Value>) {
        self.span.set_attribute(KeyValue::new(key, value));
    }

    pub(super) fn note(&mut self, name: &'static str, at: SystemTime, attributes: Vec<KeyValue>) {
        self.span.add_event_with_timestamp(name, at, attributes);
    }

    /// Marks the span as failed; the first of several failures is kept, as the cause of the others.
    pub(super) fn fail(&mut self, kind: impl Into<Cow<'static, str>>) {
        if std::mem::replace(&mut self.has_failed, true) {
            return;
        }
        let kind: Cow<'static, str> = kind.into();
        self.set(n::ERROR_TYPE, kind);
        // Without a description: it would be somebody's words.
        self.span.set_status(Status::error(""));
    }

    pub(super) fn end(mut self, at: SystemTime) {
        if let Some((n_hooks, micros)) = self.hooks {
            self.set(n::HOOK_CALLS, n_hooks);
            self.set(n::HOOK_MICROS, micros);
        }
        self.span.end_with_timestamp(at);
    }

    /// Ends what has no end of its own.
    pub(super) fn cut(mut self, at: SystemTime) {
        if self.hooks.is_none() {
            self.fail(n::CANCELLED);
        }
        self.end(at);
    }
}
