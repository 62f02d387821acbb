//! `rind:plugin/session`: the conversation so far. Linked only if the manifest declares `session`.

use super::super::bindings::rind::plugin::{session, types};
use super::super::convert;
use super::super::host::HostState;
use super::super::sanitize::CallSanitizer;
use crate::json;
use crate::point::handle::HandleError;

/// Maximum number of messages per answer.
pub(super) const MAX_MESSAGES: u32 = 1000;

impl session::Host for HostState {
    async fn messages(&mut self, last: u32) -> wasmtime::Result<Vec<types::Message>> {
        let last = last.min(MAX_MESSAGES) as usize;
        Ok(self
            .backing
            .handle
            .messages(&self.call.caller, last)
            .iter()
            .map(convert::convert_message)
            .collect())
    }

    async fn append(&mut self, name: String, value: String) -> Result<(), HandleError> {
        let sanitizer = CallSanitizer::sanitizer_of(self, "session");
        sanitizer.name("name of an entry", &name)?;
        let value = json::parse_json(&sanitizer.json("entry", value), json::MAX_BYTES)
            .map_err(|e| HandleError::InvalidInput(format!("the value {e}")))?;
        let backing = &self.backing;
        backing.handle.append(&backing.plugin, &name, value)
    }
}
