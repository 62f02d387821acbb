//! `rind:plugin/store`: values across sessions.

use super::super::bindings::rind::plugin::{store, types};
use super::super::exit::Exit;
use super::super::host::HostState;

impl store::Host for HostState {
    async fn get(&mut self, key: String) -> wasmtime::Result<Result<Option<String>, types::Error>> {
        Ok(self.backing.store.get(&key).map_err(Into::into))
    }

    async fn set(
        &mut self,
        key: String,
        value: String,
    ) -> wasmtime::Result<Result<(), types::Error>> {
        let exit = Exit::of(self, "store");
        let kept = exit
            .name("key", &key)
            .and_then(|()| self.backing.store.set(&key, &exit.text("value", value)));
        Ok(kept.map_err(Into::into))
    }

    async fn remove(&mut self, key: String) -> wasmtime::Result<Result<(), types::Error>> {
        Ok(self.backing.store.remove(&key).map_err(Into::into))
    }

    async fn keys(
        &mut self,
        prefix: String,
    ) -> wasmtime::Result<Result<Vec<String>, types::Error>> {
        Ok(self.backing.store.keys(&prefix).map_err(Into::into))
    }
}
