//! Represents the prompts that the server offers: the operator's skills and templates, and
//! forwarded prompts of MCP servers.

use futures_util::future::BoxFuture;
use rmcp::model::{Prompt, PromptArgument as ProtocolArgument};
use serde_json::{Map, Value};

/// Argument of a prompt that Rind's MCP server offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedPromptArgument {
    /// Name of the argument.
    pub name: String,
    /// Description of the argument for people; may be empty.
    pub description: String,
    /// Whether clients must give a value for the argument.
    pub is_required: bool,
}

/// Prompt that Rind's MCP server offers to clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedPrompt {
    /// Name of the prompt under which clients request it.
    pub name: String,
    /// Description of the prompt for people.
    pub description: String,
    /// Arguments of the prompt, in order.
    pub arguments: Vec<ServedPromptArgument>,
    /// MCP server from which the prompt is forwarded; `None` for a skill or a template.
    pub source: Option<ForwardedPromptSource>,
}

/// MCP server of a forwarded prompt, and the name of the prompt there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardedPromptSource {
    /// Name of the MCP server in the settings.
    pub server: String,
    /// Name of the prompt on that server.
    pub prompt: String,
}

/// Source of the prompts that Rind's MCP server offers to clients.
pub trait ServedPromptSource: Send + Sync {
    /// Returns all prompts that clients are offered.
    fn list_prompts(&self) -> Vec<ServedPrompt>;

    /// Returns the values of an argument that begin with `begun`; empty if the values cannot be
    /// listed.
    fn complete_argument(&self, prompt: &str, argument: &str, begun: &str) -> Vec<String>;

    /// Renders a skill or a template. The error is a sentence for the client.
    fn render_prompt<'a>(
        &'a self,
        name: &'a str,
        arguments: Map<String, Value>,
    ) -> BoxFuture<'a, Result<String, String>>;
}

/// Converts a prompt into the description of it that clients get.
pub(super) fn to_mcp_prompt(prompt: ServedPrompt) -> Prompt {
    let arguments = prompt.arguments.into_iter().map(|own| {
        let argument = ProtocolArgument::new(own.name).with_required(own.is_required);
        match own.description.is_empty() {
            true => argument,
            false => argument.with_description(own.description),
        }
    });
    let arguments: Vec<ProtocolArgument> = arguments.collect();
    let arguments = (!arguments.is_empty()).then_some(arguments);
    Prompt::new(prompt.name, Some(prompt.description), arguments)
}
