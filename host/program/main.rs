//! The binary `rind`: sets the allocator, includes the packed plugins, and calls [`rind::cli`].

use std::process::ExitCode;

use rind::cli::{EmbeddedPackedFolder, EmbeddedPluginFiles};

/// Allocator of the program. mimalloc is fast for the many small texts that a step of an agent
/// allocates and drops.
#[global_allocator]
static GLOBAL_ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Plugins that `build.rs` compiled and packed into the program.
static EMBEDDED_PLUGIN_FILES: EmbeddedPluginFiles = EmbeddedPluginFiles {
    files: EmbeddedPackedFolder::new(include_bytes!(concat!(env!("OUT_DIR"), "/carried.tar.zst"))),
    native: include!(concat!(env!("OUT_DIR"), "/native.rs")),
};

fn main() -> ExitCode {
    rind::cli::main(&EMBEDDED_PLUGIN_FILES)
}
