//! The binary `rind`: sets the allocator, includes the packed plugins, and calls [`rind::cli`].

use std::process::ExitCode;

use rind::cli::{EmbeddedPluginFiles, PackedFolder};

/// Allocator of the program. mimalloc is fast for the many small texts that a step of an agent
/// allocates and drops.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Plugins that `build.rs` compiled and packed.
static CARRIED: EmbeddedPluginFiles = EmbeddedPluginFiles {
    files: PackedFolder::new(include_bytes!(concat!(env!("OUT_DIR"), "/carried.tar.zst"))),
    native: include!(concat!(env!("OUT_DIR"), "/native.rs")),
};

fn main() -> ExitCode {
    rind::cli::main(&CARRIED)
}
