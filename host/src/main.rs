//! The binary `rind`: nothing but the entry to [`rind::cli`].

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    rind::cli::main()
}
