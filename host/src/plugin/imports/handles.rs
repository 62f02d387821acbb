//! `rind:plugin/handles`: the payload of the current call, read in parts.
//!
//! The engine prevents a guest from keeping a handle beyond its call. The payload that the handle
//! refers to is stored in [`GuestCallState`](super::super::host::GuestCallState) until the call
//! ends, so no table lookup is needed and no payload can leak into another call.

use wasmtime::component::Resource;

use super::super::bindings::rind::plugin::{handles as wh, payloads, types};
use super::super::convert::{self, GuestHandlePayload};
use super::super::host::HostState;
use crate::message::{Content, Message};

/// Maximum number of messages that a guest can read with one call.
const MAX_MESSAGES_PER_READ: usize = 100;

/// Maximum size in bytes of the messages that one read returns, except for a single larger message.
const MAX_MESSAGE_BYTES_PER_READ: usize = 8 << 20;

/// Maximum number of bytes that one read of a text returns.
const MAX_TEXT_BYTES_PER_READ: u64 = 1 << 20;

impl wh::Host for HostState {}

fn count_messages(messages: &[Message]) -> u32 {
    u32::try_from(messages.len()).unwrap_or(u32::MAX)
}

fn message_at(messages: &[Message], index: u32) -> Option<types::Message> {
    messages.get(index as usize).map(convert::message_to_wit)
}

/// Converts at most `count` messages from the index `start` on, within the limits of one read.
fn select_messages_in_range(messages: &[Message], start: u32, count: u32) -> Vec<types::Message> {
    let count = MAX_MESSAGES_PER_READ.min(count as usize);
    let mut n_bytes = 0_usize;
    let fits = |message: &&Message| {
        let is_first = n_bytes == 0;
        n_bytes = n_bytes.saturating_add(message_size(message));
        is_first || n_bytes <= MAX_MESSAGE_BYTES_PER_READ
    };
    let messages = messages.iter().skip(start as usize).take(count);
    messages
        .take_while(fits)
        .map(convert::message_to_wit)
        .collect()
}

/// Returns the total size of a message's texts and data in bytes.
fn message_size(message: &Message) -> usize {
    let part = |part: &Content| match part {
        Content::Text { text } | Content::Thinking { text, .. } => text.len(),
        Content::Blob(_) => 0,
        Content::ToolCall(call) => call.arguments.to_string().len(),
        Content::ToolResult(result) => result.content.text().len(),
    };
    message.content.iter().map(part).sum::<usize>().max(1)
}

/// Returns the part of a text at `offset`, shortened to character boundaries.
fn slice_text(text: &str, offset: u64, length: u64) -> String {
    let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
    let end = offset.saturating_add(length.min(MAX_TEXT_BYTES_PER_READ));
    let (start, end) = (
        text.floor_char_boundary(place(offset)),
        text.ceil_char_boundary(place(end)),
    );
    text.get(start..end).unwrap_or_default().to_owned()
}

/// Implements the functions of each kind of payload handle by reading the payload of the current
/// call. A handle always has the kind of that payload; if the engine ever passed another handle,
/// the guest would trap.
macro_rules! answers {
    ($($host:ident: $handle:ident { $($name:ident($($arg:ident: $ty:ty),*) -> $answer:ty: |$payload:ident| $value:expr;)* })*) => {$(
        impl wh::$host for HostState {
            $(fn $name(&mut self, _: Resource<wh::$handle> $(, $arg: $ty)*) -> wasmtime::Result<$answer> {
                match &self.call.lent {
                    Some(GuestHandlePayload::$handle($payload)) => Ok($value),
                    _ => Err(wasmtime::Error::msg("the handle is not the one of this call")),
                }
            })*

            fn drop(&mut self, _: Resource<wh::$handle>) -> wasmtime::Result<()> {
                Ok(())
            }
        }
    )*};
}
answers! {
    HostConversation: Conversation {
        len() -> u32: |messages| count_messages(messages);
        message(index: u32) -> Option<types::Message>: |messages| message_at(messages, index);
        messages(start: u32, count: u32) -> Vec<types::Message>: |messages| select_messages_in_range(messages, start, count);
    }
    HostSlice: Slice {
        reason() -> String: |slice| slice.reason.clone();
        summary() -> String: |slice| slice.summary.clone();
        len() -> u32: |slice| count_messages(&slice.messages);
        message(index: u32) -> Option<types::Message>: |slice| message_at(&slice.messages, index);
        messages(start: u32, count: u32) -> Vec<types::Message>: |slice| select_messages_in_range(&slice.messages, start, count);
    }
    HostWireRequest: WireRequest {
        provider() -> String: |request| request.provider.clone();
        size() -> u64: |request| request.body.len() as u64;
        body(offset: u64, length: u64) -> String: |request| slice_text(&request.body, offset, length);
    }
    HostWireResponse: WireResponse {
        purpose() -> payloads::Purpose: |response| response.purpose.clone();
        provider() -> String: |response| response.provider.clone();
        status() -> u16: |response| response.status;
        latency_ms() -> u64: |response| response.latency_ms;
        model() -> String: |response| response.model.clone();
        usage() -> types::Usage: |response| response.usage.into();
        cost_usd() -> Option<f64>: |response| response.cost_usd;
        size() -> u64: |response| response.body.len() as u64;
        body(offset: u64, length: u64) -> String: |response| slice_text(&response.body, offset, length);
    }
    HostFinishedCall: FinishedCall {
        call() -> types::ToolCall: |finished| convert::tool_call_to_wit(&finished.call);
        plugin() -> Option<String>: |finished| finished.plugin.clone();
        is_error() -> bool: |finished| finished.result.is_error;
        is_refused() -> bool: |finished| finished.is_refused;
        duration_ms() -> u64: |finished| finished.duration_ms;
        len() -> u32: |finished| u32::try_from(finished.result.content.iter().len()).unwrap_or(u32::MAX);
        part(index: u32) -> Option<types::Part>: |finished| {
            finished.result.content.iter().nth(index as usize).map(convert::tool_result_part_to_wit)
        };
        size() -> u64: |finished| finished.result.content.text().len() as u64;
        content(offset: u64, length: u64) -> String: |finished| {
            slice_text(&finished.result.content.text(), offset, length)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Role;

    #[test]
    fn a_text_is_read_in_whole_characters_and_comes_together_again() {
        let text = "aé€😀z".repeat(3);
        for length in 1..9 {
            let mut read = String::new();
            loop {
                let part = slice_text(&text, read.len() as u64, length);
                if part.is_empty() {
                    break;
                }
                read.push_str(&part);
            }
            assert_eq!(read, text, "{length}");
        }
        assert_eq!(slice_text(&text, 2, 1), "é", "within a character");
        assert_eq!(slice_text(&text, u64::MAX, u64::MAX), "");
        let long = "x".repeat(MAX_TEXT_BYTES_PER_READ as usize + 1);
        assert_eq!(
            slice_text(&long, 0, u64::MAX).len(),
            MAX_TEXT_BYTES_PER_READ as usize
        );
    }

    #[test]
    fn a_read_of_several_messages_has_bounds_in_number_and_bytes() {
        let conversation = |sizes: &[usize]| -> Vec<Message> {
            let message = |size: &usize| Message::text(Role::User, "x".repeat(*size));
            sizes.iter().map(message).collect()
        };
        let n_read = |sizes: &[usize], start, count| {
            select_messages_in_range(&conversation(sizes), start, count).len()
        };
        assert_eq!(n_read(&[1; 101], 0, u32::MAX), MAX_MESSAGES_PER_READ);
        assert_eq!(n_read(&[1; 101], 100, 5), 1);
        assert_eq!(n_read(&[1; 3], u32::MAX, u32::MAX), 0);
        assert_eq!(n_read(&[0; 3], 0, 2), 2);
        let half = MAX_MESSAGE_BYTES_PER_READ / 2;
        assert_eq!(n_read(&[half, half, 1], 0, 3), 2);
        assert_eq!(
            n_read(&[MAX_MESSAGE_BYTES_PER_READ + 1, 1], 0, 2),
            1,
            "the first comes anyway"
        );
    }
}
