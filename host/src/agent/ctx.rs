//! Context that all parts of a turn share: it calls hooks, appends messages to the session, and
//! emits events.

use std::sync::Arc;

use super::scope::SharedTurnState;
use super::stop::{EarlyTurnEndReason, fail_if_hook_blocked, hook_block_reason};
use crate::event::Event;
use crate::lock::lock_ignoring_poison;
use crate::message::Message;
use crate::point::ExtensionPoint;
use crate::point::caller::Caller;
use crate::point::catalog as at;
use crate::point::dispatch::HookDispatchResult;
use crate::point::outcome::{Injection, Level};
use crate::session::Body;

/// Context of a turn: calls its hooks, writes its messages and emits its events.
pub(super) struct TurnContext {
    /// State of the turn that is shared with the code that serves calls of plugins.
    pub(super) scope: Arc<SharedTurnState>,
    /// Number of the current step of the turn, from 1; 0 before the first step.
    pub(super) step: u32,
    /// Messages that only the next request to the model contains; the session does not store them.
    pub(super) passing: Vec<Message>,
    /// Whether the turn is ending, so that no further step begins.
    pub(super) is_ending: bool,
}

impl TurnContext {
    pub(super) fn new(scope: Arc<SharedTurnState>) -> Self {
        Self {
            scope,
            step: 0,
            passing: Vec::new(),
            is_ending: false,
        }
    }

    /// Calls the hooks of a point with the turn itself as the caller.
    pub(super) async fn dispatch_hooks_of_point<P: ExtensionPoint>(
        &self,
        payload: impl Into<P::Payload>,
    ) -> HookDispatchResult<P::Payload> {
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
    /// fails, the turn ends, because the hook did not check the text. `what` names the text in the
    /// message for the user, such as "conversation".
    pub(super) async fn dispatch_hooks_or_end_turn<P: ExtensionPoint>(
        &self,
        what: &str,
        payload: impl Into<P::Payload>,
    ) -> Result<P::Payload, EarlyTurnEndReason> {
        let out = self.dispatch_hooks_of_point::<P>(payload).await;
        fail_if_hook_blocked(what, hook_block_reason(&out))?;
        Ok(out.value)
    }

    /// Appends a finished message to the session and emits it.
    pub(super) async fn append_and_emit_message(
        &self,
        message: Message,
    ) -> Result<(), EarlyTurnEndReason> {
        self.append_message(&message)?;
        self.emit_message(message).await;
        Ok(())
    }

    /// Records the last input of the conversation as input of this turn, because this turn
    /// continues an interrupted one.
    pub(super) fn record_last_input(&self) {
        let find_last = |messages: &[Message]| {
            let last = messages
                .iter()
                .rfind(|message| message.is_user_or_parent_input());
            last.map(|message| message.id.clone())
        };
        let last = self.scope.spec.session.inspect_all_messages(find_last);
        lock_ignoring_poison(&self.scope.input_ids).extend(last);
    }

    /// Appends a complete message to the session and, if it is input of the user, adds its id to
    /// the input of this turn.
    pub(super) fn append_message(&self, message: &Message) -> Result<(), EarlyTurnEndReason> {
        if message.is_user_or_parent_input() {
            lock_ignoring_poison(&self.scope.input_ids).insert(message.id.clone());
        }
        let message = message.clone();
        Ok(self.scope.spec.session.append(Body::Message { message })?)
    }

    /// Appends an answer of the model to the session. If the session file cannot be written, the
    /// answer stays in memory and is written later.
    pub(super) fn append_answer(&self, message: &Message) -> Result<(), EarlyTurnEndReason> {
        let message = message.clone();
        let session = &self.scope.spec.session;
        Ok(session.append_or_keep_in_memory(Body::Message { message })?)
    }

    pub(super) async fn emit_message(&self, message: Message) {
        self.emit_message_with_checked_text(message, None).await;
    }

    /// Emits a message to observers and calls the hooks of `message-end`. `shown` is the message's
    /// text for observers, if hooks have already checked it.
    pub(super) async fn emit_message_with_checked_text(
        &self,
        message: Message,
        shown: Option<String>,
    ) {
        let caller = self.caller();
        let shown = self
            .scope
            .emitter
            .message_for_observers(&caller, &message, shown)
            .await;
        self.emit_event(Event::MessageEnd { message: shown });
        self.dispatch_hooks_of_point::<at::MessageEnd>(message)
            .await;
    }

    /// Adds the messages that plugins inject. A message with `keep` is appended to the session, any
    /// other is only in the next request.
    pub(super) async fn inject_texts(
        &mut self,
        injections: Vec<(Arc<str>, Injection)>,
    ) -> Result<(), EarlyTurnEndReason> {
        for (plugin, injection) in injections {
            let keep = injection.keep;
            let message = self.add_injected_message(&plugin, injection).await?;
            if !keep {
                self.passing.push(message);
            }
        }
        Ok(())
    }

    /// Creates the message that a plugin injects, and appends it to the session if `keep` is set.
    pub(super) async fn add_injected_message(
        &self,
        plugin: &str,
        injection: Injection,
    ) -> Result<Message, EarlyTurnEndReason> {
        let keep = injection.keep;
        let caller = self.caller();
        let message = self
            .scope
            .emitter
            .emit_injected_plugin_text(&caller, plugin, injection)
            .await?;
        if keep {
            self.append_and_emit_message(message.clone()).await?;
        }
        Ok(message)
    }

    pub(super) fn caller(&self) -> Caller {
        self.scope.caller_info_for_step(self.step)
    }

    pub(super) fn emit_event(&self, event: Event) {
        self.scope.spec.events.emit(event);
    }

    /// Emits a notice of the host for the user.
    pub(super) fn emit_notice(&self, level: Level, text: impl Into<String>) {
        self.emit_event(Event::create_host_notice(level, text));
    }
}
