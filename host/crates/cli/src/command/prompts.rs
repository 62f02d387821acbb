//! Offers templates, skills and prompts of MCP servers as prompts to other agents.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::arguments::{
    complete_argument_values, convert_named_arguments, schema_to_prompt_arguments,
};
use super::{
    SlashCommandDefinition, SlashCommandImplementation, SlashCommandOrigin, SlashCommandSet,
};
use rind_lib::skill::{SessionSkills, Skill, SkillArguments};
use rind_lib::text::escape_and_truncate_line;
use rind_mcp::{ForwardedPromptSource, ServedPrompt, ServedPromptArgument, ServedPromptSource};

/// Name of the only argument of a command without a schema: the text after the command's name.
const COMMAND_TEXT_ARGUMENT_NAME: &str = "arguments";

/// Commands of a host that only produce text, and so can be offered as prompts.
pub(crate) struct CommandsServedAsMcpPrompts {
    pub(crate) commands: Arc<SlashCommandSet>,
    /// Names of the MCP servers whose prompts are forwarded in addition to Rind's own prompts.
    pub(crate) upstream: BTreeSet<String>,
}

impl CommandsServedAsMcpPrompts {
    fn find_entry(&self, name: &str) -> Option<Arc<SlashCommandDefinition>> {
        let list = self.commands.command_list();
        let mut all = list.iter().enumerate();
        let found = all.find(|(at, entry)| {
            self.is_command_served_as_prompt(entry)
                && list.unambiguous_command_name(*at, entry) == name
        });
        found.map(|(_, entry)| entry.clone())
    }

    fn is_command_served_as_prompt(&self, entry: &SlashCommandDefinition) -> bool {
        let is_own = matches!(
            entry.kind,
            SlashCommandImplementation::Template(_) | SlashCommandImplementation::Skill(_)
        );
        is_own || self.upstream_prompt_source(entry).is_some()
    }

    /// Returns the server and the name of a prompt that comes from an MCP server in `upstream`.
    fn upstream_prompt_source(
        &self,
        entry: &SlashCommandDefinition,
    ) -> Option<ForwardedPromptSource> {
        match (&entry.kind, &entry.origin) {
            (
                SlashCommandImplementation::ServerPrompt(prompt),
                SlashCommandOrigin::Server(server),
            ) if self.upstream.contains(server) => Some(ForwardedPromptSource {
                server: server.clone(),
                prompt: prompt.clone(),
            }),
            _ => None,
        }
    }
}

impl ServedPromptSource for CommandsServedAsMcpPrompts {
    fn list_prompts(&self) -> Vec<ServedPrompt> {
        let list = self.commands.command_list();
        let prompts = list
            .iter()
            .enumerate()
            .filter(|(_, own)| self.is_command_served_as_prompt(own));
        let described = prompts.map(|(at, entry)| ServedPrompt {
            name: list.unambiguous_command_name(at, entry),
            description: entry.description.clone(),
            arguments: mcp_prompt_arguments_of_command(entry),
            source: self.upstream_prompt_source(entry),
        });
        described.collect()
    }

    fn complete_argument(&self, prompt: &str, argument: &str, begun: &str) -> Vec<String> {
        let entry = self.find_entry(prompt);
        let schema = entry.as_ref().and_then(|entry| entry.arguments.as_ref());
        let values = schema.map(|schema| complete_argument_values(schema, argument, begun));
        values.unwrap_or_default()
    }

    fn render_prompt<'a>(
        &'a self,
        name: &'a str,
        arguments: Map<String, Value>,
    ) -> BoxFuture<'a, Result<String, String>> {
        Box::pin(async move {
            let entry = self.find_entry(name).ok_or_else(|| {
                let name = escape_and_truncate_line(name, 64);
                format!("there is no prompt `{name}`; `prompts/list` lists the prompts")
            })?;
            let given = match &entry.arguments {
                Some(schema) => convert_named_arguments(schema, arguments)?,
                None => match arguments.get(COMMAND_TEXT_ARGUMENT_NAME) {
                    Some(Value::String(text)) => Value::String(text.clone()),
                    Some(other) => Value::String(other.to_string()),
                    None => Value::String(String::new()),
                },
            };
            match &entry.kind {
                SlashCommandImplementation::Template(template) => {
                    let cancel = CancellationToken::new();
                    template
                        .render_text(&given, &self.commands.helper, &cancel)
                        .await
                }
                SlashCommandImplementation::Skill(skill) => render_skill_prompt(skill, &given),
                _ => Err(format!("the command `{name}` cannot be used as a prompt")),
            }
        })
    }
}

fn mcp_prompt_arguments_of_command(entry: &SlashCommandDefinition) -> Vec<ServedPromptArgument> {
    let takes_text = match &entry.kind {
        SlashCommandImplementation::Template(template) => template.takes_text,
        SlashCommandImplementation::Skill(skill) => skill.takes_arguments(),
        _ => false,
    };
    match &entry.arguments {
        Some(schema) => schema_to_prompt_arguments(schema),
        None if takes_text => vec![ServedPromptArgument {
            name: COMMAND_TEXT_ARGUMENT_NAME.to_owned(),
            description: "Text for the prompt".to_owned(),
            is_required: false,
        }],
        None => Vec::new(),
    }
}

/// Returns the text of a skill. The skill does not become active, because its limits on tool calls
/// can only be enforced in a session of this host, not in another agent.
fn render_skill_prompt(skill: &Skill, given: &Value) -> Result<String, String> {
    if !skill.missing.is_empty() {
        return Err(format!(
            "the skill {} cannot run, because its requirements are missing: {}",
            skill.id,
            skill.missing.join(", ")
        ));
    }
    let arguments = SkillArguments::new(skill, given);
    Ok(SessionSkills::tag_text_with_origin(
        skill,
        &SessionSkills::expand_skill(skill, &arguments),
    ))
}
