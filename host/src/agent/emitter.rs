//! Calls hooks in a turn, and emits events whose text hooks must check first.
//!
//! Failed hooks are reported at the point `error`. `watchers` decides which text of the model is
//! shown. Start from [`TurnEventEmitter::dispatch_hooks`].

use std::sync::Arc;

use super::judged::EventToolCallCache;
use super::sink::AgentDispatchReportSink;
use super::spec::AgentSpec;
use crate::event::Event;
use crate::message::Message;
use crate::point::ExtensionPoint;
use crate::point::caller::Caller;
use crate::point::catalog as at;
use crate::point::dispatch::{HookDispatchResult, HookDispatcher};
use crate::point::merge::create_injected_message;
use crate::point::outcome::Injection;
use crate::session::{self, Body};

/// Calls the hooks in a turn, and emits events to observers. Texts in the events are emitted after
/// hooks have checked them.
pub(super) struct TurnEventEmitter {
    pub(super) spec: Arc<AgentSpec>,
    pub(super) dispatcher: Arc<HookDispatcher>,
    pub(super) sink: Arc<AgentDispatchReportSink>,
    /// Cache of the calls as observers see them, after hooks changed or masked them.
    pub(super) judged_calls: EventToolCallCache,
}

impl TurnEventEmitter {
    pub(super) fn new(
        spec: Arc<AgentSpec>,
        dispatcher: Arc<HookDispatcher>,
        sink: Arc<AgentDispatchReportSink>,
    ) -> Self {
        Self {
            spec,
            dispatcher,
            sink,
            judged_calls: EventToolCallCache::default(),
        }
    }

    /// Calls the hooks of a point, then reports failed hooks at the point `error`.
    pub(super) async fn dispatch_hooks<P: ExtensionPoint>(
        &self,
        caller: &Caller,
        payload: impl Into<P::Payload>,
    ) -> HookDispatchResult<P::Payload> {
        // If a plugin caused this call, report only the failures of this call: the outer call,
        // which waits for that plugin, reports the earlier ones.
        let is_caused = caller.call_chain.len() > self.spec.call_chain.len();
        let n_before = if is_caused { self.sink.n_failures() } else { 0 };
        let out = self.dispatcher.dispatch::<P>(caller, payload).await;
        for report in self.sink.take_failures(n_before) {
            self.dispatcher.dispatch::<at::Error>(caller, report).await;
        }
        out
    }

    /// Creates the message for a text that a plugin adds, and records and emits the injection with
    /// the plugin as its source.
    pub(super) async fn emit_injected_plugin_text(
        &self,
        caller: &Caller,
        plugin: &str,
        Injection { text, keep }: Injection,
    ) -> Result<Message, session::Error> {
        let message = create_injected_message(plugin, &text);
        let plugin = plugin.to_owned();
        self.spec.session.append(Body::Injected {
            plugin: plugin.clone(),
            text: text.clone(),
            keep,
        })?;
        // The text may quote the model, so observers get the text after the hooks that check it.
        let text = self.text_for_observers(caller, text).await;
        self.spec
            .events
            .emit(Event::Injected { plugin, text, keep });
        Ok(message)
    }

    /// Records and emits a correction: observers have received the text `shown`, and the text
    /// `text` replaces it.
    pub(super) fn emit_shown_text_correction(&self, shown: String, text: String) {
        self.spec.session.append_or_defer_error(Body::Corrected {
            shown: shown.clone(),
            text: text.clone(),
        });
        self.spec.events.emit(Event::Correction { shown, text });
    }
}
