//! The binary `rind`: its allocator, the plugins that it carries, and the entry to [`rind::cli`].

use std::process::ExitCode;

use rind::cli::{Carried, PackedFolder};

/// A step makes many small texts and drops them again.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Plugins, as `build.rs` compiled and packed them.
static CARRIED: Carried = Carried {
    files: PackedFolder::new(include_bytes!(concat!(env!("OUT_DIR"), "/carried.tar.zst"))),
    native: include!(concat!(env!("OUT_DIR"), "/native.rs")),
};

fn main() -> ExitCode {
    rind::cli::main(&CARRIED)
}
