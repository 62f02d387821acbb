//! The program `rind` with the feature `nats`.

use std::process::ExitCode;

use include_dir::Dir;

/// No plugins: these tests need none.
static CARRIED: Dir<'_> = Dir::new("", &[]);

fn main() -> ExitCode {
    rind_cli::main(&CARRIED)
}
