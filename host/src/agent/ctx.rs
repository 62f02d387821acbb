//! Context that all parts of a turn share: it calls hooks, appends messages to the session, and
//! emits events.

use std::sync::Arc;

use super::scope::TurnScope;
use super::stop::{EarlyStop, blocked_by, refuse_turn};
use crate::event::Event;
use crate::lock::lock;
use crate::message::Message;
use crate::point::Point;
use crate::point::caller::Caller;
use crate::point::catalog as at;
use crate::point::dispatch::Dispatched;
use crate::point::outcome::{Injection, Level};
use crate::session::Body;

/// Context of a turn: calls its hooks, writes its messages and emits its events.
pub(super) struct TurnCtx {
    /// State of the turn that is shared with the code that serves calls of plugins.
    pub(super) scope: Arc<TurnScope>,
    /// Number of the current step; 0 before the first.
    pub(super) step: u32,
    /// Messages that are sent with the next request only and not kept.
    pub(super) passing: Vec<Message>,
    /// Whether the turn is ending, for any reason.
    pub(super) is_ending: bool,
}

impl TurnCtx {
    pub(super) fn new(scope: Arc<TurnScope>) -> Self {
        Self {
            scope,
            step: 0,
            passing: Vec::new(),
            is_ending: false,
        }
    }

    /// Calls the hooks of a point with the turn itself as the caller.
    pub(super) async fn dispatch_point<P: Point>(
        &self,
        payload: impl Into<P::Payload>,
    ) -> Dispatched<P::Payload> {
        let caller = self.caller();
        let out = self
            .scope
            .emitter
            .dispatch_hooks::<P>(&caller, payload)
            .await;
        if self.scope.family.halt.is_set() && !self.is_ending {
            // The turn is being stopped: never return, so that nothing else runs before the turn
            // drops this future.
            std::future::pending::<()>().await;
        }
        out
    }

    /// Calls the hooks of a point at which hooks cannot refuse. If a hook with `on_failure = block`
    /// fails, the turn ends, so that text that the hook did not check goes no further. `what` names
    /// the text.
    pub(super) async fn pass_point<P: Point>(
        &self,
        what: &str,
        payload: impl Into<P::Payload>,
    ) -> Result<P::Payload, EarlyStop> {
        let out = self.dispatch_point::<P>(payload).await;
        refuse_turn(what, blocked_by(&out))?;
        Ok(out.value)
    }

    /// Appends a finished message to the session and emits it.
    pub(super) async fn push(&self, message: Message) -> Result<(), EarlyStop> {
        self.keep_message(&message)?;
        self.emit_message(message).await;
        Ok(())
    }

    /// Records the last input of the conversation as input of this turn, because this turn
    /// continues an interrupted one.
    pub(super) fn keep_last_input(&self) {
        let find_last = |messages: &[Message]| {
            let last = messages.iter().rfind(|message| message.is_input());
            last.map(|message| message.id.clone())
        };
        let last = self.scope.spec.session.view_messages(find_last);
        lock(&self.scope.input_ids).extend(last);
    }

    /// Appends a finished message to the session.
    pub(super) fn keep_message(&self, message: &Message) -> Result<(), EarlyStop> {
        if message.is_input() {
            lock(&self.scope.input_ids).insert(message.id.clone());
        }
        let message = message.clone();
        Ok(self.scope.spec.session.append(Body::Message { message })?)
    }

    /// Appends an answer of the model to the session. If it cannot be written, it stays in memory
    /// and is written later.
    pub(super) fn keep_answer(&self, message: &Message) -> Result<(), EarlyStop> {
        let message = message.clone();
        let session = &self.scope.spec.session;
        Ok(session.append_or_hold(Body::Message { message })?)
    }

    pub(super) async fn emit_message(&self, message: Message) {
        self.emit_message_as(message, None).await;
    }

    /// Emits a message to observers and calls the hooks of `message-end`. `shown` is the message's
    /// text for observers, if hooks have already checked it.
    pub(super) async fn emit_message_as(&self, message: Message, shown: Option<String>) {
        let caller = self.caller();
        let shown = self
            .scope
            .emitter
            .message_for_watchers(&caller, &message, shown)
            .await;
        self.emit_event(Event::MessageEnd { message: shown });
        self.dispatch_point::<at::MessageEnd>(message).await;
    }

    /// Adds injections of plugins: those with `keep` to the session, the others to the next request
    /// only.
    pub(super) async fn inject_texts(
        &mut self,
        injections: Vec<(Arc<str>, Injection)>,
    ) -> Result<(), EarlyStop> {
        for (plugin, injection) in injections {
            let keep = injection.keep;
            let message = self.inject_one(&plugin, injection).await?;
            if !keep {
                self.passing.push(message);
            }
        }
        Ok(())
    }

    /// Creates the message of an injection, and appends it to the session if it is to be kept.
    pub(super) async fn inject_one(
        &self,
        plugin: &str,
        injection: Injection,
    ) -> Result<Message, EarlyStop> {
        let keep = injection.keep;
        let caller = self.caller();
        let message = self
            .scope
            .emitter
            .emit_injection(&caller, plugin, injection)
            .await?;
        if keep {
            self.push(message.clone()).await?;
        }
        Ok(message)
    }

    pub(super) fn caller(&self) -> Caller {
        self.scope.scope_caller(self.step)
    }

    pub(super) fn emit_event(&self, event: Event) {
        self.scope.spec.events.emit(event);
    }

    /// Emits a notice for the user.
    pub(super) fn emit_notice(&self, level: Level, text: impl Into<String>) {
        self.emit_event(Event::notice(level, text));
    }
}
