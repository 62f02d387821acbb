//! A program that has the terminal for a while, such as a person's editor.

use std::io;
use std::path::Path;
use std::process::{Command, ExitStatus};

/// Runs a command line of the person's own with a file as its last argument, and waits for its end. It has the terminal, the
/// environment and all rights of whoever started Rind, so that `command` must not come from anybody else.
///
/// # Errors
/// There is no shell, or it could not be waited for.
pub fn run_with_file(command: &str, file: &Path) -> io::Result<ExitStatus> {
    Command::new("sh")
        .arg("-c")
        .arg(format!("{command} \"$1\""))
        .arg("sh")
        .arg(file)
        .status()
}
