//! `rind:plugin/config`: the operator's settings for the plugin.

use super::super::bindings::rind::plugin::config;
use super::super::host::HostState;

impl config::Host for HostState {
    fn all(&mut self) -> wasmtime::Result<String> {
        Ok(self.backing.config_text.clone())
    }

    fn get(&mut self, key: String) -> wasmtime::Result<Option<String>> {
        Ok(self.backing.config.get(&key).map(ToString::to_string))
    }
}
