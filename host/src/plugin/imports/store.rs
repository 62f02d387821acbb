//! `rind:plugin/store`: values that persist across sessions. The values are files, so every call
//! runs on the blocking pool.

use super::super::bindings::rind::plugin::store;
use super::super::host::HostState;
use super::super::sanitize::GuestTextSanitizer;
use super::super::store::PluginKeyValueStore;
use crate::point::handle::HostFunctionError;

/// Runs a change of the plugin's key-value store (`rind:plugin/store`). Changes of the session
/// state (`rind:plugin/state`) that the plugin made earlier are written first, so that after a
/// crash the plugin never finds the later change of the store without the earlier change of the
/// state.
fn modify_key_value_store<F>(
    host: &HostState,
    work: F,
) -> Result<impl Future<Output = Result<(), HostFunctionError>> + Send + use<F>, HostFunctionError>
where
    F: FnOnce(&PluginKeyValueStore) -> Result<(), HostFunctionError> + Send + 'static,
{
    host.backing.handle.write_deferred_state()?;
    Ok(run_blocking_store_operation(host, work))
}

/// Runs work on a plugin's store on the pool of blocking threads, so that waiting for the disk
/// blocks no other task.
fn run_blocking_store_operation<T: Send + 'static, F>(
    host: &HostState,
    work: F,
) -> impl Future<Output = Result<T, HostFunctionError>> + Send + use<T, F>
where
    F: FnOnce(&PluginKeyValueStore) -> Result<T, HostFunctionError> + Send + 'static,
{
    let store = host.backing.store.clone();
    let working = tokio::task::spawn_blocking(move || work(&store));
    async {
        let failed =
            |error| HostFunctionError::Failed(format!("cannot access the plugin's store: {error}"));
        working.await.map_err(failed)?
    }
}

impl store::Host for HostState {
    async fn get(&mut self, key: String) -> Result<Option<String>, HostFunctionError> {
        run_blocking_store_operation(self, move |store| store.get(&key)).await
    }

    async fn set(&mut self, key: String, value: String) -> Result<(), HostFunctionError> {
        let value = {
            let sanitizer = GuestTextSanitizer::for_current_guest_call(self, "store");
            sanitizer.reject_name_with_secret("key", &key)?;
            sanitizer.text("value", value)
        };
        modify_key_value_store(self, move |store| store.set(&key, &value))?.await
    }

    async fn remove(&mut self, key: String) -> Result<(), HostFunctionError> {
        modify_key_value_store(self, move |store| store.remove(&key))?.await
    }

    async fn keys(&mut self, prefix: String) -> Result<Vec<String>, HostFunctionError> {
        run_blocking_store_operation(self, move |store| store.keys(&prefix)).await
    }
}
