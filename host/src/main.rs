//! The binary `rind`: its allocator, and the entry to [`rind::cli`].

use std::process::ExitCode;

/// A step makes many small texts and drops them again.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    rind::cli::main()
}
