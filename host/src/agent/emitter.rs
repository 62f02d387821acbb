//! Calls of hooks in a turn, and events of text that hooks must let through first.
//!
//! Reports each failed hook to the `error` point. `watchers` decides which text of the model is
//! shown. Start from [`EventEmitter::dispatch_hooks`].

use std::sync::Arc;

use super::judged::JudgedCalls;
use super::sink::AgentSink;
use super::spec::AgentSpec;
use crate::event::Event;
use crate::message::Message;
use crate::point::Point;
use crate::point::caller::Caller;
use crate::point::catalog as at;
use crate::point::dispatch::{Dispatched, Dispatcher};
use crate::point::merge::injected_message;
use crate::point::outcome::Injection;
use crate::session::{self, Body};

/// The way from a turn to the hooks, and through them to observers.
pub(super) struct EventEmitter {
    pub(super) spec: Arc<AgentSpec>,
    pub(super) dispatcher: Arc<Dispatcher>,
    pub(super) sink: Arc<AgentSink>,
    /// Calls whose arguments hooks have judged for observers.
    pub(super) judged_calls: JudgedCalls,
}

impl EventEmitter {
    pub(super) fn new(
        spec: Arc<AgentSpec>,
        dispatcher: Arc<Dispatcher>,
        sink: Arc<AgentSink>,
    ) -> Self {
        Self {
            spec,
            dispatcher,
            sink,
            judged_calls: JudgedCalls::default(),
        }
    }

    /// Calls the hooks of a point, then reports those that failed at the `error` point.
    pub(super) async fn dispatch_hooks<P: Point>(
        &self,
        caller: &Caller,
        payload: impl Into<P::Payload>,
    ) -> Dispatched<P::Payload> {
        // If a plugin caused this call, failures before it are left to the outer call, which waits
        // for that plugin.
        let is_caused = caller.call_chain.len() > self.spec.call_chain.len();
        let n_before = if is_caused { self.sink.n_failures() } else { 0 };
        let out = self.dispatcher.dispatch::<P>(caller, payload).await;
        for report in self.sink.take_failures(n_before) {
            self.dispatcher.dispatch::<at::Error>(caller, report).await;
        }
        out
    }

    /// Creates a message of a text that a plugin adds, and records the plugin as its source.
    pub(super) async fn emit_injection(
        &self,
        caller: &Caller,
        plugin: &str,
        Injection { text, keep }: Injection,
    ) -> Result<Message, session::Error> {
        let message = injected_message(plugin, &text);
        let plugin = plugin.to_owned();
        self.spec.session.append(Body::Injected {
            plugin: plugin.clone(),
            text: text.clone(),
            keep,
        })?;
        // The injected text may quote the model.
        let text = self.for_watchers(caller, text).await;
        self.spec
            .events
            .emit(Event::Injected { plugin, text, keep });
        Ok(message)
    }

    /// Emits a correction: the shown text, and the text that replaces it.
    pub(super) fn correct_text(&self, shown: String, text: String) {
        self.spec.session.append_or_defer(Body::Corrected {
            shown: shown.clone(),
            text: text.clone(),
        });
        self.spec.events.emit(Event::Correction { shown, text });
    }
}
