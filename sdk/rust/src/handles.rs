//! Payloads that a hook reads in parts. Each method is a call to the host, so a hook pays only for
//! the parts that it reads.
//!
//! The host lends a handle for one call. Native tests create handles with
//! [`testing`](crate::testing).

use crate::types::{Message, Part};

#[cfg(target_family = "wasm")]
pub use crate::bindings::rind::plugin::handles::{
    Conversation, FinishedCall, Slice, WireRequest, WireResponse,
};
#[cfg(not(target_family = "wasm"))]
pub use crate::testing::handles::{Conversation, FinishedCall, Slice, WireRequest, WireResponse};

/// Number of bytes per read, which is the host's maximum.
const CHUNK_BYTES: u64 = 1 << 20;

/// Reads a complete text in parts.
fn read_whole_text(size: u64, read: impl Fn(u64, u64) -> String) -> String {
    let mut text = String::with_capacity(usize::try_from(size).unwrap_or_default());
    loop {
        let part = read(text.len() as u64, CHUNK_BYTES);
        if part.is_empty() {
            return text;
        }
        text.push_str(&part);
    }
}

macro_rules! messages {
    ($($name:ident),*) => {$(
        impl $name {
            /// Whether there are no messages.
            #[must_use]
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// Returns the last message.
            #[must_use]
            pub fn last(&self) -> Option<Message> {
                self.message(self.len().checked_sub(1)?)
            }

            /// Iterates over the messages, oldest first. Each is read from the host when the
            /// iterator reaches it.
            pub fn iter(&self) -> impl DoubleEndedIterator<Item = Message> {
                (0..self.len()).filter_map(|index| self.message(index))
            }
        }
    )*};
}
messages!(Conversation, Slice);

macro_rules! texts {
    ($($name:ident: $part:ident;)*) => {$(
        impl $name {
            /// Returns the complete text.
            #[must_use]
            pub fn text(&self) -> String {
                read_whole_text(self.size(), |offset, length| self.$part(offset, length))
            }
        }
    )*};
}
impl FinishedCall {
    /// Iterates over the parts of the result.
    pub fn parts(&self) -> impl Iterator<Item = Part> {
        (0..self.len()).filter_map(|index| self.part(index))
    }
}

texts! {
    WireRequest: body;
    WireResponse: body;
    FinishedCall: content;
}
