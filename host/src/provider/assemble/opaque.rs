//! Opaque data beside the parts of an answer.
//!
//! A part that a wire knows and Rind does not, such as an encrypted reasoning item, is kept whole
//! in a reasoning part without text, at its place among the other parts.

use serde_json::Value;

use super::Assembler;
use crate::message::Content;

impl Assembler {
    /// Adds a part that consists of opaque data alone.
    pub(in crate::provider) fn opaque(&mut self, extra: Value) {
        self.n_bytes += extra.to_string().len();
        self.parts.push(Content::Thinking {
            text: String::new(),
            signature: None,
            extra: Some(extra),
        });
    }

    /// Puts opaque data beside the reasoning that was written last, which ends with it. Without
    /// such reasoning the data is a part of its own.
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
            _ => self.opaque(data),
        }
    }
}
