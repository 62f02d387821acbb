//! Progress through the conversation and the finds in it. Kept in the session's state for each
//! agent.

use rind_sdk::prelude::{Error, Message, data, state};
use std::collections::BTreeMap;

use crate::report::InjectionFind;

/// Maximum number of messages whose finds are remembered; the oldest are forgotten first, by their
/// ids.
const MAX_FINDS: usize = 500;

/// Memory of one agent's conversation.
#[data]
#[derive(Default)]
pub(crate) struct AgentMemory {
    #[serde(skip)]
    key: String,
    #[serde(skip)]
    changed: bool,
    /// Id of the last message that was looked at; empty before the first.
    last: String,
    /// Ids of the messages in which something was found, with the foreign part of each: none where
    /// the user was speaking.
    finds: BTreeMap<String, Option<String>>,
}

impl AgentMemory {
    /// Loads the stored memory, or returns an empty one.
    pub(crate) fn load_memory(agent: &str) -> Result<Self, Error> {
        let key = format!("memory/{agent}");
        let memory: Self = state::get_json(&key)?.unwrap_or_default();
        Ok(Self { key, ..memory })
    }

    /// Forgets the position of the examination, and keeps the finds.
    pub(crate) fn start_anew(mut self) -> Self {
        self.changed = !self.last.is_empty();
        self.last.clear();
        self
    }

    /// Whether this is the last message that was looked at.
    pub(crate) fn is_last(&self, id: &str) -> bool {
        self.last == id
    }

    /// Goes on to a message. Returns whether it is to be examined: no find is reported twice.
    pub(crate) fn goes_to(&mut self, id: &str) -> bool {
        id.clone_into(&mut self.last);
        self.changed = true;
        !self.finds.contains_key(id)
    }

    /// Remembers the finds of a message.
    pub(crate) fn add_finds(&mut self, id: &str, finds: &[InjectionFind]) {
        if finds.is_empty() {
            return;
        }
        let foreign = finds.iter().filter(|find| find.is_foreign());
        let words: Vec<String> = foreign.map(InjectionFind::in_words).collect();
        let words = (!words.is_empty()).then(|| words.join("; "));
        self.finds.insert(id.to_owned(), words);
        if self.finds.len() > MAX_FINDS {
            self.finds.pop_first();
        }
    }

    /// Whether anything foreign was found.
    pub(crate) fn has_finds(&self) -> bool {
        self.finds.values().any(Option::is_some)
    }

    /// Returns the finds in `messages`, earlier ones included, that are not the user's.
    pub(crate) fn finds_in(&self, messages: &[Message]) -> Vec<String> {
        let found = messages
            .iter()
            .filter_map(|message| self.finds.get(&message.id)?.clone());
        found.collect()
    }

    /// Stores the memory if it has changed.
    pub(crate) fn save_memory(self) -> Result<(), Error> {
        if self.changed {
            state::set_json(&self.key, &self)?;
        }
        Ok(())
    }
}
