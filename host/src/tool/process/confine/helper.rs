//! The helper: restricts itself, then becomes the program. It runs before anything else in its process, with one thread.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use super::HELPER_COMMAND;
use super::policy::{Files, Policy, Trial};
use super::probe::Report;

/// Exit code of a shell for a program that could not be run; here also for one that could not be confined.
const CANNOT_RUN: u8 = 126;

/// Runs the helper with what follows [`super::HELPER_COMMAND`] on the command line. Comes back only when the program could
/// not be started, with the reason for standard error and the exit code.
pub fn main(args: impl Iterator<Item = OsString>) -> Result<String, (String, ExitCode)> {
    run(args).map_err(|why| (format!("rind: {why}"), ExitCode::from(CANNOT_RUN)))
}

/// In place of a policy: the helper is the confined program itself, and tries.
const TRY: &str = "--try";

/// The report of a trial, when it is that which runs.
fn run(mut args: impl Iterator<Item = OsString>) -> Result<String, String> {
    let wrongly = |error: serde_json::Error| format!("the helper was called wrongly: {error}");
    let first = args.next().unwrap_or_default();
    if first == TRY {
        let json = args.next().unwrap_or_default();
        let trial: Trial = serde_json::from_str(&json.to_string_lossy()).map_err(wrongly)?;
        return serde_json::to_string(&trial.run()).map_err(wrongly);
    }
    let policy: Policy = serde_json::from_str(&first.to_string_lossy()).map_err(wrongly)?;
    let report = restrict(&policy).map_err(|why| format!("cannot confine the command: {why}"))?;
    let (program, args) = match policy.trial {
        // Through `exec` like any program: only that takes the rest of its rights away.
        Some(trial) => {
            let trial = Trial { report, ..trial };
            let json = serde_json::to_string(&trial).map_err(wrongly)?;
            let args = vec![HELPER_COMMAND.into(), TRY.into(), json.into()];
            (trial.helper.into(), args)
        }
        None => {
            let program = args.nth(1);
            let program = program.ok_or("the helper was called without a program")?;
            (program, args.collect::<Vec<OsString>>())
        }
    };
    let error = Command::new(&program).args(args).exec();
    Err(format!(
        "cannot start `{}` confined: {error}; it may lie in a folder that commands may not read, see [sandbox] of config.toml",
        program.to_string_lossy()
    ))
}

#[cfg(target_os = "linux")]
fn restrict(policy: &Policy) -> Result<Report, String> {
    super::limits::cap_program().map_err(|error| format!("resource limits: {error}"))?;
    super::rights::drop_all();
    let mut report = Report::default();
    let mut unix_sockets = policy.unix_sockets;
    if let Some(files) = &policy.files {
        let enforced = super::landlock::restrict(files, policy.network)?;
        report.landlock = Some(enforced.abi);
        unix_sockets |= enforced.unix_sockets;
    }
    report.unix_sockets = unix_sockets;
    super::seccomp::restrict(policy.network, unix_sockets)?;
    report.seccomp = true;
    Ok(report)
}

#[cfg(not(target_os = "linux"))]
fn restrict(_policy: &Policy) -> Result<Report, String> {
    Err("only Linux has what it takes".to_owned())
}

/// Confines this process, which must have one thread, to a folder. It keeps the programs and libraries of the system.
///
/// # Errors
/// Why the kernel cannot do it; something may hold all the same.
pub fn confine_this_process(folder: &std::path::Path) -> Result<(), String> {
    let policy = Policy {
        files: Some(Files {
            write: vec![folder.to_owned()],
            read: super::system_folders(),
        }),
        network: false,
        unix_sockets: false,
        trial: None,
    };
    restrict(&policy).map(drop)
}
