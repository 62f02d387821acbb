//! The binary `rind`: its allocator, the plugins that it carries, and the entry to [`rind::cli`].

use std::process::ExitCode;

use include_dir::{Dir, include_dir};

/// A step makes many small texts and drops them again.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Folders of the core plugins and of the examples, as `build.rs` compiled them.
static CARRIED: Dir<'_> = include_dir!("$OUT_DIR/carried");

fn main() -> ExitCode {
    rind::cli::main(&CARRIED)
}
