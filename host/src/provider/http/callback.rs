//! Shares the callback for stream events between the attempts of a request.

use std::sync::Mutex;
use std::time::Duration;

use super::{Error, StreamEvent};
use crate::lock::lock_ignoring_poison;

/// Callback for stream events. The mutex lets an attempt and the announcement of a retry share it.
pub(super) struct StreamEventCallback<'a>(Mutex<&'a mut (dyn FnMut(StreamEvent) + Send)>);

impl<'a> StreamEventCallback<'a> {
    pub(super) fn new(on: &'a mut (dyn FnMut(StreamEvent) + Send)) -> Self {
        Self(Mutex::new(on))
    }

    pub(super) fn emit_event(&self, event: StreamEvent) {
        lock_ignoring_poison(&self.0)(event);
    }

    pub(super) fn announce_retry(&self, attempt: u32, delay: Duration, error: &Error) {
        let reason = error.to_string();
        tracing::debug!(attempt, ?delay, reason, "trying again");
        let delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        self.emit_event(StreamEvent::Retry {
            attempt,
            delay_ms,
            reason,
        });
    }
}
