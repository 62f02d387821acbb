//! Limits of one instance: total memory, tables, and the number of objects of each kind.
//!
//! A manifest can change only the memory limit, up to a maximum. All other limits are constants of
//! the host.

use std::sync::Arc;

use wasmtime::ResourceLimiter;

use super::meter::PluginResourceMeter;

/// Maximum linear memory of an instance in bytes, if the manifest sets no limit.
pub(super) const DEFAULT_MAX_MEMORY_BYTES: u64 = 64 << 20;

/// Maximum memory that a manifest can request, in bytes. It is enough for a Python guest.
pub const MAX_REQUESTABLE_MEMORY_BYTES: u64 = 256 << 20;

/// Maximum number of elements of all WebAssembly tables of an instance together. A Rust guest has a
/// few hundred elements, CPython some ten thousand.
const MAX_TABLE_ELEMENTS: usize = 100_000;

/// Maximum number of bytes that a guest can pass to the host in one call: enough for an answer of 8
/// MiB with its surrounding structure, or a state value of 16 MiB.
pub(super) const MAX_HOST_CALL_DATA_BYTES: usize = 32 << 20;

/// Maximum number of resource handles that a guest may hold.
pub(super) const MAX_GUEST_RESOURCE_HANDLES: usize = 4096;

/// Maximum number of point calls during one call of a plugin. Each point call runs every
/// implementer and writes trace records.
pub(super) const MAX_POINT_CALLS_PER_PLUGIN_CALL: u32 = 256;

/// Maximum number of host resources, such as open files, that an instance can hold.
pub(super) const MAX_RESOURCE_TABLE_ENTRIES: usize = 1024;

/// Maximum number of random bytes per call of `wasi:random`.
pub(super) const MAX_RANDOM_BYTES_PER_CALL: u64 = 64 << 10;

/// Number of bytes of a guest's standard error that are stored, counted from its end. They contain
/// the message of a panic.
pub(super) const MAX_KEPT_STDERR_BYTES: usize = 4096;

/// Counts the memory and table elements of an instance, and refuses growth beyond the limits.
/// wasmtime's `StoreLimits` limits each memory separately, which lets a component with many
/// memories use many times the limit; this type limits the sum.
#[derive(Debug)]
pub(super) struct InstanceMemoryLimiter {
    memory_limit: usize,
    memory: usize,
    /// Size of the last growth of a memory in bytes; subtracted again if the operating system
    /// refuses the growth.
    last_growth: usize,
    table_elements: usize,
    /// Description of the first limit that the instance reached; `None` if it reached none.
    pub(super) hit: Option<String>,
    meter: Option<Arc<PluginResourceMeter>>,
}

impl InstanceMemoryLimiter {
    pub(super) fn new(memory_limit: u64, meter: Option<Arc<PluginResourceMeter>>) -> Self {
        Self {
            memory_limit: usize::try_from(memory_limit).unwrap_or(usize::MAX),
            memory: 0,
            last_growth: 0,
            table_elements: 0,
            hit: None,
            meter,
        }
    }

    fn refuse_growth(&mut self, what: String) -> wasmtime::Result<bool> {
        let error = wasmtime::Error::msg(what.clone());
        self.hit.get_or_insert(what);
        // Return an error, which traps the guest where it requested too much: such a trap is more
        // informative than a later abort.
        Err(error)
    }
}

impl ResourceLimiter for InstanceMemoryLimiter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let total = self.memory.saturating_add(desired.saturating_sub(current));
        if total > self.memory_limit {
            return self.refuse_growth(format!(
                "{} MiB of memory, the guest asked for {} MiB",
                self.memory_limit >> 20,
                total >> 20
            ));
        }
        self.last_growth = total - self.memory;
        self.memory = total;
        if let Some(meter) = &self.meter {
            meter.record_peak_memory(total);
        }
        Ok(true)
    }

    fn memory_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        self.memory = self
            .memory
            .saturating_sub(std::mem::take(&mut self.last_growth));
        Ok(())
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let total = self
            .table_elements
            .saturating_add(desired.saturating_sub(current));
        if total > MAX_TABLE_ELEMENTS {
            return self.refuse_growth(format!(
                "{MAX_TABLE_ELEMENTS} table elements, the guest asked for {total}"
            ));
        }
        self.table_elements = total;
        Ok(true)
    }

    fn instances(&self) -> usize {
        64
    }

    fn tables(&self) -> usize {
        16
    }

    fn memories(&self) -> usize {
        16
    }
}
