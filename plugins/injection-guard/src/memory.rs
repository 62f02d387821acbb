//! Remembers the finds of each agent, in the session's state, and up to which message the
//! conversation was examined, in the memory of this plugin instance.

use rind_sdk::prelude::{Error, Message, caller, data, state};
use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::report::InjectionFind;

/// Maximum number of messages whose finds are remembered. The ones with the smallest ids, the
/// oldest, are dropped first.
const MAX_FINDS: usize = 500;

/// Maximum number of agents whose positions are remembered.
const MAX_POSITIONS: usize = 64;

/// Finds in one agent's conversation.
#[data]
#[derive(Default)]
pub(crate) struct AgentMemory {
    /// Ids of the messages with finds, each with a description of the finds in text that is not the
    /// user's own; `None` if all finds are in the user's own text.
    finds: BTreeMap<String, Option<String>>,
}

thread_local! {
    static MEMORY: state::Cached<AgentMemory> = const { state::Cached::new() };
    /// Id of the last examined message, by session and agent. It is not in the session's state,
    /// which would then be written in every step. A new instance examines all messages again, and
    /// does not report the finds that are already in [`AgentMemory`].
    static POSITIONS: RefCell<BTreeMap<(String, String), String>> = RefCell::default();
}

fn memory_key() -> String {
    format!("memory/{}", caller::agent())
}

/// Position up to which the conversation of an agent was examined.
pub(crate) struct AgentPosition {
    /// Ids of the session and of the agent.
    agent: (String, String),
}

impl AgentPosition {
    /// Returns the position of the calling agent.
    pub(crate) fn for_calling_agent() -> Self {
        let agent = (caller::session(), caller::agent());
        Self { agent }
    }

    /// Returns the id of the last examined message; empty if there is none.
    pub(crate) fn last_message(&self) -> String {
        let last = |positions: &BTreeMap<_, String>| positions.get(&self.agent).cloned();
        POSITIONS.with_borrow(last).unwrap_or_default()
    }

    /// Records this message as the last examined one. An empty id means that no message was
    /// examined.
    pub(crate) fn set_last_message(self, id: &str) {
        POSITIONS.with_borrow_mut(|positions| {
            if !positions.contains_key(&self.agent) && positions.len() >= MAX_POSITIONS {
                positions.clear();
            }
            positions.insert(self.agent, id.to_owned());
        });
    }
}

impl AgentMemory {
    /// Changes the memory of the calling agent, or an empty one if there is none, and stores it.
    pub(crate) fn change_memory<R>(change: impl FnOnce(&mut Self) -> R) -> Result<R, Error> {
        MEMORY.with(|cached| cached.change(&memory_key(), change))
    }

    /// Passes the memory of the calling agent to a function.
    pub(crate) fn view_memory<R>(view: impl FnOnce(&Self) -> R) -> Result<R, Error> {
        MEMORY.with(|cached| cached.view(&memory_key(), view))
    }

    /// Whether finds in the message with this id were already recorded.
    pub(crate) fn knows_message(&self, id: &str) -> bool {
        self.finds.contains_key(id)
    }

    /// Remembers the finds of a message.
    pub(crate) fn add_finds(&mut self, id: &str, finds: &[InjectionFind]) {
        let foreign = finds.iter().filter(|find| find.is_foreign());
        let words: Vec<String> = foreign.map(InjectionFind::describe).collect();
        let words = (!words.is_empty()).then(|| words.join("; "));
        self.finds.insert(id.to_owned(), words);
        if self.finds.len() > MAX_FINDS {
            self.finds.pop_first();
        }
    }

    /// Whether there are finds in text that is not the user's own.
    pub(crate) fn has_finds(&self) -> bool {
        self.finds.values().any(Option::is_some)
    }

    /// Returns the descriptions of the finds in `messages`, including those of earlier steps.
    /// Leaves out finds in the user's own text.
    pub(crate) fn describe_finds_in(&self, messages: &[Message]) -> Vec<String> {
        let found = messages
            .iter()
            .filter_map(|message| self.finds.get(&message.id)?.clone());
        found.collect()
    }
}
