//! Starts a program of our own that outlives this process.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use super::confine;

/// Starts a program in its own process group, with this environment, without a terminal and without
/// descriptors of this process. Both its outputs go to `log`. Does not wait for its end.
///
/// # Errors
/// The program cannot be started.
pub fn start_detached(
    program: &Path,
    args: &[OsString],
    env: Vec<(OsString, OsString)>,
    log: File,
) -> io::Result<()> {
    // A pipe of the parent that stays open would let the parent wait for the program.
    confine::keep_descriptors()?;
    let mut command = Command::new(program);
    command
        .args(args)
        .env_clear()
        .envs(env)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::from(log.try_clone()?))
        .stderr(Stdio::from(log))
        .process_group(0);
    command.spawn().map(drop)
}
