//! Stores opaque data as reasoning parts of an answer.
//!
//! A part that Rind does not interpret, such as an encrypted reasoning item, is stored unchanged in
//! a reasoning part without text, at its position among the other parts.

use serde_json::Value;

use super::AssistantMessageAssembler;
use crate::message::Content;

impl AssistantMessageAssembler {
    /// Adds a reasoning part without text, which carries only opaque data of the server.
    pub(in crate::provider) fn add_opaque_part(&mut self, extra: Value) {
        self.n_bytes += extra.to_string().len();
        self.parts.push(Content::Thinking {
            text: String::new(),
            signature: None,
            extra: Some(extra),
        });
    }

    /// Attaches opaque data to the last reasoning part and closes the part. If the last part is not
    /// reasoning or is already closed, the data becomes a separate part.
    pub(in crate::provider) fn end_thinking(&mut self, data: Value) {
        match self.parts.last_mut() {
            Some(Content::Thinking {
                signature: None,
                extra: extra @ None,
                ..
            }) => {
                self.n_bytes += data.to_string().len();
                *extra = Some(data);
            }
            _ => self.add_opaque_part(data),
        }
    }
}
