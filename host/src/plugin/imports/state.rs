//! `rind:plugin/state`: values stored with the session.

use super::super::bindings::rind::plugin::state;
use super::super::host::{HostState, SharedPluginState};
use super::super::sanitize::GuestTextSanitizer;
use crate::point::handle::{HostFunctionError, PluginStateWriteMode};

/// Writes a change of the plugin's state to the session. If the process is killed, the continued
/// turn runs the hooks of the interrupted step again, so their changes are written only together
/// with the next session entry. For a plugin with effects beyond the session, the change is written
/// at once, because the plugin's next action cannot be undone.
fn write_plugin_state(
    host: &HostState,
    key: &str,
    value: Option<&str>,
) -> Result<(), HostFunctionError> {
    let SharedPluginState {
        handle,
        keeper,
        granted,
        ..
    } = &*host.backing;
    let caller = &host.call.caller;
    let is_in_step = caller.context.step > 0 && caller.point.is_some();
    let when = if is_in_step && granted.has_no_capability_besides_session() {
        PluginStateWriteMode::WithNextEntry
    } else {
        PluginStateWriteMode::AtOnce
    };
    handle.set_plugin_state_value(keeper, key, value, when)
}

impl state::Host for HostState {
    fn get(&mut self, key: String) -> wasmtime::Result<Option<String>> {
        Ok(self.backing.handle.state_get(&self.backing.keeper, &key))
    }

    fn set(&mut self, key: String, value: String) -> Result<(), HostFunctionError> {
        let sanitizer = GuestTextSanitizer::for_current_guest_call(self, "state");
        sanitizer.reject_name_with_secret("key", &key)?;
        let value = sanitizer.text("value", value);
        write_plugin_state(self, &key, Some(&value))
    }

    fn remove(&mut self, key: String) -> Result<(), HostFunctionError> {
        write_plugin_state(self, &key, None)
    }

    fn keys(&mut self, prefix: String) -> wasmtime::Result<Vec<String>> {
        let SharedPluginState { handle, keeper, .. } = &*self.backing;
        Ok(handle.state_keys(keeper, &prefix))
    }
}
