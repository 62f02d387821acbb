//! Which messages were looked at, and which of them hold an injection. Kept in the session's state for each agent.

use rind_sdk::prelude::{Content, Error, Message, data, state};
use std::collections::{BTreeMap, BTreeSet};

/// What is remembered of one agent's conversation.
#[data]
#[derive(Default)]
pub(crate) struct Memory {
    #[serde(skip)]
    key: String,
    #[serde(skip)]
    changed: bool,
    /// Fingerprints of the messages that were looked at.
    seen: BTreeSet<u64>,
    /// Ids of the messages in which something was found, and what.
    finds: BTreeMap<String, String>,
}

impl Memory {
    /// What was kept, or nothing.
    pub(crate) fn load(agent: &str) -> Result<Self, Error> {
        let key = format!("memory/{agent}");
        let memory: Self = state::get_json(&key)?.unwrap_or_default();
        Ok(Self { key, ..memory })
    }

    /// Whether a message was not looked at yet; from now on it was.
    pub(crate) fn is_new(&mut self, message: &Message) -> bool {
        let new = self.seen.insert(fingerprint(message));
        self.changed |= new;
        new
    }

    /// Remembers what was found in a message, in words.
    pub(crate) fn add_find(&mut self, id: &str, what: String) {
        self.finds.insert(id.to_owned(), what);
    }

    /// What was found in `messages`, now or earlier.
    pub(crate) fn finds_in(&self, messages: &[Message]) -> Vec<String> {
        let found = messages
            .iter()
            .filter_map(|message| self.finds.get(&message.id));
        found.cloned().collect()
    }

    /// Keeps it, without what is no longer in the conversation, so that it does not grow beyond that.
    pub(crate) fn save(mut self, messages: &[Message]) -> Result<(), Error> {
        if !self.changed {
            return Ok(());
        }
        let there: BTreeSet<u64> = messages.iter().map(fingerprint).collect();
        self.seen.retain(|seen| there.contains(seen));
        let ids: BTreeSet<&str> = messages.iter().map(|message| message.id.as_str()).collect();
        self.finds.retain(|id, _| ids.contains(id.as_str()));
        state::set_json(&self.key, &self)
    }
}

/// A hash (FNV-1a) of a message's id and the lengths of its parts: cheap, and different once another hook has put
/// another text in place.
fn fingerprint(message: &Message) -> u64 {
    let lengths = message.content.iter().map(|part| match part {
        Content::Text(text) | Content::Thinking(text) => text.len(),
        Content::ToolCall(_) => 0,
        Content::ToolResult(result) => result.content.len(),
    });
    let bytes = message
        .id
        .bytes()
        .chain(lengths.flat_map(usize::to_le_bytes));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
