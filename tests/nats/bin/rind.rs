//! The program `rind` with the feature `nats`.

use std::process::ExitCode;

use rind_cli::{EmbeddedPackedFolder, EmbeddedPluginFiles};

/// Carried files of the program: no plugins, because these tests need none.
static CARRIED: EmbeddedPluginFiles = EmbeddedPluginFiles {
    files: EmbeddedPackedFolder::new(&[]),
    native: &[],
};

fn main() -> ExitCode {
    rind_cli::main(&CARRIED)
}
