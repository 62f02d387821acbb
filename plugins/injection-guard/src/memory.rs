//! Progress through the conversation, kept as long as this instance, and the finds in it, kept in
//! the session's state for each agent.

use rind_sdk::prelude::{Error, Message, caller, data, state};
use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::report::InjectionFind;

/// Maximum number of messages whose finds are remembered; the oldest are forgotten first, by their
/// ids.
const MAX_FINDS: usize = 500;

/// Maximum number of agents whose positions are remembered.
const MAX_POSITIONS: usize = 64;

/// Finds in one agent's conversation.
#[data]
#[derive(Default)]
pub(crate) struct AgentMemory {
    /// Ids of the messages in which something was found, with the foreign part of each: none where
    /// the user was speaking.
    finds: BTreeMap<String, Option<String>>,
}

thread_local! {
    static MEMORY: state::Cached<AgentMemory> = const { state::Cached::new() };
    /// Ids of the last messages that were looked at, by session and agent. Not in the state, which
    /// would be written in each step: an instance without a position looks at all messages again,
    /// and reports no find that it remembers.
    static POSITIONS: RefCell<BTreeMap<(String, String), String>> = RefCell::default();
}

fn memory_key() -> String {
    format!("memory/{}", caller::agent())
}

/// An agent whose position in its conversation is kept.
pub(crate) struct AgentPosition {
    /// Session and agent.
    agent: (String, String),
}

impl AgentPosition {
    /// Returns the position of the calling agent.
    pub(crate) fn of_caller() -> Self {
        let agent = (caller::session(), caller::agent());
        Self { agent }
    }

    /// Returns the id of the last message that was looked at; empty before the first.
    pub(crate) fn last_message(&self) -> String {
        let last = |positions: &BTreeMap<_, String>| positions.get(&self.agent).cloned();
        POSITIONS.with_borrow(last).unwrap_or_default()
    }

    /// Goes on to a message. The empty id starts anew.
    pub(crate) fn go_to(self, id: &str) {
        POSITIONS.with_borrow_mut(|positions| {
            if !positions.contains_key(&self.agent) && positions.len() >= MAX_POSITIONS {
                positions.clear();
            }
            positions.insert(self.agent, id.to_owned());
        });
    }
}

impl AgentMemory {
    /// Changes the memory of the calling agent, which is empty at first, and stores it.
    pub(crate) fn change_memory<R>(change: impl FnOnce(&mut Self) -> R) -> Result<R, Error> {
        MEMORY.with(|cached| cached.change(&memory_key(), change))
    }

    /// Shows the memory of the calling agent.
    pub(crate) fn view_memory<R>(view: impl FnOnce(&Self) -> R) -> Result<R, Error> {
        MEMORY.with(|cached| cached.view(&memory_key(), view))
    }

    /// Whether finds in a message were reported before.
    pub(crate) fn knows_message(&self, id: &str) -> bool {
        self.finds.contains_key(id)
    }

    /// Remembers the finds of a message.
    pub(crate) fn add_finds(&mut self, id: &str, finds: &[InjectionFind]) {
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
