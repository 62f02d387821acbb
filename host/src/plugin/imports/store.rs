//! `rind:plugin/store`: values that persist across sessions. The values are files, so every call
//! runs on the blocking pool.

use super::super::bindings::rind::plugin::store;
use super::super::host::HostState;
use super::super::sanitize::CallSanitizer;
use super::super::store::PluginStore;
use crate::point::handle::HandleError;

/// Runs a change of the store. Session state that the plugin set before is written first: if the
/// process is killed in between, the plugin never finds the later change without the earlier one.
fn change_store<F>(
    host: &HostState,
    work: F,
) -> Result<impl Future<Output = Result<(), HandleError>> + Send + use<F>, HandleError>
where
    F: FnOnce(&PluginStore) -> Result<(), HandleError> + Send + 'static,
{
    host.backing.handle.write_waiting()?;
    Ok(in_store(host, work))
}

/// Runs store work on the blocking pool, so that waiting for the disk blocks no other task.
fn in_store<T: Send + 'static, F>(
    host: &HostState,
    work: F,
) -> impl Future<Output = Result<T, HandleError>> + Send + use<T, F>
where
    F: FnOnce(&PluginStore) -> Result<T, HandleError> + Send + 'static,
{
    let store = host.backing.store.clone();
    let working = tokio::task::spawn_blocking(move || work(&store));
    async {
        let failed = |error| HandleError::Failed(format!("the plugin's store: {error}"));
        working.await.map_err(failed)?
    }
}

impl store::Host for HostState {
    async fn get(&mut self, key: String) -> Result<Option<String>, HandleError> {
        in_store(self, move |store| store.get(&key)).await
    }

    async fn set(&mut self, key: String, value: String) -> Result<(), HandleError> {
        let value = {
            let sanitizer = CallSanitizer::sanitizer_of(self, "store");
            sanitizer.name("key", &key)?;
            sanitizer.text("value", value)
        };
        change_store(self, move |store| store.set(&key, &value))?.await
    }

    async fn remove(&mut self, key: String) -> Result<(), HandleError> {
        change_store(self, move |store| store.remove(&key))?.await
    }

    async fn keys(&mut self, prefix: String) -> Result<Vec<String>, HandleError> {
        in_store(self, move |store| store.keys(&prefix)).await
    }
}
