//! Sends spans to the collector: a bounded queue that never blocks the sender, and a task that
//! exports batches from it.
//!
//! Invariant: a span that is not exported counts as lost, whether the queue was full, the export
//! failed or the time ran out. This module must not depend on the content of the spans. Start from
//! [`SpanExportQueue`].

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use opentelemetry::Context;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Span, SpanData, SpanExporter, SpanProcessor};
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::time::Instant;

use rind_lib::lock::lock_ignoring_poison;

/// Maximum number of queued spans, the specification's default. Spans beyond it are dropped, so
/// that an unresponsive collector causes only bounded memory use.
const MAX_QUEUED_SPANS: usize = 2048;

/// Maximum number of spans per export request, the default of the OpenTelemetry specification.
const MAX_SPANS_PER_BATCH: usize = 512;

/// Maximum time that a span waits in the queue for other spans of the same batch.
const MAX_SPAN_BATCHING_DELAY: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
pub(super) struct SpanExportQueue(Arc<SpanExportQueueState>);

#[derive(Debug)]
struct SpanExportQueueState {
    /// Sender of the queue; `None` after the queue is closed.
    sender: Mutex<Option<Sender<SpanData>>>,
    n_ended: AtomicU64,
    n_sent: AtomicU64,
    why: Mutex<Option<String>>,
}

impl SpanExportQueue {
    /// Creates an empty queue of spans. Returns it with the receiver of the spans.
    pub(super) fn new() -> (Self, Receiver<SpanData>) {
        let (sender, receiver) = mpsc::channel(MAX_QUEUED_SPANS);
        let state = SpanExportQueueState {
            sender: Mutex::new(Some(sender)),
            n_ended: AtomicU64::new(0),
            n_sent: AtomicU64::new(0),
            why: Mutex::new(None),
        };
        (Self(Arc::new(state)), receiver)
    }

    /// Closes the queue for new spans. Queued spans are still sent.
    pub(super) fn close_outbox(&self) {
        lock_ignoring_poison(&self.0.sender).take();
    }

    /// Returns the number of lost spans and the first error of an export; `None` if no span was
    /// lost.
    pub(super) fn lost_count_and_error(&self) -> Option<(u64, Option<String>)> {
        let n_ended = self.0.n_ended.load(Ordering::Acquire);
        let n_lost = n_ended.saturating_sub(self.0.n_sent.load(Ordering::Acquire));
        (n_lost > 0).then(|| (n_lost, lock_ignoring_poison(&self.0.why).clone()))
    }

    /// Sends the queued spans to the exporter in batches, until the queue is closed and empty.
    pub(super) async fn send_spans(
        self,
        exporter: impl SpanExporter,
        mut spans: Receiver<SpanData>,
    ) {
        let mut batch = Vec::new();
        while spans.recv_many(&mut batch, MAX_SPANS_PER_BATCH).await > 0 {
            let until = Instant::now() + MAX_SPAN_BATCHING_DELAY;
            while batch.len() < MAX_SPANS_PER_BATCH {
                let room = MAX_SPANS_PER_BATCH - batch.len();
                let more = tokio::time::timeout_at(until, spans.recv_many(&mut batch, room));
                if !matches!(more.await, Ok(1..)) {
                    break;
                }
            }
            let n_spans = batch.len() as u64;
            match exporter.export(std::mem::take(&mut batch)).await {
                Ok(()) => drop(self.0.n_sent.fetch_add(n_spans, Ordering::AcqRel)),
                Err(error) => {
                    lock_ignoring_poison(&self.0.why).get_or_insert(error.to_string());
                }
            }
        }
    }
}

impl SpanProcessor for SpanExportQueue {
    fn on_start(&self, _span: &mut Span, _context: &Context) {}

    fn on_end(&self, span: SpanData) {
        if !span.span_context.is_sampled() {
            return;
        }
        self.0.n_ended.fetch_add(1, Ordering::AcqRel);
        if let Some(sender) = &*lock_ignoring_poison(&self.0.sender) {
            // If the queue is full, the span is dropped; the counters show the loss.
            let _ = sender.try_send(span);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _timeout: Duration) -> OTelSdkResult {
        self.close_outbox();
        Ok(())
    }
}
