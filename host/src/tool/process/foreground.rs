//! Runs a program in the foreground of the terminal, such as the user's editor.

use std::io;
use std::path::Path;
use std::process::{Command, ExitStatus};

/// Runs the user's own command line with a file as its last argument, and waits until it exits. The
/// program has the terminal, the environment and all rights of the user, so `command` must come
/// from the user and from no other source.
///
/// # Errors
/// There is no shell, or waiting failed.
pub fn run_with_file(command: &str, file: &Path) -> io::Result<ExitStatus> {
    Command::new("sh")
        .arg("-c")
        .arg(format!("{command} \"$1\""))
        .arg("sh")
        .arg(file)
        .status()
}
