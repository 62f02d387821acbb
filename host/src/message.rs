//! The conversation as Rind stores it: messages, tool calls, tool results, tool descriptions and
//! usage.
//!
//! Owns the types only. It must not know the wire formats of providers (`provider` converts at the
//! edge), nor who displays messages, stores them, or stores the bytes of blobs.
//!
//! Invariant: `extra` data and reasoning signatures are opaque, and are sent only to the
//! [writer](Message::writer) that produced them. Start from [`Message`].

mod archived;
pub mod blob;
pub mod part;

use std::collections::HashSet;
use std::ops::AddAssign;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use blob::{Blob, PromptImageAttachment};
pub use part::{Part, Parts};

/// Role of a message's sender, as the model sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The user, or a program that speaks in the user's place.
    User,
    /// Messages that the model wrote, with its text and tool calls.
    Assistant,
    /// Messages of the host with the results of tool calls.
    Tool,
}

/// Call of a tool that the model or a plugin requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolCall {
    /// Id that the provider assigned; the result refers to the call by this id.
    pub id: String,
    /// Name of the tool as the model sees it.
    pub name: String,
    /// Arguments, a JSON object. Arguments that are not a JSON object are stored as the string that
    /// the model wrote; the schema check refuses them.
    pub arguments: Value,
    /// Opaque data that the server sent with the call, such as Gemini's `thought_signature`. It is
    /// sent back only to the [writer](Message::writer) of the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub extra: Option<Value>,
}

impl ToolCall {
    /// Creates a call with these arguments.
    pub fn new(id: impl Into<String>, name: impl Into<String>, arguments: Value) -> Self {
        Self {
            id: id.into(),
            name: name.into(),
            arguments,
            extra: None,
        }
    }

    /// Creates the result of this call.
    pub fn create_result(&self, content: impl Into<Parts>, is_error: bool) -> ToolResult {
        ToolResult::new(&self.id, &self.name, content, is_error)
    }
}

/// Result of a tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolResult {
    /// Id of the tool call to which the result belongs.
    pub call_id: String,
    /// Name of the called tool.
    pub name: String,
    /// Content of the result, which the model reads.
    pub content: Parts,
    /// Whether the tool call failed, was refused or was cancelled.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
}

impl ToolResult {
    /// Creates the result of the call `call_id` of the tool `name`.
    pub fn new(
        call_id: impl Into<String>,
        name: impl Into<String>,
        content: impl Into<Parts>,
        is_error: bool,
    ) -> Self {
        Self {
            call_id: call_id.into(),
            name: name.into(),
            content: content.into(),
            is_error,
        }
    }
}

/// Part of a message: text, reasoning, a tool call or a result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Content {
    /// Plain text.
    Text {
        /// Text of the part, unchanged.
        text: String,
    },
    /// Reasoning that the model wrote before its answer.
    Thinking {
        /// Text of the model's reasoning.
        text: String,
        /// Opaque signature that a provider requires to be sent back with the text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
        /// Opaque data that the server sent with the reasoning, such as an encrypted reasoning
        /// item. It is sent back only to the [writer](Message::writer) of the message.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(skip)]
        extra: Option<Value>,
    },
    /// Reference to bytes that the session stores, such as an image.
    Blob(Blob),
    /// Tool call of the model. Only assistant messages contain such parts.
    ToolCall(ToolCall),
    /// Result of a tool call. Only tool messages contain such parts.
    ToolResult(ToolResult),
}

impl Content {
    /// Creates a part of plain text.
    pub fn from_text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    /// Creates a part of reasoning without a provider's signature.
    pub fn from_thinking(text: impl Into<String>) -> Self {
        Self::Thinking {
            text: text.into(),
            signature: None,
            extra: None,
        }
    }
}

/// The model that wrote a message, and the server that ran it.
///
/// Reasoning, signatures of reasoning and all `extra` data have a meaning only for this model at
/// this server, so requests to any other model or server omit them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Writer {
    /// Name of the model provider, as in the settings.
    pub provider: String,
    /// Name of the API format of the answer, such as `anthropic-messages`.
    pub wire: String,
    /// Name of the model that was requested.
    pub model: String,
}

/// Author of a message's text, if the author is not evident from the message's role and plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// A model, a plugin or the host, which wrote the text as a summary of compacted or archived
    /// messages.
    Summary,
    /// A model, a plugin or the host, which wrote the text because the model's answer was rejected
    /// or only partly accepted.
    Reflection,
    /// The parent agent, which wrote the text as the task of this subagent.
    Agent,
}

/// Part of a skill, or a context file, that the host added to a message. A skill is named by its
/// id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SkillPart {
    /// Description of a skill, added because the message refers to a file to which the skill
    /// applies.
    Description(String),
    /// Text of a skill, or one page of the text.
    Text(String),
    /// Context file of a subfolder, by its path relative to the workspace. Not part of a skill, but
    /// recorded in the same list.
    ContextFile(String),
}

/// Message of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Message {
    /// Id of the message, unique within the session.
    pub id: String,
    /// Role of the sender: user, model or host.
    pub role: Role,
    /// Parts of the message, in order.
    pub content: Vec<Content>,
    /// Name of the plugin that added the message; `None` for the user, the model and the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plugin: Option<String>,
    /// Author of the text, if the author is not the sender.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// Parts of skills that the host added to the message. Only this list proves that the host
    /// added them: files and tools may contain any text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skills: Vec<SkillPart>,
    /// Model that wrote an assistant message; `None` if no model did, and in sessions of older
    /// versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writer: Option<Writer>,
    /// Opaque data that the server sent with the message, such as `reasoning_details`. It is sent
    /// back only to the [writer](Self::writer).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub extra: Option<Value>,
}

impl Message {
    /// Creates a message with a single text and a new id.
    #[must_use]
    pub fn text(role: Role, text: impl Into<String>) -> Self {
        Self::new(role, vec![Content::from_text(text)])
    }

    /// Creates a tool message with a single result and a new id.
    #[must_use]
    pub fn from_tool_result(result: ToolResult) -> Self {
        Self::new(Role::Tool, vec![Content::ToolResult(result)])
    }

    /// Creates a message from these parts, with a new id.
    #[must_use]
    pub fn new(role: Role, content: Vec<Content>) -> Self {
        Self {
            id: crate::clock::new_uuid_v7(),
            role,
            content,
            plugin: None,
            origin: None,
            skills: Vec::new(),
            writer: None,
            extra: None,
        }
    }

    /// Sets the author of the text, for a text whose author is not the one that the role implies.
    #[must_use]
    pub fn from(self, origin: Origin) -> Self {
        Self {
            origin: Some(origin),
            ..self
        }
    }

    /// Removes the opaque data that only the writer's server understands, so that the message can
    /// be displayed.
    pub(crate) fn remove_provider_opaque_data(&mut self) {
        self.extra = None;
        for part in &mut self.content {
            match part {
                Content::Thinking { extra, .. } | Content::ToolCall(ToolCall { extra, .. }) => {
                    *extra = None;
                }
                _ => {}
            }
        }
    }

    /// Whether the message contains the result of the tool call with this id.
    pub(crate) fn has_result_of_call(&self, call: &str) -> bool {
        let is_it =
            |part: &Content| matches!(part, Content::ToolResult(result) if result.call_id == call);
        self.content.iter().any(is_it)
    }

    /// Sets the list of the parts of skills, and of the context files, that the message contains.
    #[must_use]
    pub(crate) fn with_skills(self, skills: Vec<SkillPart>) -> Self {
        Self { skills, ..self }
    }

    /// Whether the user wrote the message: no plugin added it, and the host records no other
    /// author.
    #[must_use]
    pub fn is_written_by_user(&self) -> bool {
        self.role == Role::User && self.plugin.is_none() && self.origin.is_none()
    }

    /// Whether the message is input: text of the user, or the task from a parent agent.
    #[must_use]
    pub(crate) fn is_user_or_parent_input(&self) -> bool {
        self.is_written_by_user() || self.origin == Some(Origin::Agent)
    }

    /// Returns the texts of the message, joined by newlines. Skips reasoning, calls and results.
    #[must_use]
    pub fn joined_text(&self) -> String {
        let texts = self.content.iter().filter_map(|part| match part {
            Content::Text { text } => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }

    /// Replaces all texts of the message with one text, `text`, at the position of the first one.
    /// All other parts stay.
    pub fn set_text(&mut self, text: String) {
        let is_text = |part: &Content| matches!(part, Content::Text { .. });
        // No text precedes the first text, so removing the texts does not change its index.
        let at = self.content.iter().position(is_text).unwrap_or(0);
        self.content.retain(|part| !is_text(part));
        self.content.insert(at, Content::from_text(text));
    }

    /// Returns the blobs of the message and of its tool results, in order.
    pub fn blobs(&self) -> impl Iterator<Item = &Blob> {
        self.content.iter().flat_map(|part| {
            let (own, results) = match part {
                Content::Blob(blob) => (Some(blob), None),
                Content::ToolResult(result) => (None, Some(result.content.blobs())),
                _ => (None, None),
            };
            own.into_iter().chain(results.into_iter().flatten())
        })
    }

    /// Returns the tool calls of the message, in order.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.content.iter().filter_map(|part| match part {
            Content::ToolCall(call) => Some(call),
            _ => None,
        })
    }

    /// Returns the tool results of the message, in order.
    pub fn tool_results(&self) -> impl Iterator<Item = &ToolResult> {
        self.content.iter().filter_map(|part| match part {
            Content::ToolResult(result) => Some(result),
            _ => None,
        })
    }
}

/// Returns the calls that have no result in the same `messages`.
pub(crate) fn unanswered_calls(messages: &[Message]) -> impl Iterator<Item = &ToolCall> {
    let results = messages.iter().flat_map(Message::tool_results);
    let answered: HashSet<&str> = results.map(|result| result.call_id.as_str()).collect();
    let calls = messages.iter().flat_map(Message::tool_calls);
    calls.filter(move |call| !answered.contains(call.id.as_str()))
}

/// Class of a tool's effects on the world outside the conversation, from least to most.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum EffectClass {
    /// Only reads, so such calls may run in parallel.
    Read,
    /// Changes files.
    Write,
    /// Runs programs.
    Execute,
    /// Talks to the network or to other services.
    External,
}

display_as_in_json!(EffectClass);

/// Description of a tool, as the model and the policy see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// Name as the model sees it, `[a-zA-Z0-9_-]`, at most 64 bytes.
    pub name: String,
    /// Description for the model: the effect of the tool, and when to use the tool.
    pub description: String,
    /// JSON Schema of the arguments, `"type": "object"`.
    pub parameters: Value,
    /// Class of the effects that calls of the tool may have.
    pub effect_class: EffectClass,
    /// Name of the plugin that provides the tool; `None` for a built-in tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plugin: Option<String>,
}

impl ToolSpec {
    /// Creates a tool with only a name and an effect class, which is all that policy rules examine.
    #[doc(hidden)]
    pub fn from_name_and_effect(name: &str, effect_class: EffectClass) -> Self {
        Self {
            name: name.to_owned(),
            description: String::new(),
            parameters: Value::Null,
            effect_class,
            plugin: None,
        }
    }
}

/// Reason why the model stopped writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Finish {
    /// The model completed its answer.
    Done,
    /// The model stopped to have tools called.
    ToolCalls,
    /// The model reached the token limit; the message is truncated.
    MaxTokens,
    /// The provider withheld the answer.
    Refused,
    /// The provider interrupted a long answer, and continues it when the request is sent again
    /// (Anthropic's `pause_turn`).
    Paused,
}

/// Numbers of tokens that one or more model requests used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// Tokens of the prompt, including cached tokens.
    pub input_tokens: u64,
    /// Tokens that the model wrote.
    pub output_tokens: u64,
    /// Input tokens that were read from the provider's cache; included in `input_tokens`.
    #[serde(default)]
    pub cache_read_tokens: u64,
    /// Input tokens that were written to the provider's cache; included in `input_tokens`.
    #[serde(default)]
    pub cache_write_tokens: u64,
    /// Whether some of the usage was estimated, because the provider did not report it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
}

impl Usage {
    /// Returns the sum of input and output tokens.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.cache_read_tokens = self
            .cache_read_tokens
            .saturating_add(other.cache_read_tokens);
        self.cache_write_tokens = self
            .cache_write_tokens
            .saturating_add(other.cache_write_tokens);
        self.estimated = self.estimated || other.estimated;
    }
}
