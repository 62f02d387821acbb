//! `rind:plugin/tools-host`: calls of other tools. Linked only if at least one tool is granted;
//! each call checks its tool.

use super::super::bindings::rind::plugin::{tools_host, types};
use super::super::convert;
use super::super::host::HostState;
use super::super::sanitize::GuestTextSanitizer;
use crate::grant::Capability;
use crate::json;
use crate::point::handle::HostFunctionError;
use crate::point::trace::{AccessOutcome, AccessRecord, Reached};
use crate::text::escape_and_truncate_line;

/// Maximum length in bytes of a tool name in error messages; the name comes from the guest.
const MAX_QUOTED_TOOL_NAME_BYTES: usize = 64;

impl tools_host::Host for HostState {
    async fn call(
        &mut self,
        name: String,
        arguments: String,
    ) -> Result<Vec<types::Part>, HostFunctionError> {
        if !self
            .backing
            .granted
            .has_capability(&Capability::Tool(name.clone()))
        {
            return Err(tool_not_granted_error(self, &name));
        }
        let arguments = GuestTextSanitizer::for_current_guest_call(self, "tools-host")
            .json("arguments", arguments);
        let invalid = |e| HostFunctionError::InvalidInput(format!("the text of the arguments {e}"));
        let arguments =
            json::parse_json(&arguments, json::DEFAULT_MAX_JSON_BYTES).map_err(invalid)?;
        let backing = self.backing.clone();
        let caller = self.call.caller.with_calling_plugin(&backing.plugin);
        let called = backing
            .handle
            .call_tool(&backing.plugin, name, arguments, caller);
        let content = called.await?;
        self.call.shown.extend(content.blobs().cloned());
        Ok(content
            .iter()
            .map(convert::tool_result_part_to_wit)
            .collect())
    }
}

/// Returns the error for a tool that is not granted, and records the attempt.
fn tool_not_granted_error(host: &HostState, name: &str) -> HostFunctionError {
    let backing = &host.backing;
    let name = escape_and_truncate_line(name, MAX_QUOTED_TOOL_NAME_BYTES);
    let granted: Vec<&str> = backing.granted.callable_tools().collect();
    let why = format!(
        "plugin `{}` was not granted the tool `{name}`; it was granted: {}",
        backing.plugin,
        granted.join(", ")
    );
    backing.handle.record_access(AccessRecord {
        plugin: backing.plugin.clone(),
        reached: Reached::External,
        target: format!("tool {name}"),
        outcome: AccessOutcome::Denied,
        reason: Some(why.clone()),
        origin: host.call.caller.action_origin(),
    });
    HostFunctionError::Denied(why)
}
