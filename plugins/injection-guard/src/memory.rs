//! Progress through the conversation and the finds in it. Kept in the session's state for each
//! agent.

use rind_sdk::prelude::{Error, Message, caller, data, state};
use std::collections::BTreeMap;

use crate::report::InjectionFind;

/// Maximum number of messages whose finds are remembered; the oldest are forgotten first, by their
/// ids.
const MAX_FINDS: usize = 500;

/// Memory of one agent's conversation.
#[data]
#[derive(Default)]
pub(crate) struct AgentMemory {
    /// Id of the last message that was looked at; empty before the first.
    last: String,
    /// Ids of the messages in which something was found, with the foreign part of each: none where
    /// the user was speaking.
    finds: BTreeMap<String, Option<String>>,
}

thread_local! {
    static MEMORY: state::Cached<AgentMemory> = const { state::Cached::new() };
}

impl AgentMemory {
    /// Changes the memory of the calling agent, which is empty at first, and stores it.
    pub(crate) fn change_memory<R>(change: impl FnOnce(&mut Self) -> R) -> Result<R, Error> {
        let key = format!("memory/{}", caller::agent());
        MEMORY.with(|cached| cached.change(&key, change))
    }

    /// Forgets the position of the examination, and keeps the finds.
    pub(crate) fn start_anew(&mut self) {
        self.last.clear();
    }

    /// Id of the last message that was looked at; empty before the first.
    pub(crate) fn last_message(&self) -> &str {
        &self.last
    }

    /// Goes on to a message. Returns whether it is to be examined: no find is reported twice.
    pub(crate) fn goes_to(&mut self, id: &str) -> bool {
        id.clone_into(&mut self.last);
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
}
