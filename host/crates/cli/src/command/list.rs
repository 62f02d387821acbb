//! Snapshot of the commands, in the order in which names are looked up.

use std::sync::Arc;

use super::{CommandEntry, CommandKind, LineCompletion};

#[derive(Clone)]
pub(super) struct CommandList(Arc<[Arc<CommandEntry>]>);

impl CommandList {
    /// Puts commands in order. Commands of one source keep their order.
    pub(super) fn new(entries: impl IntoIterator<Item = Arc<CommandEntry>>) -> Self {
        let mut entries: Vec<Arc<CommandEntry>> = entries.into_iter().collect();
        entries.sort_by(|one, other| one.origin.rank().cmp(&other.origin.rank()));
        Self(entries.into())
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, Arc<CommandEntry>> {
        self.0.iter()
    }

    /// Returns the command that a name refers to, and its index.
    pub(super) fn find_entry(&self, name: &str) -> Option<(usize, &Arc<CommandEntry>)> {
        let mut entries = self.iter().enumerate();
        entries.find(|(_, entry)| match name.split_once(':') {
            None => entry.is_called(name) && !entry.is_of_server(),
            Some((qualifier, own)) => entry.is_called(own) && entry.origin.qualifier() == qualifier,
        })
    }

    /// Returns the command that the bare name of this command refers to. A prompt of an MCP server
    /// is looked up under its full name, with the server.
    pub(super) fn shadowed_entry(&self, at: usize, entry: &CommandEntry) -> Option<&CommandEntry> {
        let qualifier = entry.origin.qualifier();
        let has_name = |other: &&Arc<CommandEntry>| {
            let is_meant = !entry.is_of_server() || other.origin.qualifier() == qualifier;
            other.name == entry.name && is_meant
        };
        let mut before = self.iter().take(at);
        let other = before.find(has_name);
        other.map(|other| &**other)
    }

    /// Returns the name that calls a command: prefixed by its source if the bare name calls another
    /// command, and for every prompt of a server.
    pub(super) fn shown_name(&self, at: usize, entry: &CommandEntry) -> String {
        match self.shadowed_entry(at, entry) {
            None if !entry.is_of_server() => entry.name.clone(),
            _ => format!("{}:{}", entry.origin.qualifier(), entry.name),
        }
    }

    /// Proposes ends for a name.
    pub(super) fn complete_name(&self, begun: &str) -> Vec<LineCompletion> {
        let mut found = Vec::new();
        for (at, entry) in self.iter().enumerate() {
            let text = self.shown_name(at, entry);
            if text.starts_with(begun) && !matches!(entry.kind, CommandKind::Broken(_)) {
                found.push(LineCompletion {
                    start: 1,
                    text,
                    help: entry.description.clone(),
                });
            }
        }
        // A whole name comes before longer ones, so that Tab and Enter take the same.
        found.sort_by_key(|own| own.text != begun);
        found
    }

    /// Says that there is no command of this name.
    pub(super) fn unknown_command(&self, name: &str) -> String {
        let full_name = |entry: &CommandEntry| match entry.is_of_server() {
            true => format!("{}:{}", entry.origin.qualifier(), entry.name),
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
