//! Counts the use that a plugin makes of the host, over all its instances: memory, and calls of imports.

use std::collections::BTreeMap;
use std::sync::Mutex;

use crate::lock::lock;

/// Use of the host by one plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metered {
    /// Most linear memory that an instance had, in bytes.
    pub memory_bytes: u64,
    /// Calls of each import. Of WASI those of `wasi:filesystem` and `wasi:http`: the rest gives no access.
    pub host_calls: BTreeMap<&'static str, u64>,
}

/// A meter of one plugin. Sessions of users have none.
#[derive(Debug, Default)]
pub struct Meter(Mutex<Metered>);

impl Meter {
    /// Forgets the calls so far.
    pub fn restart(&self) {
        lock(&self.0).host_calls.clear();
    }

    /// Returns the use since the last start.
    pub fn read(&self) -> Metered {
        lock(&self.0).clone()
    }

    pub(super) fn count(&self, import: &'static str) {
        *lock(&self.0).host_calls.entry(import).or_default() += 1;
    }

    pub(super) fn memory(&self, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let mut metered = lock(&self.0);
        metered.memory_bytes = metered.memory_bytes.max(bytes);
    }
}
