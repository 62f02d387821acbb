//! `rind:plugin/store`: values that persist across sessions. They are files, so every call runs on
//! the blocking pool.

use super::super::bindings::rind::plugin::store;
use super::super::host::HostState;
use super::super::sanitize::CallSanitizer;
use super::super::store::PluginStore;
use crate::point::handle::HandleError;

impl HostState {
    /// Runs a change of the store. The session state that the plugin set before is written first, so
    /// that a plugin which is killed in between never finds the later change without the earlier.
    fn change_store<F>(
        &self,
        work: F,
    ) -> Result<impl Future<Output = Result<(), HandleError>> + Send + use<F>, HandleError>
    where
        F: FnOnce(&PluginStore) -> Result<(), HandleError> + Send + 'static,
    {
        self.backing.handle.write_waiting()?;
        Ok(self.in_store(work))
    }

    /// Runs store work on the blocking pool, so that waiting for the disk blocks no other task.
    fn in_store<T: Send + 'static, F>(
        &self,
        work: F,
    ) -> impl Future<Output = Result<T, HandleError>> + Send + use<T, F>
    where
        F: FnOnce(&PluginStore) -> Result<T, HandleError> + Send + 'static,
    {
        let store = self.backing.store.clone();
        let working = tokio::task::spawn_blocking(move || work(&store));
        async {
            let failed = |error| HandleError::Failed(format!("the plugin's store: {error}"));
            working.await.map_err(failed)?
        }
    }
}

impl store::Host for HostState {
    async fn get(&mut self, key: String) -> Result<Option<String>, HandleError> {
        self.in_store(move |store| store.get(&key)).await
    }

    async fn set(&mut self, key: String, value: String) -> Result<(), HandleError> {
        let value = {
            let sanitizer = CallSanitizer::sanitizer_of(self, "store");
            sanitizer.name("key", &key)?;
            sanitizer.text("value", value)
        };
        self.change_store(move |store| store.set(&key, &value))?
            .await
    }

    async fn remove(&mut self, key: String) -> Result<(), HandleError> {
        self.change_store(move |store| store.remove(&key))?.await
    }

    async fn keys(&mut self, prefix: String) -> Result<Vec<String>, HandleError> {
        self.in_store(move |store| store.keys(&prefix)).await
    }
}
