//! Settings of the engine, which decide what native code is compatible with it.
//!
//! They follow wasmtime's own security documentation: the smallest set of WebAssembly features that Rust, JavaScript and Python
//! guests need, everything else off. The build script of the program compiles the plugins that the program carries with the same
//! settings, so this file needs nothing but wasmtime.

use std::num::NonZeroUsize;

use wasmtime::{Config, WasmBacktraceDetails};

/// Stack of a guest. The host keeps the rest of [`ASYNC_STACK_BYTES`] for its own functions.
const WASM_STACK_BYTES: usize = 512 << 10;

/// Stack of a fiber that runs a guest; overflowing what the guest leaves would end the process.
const ASYNC_STACK_BYTES: usize = 2 << 20;

/// Address space set aside for each memory; the default of 4 GiB would exhaust it with a few hundred plugins.
const MEMORY_RESERVATION_BYTES: u64 = 64 << 20;

/// Returns the settings of the engine.
pub(super) fn config() -> Config {
    let mut config = Config::new();
    config
        .epoch_interruption(true)
        .concurrency_support(false)
        // Several memories and tail calls are left on: components of JavaScript have them. The limit counts memories together,
        // and a function that calls itself at its end looks at the clock each time.
        .wasm_memory64(false)
        // Subtypes of function types stay on by default even without the cargo feature `gc`, and 48.0.8 then compiles each check
        // of one into a call of `unreachable!()`, which ends the process (`tests/hostile/features.rs`).
        .wasm_gc(false)
        .wasm_relaxed_simd(false)
        .max_wasm_stack(WASM_STACK_BYTES)
        .async_stack_size(ASYNC_STACK_BYTES)
        // Otherwise an environment variable of the operator's decides how much of a guest's names ends up in messages.
        .wasm_backtrace_details(WasmBacktraceDetails::Disable)
        .wasm_backtrace_max_frames(NonZeroUsize::new(16))
        // The table from native code to offsets in the component has a tenth of the size of the code, and only its addresses in
        // backtraces come from it.
        .generate_address_map(false)
        .memory_reservation(MEMORY_RESERVATION_BYTES)
        .memory_reservation_for_growth(MEMORY_RESERVATION_BYTES)
        .memory_guard_size(64 << 10)
        .memory_may_move(true);
    config
}
