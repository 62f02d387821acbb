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
use crate::message::{Message, Parts, Usage};

/// Questions to a model that one plugin may ask in one turn. A plugin that needs more than these numbers is a loop of its own;
/// a broken one is stopped before it costs more than a long turn does.
pub const MAX_QUESTIONS: u32 = 20;

/// Tools that one plugin may call in one turn.
pub const MAX_TOOL_CALLS: u32 = 100;

/// Subagents that one plugin may run in one turn.
pub const MAX_SUBAGENTS: u32 = 4;

/// Questions to the person that one plugin may ask in one turn: more would keep the person from the work.
pub const MAX_PERSON_QUESTIONS: u32 = 5;

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

/// A question of a plugin to the person (`wit/ask.wit`). Its texts are one printable line each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersonQuestion {
    /// Name of the plugin that asks.
    pub plugin: String,
    /// Question in one line.
    pub text: String,
    /// Possible answers.
    pub kind: QuestionKind,
    /// Whether the policy mutes the plugin: nobody is asked, and the answer is the default.
    pub is_muted: bool,
}

/// Possible answers to a question of a plugin, with the one that counts where nobody can be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QuestionKind {
    /// Yes or no.
    Confirm {
        /// Answer where nobody can be asked.
        default: bool,
    },
    /// One of several options.
    Choose {
        /// The options, 2 to 9.
        options: Vec<String>,
        /// Place of the option that counts where nobody can be asked.
        default: u32,
    },
    /// One line of text.
    Text {
        /// Text where nobody can be asked, and of an empty line.
        default: String,
    },
}

impl QuestionKind {
    /// Returns the answer where nobody can be asked.
    #[must_use]
    pub fn default_answer(&self) -> PersonAnswer {
        match self {
            Self::Confirm { default } => PersonAnswer::Yes(*default),
            Self::Choose { default, .. } => PersonAnswer::Choice(*default),
            Self::Text { default } => PersonAnswer::Text(default.clone()),
        }
    }

    /// Formats an answer for people.
    #[must_use]
    pub fn shown(&self, answer: &PersonAnswer) -> String {
        match (self, answer) {
            (_, PersonAnswer::Yes(true)) => "yes".to_owned(),
            (_, PersonAnswer::Yes(false)) => "no".to_owned(),
            (Self::Choose { options, .. }, PersonAnswer::Choice(at)) => {
                options.get(*at as usize).cloned().unwrap_or_default()
            }
            (_, PersonAnswer::Choice(at)) => at.to_string(),
            (_, PersonAnswer::Text(text)) => text.clone(),
        }
    }
}

/// Answer of the person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PersonAnswer {
    /// Yes or no.
    Yes(bool),
    /// Place of the option, from 0.
    Choice(u32),
    /// A line of text.
    Text(String),
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

    /// The plugin's line of status changed. It was capped and escaped; an empty one takes the line away.
    fn status(&self, plugin: &str, text: String) {
        _ = (plugin, text);
    }

    /// Asks the person, and waits as long as that takes.
    fn ask_person<'a>(
        &'a self,
        plugin: &'a Arc<str>,
        question: PersonQuestion,
        caller: Caller,
    ) -> BoxFuture<'a, Result<PersonAnswer, HandleError>> {
        _ = (plugin, question, caller);
        Box::pin(async { no_session() })
    }

    /// A value of the plugin's session state.
    fn state_get(&self, plugin: &str, key: &str) -> Option<String> {
        _ = (plugin, key);
        None
    }

    /// Sets (`Some`) or removes (`None`) a value of the plugin's session state. It is in the session file when this returns,
    /// and on the disk before the model or a tool can depend on it.
    fn state_set(&self, plugin: &str, key: &str, value: Option<&str>) -> Result<(), HandleError> {
        _ = (plugin, key, value);
        no_session()
    }

    /// Keys of the plugin's session state that start with `prefix`, sorted.
    fn state_keys(&self, plugin: &str, prefix: &str) -> Vec<String> {
        _ = (plugin, prefix);
        Vec::new()
    }

    /// The last `last` messages of the agent that calls the plugin, oldest first.
    fn messages(&self, caller: &Caller, last: usize) -> Vec<Message> {
        _ = (caller, last);
        Vec::new()
    }

    /// Returns the bytes of a blob of the session; `NotFound` when they are missing or damaged.
    fn read_blob<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Vec<u8>, HandleError>> {
        _ = id;
        Box::pin(async { no_session() })
    }

    /// Keeps an entry of the plugin's own in the session file.
    fn append(&self, plugin: &str, name: &str, value: Value) -> Result<(), HandleError> {
        _ = (plugin, name, value);
        no_session()
    }

    /// Calls every implementer of a point: `name` is that of one of the plugin's own, or `owner.NAME`.
    fn call_point<'a>(
        &'a self,
        plugin: &'a str,
        name: &'a str,
        payload: Value,
        caller: Caller,
    ) -> BoxFuture<'a, Result<PointAnswer, HandleError>> {
        _ = (plugin, name, payload, caller);
        Box::pin(async { no_session() })
    }

    /// Asks a model once, without tools.
    fn ask_model<'a>(
        &'a self,
        plugin: &'a Arc<str>,
        question: ModelQuestion,
        caller: Caller,
    ) -> BoxFuture<'a, Result<ModelReply, HandleError>> {
        _ = (plugin, question, caller);
        Box::pin(async { no_session() })
    }

    /// Runs a subagent to its end and returns its answer.
    fn run_agent<'a>(
        &'a self,
        plugin: &'a Arc<str>,
        task: AgentTask,
        caller: Caller,
    ) -> BoxFuture<'a, Result<String, HandleError>> {
        _ = (plugin, task, caller);
        Box::pin(async { no_session() })
    }

    /// Calls a tool by the name that the model sees. `Denied` when it was refused, `Failed` when it ran and failed.
    fn call_tool<'a>(
        &'a self,
        plugin: &'a Arc<str>,
        name: String,
        arguments: Value,
        caller: Caller,
    ) -> BoxFuture<'a, Result<Parts, HandleError>> {
        _ = (plugin, name, arguments, caller);
        Box::pin(async { no_session() })
    }
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
}
