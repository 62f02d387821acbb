//! The binary `rind-guard-hook`: answers at a hook of another agent, as `rind guard hook` does, and
//! starts faster.

use std::process::ExitCode;

fn main() -> ExitCode {
    rind::cli::hook_main()
}
