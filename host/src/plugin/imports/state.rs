//! `rind:plugin/state`: values stored with the session.

use super::super::bindings::rind::plugin::state;
use super::super::host::{HostState, PluginBacking};
use super::super::sanitize::CallSanitizer;
use crate::point::handle::HandleError;

impl state::Host for HostState {
    async fn get(&mut self, key: String) -> wasmtime::Result<Option<String>> {
        Ok(self.backing.handle.state_get(&self.backing.keeper, &key))
    }

    async fn set(&mut self, key: String, value: String) -> Result<(), HandleError> {
        let sanitizer = CallSanitizer::sanitizer_of(self, "state");
        sanitizer.name("key", &key)?;
        let value = sanitizer.text("value", value);
        let PluginBacking { handle, keeper, .. } = &*self.backing;
        handle.state_set(keeper, &key, Some(&value))
    }

    async fn remove(&mut self, key: String) -> Result<(), HandleError> {
        let PluginBacking { handle, keeper, .. } = &*self.backing;
        handle.state_set(keeper, &key, None)
    }

    async fn keys(&mut self, prefix: String) -> wasmtime::Result<Vec<String>> {
        let PluginBacking { handle, keeper, .. } = &*self.backing;
        Ok(handle.state_keys(keeper, &prefix))
    }
}
