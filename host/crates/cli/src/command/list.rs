//! Snapshot of the commands, in the order in which names are looked up.

use std::sync::Arc;

use super::{InputLineCompletion, SlashCommandDefinition, SlashCommandImplementation};

#[derive(Clone)]
pub(super) struct RankedSlashCommandList(Arc<[Arc<SlashCommandDefinition>]>);

impl RankedSlashCommandList {
    /// Sorts commands by the rank of their source. Commands of one source keep their order.
    pub(super) fn new(entries: impl IntoIterator<Item = Arc<SlashCommandDefinition>>) -> Self {
        let mut entries: Vec<Arc<SlashCommandDefinition>> = entries.into_iter().collect();
        entries.sort_by(|one, other| {
            one.origin
                .name_lookup_rank()
                .cmp(&other.origin.name_lookup_rank())
        });
        Self(entries.into())
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, Arc<SlashCommandDefinition>> {
        self.0.iter()
    }

    /// Returns the command that a typed name calls, and the command's index.
    pub(super) fn find_command_by_typed_name(
        &self,
        name: &str,
    ) -> Option<(usize, &Arc<SlashCommandDefinition>)> {
        let mut entries = self.iter().enumerate();
        entries.find(|(_, entry)| match name.split_once(':') {
            None => entry.matches_typed_name(name) && !entry.is_mcp_server_prompt(),
            Some((qualifier, own)) => {
                entry.matches_typed_name(own) && entry.origin.command_name_prefix() == qualifier
            }
        })
    }

    /// Returns the command before `entry` in this list that has the same name, and is therefore
    /// called instead of `entry` by the name alone. A prompt of an MCP server can be shadowed only
    /// by a prompt of the same server, because it is always called with the server's name.
    pub(super) fn find_shadowing_command(
        &self,
        at: usize,
        entry: &SlashCommandDefinition,
    ) -> Option<&SlashCommandDefinition> {
        let qualifier = entry.origin.command_name_prefix();
        let has_name = |other: &&Arc<SlashCommandDefinition>| {
            let is_meant =
                !entry.is_mcp_server_prompt() || other.origin.command_name_prefix() == qualifier;
            other.name == entry.name && is_meant
        };
        let mut before = self.iter().take(at);
        let other = before.find(has_name);
        other.map(|other| &**other)
    }

    /// Returns the name with which a person calls the command. The source of the command is a
    /// prefix of the name if the bare name calls another command, and for every prompt of an MCP
    /// server.
    pub(super) fn unambiguous_command_name(
        &self,
        at: usize,
        entry: &SlashCommandDefinition,
    ) -> String {
        match self.find_shadowing_command(at, entry) {
            None if !entry.is_mcp_server_prompt() => entry.name.clone(),
            _ => format!("{}:{}", entry.origin.command_name_prefix(), entry.name),
        }
    }

    /// Proposes names of slash commands that begin with `begun`.
    pub(super) fn complete_name(&self, begun: &str) -> Vec<InputLineCompletion> {
        let mut found = Vec::new();
        for (at, entry) in self.iter().enumerate() {
            let text = self.unambiguous_command_name(at, entry);
            if text.starts_with(begun)
                && !matches!(entry.kind, SlashCommandImplementation::Broken(_))
            {
                found.push(InputLineCompletion {
                    start: 1,
                    text,
                    help: entry.description.clone(),
                });
            }
        }
        // List an exact match first, so that Tab and Enter select it rather than a longer name.
        found.sort_by_key(|own| own.text != begun);
        found
    }

    /// Returns an error text for an unknown command, with similar names.
    pub(super) fn format_unknown_command_error(&self, name: &str) -> String {
        let full_name = |entry: &SlashCommandDefinition| match entry.is_mcp_server_prompt() {
            true => format!("{}:{}", entry.origin.command_name_prefix(), entry.name),
            false => entry.name.clone(),
        };
        let names = self.iter().map(|entry| full_name(entry));
        let near = names.filter(|own| strsim::levenshtein(own, name) <= 2 || own.starts_with(name));
        let near: Vec<String> = near.map(|own| format!("/{own}")).collect();
        let near = match near.is_empty() {
            true => String::new(),
            false => format!(" (did you mean {}?)", near.join(" or ")),
        };
        format!(
            "there is no command /{name}{near}; /help lists all, and a line that begins with a blank is a prompt"
        )
    }
}
