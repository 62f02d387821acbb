//! The binary `rind-guard-hook`: answers a hook of another agent like `rind guard hook`, but starts
//! faster.

use std::process::ExitCode;

fn main() -> ExitCode {
    rind::cli::run_guard_hook_program()
}
