//! Trait through which plugin code calls the host.
//!
//! The sandbox has one handle per plugin and session, and the host's imports call the methods of
//! the handle. An implementation makes no authorization decision: an import that was not granted is
//! not linked, so its method is never called. The limits per turn are constants of this module;
//! implementations enforce them. Start from [`AgentHandle`].

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::Value;

use super::caller::Caller;
use super::dispatch::CombinedHookVerdict;
use super::outcome::{Effect, Level};
use super::trace::AccessRecord;
use crate::message::{Message, Parts, Usage};

/// Maximum number of questions that one plugin may ask a model in one turn. The limits per turn
/// stop a faulty plugin before it costs more than a long turn; a plugin that needs more should have
/// a loop.
pub const MAX_PLUGIN_MODEL_REQUESTS_PER_TURN: u32 = 20;

/// Maximum number of tool calls that one plugin may make in one turn.
pub const MAX_PLUGIN_TOOL_CALLS_PER_TURN: u32 = 100;

/// Maximum number of subagents that one plugin may run in one turn.
pub const MAX_PLUGIN_SUBAGENTS_PER_TURN: u32 = 4;

/// Maximum number of questions that one plugin may ask the user in one turn. More questions would
/// annoy the user.
pub const MAX_USER_QUESTIONS_PER_TURN: u32 = 5;

/// Error of a host function (`wit/types.wit`, `error`).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostFunctionError {
    /// The plugin passed an invalid argument.
    #[error("{0}")]
    InvalidInput(String),
    /// The file, value, session or other target of the call does not exist.
    #[error("{0}")]
    NotFound(String),
    /// The plugin may not make this call, for this reason.
    #[error("{0}")]
    Denied(String),
    /// A value is too large, or there are too many values or calls.
    #[error("{0}")]
    Limit(String),
    /// The call failed for another reason, which the text describes.
    #[error("{0}")]
    Failed(String),
}

/// Result of calling a plugin-defined point.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginDefinedPointResult {
    /// Value after all implementers were called: the final value (gate, mutate), the array of
    /// contributions (collect), or null (observe).
    pub value: Value,
    /// Combined verdict of the plugins that implement the point.
    pub verdict: CombinedHookVerdict,
}

/// Request of a plugin to a model (`wit/model.wit`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginModelRequest {
    /// System prompt of the request; may be empty.
    pub system: String,
    /// User message that is sent to the model.
    pub prompt: String,
    /// Name of the model; `None` selects the session's model.
    pub model: Option<String>,
    /// Maximum number of tokens in the reply.
    pub max_tokens: u32,
}

/// Reply of a model to the request of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginModelReply {
    /// Text of the reply.
    pub text: String,
    /// Tokens that the request and the reply used.
    pub usage: Usage,
}

/// Task that a plugin gives to a subagent (`wit/agents.wit`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubagentTask {
    /// Prompt of the subagent.
    pub prompt: String,
    /// Names of the tools that the subagent may use.
    pub tools: Vec<String>,
    /// Maximum number of steps that the subagent may make.
    pub max_steps: u32,
}

/// Task for a subagent that runs in the background while the plugin continues (`wit/agents.wit`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackgroundSubagentTask {
    /// Prompt of the subagent.
    pub prompt: String,
    /// Name of the preset that configures the subagent.
    pub preset: Option<String>,
    /// Names of those tools of the preset that the subagent may use; `None` for all of them.
    pub tools: Option<Vec<String>>,
    /// Maximum number of steps that the subagent may make.
    pub max_steps: Option<u32>,
}

/// State of a subagent and its answer (`wit/agents.wit`).
#[derive(Clone, Debug, PartialEq)]
pub struct SubagentReport {
    /// Id of the subagent.
    pub id: String,
    /// State of the subagent, named as in events.
    pub state: &'static str,
    /// Answer of the subagent, or the reason why there is none; empty while the subagent runs.
    pub answer: String,
    /// Number of steps that the subagent has made.
    pub steps: u32,
    /// Cost in US dollars of the tokens with a known price.
    pub cost_usd: f64,
}

/// Name and purpose of a preset of subagents (`wit/agents.wit`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubagentPresetSummary {
    /// Name of the preset.
    pub name: String,
    /// Purpose of the preset, in one line.
    pub description: String,
}

/// A question from a plugin to the user (`wit/ask.wit`). Each text in it is one printable line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginUserQuestion {
    /// Name of the plugin that asks.
    pub plugin: String,
    /// Text of the question, in one line.
    pub text: String,
    /// Kind of the question, with its possible answers and the default answer.
    pub kind: PluginUserQuestionKind,
    /// Whether the policy mutes the plugin, so that the user is not asked and the default answer is
    /// returned.
    pub is_muted: bool,
}

/// Kind of a plugin's question: its possible answers, and the default answer for runs without a
/// user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PluginUserQuestionKind {
    /// Question that is answered with yes or no.
    Confirm {
        /// Default answer; `true` is yes.
        default: bool,
    },
    /// Question that is answered by a choice of one option.
    Choose {
        /// Options to choose from, 2 to 9.
        options: Vec<String>,
        /// Index of the default option, from 0.
        default: u32,
    },
    /// Question that is answered with one line of text.
    Text {
        /// Default text, also used if the user enters an empty line.
        default: String,
    },
}

impl PluginUserQuestionKind {
    /// Returns the answer that the plugin gave as the default, for runs in which there is no user
    /// to ask.
    #[must_use]
    pub fn default_answer(&self) -> UserAnswerToPlugin {
        match self {
            Self::Confirm { default } => UserAnswerToPlugin::Yes(*default),
            Self::Choose { default, .. } => UserAnswerToPlugin::Choice(*default),
            Self::Text { default } => UserAnswerToPlugin::Text(default.clone()),
        }
    }

    /// Formats an answer to a question of this kind for display.
    #[must_use]
    pub fn format_answer(&self, answer: &UserAnswerToPlugin) -> String {
        match (self, answer) {
            (_, UserAnswerToPlugin::Yes(true)) => "yes".to_owned(),
            (_, UserAnswerToPlugin::Yes(false)) => "no".to_owned(),
            (Self::Choose { options, .. }, UserAnswerToPlugin::Choice(at)) => {
                options.get(*at as usize).cloned().unwrap_or_default()
            }
            (_, UserAnswerToPlugin::Choice(at)) => at.to_string(),
            (_, UserAnswerToPlugin::Text(text)) => text.clone(),
        }
    }
}

/// Answer of the user to the question of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserAnswerToPlugin {
    /// Answer to a yes-or-no question; `true` is yes.
    Yes(bool),
    /// Index of the chosen option, from 0.
    Choice(u32),
    /// Line of text that the user entered.
    Text(String),
}

/// Recorder of changes to files of the workspace. It saves the previous state of each file.
pub trait FileChangeRecorder: fmt::Debug + Send + Sync {
    /// Records that a file is about to change. `path` is relative to the workspace and has no
    /// symlinks; `content` is the new content, or `None` for any other change. Returns the number
    /// of the record, or `None` if the previous state cannot be saved. Blocks the thread.
    fn begin_change(&self, path: &str, content: Option<&[u8]>) -> Option<u64>;

    /// Records that the change with the number `record` has ended; `is_done` is false if the file
    /// was not changed. Blocks the thread.
    fn end_change(&self, record: u64, is_done: bool);
}

/// Functions of a session that plugin code may call.
///
/// Every method takes the name of the calling plugin and acts for that plugin only. Methods with a
/// `caller` parameter receive a caller whose call chain already contains the plugin. The default
/// bodies fail with "there is no session here", or return nothing.
pub trait AgentHandle: Send + Sync {
    /// Writes one line to the plugin's log. The text is already truncated and escaped.
    fn write_log_line(&self, plugin: &str, level: Level, text: &str);

    /// Applies an effect, such as a log line or a notice, that a hook or tool returned.
    fn apply_effect(&self, plugin: &str, effect: Effect);

    /// Reports that the plugin's code accessed something outside its sandbox.
    fn record_access(&self, record: AccessRecord);

    /// Replaces the plugin's status line. The text is already truncated and escaped; an empty text
    /// removes the line.
    fn status(&self, plugin: &str, text: String) {
        _ = (plugin, text);
    }

    /// Returns the recorder for changes that the plugin makes to the workspace in a turn.
    fn file_change_recorder(
        &self,
        plugin: &Arc<str>,
        caller: &Caller,
    ) -> Option<Arc<dyn FileChangeRecorder>> {
        _ = (plugin, caller);
        None
    }

    /// Asks the user a question of `plugin` and waits for the answer, without a timeout.
    fn ask_person<'a>(
        &'a self,
        plugin: &'a Arc<str>,
        question: PluginUserQuestion,
        caller: Caller,
    ) -> BoxFuture<'a, Result<UserAnswerToPlugin, HostFunctionError>> {
        _ = (plugin, question, caller);
        Box::pin(async { no_session_error() })
    }

    /// Returns the value of `key` in the session state of `plugin`; `None` if it is not set.
    fn state_get(&self, plugin: &str, key: &str) -> Option<String> {
        _ = (plugin, key);
        None
    }

    /// Sets (`Some`) or removes (`None`) a value of the plugin's session state. `when` determines
    /// when the change is written to the session file. The change is synced to disk before the
    /// model or a tool can depend on it.
    fn set_plugin_state_value(
        &self,
        plugin: &str,
        key: &str,
        value: Option<&str>,
        when: PluginStateWriteMode,
    ) -> Result<(), HostFunctionError> {
        _ = (plugin, key, value, when);
        no_session_error()
    }

    /// Writes the state changes that were deferred with [`PluginStateWriteMode::WithNextEntry`] to
    /// the session file.
    fn write_deferred_state(&self) -> Result<(), HostFunctionError> {
        Ok(())
    }

    /// Returns the keys of the plugin's session state that start with `prefix`, sorted.
    fn state_keys(&self, plugin: &str, prefix: &str) -> Vec<String> {
        _ = (plugin, prefix);
        Vec::new()
    }

    /// Passes the last `last` messages of the agent that calls the plugin to `view`, oldest first.
    /// The messages are not returned, because copying them would be expensive; the session is
    /// locked while `view` runs.
    fn inspect_last_messages(
        &self,
        caller: &Caller,
        last: usize,
        view: &mut dyn FnMut(&[Message]),
    ) {
        _ = (caller, last, view);
    }

    /// Returns the bytes of a blob that the session stores. Fails with `NotFound` if the blob is
    /// missing or corrupt.
    fn read_blob<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Vec<u8>, HostFunctionError>> {
        _ = id;
        Box::pin(async { no_session_error() })
    }

    /// Appends a custom entry of the plugin to the session file.
    fn append_custom_entry(
        &self,
        plugin: &str,
        name: &str,
        value: Value,
    ) -> Result<(), HostFunctionError> {
        _ = (plugin, name, value);
        no_session_error()
    }

    /// Calls every implementer of a plugin-defined point. `name` is either `owner.NAME`, or `NAME`
    /// for a point that the plugin itself defines.
    fn call_plugin_defined_point<'a>(
        &'a self,
        plugin: &'a str,
        name: &'a str,
        payload: Value,
        caller: Caller,
    ) -> BoxFuture<'a, Result<PluginDefinedPointResult, HostFunctionError>> {
        _ = (plugin, name, payload, caller);
        Box::pin(async { no_session_error() })
    }

    /// Sends one request without tools to a model.
    fn ask_model<'a>(
        &'a self,
        plugin: &'a Arc<str>,
        question: PluginModelRequest,
        caller: Caller,
    ) -> BoxFuture<'a, Result<PluginModelReply, HostFunctionError>> {
        _ = (plugin, question, caller);
        Box::pin(async { no_session_error() })
    }

    /// Runs a subagent to completion and returns its answer.
    fn run_agent<'a>(
        &'a self,
        plugin: &'a Arc<str>,
        task: SubagentTask,
        caller: Caller,
    ) -> BoxFuture<'a, Result<String, HostFunctionError>> {
        _ = (plugin, task, caller);
        Box::pin(async { no_session_error() })
    }

    /// Returns the name and the purpose of each preset of subagents.
    fn agent_presets(
        &self,
        caller: &Caller,
    ) -> Result<Vec<SubagentPresetSummary>, HostFunctionError> {
        _ = caller;
        no_session_error()
    }

    /// Starts a subagent and returns its id.
    fn start_agent<'a>(
        &'a self,
        plugin: &'a Arc<str>,
        order: BackgroundSubagentTask,
        caller: Caller,
    ) -> BoxFuture<'a, Result<String, HostFunctionError>> {
        _ = (plugin, order, caller);
        Box::pin(async { no_session_error() })
    }

    /// Continues a subagent that the plugin started and that has ended.
    fn resume_agent<'a>(
        &'a self,
        plugin: &'a Arc<str>,
        id: String,
        message: String,
        caller: Caller,
    ) -> BoxFuture<'a, Result<(), HostFunctionError>> {
        _ = (plugin, id, message, caller);
        Box::pin(async { no_session_error() })
    }

    /// Waits for subagents of the plugin, at most for `limit`, and returns their states.
    fn wait_agents<'a>(
        &'a self,
        plugin: &'a Arc<str>,
        ids: Vec<String>,
        limit: Duration,
        caller: Caller,
    ) -> BoxFuture<'a, Result<Vec<SubagentReport>, HostFunctionError>> {
        _ = (plugin, ids, limit, caller);
        Box::pin(async { no_session_error() })
    }

    /// Stops a subagent of the plugin.
    fn stop_agent<'a>(
        &'a self,
        plugin: &'a Arc<str>,
        id: String,
        caller: Caller,
    ) -> BoxFuture<'a, Result<SubagentReport, HostFunctionError>> {
        _ = (plugin, id, caller);
        Box::pin(async { no_session_error() })
    }

    /// Resets the limits per turn for the running call: a run of a loop counts as one turn, but may
    /// last for days.
    fn reset_call_limits(&self, caller: &Caller) {
        _ = caller;
    }

    /// Calls a tool by the name that the model sees. Returns `Denied` if the call was refused, and
    /// `Failed` if the tool ran and failed.
    fn call_tool<'a>(
        &'a self,
        plugin: &'a Arc<str>,
        name: String,
        arguments: Value,
        caller: Caller,
    ) -> BoxFuture<'a, Result<Parts, HostFunctionError>> {
        _ = (plugin, name, arguments, caller);
        Box::pin(async { no_session_error() })
    }
}

/// Time at which a change of a plugin's session state is written to the session file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PluginStateWriteMode {
    /// Writes the change at once; the plugin continues only when it is written.
    AtOnce,
    /// Writes the change later, together with the next entry of the session.
    WithNextEntry,
}

/// Handle of a plugin that is only inspected, without a session. Log lines, effects and access
/// records are dropped.
#[derive(Debug)]
pub struct SessionlessAgentHandle;

fn no_session_error<T>() -> Result<T, HostFunctionError> {
    Err(HostFunctionError::Failed(
        "there is no session here".to_owned(),
    ))
}

impl AgentHandle for SessionlessAgentHandle {
    fn write_log_line(&self, _plugin: &str, _level: Level, _text: &str) {}

    fn apply_effect(&self, _plugin: &str, _effect: Effect) {}

    fn record_access(&self, _record: AccessRecord) {}
}
