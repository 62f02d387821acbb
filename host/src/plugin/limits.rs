//! Limits of one instance: total memory, tables, and the number of objects of each kind.
//!
//! A manifest can change only the memory limit, up to a maximum; all others are constants of the
//! host.

use std::sync::Arc;

use wasmtime::ResourceLimiter;

use super::meter::Meter;

/// Maximum linear memory of an instance in bytes, if the manifest sets no limit.
pub(super) const DEFAULT_MEMORY_BYTES: u64 = 64 << 20;

/// Maximum memory that a manifest can ask for, in bytes. A Python guest fits.
pub const MAX_MEMORY_BYTES: u64 = 256 << 20;

/// Maximum number of elements over all tables. A Rust guest has a few hundred elements, CPython
/// some ten thousand.
const MAX_TABLE_ELEMENTS: usize = 100_000;

/// Maximum number of bytes that a guest can pass to the host in one call: enough for an answer of 8
/// MiB with its surrounding structure, or a state value of 16 MiB.
pub(super) const HOSTCALL_BYTES: usize = 32 << 20;

/// Maximum number of resource handles that a guest may hold.
pub(super) const MAX_HANDLES: usize = 4096;

/// Maximum number of point calls during one call of a plugin. Each point call runs every
/// implementer and writes trace records.
pub(super) const MAX_POINT_CALLS: u32 = 256;

/// Maximum number of entries in the host's resource table.
pub(super) const MAX_RESOURCES: usize = 1024;

/// Maximum number of random bytes per call of `wasi:random`.
pub(super) const MAX_RANDOM_BYTES: u64 = 64 << 10;

/// Number of bytes at the end of a guest's standard error that are kept, for the message of a
/// panic.
pub(super) const STDERR_BYTES: usize = 4096;

/// Counts the resources of an instance. wasmtime's `StoreLimits` limits each memory separately,
/// which lets a component with many memories use many times the limit; this type limits the sum.
#[derive(Debug)]
pub(super) struct InstanceLimiter {
    memory_limit: usize,
    memory: usize,
    /// Size of the last growth of a memory in bytes; subtracted again if the operating system
    /// refuses the growth.
    last_growth: usize,
    table_elements: usize,
    /// Description of the first limit that was hit.
    pub(super) hit: Option<String>,
    meter: Option<Arc<Meter>>,
}

impl InstanceLimiter {
    pub(super) fn new(memory_limit: u64, meter: Option<Arc<Meter>>) -> Self {
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
        // Returning an error traps the guest at the point where it requested too much, which is
        // more informative than a later abort.
        Err(error)
    }
}

impl ResourceLimiter for InstanceLimiter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let total = self.memory.saturating_add(desired.saturating_sub(current));
        if total > self.memory_limit {
            return self.refuse_growth(format!(
                "memory of {} MiB, it asked for {} MiB",
                self.memory_limit >> 20,
                total >> 20
            ));
        }
        self.last_growth = total - self.memory;
        self.memory = total;
        if let Some(meter) = &self.meter {
            meter.note_memory(total);
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
                "{MAX_TABLE_ELEMENTS} table elements, it asked for {total}"
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
