//! Measures a plugin's use of the host over all its instances: memory, and calls of imports.

use std::collections::BTreeMap;
use std::sync::Mutex;

use crate::lock::lock;

/// Use of the host by one plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metered {
    /// Peak linear memory of an instance, in bytes.
    pub memory_bytes: u64,
    /// Number of calls per import. Among WASI interfaces, only `wasi:filesystem` and `wasi:http`
    /// are counted: the rest gives no access.
    pub host_calls: BTreeMap<&'static str, u64>,
}

/// Meter of one plugin, used by tests and cases only.
#[derive(Debug, Default)]
pub struct Meter(Mutex<Metered>);

impl Meter {
    /// Resets the call counts.
    pub fn restart(&self) {
        lock(&self.0).host_calls.clear();
    }

    /// Returns the use since the last reset.
    pub fn read(&self) -> Metered {
        lock(&self.0).clone()
    }

    pub(super) fn count_call(&self, import: &'static str) {
        *lock(&self.0).host_calls.entry(import).or_default() += 1;
    }

    pub(super) fn note_memory(&self, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let mut metered = lock(&self.0);
        metered.memory_bytes = metered.memory_bytes.max(bytes);
    }
}
