//! The binary `rind`: its allocator, the plugins that it contains, and the call of [`rind::cli`].

use std::process::ExitCode;

use rind::cli::{Carried, PackedFolder};

/// Chosen because a step of an agent allocates and drops many small texts.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Plugins that `build.rs` compiled and packed.
static CARRIED: Carried = Carried {
    files: PackedFolder::new(include_bytes!(concat!(env!("OUT_DIR"), "/carried.tar.zst"))),
    native: include!(concat!(env!("OUT_DIR"), "/native.rs")),
};

fn main() -> ExitCode {
    rind::cli::main(&CARRIED)
}
