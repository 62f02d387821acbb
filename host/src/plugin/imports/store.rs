//! `rind:plugin/store`: values that persist across sessions. The values are files, so every call
//! runs on the blocking pool.

use super::super::bindings::rind::plugin::store;
use super::super::host::HostState;
use super::super::sanitize::CallSanitizer;
use super::super::store::PluginKeyValueStore;
use crate::point::handle::HandleError;

/// Runs a change of the plugin's key-value store (`rind:plugin/store`). Changes of the session
/// state (`rind:plugin/state`) that the plugin made earlier are written first, so that after a
/// crash the plugin never finds the later change of the store without the earlier change of the
/// state.
fn run_store_change<F>(
    host: &HostState,
    work: F,
) -> Result<impl Future<Output = Result<(), HandleError>> + Send + use<F>, HandleError>
where
    F: FnOnce(&PluginKeyValueStore) -> Result<(), HandleError> + Send + 'static,
{
    host.backing.handle.write_waiting()?;
    Ok(run_blocking_store_operation(host, work))
}

/// Runs work on a plugin's store on the pool of blocking threads, so that waiting for the disk
/// blocks no other task.
fn run_blocking_store_operation<T: Send + 'static, F>(
    host: &HostState,
    work: F,
) -> impl Future<Output = Result<T, HandleError>> + Send + use<T, F>
where
    F: FnOnce(&PluginKeyValueStore) -> Result<T, HandleError> + Send + 'static,
{
    let store = host.backing.store.clone();
    let working = tokio::task::spawn_blocking(move || work(&store));
    async {
        let failed =
            |error| HandleError::Failed(format!("cannot access the plugin's store: {error}"));
        working.await.map_err(failed)?
    }
}

impl store::Host for HostState {
    async fn get(&mut self, key: String) -> Result<Option<String>, HandleError> {
        run_blocking_store_operation(self, move |store| store.get(&key)).await
    }

    async fn set(&mut self, key: String, value: String) -> Result<(), HandleError> {
        let value = {
            let sanitizer = CallSanitizer::for_current_call(self, "store");
            sanitizer.check_name_without_secrets("key", &key)?;
            sanitizer.text("value", value)
        };
        run_store_change(self, move |store| store.set(&key, &value))?.await
    }

    async fn remove(&mut self, key: String) -> Result<(), HandleError> {
        run_store_change(self, move |store| store.remove(&key))?.await
    }

    async fn keys(&mut self, prefix: String) -> Result<Vec<String>, HandleError> {
        run_blocking_store_operation(self, move |store| store.keys(&prefix)).await
    }
}
