//! `rind:plugin/state`: values of the session.

use super::super::bindings::rind::plugin::{state, types};
use super::super::host::HostState;
use super::super::sanitize::Sanitizer;

impl state::Host for HostState {
    async fn get(&mut self, key: String) -> wasmtime::Result<Option<String>> {
        Ok(self.backing.handle.state_get(&self.backing.keeper, &key))
    }

    async fn set(
        &mut self,
        key: String,
        value: String,
    ) -> wasmtime::Result<Result<(), types::Error>> {
        let sanitizer = Sanitizer::of(self, "state");
        let kept = sanitizer.name("key", &key).and_then(|()| {
            let value = sanitizer.text("value", value);
            let backing = &self.backing;
            backing
                .handle
                .state_set(&backing.keeper, &key, Some(&value))
        });
        Ok(kept.map_err(Into::into))
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
