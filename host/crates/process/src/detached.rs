//! Starts one of Rind's own programs so that it outlives this process.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use super::confine;

/// Starts a program in its own process group with the environment `env`, without a terminal and
/// without descriptors of this process. Standard output and standard error go to `log`. Does not
/// wait until the program ends.
///
/// # Errors
/// The program cannot be started.
pub fn start_detached_program(
    program: &Path,
    args: &[OsString],
    env: Vec<(OsString, OsString)>,
    log: File,
) -> io::Result<()> {
    // If the program inherited a pipe of this process, the reader of the pipe would wait until the
    // program ends.
    confine::set_close_on_exec_on_all_fds()?;
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
