//! Streams the model's text to the user, through the hooks that check it.
//!
//! Decides when text is shown ([`StreamedTextDisplayMode`]): immediately if no hook may change it,
//! in pieces if hooks of `output-delta` check it, and only when it is complete if another hook may
//! still change or block it. Every event text that may contain output of the model passes through
//! this module. Text that was shown cannot be removed: if the final text differs, a correction is
//! emitted.
//!
//! Start from [`StreamingAnswer::stream_answer`].

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::emitter::TurnEventEmitter;
use super::pending::SharedStreamedAnswerText;
use super::stop::hook_block_reason;
use crate::event::{Event, EventSender};
use crate::point::caller::Caller;
use crate::point::catalog as at;
use crate::point::dispatch::PluginAttributedText;
use crate::point::payload::TextDelta;
use crate::point::streaming::StreamedTextDisplayMode;
use crate::provider::{self, Response, StreamEvent};

/// Maximum time for which received text of the model waits before hooks check it.
const MAX_HOOK_CHECK_DELAY: Duration = Duration::from_millis(200);

/// Minimum time between two checks of received text by hooks, so that many short lines do not cost
/// one call of each hook.
const MIN_HOOK_CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Length of the end of the shown text that hooks receive as context, in bytes.
const HOOK_CONTEXT_TEXT_BYTES: usize = 256;

/// Maximum length of the text that hooks may withhold until the next check, in bytes. A hook that
/// withholds more gets the complete answer at the end, because otherwise it would receive the same
/// text again at every line.
const MAX_HOOK_WITHHELD_TEXT_BYTES: usize = 64 << 10;

/// Partial text of one answer, and the part of it that was shown. It outlives the request, which
/// may be dropped at any await point.
#[derive(Debug, Default)]
pub(super) struct StreamedAnswerProgress {
    /// Partial text of an unfinished answer: the text shown so far, or, if the answer is shown only
    /// at the end, all text received so far.
    pub(super) partial: String,
    /// Shown part of the answer, including the text of earlier steps that this step continues.
    pub(super) shown: String,
    /// Length of the beginning of `shown` that earlier steps wrote, in bytes. A token limit cut the
    /// answer of those steps, and this step continues it.
    continued: usize,
}

impl StreamedAnswerProgress {
    /// Begins an answer of which the user has seen nothing except the text that the answer
    /// continues.
    pub(super) fn begin_answer(&mut self) {
        self.partial.clear();
        self.shown.truncate(self.continued);
    }

    /// Ends the answer of a step. If the next step continues the answer, the text shown so far
    /// counts as part of that answer.
    pub(super) fn end_answer(&mut self, is_continued: bool) {
        self.continued = match is_continued {
            true => self.shown.len(),
            false => 0,
        };
    }

    /// Removes and returns the shown text, so that the answer of the next step does not continue
    /// it.
    pub(super) fn take_shown_text(&mut self) -> String {
        self.continued = 0;
        std::mem::take(&mut self.shown)
    }

    /// Returns the part of the shown text that the model wrote in the current step, without the
    /// truncated answers of earlier steps that it continues.
    pub(super) fn text_of_current_step(&self) -> &str {
        self.shown.get(self.continued..).unwrap_or_default()
    }
}

/// Answer of the model while it is being received.
pub(super) struct StreamingAnswer<'a> {
    emitter: &'a TurnEventEmitter,
    /// Token that is cancelled when the turn is interrupted.
    cancel: &'a CancellationToken,
    caller: &'a Caller,
    streaming: StreamedTextDisplayMode,
    progress: &'a mut StreamedAnswerProgress,
    /// Received text that is not shown yet, because hooks must check it first.
    pending: String,
    /// Whether hooks withhold so much text that they are called again only for the complete answer.
    is_put_off: bool,
    /// Plugin and text of the hook that stopped the answer.
    stopped: Option<PluginAttributedText>,
}

impl<'a> StreamingAnswer<'a> {
    pub(super) fn new(
        emitter: &'a TurnEventEmitter,
        cancel: &'a CancellationToken,
        caller: &'a Caller,
        progress: &'a mut StreamedAnswerProgress,
    ) -> Self {
        progress.begin_answer();
        Self {
            emitter,
            cancel,
            caller,
            streaming: emitter.choose_text_display_mode(caller),
            progress,
            pending: String::new(),
            is_put_off: false,
            stopped: None,
        }
    }

    /// Returns the plugin and the text of the hook that stopped the answer; `None` if none did.
    pub(super) fn into_hook_block_reason(self) -> Option<PluginAttributedText> {
        self.stopped
    }

    /// Sends a request body and shows the answer while it streams, as far as hooks permit.
    pub(super) async fn stream_answer(
        &mut self,
        body: Value,
        heard: SharedStreamedAnswerText,
    ) -> Result<Response, provider::Error> {
        let events = &self.emitter.spec.events;
        let provider = &self.emitter.spec.provider;
        let cancel = self.cancel;
        if self.streaming != StreamedTextDisplayMode::Judged {
            let mut told = HeldTextNotificationState::default();
            let mut on = |event| {
                heard.record_stream_event(&event);
                self.show_event_without_hook_check(event, &mut told);
            };
            return provider.send(body, &mut on, cancel).await;
        }
        let cancel = cancel.child_token();
        let (sender, pieces) = unbounded_channel();
        let mut told = HeldTextNotificationState::default();
        // The sender is dropped with the request: once the answer is complete, no further pieces
        // arrive.
        let sending = async {
            let mut on = move |event| {
                heard.record_stream_event(&event);
                match event {
                    StreamEvent::Text(text) => drop(sender.send(AnswerTextUpdate::Text(text))),
                    StreamEvent::Thinking(_) => told.emit_model_activity(events, true, &[]),
                    StreamEvent::ToolCall { .. } => {}
                    retry @ StreamEvent::Retry { .. } => {
                        let _ = sender.send(AnswerTextUpdate::Again);
                        emit_retry(events, retry);
                    }
                }
            };
            provider.send(body, &mut on, &cancel).await
        };
        let (response, ()) =
            tokio::join!(sending, self.run_hooks_on_stream_pieces(pieces, &cancel));
        response
    }

    /// Handles an event that no hook checks while the answer streams: shows its text at once, or
    /// only notifies the user that text is withheld until it is complete.
    fn show_event_without_hook_check(
        &mut self,
        event: StreamEvent,
        told: &mut HeldTextNotificationState,
    ) {
        let is_free = self.streaming == StreamedTextDisplayMode::Free;
        let events = &self.emitter.spec.events;
        match event {
            StreamEvent::Text(text) => {
                self.progress.partial.push_str(&text);
                if is_free {
                    self.progress.shown.push_str(&text);
                    events.emit(Event::TextDelta { text });
                } else {
                    told.emit_model_activity(
                        events,
                        false,
                        &self.streaming.text_delaying_plugin_names(),
                    );
                }
            }
            StreamEvent::Thinking(text) if is_free => events.emit(Event::ThinkingDelta { text }),
            StreamEvent::Thinking(_) => {
                told.emit_model_activity(events, true, &self.streaming.text_delaying_plugin_names())
            }
            StreamEvent::ToolCall { .. } => {}
            retry @ StreamEvent::Retry { .. } => {
                self.reset_for_retry();
                emit_retry(&self.emitter.spec.events, retry);
            }
        }
    }

    /// Passes the stream to the hooks for checking: at the first piece, at line ends or every
    /// [`MAX_HOOK_CHECK_DELAY`], and at the end. If the complete answer arrives at once, there is
    /// only the check at the end. With `checks_ends_only`, there are no checks between the first
    /// piece and the end.
    async fn run_hooks_on_stream_pieces(
        &mut self,
        mut pieces: UnboundedReceiver<AnswerTextUpdate>,
        cancel: &CancellationToken,
    ) {
        let ends_only = self.emitter.spec.config.checks_ends_only;
        let mut last: Option<Instant> = None;
        // Whether text arrived since the last call of the hooks.
        let mut has_new = false;
        let mut has_line = false;
        let wait = |has_line| {
            if has_line {
                MIN_HOOK_CHECK_INTERVAL
            } else {
                MAX_HOOK_CHECK_DELAY
            }
        };
        loop {
            let due = last
                .filter(|_| has_new && !self.is_put_off && !ends_only)
                .map(|last| last + wait(has_line));
            let piece = match due {
                Some(due) => {
                    match select(pin!(pieces.recv()), pin!(tokio::time::sleep_until(due))).await {
                        Either::Left((piece, _)) => Some(piece),
                        Either::Right(_) => None,
                    }
                }
                None => Some(pieces.recv().await),
            };
            let mut piece = match piece {
                Some(None) => break,
                Some(Some(piece)) => Some(piece),
                None => None,
            };
            // Join all queued pieces, so that hooks check them together.
            while let Some(one) = piece.take() {
                match one {
                    AnswerTextUpdate::Text(text) => {
                        has_line |= text.contains('\n');
                        has_new = true;
                        self.pending.push_str(&text);
                    }
                    AnswerTextUpdate::Again => self.reset_for_retry(),
                }
                piece = pieces.try_recv().ok();
            }
            let is_due = last.is_none_or(|last| !ends_only && last.elapsed() >= wait(has_line));
            // If the complete answer arrived at once, hooks check it only once, as the last piece.
            let is_over = pieces.is_closed() && pieces.is_empty();
            if has_new && is_due && !is_over && !self.is_put_off && self.stopped.is_none() {
                self.run_output_delta_hooks(false, cancel).await;
                (last, has_new, has_line) = (Some(Instant::now()), false, false);
            }
        }
        if self.stopped.is_none() && !self.pending.is_empty() {
            self.run_output_delta_hooks(true, cancel).await;
        }
    }

    /// Calls the hooks of `output-delta` with the pending text, and shows the text that they let
    /// through.
    async fn run_output_delta_hooks(&mut self, is_last: bool, cancel: &CancellationToken) {
        let delta = TextDelta {
            before: hook_context_suffix(&self.progress.shown).to_owned(),
            text: std::mem::take(&mut self.pending),
            is_last,
            keep: 0,
        };
        let judged = self
            .emitter
            .dispatch_hooks::<at::OutputDelta>(self.caller, delta)
            .await;
        if let Some(said) = hook_block_reason(&judged) {
            self.stopped = Some(said.clone());
            // Cancel the request: the rest of the answer will not be used.
            cancel.cancel();
            return;
        }
        let TextDelta { mut text, keep, .. } = judged.value;
        self.pending = text.split_off(text.len().saturating_sub(keep));
        self.is_put_off = self.pending.len() > MAX_HOOK_WITHHELD_TEXT_BYTES;
        if !text.is_empty() {
            self.progress.shown.push_str(&text);
            self.progress.partial.push_str(&text);
            self.emitter.spec.events.emit(Event::TextDelta { text });
        }
    }

    /// Discards the text of an attempt that failed, because the request is sent again.
    fn reset_for_retry(&mut self) {
        self.pending.clear();
        self.is_put_off = false;
        self.progress.partial.clear();
        if self.progress.text_of_current_step().is_empty() {
            return;
        }
        let shown = self.progress.shown.clone();
        self.progress.shown.truncate(self.progress.continued);
        self.emitter
            .emit_shown_text_correction(shown, self.progress.shown.clone());
    }
}

/// Change of the received text of a streamed answer.
enum AnswerTextUpdate {
    Text(String),
    /// The request is sent again, so the text that was received so far is discarded.
    Again,
}

/// Whether the user was notified that the model writes, and that it thinks, while the text is not
/// shown.
#[derive(Default)]
struct HeldTextNotificationState {
    writes: bool,
    thinks: bool,
}

impl HeldTextNotificationState {
    fn emit_model_activity(&mut self, events: &EventSender, is_thinking: bool, by: &[Arc<str>]) {
        let told = if is_thinking {
            &mut self.thinks
        } else {
            &mut self.writes
        };
        if !std::mem::replace(told, true) {
            let by = by.iter().map(ToString::to_string).collect();
            let event = Event::TextHeld { is_thinking, by };
            events.emit(event);
        }
    }
}

/// Emits the event which reports that a model request is about to be sent again.
pub(super) fn emit_retry(events: &EventSender, event: StreamEvent) {
    if let StreamEvent::Retry {
        attempt,
        delay_ms,
        reason,
    } = event
    {
        events.emit(Event::Retry {
            attempt,
            delay_ms,
            reason,
        });
    }
}

/// Returns the last [`HOOK_CONTEXT_TEXT_BYTES`] of a text, cut at a character boundary.
fn hook_context_suffix(text: &str) -> &str {
    let from = text.ceil_char_boundary(text.len().saturating_sub(HOOK_CONTEXT_TEXT_BYTES));
    text.get(from..).unwrap_or_default()
}

/// Whether a text equals or continues the shown text. White space is ignored, because parts of an
/// answer are joined in different ways.
pub(super) fn starts_with_ignoring_whitespace(text: &str, shown: &str) -> bool {
    let mut text = text.chars().filter(|c| !c.is_whitespace());
    let mut shown = shown.chars().filter(|c| !c.is_whitespace());
    shown.all(|c| text.next() == Some(c))
}
