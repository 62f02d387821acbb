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
use super::build::ProgressCallback;
use super::compilation::{CARGO_ENV_ALLOWLIST, CARGO_ENV_PREFIX_ALLOWLIST};
use super::target::{self, WASM_TARGET_TRIPLE};
use rind_lib::tool::process::{
    FinishedProcess, OutputLineCallback, OutputPipeMode, ProcessEndReason, ProcessRunError,
    ProcessSpec, base_environment_with_variables,
};

/// Timeout of a query to the toolchain. It is long, because rustup may first install a pinned
/// toolchain.
const TOOLCHAIN_QUERY_TIMEOUT: Duration = Duration::from_secs(600);

/// Maximum number of bytes of a program's output that are captured.
const MAX_CAPTURED_OUTPUT_BYTES: usize = 256 * 1024;

/// Returns the directory where cargo stores the sources of dependencies.
pub(super) fn cargo_home() -> Option<PathBuf> {
    let home = || Some(PathBuf::from(read_allowlisted_env_variable("HOME")?).join(".cargo"));
    read_allowlisted_env_variable("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(home)
}

/// Returns the target directory from the environment variable `CARGO_TARGET_DIR`; `None` if it is
/// unset.
pub(super) fn cargo_target_dir_from_env() -> Option<PathBuf> {
    read_allowlisted_env_variable("CARGO_TARGET_DIR").map(PathBuf::from)
}

fn read_allowlisted_env_variable(name: &str) -> Option<OsString> {
    let mut variables =
        base_environment_with_variables(CARGO_ENV_ALLOWLIST, CARGO_ENV_PREFIX_ALLOWLIST)
            .into_iter();
    let (_, value) = variables.find(|(other, _)| other == name)?;
    Some(value)
}

/// Runs a program of the toolchain in `cwd`. rustup selects the toolchain by this directory.
pub(super) async fn run_toolchain_program(
    program: impl Into<OsString>,
    args: &[impl AsRef<OsStr>],
    cwd: &Path,
    deadline: Duration,
    on_line: Option<OutputLineCallback>,
    cancel: &CancellationToken,
) -> Result<FinishedProcess, ProcessRunError> {
    ProcessSpec {
        program: program.into(),
        args: args.iter().map(|arg| arg.as_ref().to_owned()).collect(),
        cwd: cwd.to_owned(),
        env: base_environment_with_variables(CARGO_ENV_ALLOWLIST, CARGO_ENV_PREFIX_ALLOWLIST),
        stdin: None,
        deadline,
        streams: OutputPipeMode::Separate,
        capture_bytes: MAX_CAPTURED_OUTPUT_BYTES,
        on_line,
        on_bytes: None,
        confine: None,
        keeper: None,
    }
    .run(cancel)
    .await
}

/// Runs a program of the toolchain and returns its trimmed standard output, of at most
/// [`MAX_CAPTURED_OUTPUT_BYTES`].
pub(super) async fn capture_program_output(
    program: &str,
    args: &[&str],
    cwd: &Path,
    cancel: &CancellationToken,
) -> Result<String, BuildError> {
    let asked =
        run_toolchain_program(program, args, cwd, TOOLCHAIN_QUERY_TIMEOUT, None, cancel).await;
    extract_trimmed_output(asked.map_err(into_build_error)?, program, args)
}

/// Runs a program of the toolchain whose output may be longer than [`MAX_CAPTURED_OUTPUT_BYTES`],
/// and passes each line to `on_line`. Returns the exit status and the captured output.
pub(super) async fn stream_program_output_lines(
    program: &str,
    args: &[&str],
    cwd: &Path,
    on_line: OutputLineCallback,
    cancel: &CancellationToken,
) -> Result<FinishedProcess, BuildError> {
    let asked = run_toolchain_program(
        program,
        args,
        cwd,
        TOOLCHAIN_QUERY_TIMEOUT,
        Some(on_line),
        cancel,
    );
    asked.await.map_err(into_build_error)
}

fn into_build_error(error: ProcessRunError) -> BuildError {
    match error.source.kind() {
        ErrorKind::NotFound => BuildError::NoCargo(error),
        _ => BuildError::Spawn(error),
    }
}

fn extract_trimmed_output(
    finished: FinishedProcess,
    program: &str,
    args: &[&str],
) -> Result<String, BuildError> {
    match finished.ending {
        ProcessEndReason::Exited(0) => Ok(finished.stdout.text().trim().to_owned()),
        ProcessEndReason::Cancelled => Err(BuildError::Cancelled),
        _ => Err(BuildError::Toolchain {
            command: format!("{program} {}", args.join(" ")),
            text: format!("{}{}", finished.stdout.text(), finished.stderr.text()),
        }),
    }
}

/// Whether the Rust toolchain of a directory can compile plugins.
pub async fn has_wasm_target(cwd: &Path, cancel: &CancellationToken) -> Result<bool, BuildError> {
    let (_, target) = find_sysroot_and_target_folder(cwd, cancel).await?;
    Ok(target.is_dir())
}

/// Returns the sysroot of the directory's toolchain, and the directory of the target in the
/// sysroot, which does not exist if the target is not installed.
async fn find_sysroot_and_target_folder(
    cwd: &Path,
    cancel: &CancellationToken,
) -> Result<(PathBuf, PathBuf), BuildError> {
    capture_program_output("cargo", &["--version"], cwd, cancel).await?;
    let sysroot =
        PathBuf::from(capture_program_output("rustc", &["--print", "sysroot"], cwd, cancel).await?);
    let target = target::wasm_target_library_folder(&sysroot);
    Ok((sysroot, target))
}

/// Ensures that the Rust toolchain of a directory can compile plugins. Adds the target if it is
/// missing.
pub(super) async fn ensure_wasm_target(
    cwd: &Path,
    progress: &ProgressCallback,
    cancel: &CancellationToken,
) -> Result<(), BuildError> {
    let (sysroot, target) = find_sysroot_and_target_folder(cwd, cancel).await?;
    // Another build may be adding the target: wait for its lock, on a thread that is allowed to
    // block.
    let of = sysroot.clone();
    let _lock = tokio::task::spawn_blocking(move || target::acquire_toolchain_lock(&of)).await;
    if target.is_dir() {
        return Ok(());
    }
    let Some(arguments) = target::rustup_target_add_arguments(&sysroot) else {
        return Err(BuildError::NoRustup { sysroot });
    };
    progress(&format!(
        "adding the target {WASM_TARGET_TRIPLE} to the Rust toolchain in {}",
        sysroot.display()
    ));
    // The output of rustup is shown only if it fails.
    let adding = run_toolchain_program(
        "rustup",
        &arguments,
        cwd,
        TOOLCHAIN_QUERY_TIMEOUT,
        None,
        cancel,
    );
    let finished = adding.await.map_err(|_| BuildError::NoRustup {
        sysroot: sysroot.clone(),
    })?;
    match finished.ending {
        ProcessEndReason::Exited(0) if target.is_dir() => Ok(()),
        ProcessEndReason::Cancelled => Err(BuildError::Cancelled),
        _ => Err(BuildError::NotAdded {
            text: target::rustup_target_add_failed_message(
                &sysroot,
                &format!("rustup {}", arguments.join(" ")),
                &finished.stderr.text(),
            ),
        }),
    }
}
