//! `rind:plugin/state`: values of the session.

use super::super::bindings::rind::plugin::{state, types};
use super::super::host::HostState;

impl state::Host for HostState {
    async fn get(&mut self, key: String) -> wasmtime::Result<Option<String>> {
        Ok(self.backing.handle.state_get(&self.backing.keeper, &key))
    }

    async fn set(
        &mut self,
        key: String,
        value: String,
    ) -> wasmtime::Result<Result<(), types::Error>> {
        Ok(self
            .backing
            .handle
            .state_set(&self.backing.keeper, &key, Some(&value))
            .map_err(Into::into))
    }

    async fn remove(&mut self, key: String) -> wasmtime::Result<Result<(), types::Error>> {
        Ok(self
            .backing
            .handle
            .state_set(&self.backing.keeper, &key, None)
            .map_err(Into::into))
    }

    async fn keys(&mut self, prefix: String) -> wasmtime::Result<Vec<String>> {
        Ok(self
            .backing
            .handle
            .state_keys(&self.backing.keeper, &prefix))
    }
}
