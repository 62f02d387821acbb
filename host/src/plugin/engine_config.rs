//! Settings of the wasmtime engine. They determine which native code the engine accepts.
//!
//! The settings follow wasmtime's security documentation: they enable only the WebAssembly features
//! that Rust, JavaScript and Python guests need. The build script of the program compiles the
//! embedded plugins with the same settings, so this file may depend on nothing but wasmtime.

use std::num::NonZeroUsize;

use wasmtime::{Config, WasmBacktraceDetails};

/// Stack size of a guest, in bytes. Host functions that the guest calls use the rest of
/// [`GUEST_FIBER_STACK_BYTES`].
const GUEST_WASM_STACK_BYTES: usize = 512 << 10;

/// Stack size of the fiber that runs a guest, in bytes. If host functions need more stack than the
/// guest's part leaves, the process aborts.
const GUEST_FIBER_STACK_BYTES: usize = 2 << 20;

/// Amount of address space that each memory of a guest reserves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GuestMemoryReservation {
    /// Each memory reserves the 4 GiB that a guest can address, so that an access beyond the memory
    /// hits an unmapped page. Guests then need no explicit checks: a round of calls to ten plugins
    /// took 5 % less time.
    Wide,
    /// Each memory reserves [`NARROW_MEMORY_RESERVATION_BYTES`], and guests check every access.
    /// Used on processors on which a process often has only 512 GiB of address space (ARM), and in
    /// processes whose address space is limited.
    Narrow,
}

impl GuestMemoryReservation {
    /// Returns how much address space each memory reserves on x86-64, or on any other processor.
    pub(super) fn for_processor(is_x86_64: bool) -> Self {
        match is_x86_64 {
            true => Self::Wide,
            false => Self::Narrow,
        }
    }
}

/// Address space reserved for each memory with [`GuestMemoryReservation::Narrow`], in bytes.
const NARROW_MEMORY_RESERVATION_BYTES: u64 = 64 << 20;

/// Returns the settings of the engine. Native code is compatible only with an engine for the same
/// address space.
pub(super) fn config(space: GuestMemoryReservation) -> Config {
    let mut config = Config::new();
    config
        .epoch_interruption(true)
        .concurrency_support(false)
        // Multiple memories and tail calls stay on because JavaScript components use them. The
        // memory limit covers the sum of all memories, and a tail-recursive function checks the
        // epoch at every call.
        .wasm_memory64(false)
        // Subtypes of function types stay on by default even without the cargo feature `gc`, and
        // wasmtime 48.0.8 then compiles each subtype check into a call of `unreachable!()`, which
        // aborts the process (`tests/hostile/features.rs`).
        .wasm_gc(false)
        .wasm_relaxed_simd(false)
        .max_wasm_stack(GUEST_WASM_STACK_BYTES)
        .async_stack_size(GUEST_FIBER_STACK_BYTES)
        // Without these settings, an environment variable of the operator would decide how many of
        // a guest's function names appear in messages.
        .wasm_backtrace_details(WasmBacktraceDetails::Disable)
        .wasm_backtrace_max_frames(NonZeroUsize::new(16))
        // The map from native code to component offsets adds a tenth to the size of the code, and
        // only the addresses in backtraces use it.
        .generate_address_map(false);
    if space == GuestMemoryReservation::Narrow {
        config
            .memory_reservation(NARROW_MEMORY_RESERVATION_BYTES)
            .memory_reservation_for_growth(NARROW_MEMORY_RESERVATION_BYTES)
            .memory_guard_size(64 << 10)
            .memory_may_move(true);
    }
    config
}
