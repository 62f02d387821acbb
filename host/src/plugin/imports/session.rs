//! `rind:plugin/session`: the conversation so far. Linked only if `session` is granted.

use super::super::bindings::rind::plugin::{session, types};
use super::super::convert;
use super::super::host::HostState;
use super::super::sanitize::GuestTextSanitizer;
use crate::json;
use crate::message::Message;
use crate::point::handle::HostFunctionError;

/// Maximum number of messages of the session that one call returns.
pub(super) const MAX_MESSAGES_PER_CALL: u32 = 1000;

/// Takes the last `last` messages of the conversation, computes an index with `from`, and returns
/// the messages from that index on.
fn list_messages_from_index(
    state: &HostState,
    last: u32,
    from: impl Fn(&[Message]) -> usize,
) -> Vec<types::Message> {
    let last = last.min(MAX_MESSAGES_PER_CALL) as usize;
    let mut shown = Vec::new();
    let handle = &state.backing.handle;
    handle.inspect_last_messages(&state.call.caller, last, &mut |messages| {
        let asked = messages.iter().skip(from(messages));
        shown = asked.map(convert::message_to_wit).collect();
    });
    shown
}

/// Returns the index after the message with this id; 0 if there is no such message.
fn find_index_after_message(messages: &[Message], id: &str) -> usize {
    let known = messages.iter().rposition(|message| message.id == id);
    known.map_or(0, |at| at + 1)
}

impl session::Host for HostState {
    fn messages(&mut self, last: u32) -> wasmtime::Result<Vec<types::Message>> {
        Ok(list_messages_from_index(self, last, |_| 0))
    }

    fn messages_after(&mut self, id: String) -> wasmtime::Result<Vec<types::Message>> {
        Ok(list_messages_from_index(
            self,
            MAX_MESSAGES_PER_CALL,
            |messages| find_index_after_message(messages, &id),
        ))
    }

    fn append(&mut self, name: String, value: String) -> Result<(), HostFunctionError> {
        let sanitizer = GuestTextSanitizer::for_current_guest_call(self, "session");
        sanitizer.reject_name_with_secret("name of an entry", &name)?;
        let value = json::parse_json(
            &sanitizer.json("entry", value),
            json::DEFAULT_MAX_JSON_BYTES,
        )
        .map_err(|e| HostFunctionError::InvalidInput(format!("the value {e}")))?;
        let backing = &self.backing;
        backing
            .handle
            .append_custom_entry(&backing.plugin, &name, value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Role;

    #[test]
    fn messages_after_one_that_is_gone_are_all() {
        let message = |id: &&str| Message {
            id: (*id).to_owned(),
            ..Message::text(Role::User, "hi")
        };
        let messages: Vec<Message> = ["a", "b", "c"].iter().map(message).collect();
        let found = ["a", "b", "c", "x", ""].map(|id| find_index_after_message(&messages, id));
        assert_eq!(found, [1, 2, 3, 0, 0]);
    }
}
