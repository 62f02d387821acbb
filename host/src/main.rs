//! The binary `rind`: nothing but the entry to [`rind::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    rind::cli::main()
}
