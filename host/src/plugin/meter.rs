//! Measures the resource use of a plugin over all its instances: peak memory, and calls per import.

use std::collections::BTreeMap;
use std::sync::Mutex;

use crate::lock::lock_ignoring_poison;

/// Measured resource use of one plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginResourceUse {
    /// Largest linear memory of any instance of the plugin so far, in bytes.
    pub memory_bytes: u64,
    /// Number of calls per import. Among WASI interfaces, only `wasi:filesystem` and `wasi:http`
    /// are counted, because the others give no access.
    pub host_calls: BTreeMap<&'static str, u64>,
}

/// Meter of one plugin, used only by tests and by the test cases of plugins.
#[derive(Debug, Default)]
pub struct PluginResourceMeter(Mutex<PluginResourceUse>);

impl PluginResourceMeter {
    /// Resets the call counts, but not the peak memory.
    pub fn reset_measurements(&self) {
        lock_ignoring_poison(&self.0).host_calls.clear();
    }

    /// Returns the calls since the last reset, and the peak memory so far.
    pub fn resource_use(&self) -> PluginResourceUse {
        lock_ignoring_poison(&self.0).clone()
    }

    pub(super) fn count_import_call(&self, import: &'static str) {
        *lock_ignoring_poison(&self.0)
            .host_calls
            .entry(import)
            .or_default() += 1;
    }

    pub(super) fn record_peak_memory(&self, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let mut metered = lock_ignoring_poison(&self.0);
        metered.memory_bytes = metered.memory_bytes.max(bytes);
    }
}
