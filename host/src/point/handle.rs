//! The one small trait through which plugin code calls the host.
//!
//! The sandbox holds one handle per plugin and session and calls it from host imports. Whoever implements it decides
//! nothing about authority: an import that was not granted is not linked, so its method is never called.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;

use super::caller::Caller;
use super::dispatch::HookVerdict;
use super::outcome::{Effect, Level};
use super::trace::AccessRecord;
use crate::message::{Message, Usage};

/// Error of a host function (`wit/types.wit`, `error`).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandleError {
    /// The plugin passed something that makes no sense.
    #[error("{0}")]
    InvalidInput(String),
    /// The target does not exist.
    #[error("{0}")]
    NotFound(String),
    /// The call is not allowed.
    #[error("{0}")]
    Denied(String),
    /// Too big, too many, or too often.
    #[error("{0}")]
    Limit(String),
    /// Any other failure.
    #[error("{0}")]
    Failed(String),
}

/// Result of calling a plugin-defined point.
#[derive(Clone, Debug, PartialEq)]
pub struct PointAnswer {
    /// The final value, the array of contributions, or null.
    pub value: Value,
    /// Verdict of the implementers.
    pub verdict: HookVerdict,
}

/// A question to a model (`wit/model.wit`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelQuestion {
    /// System prompt; may be empty.
    pub system: String,
    /// Prompt.
    pub prompt: String,
    /// Name of the model; `None` is the session's.
    pub model: Option<String>,
    /// Most tokens it may write.
    pub max_tokens: u32,
}

/// Reply of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelReply {
    /// Text of the reply.
    pub text: String,
    /// Tokens used.
    pub usage: Usage,
}

/// A task for a subagent (`wit/agents.wit`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentTask {
    /// Task.
    pub prompt: String,
    /// Names of the tools that it may use.
    pub tools: Vec<String>,
    /// Most steps it may take.
    pub max_steps: u32,
}

/// Functions of a session that plugin code may call. Every method names the plugin, and acts for it alone. Those that take a
/// caller get one that already has the plugin in its call chain.
pub trait AgentHandle: Send + Sync {
    /// One line of the plugin's log. It was capped and escaped.
    fn log(&self, plugin: &str, level: Level, text: &str);

    /// Applies an effect that a hook or tool returned.
    fn effect(&self, plugin: &str, effect: Effect);

    /// The plugin's code reached out of its sandbox.
    fn access(&self, record: AccessRecord);

    /// A value of the plugin's session state.
    fn state_get(&self, plugin: &str, key: &str) -> Option<String>;

    /// Sets (`Some`) or removes (`None`) a value of the plugin's session state. It is in the session file when this returns,
    /// and on the disk before the model or a tool can depend on it.
    fn state_set(&self, plugin: &str, key: &str, value: Option<&str>) -> Result<(), HandleError>;

    /// Keys of the plugin's session state that start with `prefix`, sorted.
    fn state_keys(&self, plugin: &str, prefix: &str) -> Vec<String>;

    /// The last `last` messages of the agent that calls the plugin, oldest first.
    fn messages(&self, caller: &Caller, last: usize) -> Vec<Message>;

    /// Keeps an entry of the plugin's own in the session file.
    fn append(&self, plugin: &str, name: &str, value: Value) -> Result<(), HandleError>;

    /// Calls every implementer of a point: `name` is that of one of the plugin's own, or `owner.NAME`.
    fn call_point<'a>(
        &'a self,
        plugin: &'a str,
        name: &'a str,
        payload: Value,
        caller: Caller,
    ) -> BoxFuture<'a, Result<PointAnswer, HandleError>>;

    /// Asks a model once, without tools.
    fn ask_model<'a>(
        &'a self,
        plugin: &'a Arc<str>,
        question: ModelQuestion,
        caller: Caller,
    ) -> BoxFuture<'a, Result<ModelReply, HandleError>>;

    /// Runs a subagent to its end and returns its answer.
    fn run_agent<'a>(
        &'a self,
        plugin: &'a Arc<str>,
        task: AgentTask,
        caller: Caller,
    ) -> BoxFuture<'a, Result<String, HandleError>>;

    /// Calls a tool by the name that the model sees. `Denied` when it was refused, `Failed` when it ran and failed.
    fn call_tool<'a>(
        &'a self,
        plugin: &'a Arc<str>,
        name: String,
        arguments: Value,
        caller: Caller,
    ) -> BoxFuture<'a, Result<String, HandleError>>;
}

/// A session with nothing in it, for looking at a plugin outside of any.
#[derive(Debug)]
pub struct NoHandle;

fn no_session<T>() -> Result<T, HandleError> {
    Err(HandleError::Failed("there is no session here".to_owned()))
}

impl AgentHandle for NoHandle {
    fn log(&self, _plugin: &str, _level: Level, _text: &str) {}

    fn effect(&self, _plugin: &str, _effect: Effect) {}

    fn access(&self, _record: AccessRecord) {}

    fn state_get(&self, _plugin: &str, _key: &str) -> Option<String> {
        None
    }

    fn state_set(
        &self,
        _plugin: &str,
        _key: &str,
        _value: Option<&str>,
    ) -> Result<(), HandleError> {
        no_session()
    }

    fn state_keys(&self, _plugin: &str, _prefix: &str) -> Vec<String> {
        Vec::new()
    }

    fn messages(&self, _caller: &Caller, _last: usize) -> Vec<Message> {
        Vec::new()
    }

    fn append(&self, _plugin: &str, _name: &str, _value: Value) -> Result<(), HandleError> {
        no_session()
    }

    fn call_point<'a>(
        &'a self,
        _plugin: &'a str,
        _name: &'a str,
        _payload: Value,
        _caller: Caller,
    ) -> BoxFuture<'a, Result<PointAnswer, HandleError>> {
        Box::pin(async { no_session() })
    }

    fn ask_model<'a>(
        &'a self,
        _plugin: &'a Arc<str>,
        _question: ModelQuestion,
        _caller: Caller,
    ) -> BoxFuture<'a, Result<ModelReply, HandleError>> {
        Box::pin(async { no_session() })
    }

    fn run_agent<'a>(
        &'a self,
        _plugin: &'a Arc<str>,
        _task: AgentTask,
        _caller: Caller,
    ) -> BoxFuture<'a, Result<String, HandleError>> {
        Box::pin(async { no_session() })
    }

    fn call_tool<'a>(
        &'a self,
        _plugin: &'a Arc<str>,
        _name: String,
        _arguments: Value,
        _caller: Caller,
    ) -> BoxFuture<'a, Result<String, HandleError>> {
        Box::pin(async { no_session() })
    }
}
