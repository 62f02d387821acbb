//! Implements [`AgentHandle`], through which plugins call back into the session.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::Value;

use super::blobs::describe_blob_error;
use super::budget::LimitedCallCounts;
use super::host_calls::PluginHostCallExecutor;
use super::lifecycle::LiveAgent;
use super::scope::{ActiveTurns, SharedTurnState};
use super::sink::{HookEffectExecutor, PluginKeyValueWriter, log_plugin_line};
use crate::checkpoint::{CallFileChangeRecorder, FileChangeOrigin};
use crate::event::{Event, EventSender};
use crate::message::{Message, Parts};
use crate::point::caller::Caller;
use crate::point::defined::PluginDefinedPoints;
use crate::point::dispatch::HookDispatcher;
use crate::point::handle::{
    AgentHandle, BackgroundSubagentTask, FileChangeRecorder, HostFunctionError,
    PluginDefinedPointResult, PluginModelReply, PluginModelRequest, PluginStateWriteMode,
    PluginUserQuestion, SubagentPresetSummary, SubagentReport, SubagentTask, UserAnswerToPlugin,
};
use crate::point::outcome::{Effect, Level};
use crate::point::trace::AccessRecord;
use crate::session::{Error, Session};

/// Maximum number of messages that a plugin gets from one call (`wit/session.wit`).
const MAX_MESSAGES_PER_PLUGIN_CALL: usize = 1_000;

/// Maximum length of the name of a session entry that a plugin appends, in bytes.
const MAX_SESSION_ENTRY_NAME_BYTES: usize = 128;

/// Maximum length of a session entry that a plugin appends, in bytes. Larger data belongs in the
/// plugin's state, where it can be replaced.
const MAX_SESSION_ENTRY_BYTES: usize = 1 << 20;

/// Access of plugins to one session. All plugins share it, so every method has the plugin as a
/// parameter.
pub struct PluginSessionHandle {
    outlet: HookEffectExecutor,
    /// Dispatcher, points that plugins define, and running turns. Set after the plugins have got
    /// this handle, when the hooks are known. The reference is weak because the dispatcher holds
    /// the hooks and the hooks hold this handle: a strong one would form a cycle that is never
    /// freed.
    agent: OnceLock<(Weak<HookDispatcher>, PluginDefinedPoints, ActiveTurns)>,
}

impl PluginSessionHandle {
    /// Creates the handle through which plugins access `session`.
    #[must_use]
    pub fn new(session: Arc<Session>, events: EventSender, keep: PluginKeyValueWriter) -> Self {
        Self {
            outlet: HookEffectExecutor {
                session,
                events,
                keep,
            },
            agent: OnceLock::new(),
        }
    }

    /// Sets the agent and the plugin-defined points. Only the first call has an effect.
    pub(crate) fn set_agent(&self, agent: &LiveAgent, points: PluginDefinedPoints) {
        let dispatcher = Arc::downgrade(&agent.dispatcher);
        let turns = agent.family.active_turns.clone();
        let _ = self.agent.set((dispatcher, points, turns));
    }

    /// Returns the running turn of the agent for which a plugin acts.
    fn active_turn(&self, caller: &Caller) -> Result<Arc<SharedTurnState>, HostFunctionError> {
        let agent = self.agent.get();
        agent
            .and_then(|(_, _, turns)| turns.find_active_turn(&caller.context.agent))
            .ok_or_else(|| HostFunctionError::Failed("no turn is running".to_owned()))
    }
}

/// Defines a method that forwards a plugin's call to the running turn of the calling agent.
macro_rules! in_turn {
    ($method:ident($($name:ident: $of:ty),+) -> $answer:ty) => {
        fn $method<'a>(
            &'a self,
            plugin: &'a Arc<str>,
            $($name: $of,)+
            caller: Caller,
        ) -> BoxFuture<'a, Result<$answer, HostFunctionError>> {
            Box::pin(async move {
                let turn = self.active_turn(&caller)?;
                PluginHostCallExecutor::new(&turn, plugin).$method($($name,)+ caller).await
            })
        }
    };
}

impl AgentHandle for PluginSessionHandle {
    fn write_log_line(&self, plugin: &str, level: Level, text: &str) {
        log_plugin_line(plugin, level, text);
    }

    fn apply_effect(&self, plugin: &str, effect: Effect) {
        self.outlet.apply_effect(plugin, effect);
    }

    fn record_access(&self, record: AccessRecord) {
        self.outlet.record_plugin_access(record);
    }

    fn status(&self, plugin: &str, text: String) {
        self.outlet.session.set_plugin_status_line(plugin, &text);
        let plugin = plugin.to_owned();
        self.outlet.events.emit(Event::Status { plugin, text });
    }

    fn file_change_recorder(
        &self,
        plugin: &Arc<str>,
        caller: &Caller,
    ) -> Option<Arc<dyn FileChangeRecorder>> {
        let turn = self.active_turn(caller).ok()?;
        Some(Arc::new(CallFileChangeRecorder {
            checkpoints: turn.family.checkpoints.clone(),
            origin: FileChangeOrigin {
                turn: turn.family.root.last_turn_number(),
                call: caller.call.as_deref().unwrap_or_default().to_owned(),
                tool: format!("plugin {plugin}"),
            },
        }))
    }

    in_turn!(ask_person(question: PluginUserQuestion) -> UserAnswerToPlugin);

    fn state_get(&self, plugin: &str, key: &str) -> Option<String> {
        match self.outlet.session.state_get(plugin, key) {
            Ok(value) => value,
            Err(error) => {
                tracing::error!(plugin, key, %error, "cannot read session state");
                None
            }
        }
    }

    fn set_plugin_state_value(
        &self,
        plugin: &str,
        key: &str,
        value: Option<&str>,
        when: PluginStateWriteMode,
    ) -> Result<(), HostFunctionError> {
        let session = &self.outlet.session;
        let set = match when {
            PluginStateWriteMode::AtOnce => session.state_set(plugin, key, value),
            PluginStateWriteMode::WithNextEntry => {
                session.state_set_with_next_entry(plugin, key, value)
            }
        };
        set.map_err(session_error_for_plugin)
    }

    fn write_deferred_state(&self) -> Result<(), HostFunctionError> {
        self.outlet
            .session
            .write_deferred_lines()
            .map_err(session_error_for_plugin)
    }

    fn state_keys(&self, plugin: &str, prefix: &str) -> Vec<String> {
        self.outlet.session.state_keys(plugin, prefix)
    }

    fn inspect_last_messages(
        &self,
        caller: &Caller,
        last: usize,
        view: &mut dyn FnMut(&[Message]),
    ) {
        let last = last.min(MAX_MESSAGES_PER_PLUGIN_CALL);
        match self.active_turn(caller) {
            Ok(turn) => turn.spec.session.inspect_last_messages(last, view),
            Err(_) => self.outlet.session.inspect_last_messages(last, view),
        }
    }

    fn read_blob<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Vec<u8>, HostFunctionError>> {
        Box::pin(async move {
            let (blobs, id) = (self.outlet.session.blobs().clone(), id.to_owned());
            let read = tokio::task::spawn_blocking(move || blobs.get(&id)).await;
            match read {
                Ok(Ok(bytes)) => Ok(bytes),
                Ok(Err(error)) => Err(HostFunctionError::NotFound(describe_blob_error(&error))),
                Err(_) => Err(HostFunctionError::Failed(
                    "the blob cannot be read".to_owned(),
                )),
            }
        })
    }

    fn append_custom_entry(
        &self,
        plugin: &str,
        name: &str,
        value: Value,
    ) -> Result<(), HostFunctionError> {
        if name.is_empty() || name.len() > MAX_SESSION_ENTRY_NAME_BYTES {
            return Err(HostFunctionError::InvalidInput(format!(
                "the name of an entry has {} bytes, 1 to {MAX_SESSION_ENTRY_NAME_BYTES} are allowed",
                name.len()
            )));
        }
        let bytes = value.to_string().len();
        if bytes > MAX_SESSION_ENTRY_BYTES {
            return Err(HostFunctionError::Limit(format!(
                "an entry of {bytes} bytes, at most {MAX_SESSION_ENTRY_BYTES}"
            )));
        }
        let session = &self.outlet.session;
        session
            .append_custom_entry(plugin, name, value)
            .map_err(session_error_for_plugin)
    }

    fn call_plugin_defined_point<'a>(
        &'a self,
        plugin: &'a str,
        name: &'a str,
        payload: Value,
        caller: Caller,
    ) -> BoxFuture<'a, Result<PluginDefinedPointResult, HostFunctionError>> {
        Box::pin(async move {
            let Some((dispatcher, points, _)) = self.agent.get() else {
                return Err(HostFunctionError::NotFound(format!(
                    "plugin `{plugin}` called the point `{name}` before the points of plugins were set up"
                )));
            };
            let Some(dispatcher) = dispatcher.upgrade() else {
                return Err(HostFunctionError::Failed("the session is over".to_owned()));
            };
            let called = points.call_point(&dispatcher, plugin, name, payload, &caller);
            called.await
        })
    }

    in_turn!(ask_model(question: PluginModelRequest) -> PluginModelReply);

    in_turn!(run_agent(task: SubagentTask) -> String);

    fn agent_presets(
        &self,
        caller: &Caller,
    ) -> Result<Vec<SubagentPresetSummary>, HostFunctionError> {
        let presets = &self.active_turn(caller)?.spec.presets;
        let all = presets.iter().map(|preset| SubagentPresetSummary {
            name: preset.name.clone(),
            description: preset.description.clone(),
        });
        Ok(all.collect())
    }

    in_turn!(start_agent(order: BackgroundSubagentTask) -> String);

    in_turn!(resume_agent(id: String, message: String) -> ());

    in_turn!(wait_agents(ids: Vec<String>, limit: Duration) -> Vec<SubagentReport>);

    in_turn!(stop_agent(id: String) -> SubagentReport);

    fn reset_call_limits(&self, caller: &Caller) {
        if let Ok(turn) = self.active_turn(caller) {
            turn.budget
                .set_call_counts(LimitedCallCounts::new_for_period("minute"));
        }
    }

    in_turn!(call_tool(name: String, arguments: Value) -> Parts);
}

/// Converts an error of the session into an error for plugins, which must not see paths of the
/// host.
pub(super) fn session_error_for_plugin(error: Error) -> HostFunctionError {
    match error {
        Error::Limit { what, .. } => HostFunctionError::Limit(what),
        other => {
            tracing::debug!(error = %other, "cannot write to the session for a plugin");
            HostFunctionError::Failed("the session cannot be written".to_owned())
        }
    }
}

impl_partial_debug!(PluginSessionHandle, self);
