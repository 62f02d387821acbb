//! `rind:plugin/store`: values across sessions. They are files, so every call goes to a thread that may wait for the disk.

use super::super::bindings::rind::plugin::{store, types};
use super::super::host::HostState;
use super::super::sanitize::Sanitizer;
use super::super::store::PluginStore;
use crate::point::handle::HandleError;

impl HostState {
    /// Works on the store where waiting for the disk holds nobody else up.
    fn in_store<T: Send + 'static, F>(
        &self,
        work: F,
    ) -> impl Future<Output = Result<T, types::Error>> + Send + use<T, F>
    where
        F: FnOnce(&PluginStore) -> Result<T, HandleError> + Send + 'static,
    {
        let store = self.backing.store.clone();
        let working = tokio::task::spawn_blocking(move || work(&store));
        async {
            let failed = |error| HandleError::Failed(format!("the plugin's store: {error}"));
            let done = working.await.map_err(failed);
            done.and_then(|done| done).map_err(Into::into)
        }
    }
}

impl store::Host for HostState {
    async fn get(&mut self, key: String) -> wasmtime::Result<Result<Option<String>, types::Error>> {
        Ok(self.in_store(move |store| store.get(&key)).await)
    }

    async fn set(
        &mut self,
        key: String,
        value: String,
    ) -> wasmtime::Result<Result<(), types::Error>> {
        let sanitized = {
            let sanitizer = Sanitizer::of(self, "store");
            let named = sanitizer.name("key", &key);
            named.map(|()| sanitizer.text("value", value))
        };
        match sanitized {
            Ok(value) => Ok(self.in_store(move |store| store.set(&key, &value)).await),
            Err(error) => Ok(Err(error.into())),
        }
    }

    async fn remove(&mut self, key: String) -> wasmtime::Result<Result<(), types::Error>> {
        Ok(self.in_store(move |store| store.remove(&key)).await)
    }

    async fn keys(
        &mut self,
        prefix: String,
    ) -> wasmtime::Result<Result<Vec<String>, types::Error>> {
        Ok(self.in_store(move |store| store.keys(&prefix)).await)
    }
}
