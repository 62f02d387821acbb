//! The shapes of chat completion answers, as far as they are read.
//!
//! Data only; what they mean is decided in `stream`. Start from [`Chunk`].

use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
pub(super) struct Chunk {
    #[serde(default)]
    pub(super) choices: Vec<Choice>,
    /// A text, where it is one.
    #[serde(default)]
    pub(super) model: Value,
    pub(super) usage: Option<WireUsage>,
    pub(super) error: Option<Value>,
}

#[derive(Deserialize)]
pub(super) struct Choice {
    /// A whole completion has a `message` in place of deltas.
    #[serde(alias = "message")]
    pub(super) delta: Option<Delta>,
    pub(super) finish_reason: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct Delta {
    pub(super) content: Option<String>,
    /// DeepSeek and llama.cpp say this, OpenRouter and Ollama `reasoning`, and some versions of vLLM both.
    pub(super) reasoning_content: Option<String>,
    pub(super) reasoning: Option<String>,
    pub(super) refusal: Option<String>,
    pub(super) tool_calls: Option<Vec<CallDelta>>,
}

#[derive(Deserialize)]
pub(super) struct CallDelta {
    pub(super) index: Option<u64>,
    pub(super) id: Option<String>,
    pub(super) function: Option<FunctionDelta>,
}

#[derive(Default, Deserialize)]
pub(super) struct FunctionDelta {
    pub(super) name: Option<String>,
    /// A string that grows; some servers send the object itself.
    #[serde(default)]
    pub(super) arguments: Value,
}

#[derive(Deserialize)]
pub(super) struct WireUsage {
    #[serde(default)]
    pub(super) prompt_tokens: u64,
    #[serde(default)]
    pub(super) completion_tokens: u64,
    pub(super) prompt_tokens_details: Option<PromptDetails>,
}

#[derive(Deserialize)]
pub(super) struct PromptDetails {
    pub(super) cached_tokens: Option<u64>,
}
