//! `rind:plugin/handles`: the payload of the call that runs, read in parts.
//!
//! The engine keeps a guest from holding a handle beyond its call. What is behind one stands in
//! [`CurrentCall`](super::super::host::CurrentCall) for as long, so there is nothing to look up and nothing to leak.

use wasmtime::component::Resource;

use super::super::bindings::rind::plugin::{handles as wh, types};
use super::super::convert::{self, Lent};
use super::super::host::HostState;
use crate::message::{Content, Message};
use crate::point::payload as p;

/// Most messages of one read.
const MAX_MESSAGES: usize = 100;

/// Bytes of text after which a read of several messages ends.
const MAX_MESSAGES_BYTES: usize = 8 << 20;

/// Most bytes of one read of a text.
const MAX_READ_BYTES: u64 = 1 << 20;

impl wh::Host for HostState {}

/// Gives access to one kind of payload. A handle of another kind than the one that was lent cannot exist; should the engine let
/// one through, the guest traps.
macro_rules! lent {
    ($($name:ident: $variant:ident => $payload:ty;)*) => {
        impl HostState {$(
            fn $name(&self) -> wasmtime::Result<&$payload> {
                match &self.call.lent {
                    Some(Lent::$variant(payload)) => Ok(payload),
                    _ => Err(wasmtime::Error::msg("the handle is not the one of this call")),
                }
            }
        )*}
    };
}
lent! {
    conversation: Conversation => Vec<Message>;
    slice: Slice => p::Slice;
    wire_request: WireRequest => p::WireRequest;
    wire_response: WireResponse => p::WireResponse;
    finished_call: FinishedCall => p::FinishedCall;
}

fn count(messages: &[Message]) -> u32 {
    u32::try_from(messages.len()).unwrap_or(u32::MAX)
}

fn message(messages: &[Message], index: u32) -> Option<types::Message> {
    messages.get(index as usize).map(convert::message)
}

/// Reads several messages, within the bounds of one read.
fn range(messages: &[Message], start: u32, count: u32) -> Vec<types::Message> {
    let count = MAX_MESSAGES.min(count as usize);
    let mut n_bytes = 0_usize;
    let fits = |message: &&Message| {
        let is_first = n_bytes == 0;
        n_bytes = n_bytes.saturating_add(size(message));
        is_first || n_bytes <= MAX_MESSAGES_BYTES
    };
    let messages = messages.iter().skip(start as usize).take(count);
    messages.take_while(fits).map(convert::message).collect()
}

/// Size of a message in bytes, of which there is at least one.
fn size(message: &Message) -> usize {
    let part = |part: &Content| match part {
        Content::Text { text } | Content::Thinking { text, .. } => text.len(),
        Content::Blob(_) => 0,
        Content::ToolCall(call) => call.arguments.to_string().len(),
        Content::ToolResult(result) => result.content.text().len(),
    };
    message.content.iter().map(part).sum::<usize>().max(1)
}

/// Reads part of a text in whole characters.
fn part(text: &str, offset: u64, length: u64) -> String {
    let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
    let end = offset.saturating_add(length.min(MAX_READ_BYTES));
    let (start, end) = (
        text.floor_char_boundary(place(offset)),
        text.ceil_char_boundary(place(end)),
    );
    text.get(start..end).unwrap_or_default().to_owned()
}

impl wh::HostConversation for HostState {
    fn len(&mut self, _: Resource<wh::Conversation>) -> wasmtime::Result<u32> {
        Ok(count(self.conversation()?))
    }

    fn message(
        &mut self,
        _: Resource<wh::Conversation>,
        index: u32,
    ) -> wasmtime::Result<Option<types::Message>> {
        Ok(message(self.conversation()?, index))
    }

    fn messages(
        &mut self,
        _: Resource<wh::Conversation>,
        start: u32,
        count: u32,
    ) -> wasmtime::Result<Vec<types::Message>> {
        Ok(range(self.conversation()?, start, count))
    }

    fn drop(&mut self, _: Resource<wh::Conversation>) -> wasmtime::Result<()> {
        Ok(())
    }
}

impl wh::HostSlice for HostState {
    fn reason(&mut self, _: Resource<wh::Slice>) -> wasmtime::Result<String> {
        Ok(self.slice()?.reason.clone())
    }

    fn summary(&mut self, _: Resource<wh::Slice>) -> wasmtime::Result<String> {
        Ok(self.slice()?.summary.clone())
    }

    fn len(&mut self, _: Resource<wh::Slice>) -> wasmtime::Result<u32> {
        Ok(count(&self.slice()?.messages))
    }

    fn message(
        &mut self,
        _: Resource<wh::Slice>,
        index: u32,
    ) -> wasmtime::Result<Option<types::Message>> {
        Ok(message(&self.slice()?.messages, index))
    }

    fn messages(
        &mut self,
        _: Resource<wh::Slice>,
        start: u32,
        count: u32,
    ) -> wasmtime::Result<Vec<types::Message>> {
        Ok(range(&self.slice()?.messages, start, count))
    }

    fn drop(&mut self, _: Resource<wh::Slice>) -> wasmtime::Result<()> {
        Ok(())
    }
}

impl wh::HostWireRequest for HostState {
    fn provider(&mut self, _: Resource<wh::WireRequest>) -> wasmtime::Result<String> {
        Ok(self.wire_request()?.provider.clone())
    }

    fn size(&mut self, _: Resource<wh::WireRequest>) -> wasmtime::Result<u64> {
        Ok(self.wire_request()?.body.len() as u64)
    }

    fn body(
        &mut self,
        _: Resource<wh::WireRequest>,
        offset: u64,
        length: u64,
    ) -> wasmtime::Result<String> {
        Ok(part(&self.wire_request()?.body, offset, length))
    }

    fn drop(&mut self, _: Resource<wh::WireRequest>) -> wasmtime::Result<()> {
        Ok(())
    }
}

impl wh::HostWireResponse for HostState {
    fn provider(&mut self, _: Resource<wh::WireResponse>) -> wasmtime::Result<String> {
        Ok(self.wire_response()?.provider.clone())
    }

    fn status(&mut self, _: Resource<wh::WireResponse>) -> wasmtime::Result<u16> {
        Ok(self.wire_response()?.status)
    }

    fn latency_ms(&mut self, _: Resource<wh::WireResponse>) -> wasmtime::Result<u64> {
        Ok(self.wire_response()?.latency_ms)
    }

    fn model(&mut self, _: Resource<wh::WireResponse>) -> wasmtime::Result<String> {
        Ok(self.wire_response()?.model.clone())
    }

    fn usage(&mut self, _: Resource<wh::WireResponse>) -> wasmtime::Result<types::Usage> {
        Ok(convert::usage(self.wire_response()?.usage))
    }

    fn cost_usd(&mut self, _: Resource<wh::WireResponse>) -> wasmtime::Result<Option<f64>> {
        Ok(self.wire_response()?.cost_usd)
    }

    fn size(&mut self, _: Resource<wh::WireResponse>) -> wasmtime::Result<u64> {
        Ok(self.wire_response()?.body.len() as u64)
    }

    fn body(
        &mut self,
        _: Resource<wh::WireResponse>,
        offset: u64,
        length: u64,
    ) -> wasmtime::Result<String> {
        Ok(part(&self.wire_response()?.body, offset, length))
    }

    fn drop(&mut self, _: Resource<wh::WireResponse>) -> wasmtime::Result<()> {
        Ok(())
    }
}

impl wh::HostFinishedCall for HostState {
    fn call(&mut self, _: Resource<wh::FinishedCall>) -> wasmtime::Result<types::ToolCall> {
        Ok(convert::tool_call(&self.finished_call()?.call))
    }

    fn is_error(&mut self, _: Resource<wh::FinishedCall>) -> wasmtime::Result<bool> {
        Ok(self.finished_call()?.result.is_error)
    }

    fn duration_ms(&mut self, _: Resource<wh::FinishedCall>) -> wasmtime::Result<u64> {
        Ok(self.finished_call()?.duration_ms)
    }

    fn len(&mut self, _: Resource<wh::FinishedCall>) -> wasmtime::Result<u32> {
        let n_parts = self.finished_call()?.result.content.iter().len();
        Ok(u32::try_from(n_parts).unwrap_or(u32::MAX))
    }

    fn part(
        &mut self,
        _: Resource<wh::FinishedCall>,
        index: u32,
    ) -> wasmtime::Result<Option<types::Part>> {
        let mut parts = self.finished_call()?.result.content.iter();
        Ok(parts.nth(index as usize).map(convert::part))
    }

    fn size(&mut self, _: Resource<wh::FinishedCall>) -> wasmtime::Result<u64> {
        Ok(self.finished_call()?.result.content.text().len() as u64)
    }

    fn content(
        &mut self,
        _: Resource<wh::FinishedCall>,
        offset: u64,
        length: u64,
    ) -> wasmtime::Result<String> {
        let text = self.finished_call()?.result.content.text();
        Ok(part(&text, offset, length))
    }

    fn drop(&mut self, _: Resource<wh::FinishedCall>) -> wasmtime::Result<()> {
        Ok(())
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
                let part = part(&text, read.len() as u64, length);
                if part.is_empty() {
                    break;
                }
                read.push_str(&part);
            }
            assert_eq!(read, text, "{length}");
        }
        assert_eq!(part(&text, 2, 1), "é", "within a character");
        assert_eq!(part(&text, u64::MAX, u64::MAX), "");
        let long = "x".repeat(MAX_READ_BYTES as usize + 1);
        assert_eq!(part(&long, 0, u64::MAX).len(), MAX_READ_BYTES as usize);
    }

    #[test]
    fn a_read_of_several_messages_has_bounds_in_number_and_bytes() {
        let conversation = |sizes: &[usize]| -> Vec<Message> {
            let message = |size: &usize| Message::text(Role::User, "x".repeat(*size));
            sizes.iter().map(message).collect()
        };
        let n_read =
            |sizes: &[usize], start, count| range(&conversation(sizes), start, count).len();
        assert_eq!(n_read(&[1; 101], 0, u32::MAX), MAX_MESSAGES);
        assert_eq!(n_read(&[1; 101], 100, 5), 1);
        assert_eq!(n_read(&[1; 3], u32::MAX, u32::MAX), 0);
        assert_eq!(n_read(&[0; 3], 0, 2), 2);
        let half = MAX_MESSAGES_BYTES / 2;
        assert_eq!(n_read(&[half, half, 1], 0, 3), 2);
        assert_eq!(
            n_read(&[MAX_MESSAGES_BYTES + 1, 1], 0, 2),
            1,
            "the first comes anyway"
        );
    }
}
