//! Offers templates, skills and prompts of MCP servers as prompts to other agents.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::arguments::{complete_values, convert_arguments, describe_arguments};
use super::{CommandEntry, CommandKind, CommandOrigin, CommandSet};
use rind_lib::skill::{Skill, SkillArguments, Skills};
use rind_lib::text::clean_line;
use rind_mcp::{ForwardedPromptSource, PromptArgument, ServedPrompt, ServedPrompts};

/// Name of the only argument of a command without a schema: the text after the command's name.
const TEXT: &str = "arguments";

/// Commands of a host that only produce text, and so can be offered as prompts.
pub(crate) struct CommandPrompts {
    pub(crate) commands: Arc<CommandSet>,
    /// Names of the MCP servers whose prompts are forwarded in addition to Rind's own prompts.
    pub(crate) upstream: BTreeSet<String>,
}

impl CommandPrompts {
    fn find_entry(&self, name: &str) -> Option<Arc<CommandEntry>> {
        let list = self.commands.list();
        let mut all = list.iter().enumerate();
        let found = all.find(|(at, entry)| {
            self.is_offered_prompt(entry) && list.display_name(*at, entry) == name
        });
        found.map(|(_, entry)| entry.clone())
    }

    fn is_offered_prompt(&self, entry: &CommandEntry) -> bool {
        let is_own = matches!(entry.kind, CommandKind::Template(_) | CommandKind::Skill(_));
        is_own || self.upstream_prompt_source(entry).is_some()
    }

    /// Returns the server and the name of a prompt that comes from an MCP server in `upstream`.
    fn upstream_prompt_source(&self, entry: &CommandEntry) -> Option<ForwardedPromptSource> {
        match (&entry.kind, &entry.origin) {
            (CommandKind::ServerPrompt(prompt), CommandOrigin::Server(server))
                if self.upstream.contains(server) =>
            {
                Some(ForwardedPromptSource {
                    server: server.clone(),
                    prompt: prompt.clone(),
                })
            }
            _ => None,
        }
    }
}

impl ServedPrompts for CommandPrompts {
    fn list_prompts(&self) -> Vec<ServedPrompt> {
        let list = self.commands.list();
        let prompts = list
            .iter()
            .enumerate()
            .filter(|(_, own)| self.is_offered_prompt(own));
        let described = prompts.map(|(at, entry)| ServedPrompt {
            name: list.display_name(at, entry),
            description: entry.description.clone(),
            arguments: prompt_arguments(entry),
            source: self.upstream_prompt_source(entry),
        });
        described.collect()
    }

    fn complete_argument(&self, prompt: &str, argument: &str, begun: &str) -> Vec<String> {
        let entry = self.find_entry(prompt);
        let schema = entry.as_ref().and_then(|entry| entry.arguments.as_ref());
        let values = schema.map(|schema| complete_values(schema, argument, begun));
        values.unwrap_or_default()
    }

    fn render_prompt<'a>(
        &'a self,
        name: &'a str,
        arguments: Map<String, Value>,
    ) -> BoxFuture<'a, Result<String, String>> {
        Box::pin(async move {
            let entry = self.find_entry(name).ok_or_else(|| {
                let name = clean_line(name, 64);
                format!("there is no prompt `{name}`; `prompts/list` lists the prompts")
            })?;
            let given = match &entry.arguments {
                Some(schema) => convert_arguments(schema, arguments)?,
                None => match arguments.get(TEXT) {
                    Some(Value::String(text)) => Value::String(text.clone()),
                    Some(other) => Value::String(other.to_string()),
                    None => Value::String(String::new()),
                },
            };
            match &entry.kind {
                CommandKind::Template(template) => {
                    let cancel = CancellationToken::new();
                    template
                        .render_text(&given, &self.commands.helper, &cancel)
                        .await
                }
                CommandKind::Skill(skill) => render_skill_prompt(skill, &given),
                _ => Err(format!("`{name}` is no prompt")),
            }
        })
    }
}

fn prompt_arguments(entry: &CommandEntry) -> Vec<PromptArgument> {
    let takes_text = match &entry.kind {
        CommandKind::Template(template) => template.takes_text,
        CommandKind::Skill(skill) => skill.takes_arguments(),
        _ => false,
    };
    match &entry.arguments {
        Some(schema) => describe_arguments(schema),
        None if takes_text => vec![PromptArgument {
            name: TEXT.to_owned(),
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
    Ok(Skills::wrap_in_tag(
        skill,
        &Skills::expand_skill(skill, &arguments),
    ))
}
