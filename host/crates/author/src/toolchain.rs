//! Runs the programs of a toolchain, and ensures that the Rust toolchain of a directory can compile
//! to wasm32-wasip2.
//!
//! Programs run in the directory of the plugin or its workspace, where a `rust-toolchain.toml` may
//! select the toolchain, and with only those environment variables that `compilation.rs` lists.

use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::BuildError;
use super::build::Progress;
use super::compilation::{KEPT_VARIABLE_PREFIXES, KEPT_VARIABLES};
use super::target::{self, TARGET};
use rind_lib::tool::process::{
    Finished, OnLine, OutputPipes, Process, ProcessEnding, SpawnError,
    base_environment_with_variables,
};

/// Timeout of a query to the toolchain. It is long, because rustup may first install a pinned
/// toolchain.
const QUERY_TIMEOUT: Duration = Duration::from_secs(600);

/// Maximum number of bytes of a program's output that are captured.
const MAX_CAPTURED_BYTES: usize = 256 * 1024;

/// Returns the directory where cargo stores the sources of dependencies.
pub(super) fn cargo_home() -> Option<PathBuf> {
    let home = || Some(PathBuf::from(read_allowed_variable("HOME")?).join(".cargo"));
    read_allowed_variable("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(home)
}

/// Returns the target directory from the environment variable `CARGO_TARGET_DIR`; `None` if it is
/// unset.
pub(super) fn target_dir() -> Option<PathBuf> {
    read_allowed_variable("CARGO_TARGET_DIR").map(PathBuf::from)
}

fn read_allowed_variable(name: &str) -> Option<OsString> {
    let mut variables =
        base_environment_with_variables(KEPT_VARIABLES, KEPT_VARIABLE_PREFIXES).into_iter();
    let (_, value) = variables.find(|(other, _)| other == name)?;
    Some(value)
}

/// Runs a program of the toolchain in `cwd`. rustup selects the toolchain by this directory.
pub(super) async fn run_program(
    program: impl Into<OsString>,
    args: &[impl AsRef<OsStr>],
    cwd: &Path,
    deadline: Duration,
    on_line: Option<OnLine>,
    cancel: &CancellationToken,
) -> Result<Finished, SpawnError> {
    Process {
        program: program.into(),
        args: args.iter().map(|arg| arg.as_ref().to_owned()).collect(),
        cwd: cwd.to_owned(),
        env: base_environment_with_variables(KEPT_VARIABLES, KEPT_VARIABLE_PREFIXES),
        stdin: None,
        deadline,
        streams: OutputPipes::Separate,
        capture_bytes: MAX_CAPTURED_BYTES,
        on_line,
        on_bytes: None,
        confine: None,
        keeper: None,
    }
    .run(cancel)
    .await
}

/// Runs a program of the toolchain and returns its trimmed standard output, of at most
/// [`MAX_CAPTURED_BYTES`].
pub(super) async fn query_program(
    program: &str,
    args: &[&str],
    cwd: &Path,
    cancel: &CancellationToken,
) -> Result<String, BuildError> {
    let asked = run_program(program, args, cwd, QUERY_TIMEOUT, None, cancel).await;
    trim_program_output(asked.map_err(spawn_error)?, program, args)
}

/// Runs a program of the toolchain whose output may be longer than [`MAX_CAPTURED_BYTES`], and
/// passes each line to `on_line`. Returns the exit status and the captured output.
pub(super) async fn query_program_lines(
    program: &str,
    args: &[&str],
    cwd: &Path,
    on_line: OnLine,
    cancel: &CancellationToken,
) -> Result<Finished, BuildError> {
    let asked = run_program(program, args, cwd, QUERY_TIMEOUT, Some(on_line), cancel);
    asked.await.map_err(spawn_error)
}

fn spawn_error(error: SpawnError) -> BuildError {
    match error.source.kind() {
        ErrorKind::NotFound => BuildError::NoCargo(error),
        _ => BuildError::Spawn(error),
    }
}

fn trim_program_output(
    finished: Finished,
    program: &str,
    args: &[&str],
) -> Result<String, BuildError> {
    match finished.ending {
        ProcessEnding::Exited(0) => Ok(finished.stdout.text().trim().to_owned()),
        ProcessEnding::Cancelled => Err(BuildError::Cancelled),
        _ => Err(BuildError::Toolchain {
            command: format!("{program} {}", args.join(" ")),
            text: format!("{}{}", finished.stdout.text(), finished.stderr.text()),
        }),
    }
}

/// Whether the Rust toolchain of a directory can compile plugins.
pub async fn has_wasm_target(cwd: &Path, cancel: &CancellationToken) -> Result<bool, BuildError> {
    let (_, target) = find_target_folders(cwd, cancel).await?;
    Ok(target.is_dir())
}

/// Returns the sysroot of the directory's toolchain, and the directory of the target in the
/// sysroot, which does not exist if the target is not installed.
async fn find_target_folders(
    cwd: &Path,
    cancel: &CancellationToken,
) -> Result<(PathBuf, PathBuf), BuildError> {
    query_program("cargo", &["--version"], cwd, cancel).await?;
    let sysroot =
        PathBuf::from(query_program("rustc", &["--print", "sysroot"], cwd, cancel).await?);
    let target = target::target_library_folder(&sysroot);
    Ok((sysroot, target))
}

/// Ensures that the Rust toolchain of a directory can compile plugins. Adds the target if it is
/// missing.
pub(super) async fn ensure_wasm_target(
    cwd: &Path,
    progress: &Progress,
    cancel: &CancellationToken,
) -> Result<(), BuildError> {
    let (sysroot, target) = find_target_folders(cwd, cancel).await?;
    // Another build may be adding the target: wait for its lock, on a thread that is allowed to
    // block.
    let of = sysroot.clone();
    let _lock = tokio::task::spawn_blocking(move || target::lock_toolchain(&of)).await;
    if target.is_dir() {
        return Ok(());
    }
    let Some(arguments) = target::rustup_arguments(&sysroot) else {
        return Err(BuildError::NoRustup { sysroot });
    };
    progress(&format!(
        "adding the target {TARGET} to the Rust toolchain in {}",
        sysroot.display()
    ));
    // The output of rustup is shown only if it fails.
    let adding = run_program("rustup", &arguments, cwd, QUERY_TIMEOUT, None, cancel);
    let finished = adding.await.map_err(|_| BuildError::NoRustup {
        sysroot: sysroot.clone(),
    })?;
    match finished.ending {
        ProcessEnding::Exited(0) if target.is_dir() => Ok(()),
        ProcessEnding::Cancelled => Err(BuildError::Cancelled),
        _ => Err(BuildError::NotAdded {
            text: target::target_not_added_message(
                &sysroot,
                &format!("rustup {}", arguments.join(" ")),
                &finished.stderr.text(),
            ),
        }),
    }
}
