//! Remembers the injections that were found for each agent, in the session's state, and up to which
//! message each conversation was examined, in the memory of this plugin instance.

use rind_sdk::prelude::{Error, Message, caller, data, state};
use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::report::SuspectedInjection;

/// Maximum number of messages whose finds are remembered. The ones with the smallest ids, the
/// oldest, are dropped first.
const MAX_MESSAGES_WITH_FINDINGS: usize = 500;

/// Maximum number of agents for which the id of the last examined message is remembered.
const MAX_LAST_EXAMINED_MESSAGE_IDS: usize = 64;

/// Injections that were found in one agent's conversation.
#[data]
#[derive(Default)]
pub(crate) struct AgentInjectionFindings {
    /// Ids of the messages in which injections were found, each with a description of those in text
    /// that is not the user's own; `None` if all of them are in the user's own text.
    finds: BTreeMap<String, Option<String>>,
}

thread_local! {
    static CACHED_AGENT_FINDINGS: state::Cached<AgentInjectionFindings> = const { state::Cached::new() };
    /// Id of the last examined message, by session and agent. It is not in the session's state,
    /// which would then be written in every step. A new instance examines all messages again, and
    /// does not report the finds that are already in [`AgentInjectionFindings`].
    static LAST_EXAMINED_MESSAGE_IDS: RefCell<BTreeMap<(String, String), String>> = RefCell::default();
}

fn memory_key() -> String {
    format!("memory/{}", caller::agent())
}

/// Handle for the position up to which the conversation of an agent was examined.
pub(crate) struct ConversationScanCursor {
    /// Ids of the session and of the agent.
    agent: (String, String),
}

impl ConversationScanCursor {
    /// Returns the handle for the position in the calling agent's conversation.
    pub(crate) fn for_calling_agent() -> Self {
        let agent = (caller::session(), caller::agent());
        Self { agent }
    }

    /// Returns the id of the last examined message; empty if there is none.
    pub(crate) fn last_examined_message_id(&self) -> String {
        let last = |positions: &BTreeMap<_, String>| positions.get(&self.agent).cloned();
        LAST_EXAMINED_MESSAGE_IDS
            .with_borrow(last)
            .unwrap_or_default()
    }

    /// Records a message as the last one of the agent that was examined. An empty id means that no
    /// message was examined.
    pub(crate) fn set_last_examined_message_id(self, id: &str) {
        LAST_EXAMINED_MESSAGE_IDS.with_borrow_mut(|positions| {
            if !positions.contains_key(&self.agent)
                && positions.len() >= MAX_LAST_EXAMINED_MESSAGE_IDS
            {
                positions.clear();
            }
            positions.insert(self.agent, id.to_owned());
        });
    }
}

impl AgentInjectionFindings {
    /// Changes the memory of the calling agent, or an empty one if there is none, and stores it.
    pub(crate) fn update_stored_findings<R>(
        change: impl FnOnce(&mut Self) -> R,
    ) -> Result<R, Error> {
        CACHED_AGENT_FINDINGS.with(|cached| cached.change(&memory_key(), change))
    }

    /// Calls a function with the memory of the calling agent.
    pub(crate) fn inspect_stored_findings<R>(view: impl FnOnce(&Self) -> R) -> Result<R, Error> {
        CACHED_AGENT_FINDINGS.with(|cached| cached.view(&memory_key(), view))
    }

    /// Whether injections in the message with this id were already recorded.
    pub(crate) fn has_findings_for_message(&self, id: &str) -> bool {
        self.finds.contains_key(id)
    }

    /// Records the injections that were found in the message with this id.
    pub(crate) fn add_message_findings(&mut self, id: &str, finds: &[SuspectedInjection]) {
        let foreign = finds.iter().filter(|find| find.has_non_user_source());
        let words: Vec<String> = foreign.map(SuspectedInjection::describe).collect();
        let words = (!words.is_empty()).then(|| words.join("; "));
        self.finds.insert(id.to_owned(), words);
        if self.finds.len() > MAX_MESSAGES_WITH_FINDINGS {
            self.finds.pop_first();
        }
    }

    /// Whether possible injections were found in text that is not the user's own.
    pub(crate) fn has_non_user_findings(&self) -> bool {
        self.finds.values().any(Option::is_some)
    }

    /// Returns the descriptions of the possible injections in `messages`, including those found in
    /// earlier steps. Leaves out those in the user's own text.
    pub(crate) fn describe_findings_in_messages(&self, messages: &[Message]) -> Vec<String> {
        let found = messages
            .iter()
            .filter_map(|message| self.finds.get(&message.id)?.clone());
        found.collect()
    }
}
