//! Runs the confinement helper, which has two stages. Each stage is a process that confines itself
//! while it is still single-threaded.
//!
//! The first stage creates the namespaces, and is not restricted itself (see `supervise`). The
//! second stage builds the view of the file system, restricts itself and starts the program. If the
//! second stage is the first process of a PID namespace, it keeps running to reap orphaned
//! processes.
//!
//! Start from [`main`].

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};

use super::limits::Limits;
use super::obstacle::{MISSING, Obstacle};
use super::policy::{
    ConfinedPolicy, ConfinedSurroundings, ConfinementTrial, FileAccess, SocketAccess,
};
use super::probe::Report;

/// Exit code that shells use for a program that cannot be executed. The helper also uses it for a
/// program that cannot be confined.
pub(super) const CANNOT_RUN: u8 = 126;

/// First argument, in place of a policy, of the helper when it runs as the confined program of a
/// trial. The helper then tests the confinement.
pub(super) const TRY: &str = "--try";

/// First argument, in place of a policy, to run a program without confinement but keep track of all
/// descendants. The next two arguments are the paths of the program's standard input and of its
/// control group; each is empty if there is none.
pub(super) const KEEP: &str = "--keep";

/// Runs the helper with the arguments after [`super::HELPER_COMMAND`]. Returns the exit code with
/// the text for standard output or, on an error, for standard error.
pub fn main(
    args: impl Iterator<Item = OsString>,
) -> Result<(String, ExitCode), (String, ExitCode)> {
    run(args).map_err(|obstacle| {
        let code = match obstacle {
            Obstacle::Missing(_) => MISSING,
            Obstacle::Failed(_) => CANNOT_RUN,
        };
        (format!("rind: {obstacle}"), ExitCode::from(code))
    })
}

#[cfg(target_os = "linux")]
fn run(mut args: impl Iterator<Item = OsString>) -> Result<(String, ExitCode), Obstacle> {
    use super::namespaces::{MAP, map_users_of_parent};
    use super::supervise::{INNER, keep_program, supervise_program};
    let first = args.next().unwrap_or_default();
    let silent = |code| (String::new(), code);
    if first == TRY {
        return Ok((attempt_run(args)?, ExitCode::SUCCESS));
    }
    if first == MAP {
        map_users_of_parent()?;
        return Ok(silent(ExitCode::SUCCESS));
    }
    if first == INNER {
        let policy = policy_of(&args.next().unwrap_or_default())?;
        return run_inner(policy, args.collect()).map(silent);
    }
    if first == KEEP {
        return Ok(silent(keep_program(args.collect())?));
    }
    let policy = policy_of(&first)?;
    let program = args.collect();
    supervise_program(&policy, &first.to_string_lossy(), program)
        .map(silent)
        .map_err(|obstacle| obstacle.within(CANNOT_CONFINE))
}

/// Prefix of every error about a command that was not started because it could not be confined.
#[cfg(target_os = "linux")]
const CANNOT_CONFINE: &str = "cannot confine the command";

#[cfg(not(target_os = "linux"))]
fn run(_args: impl Iterator<Item = OsString>) -> Result<(String, ExitCode), Obstacle> {
    Err(Obstacle::Missing(ONLY_LINUX.to_owned()))
}

#[cfg(not(target_os = "linux"))]
const ONLY_LINUX: &str = "only Linux supports this";

fn called_wrongly(error: serde_json::Error) -> String {
    format!("the helper got invalid arguments: {error}")
}

fn policy_of(json: &OsString) -> Result<ConfinedPolicy, String> {
    serde_json::from_str(&json.to_string_lossy()).map_err(called_wrongly)
}

/// Runs the trial that the first argument describes, and returns its report as JSON. The second
/// argument, which the helper appended, is the report on the restrictions in force.
fn attempt_run(mut args: impl Iterator<Item = OsString>) -> Result<String, String> {
    let mut next = || args.next().unwrap_or_default();
    let (trial, report) = (next(), next());
    let mut trial: ConfinementTrial =
        serde_json::from_str(&trial.to_string_lossy()).map_err(called_wrongly)?;
    trial.report = serde_json::from_str(&report.to_string_lossy()).map_err(called_wrongly)?;
    serde_json::to_string(&trial.run_trial()).map_err(called_wrongly)
}

/// Runs the second stage: builds the view, confines this process and starts the program.
#[cfg(target_os = "linux")]
fn run_inner(policy: ConfinedPolicy, program: Vec<OsString>) -> Result<ExitCode, Obstacle> {
    use super::{FOR_PROGRAM, kernel, limits, namespaces, rights, supervise};
    use crate::environment::own_variables;
    limits::end_with_parent();
    let confined = |obstacle: Obstacle| obstacle.within(CANNOT_CONFINE);
    let uncalled = |what: &str, error: std::io::Error| confined(Obstacle::of_call(what, &error));
    if let ConfinedSurroundings::Namespaces { base, mounts } = &policy.around {
        namespaces::make_view(base, mounts).map_err(confined)?;
        namespaces::bound_processes(policy.limits.processes);
    }
    limits::end_first_when_memory_runs_out();
    if let ConfinedSurroundings::Namespaces { .. } = &policy.around {
        namespaces::fix_processes().map_err(|error| uncalled("/proc", error))?;
    }
    rustix::process::chdir(&policy.cwd)
        .map_err(|error| format!("cannot enter {}: {error}", policy.cwd.display()))?;
    let stdin = stdin_of(policy.stdin.as_deref())?;
    if matches!(policy.around, ConfinedSurroundings::Nothing) {
        let _ = rustix::process::nice(limits::NICENESS);
    }
    let mut report = restrict_self(&policy).map_err(confined)?;
    let is_root_of_groups = matches!(policy.around, ConfinedSurroundings::Program(_));
    let is_in = |group| super::super::cgroup::is_in(group, is_root_of_groups);
    report.cgroup = policy.cgroup.as_deref().is_some_and(is_in);
    let mut program = program.into_iter().skip_while(|word| word == "--");
    let name = program
        .next()
        .ok_or_else(|| "the helper was called without a program".to_owned())?;
    let mut command = Command::new(&name);
    command.args(program).stdin(stdin);
    for (name, value) in own_variables() {
        // Give variables that `keep_from_helper` renamed their original names.
        if let Some(own) = name
            .to_str()
            .and_then(|name| name.strip_prefix(FOR_PROGRAM))
        {
            command.env_remove(&name).env(own, value);
        }
    }
    if policy.tells {
        command.arg(serde_json::to_string(&report).map_err(called_wrongly)?);
    }
    let failed = |error: std::io::Error| {
        format!(
            "cannot start `{}` confined: {error}; it may lie in a folder that commands may not read, see [sandbox] of \
             config.toml",
            name.to_string_lossy()
        )
    };
    if matches!(policy.around, ConfinedSurroundings::Nothing) {
        return Err(failed(command.exec()).into());
    }
    // The program will be able to see this process, so protect its memory and drop its
    // capabilities.
    super::hide_process();
    let rights = |error| uncalled("capabilities", error);
    rights::drop_own().map_err(rights)?;
    let start = kernel::StartAttributes {
        niceness: limits::NICENESS,
        ..kernel::StartAttributes::default()
    };
    kernel::start_in(&mut command, start);
    let child = command.process_group(0).spawn().map_err(failed)?;
    rights::drop_rest().map_err(rights)?;
    let id = i64::from(child.id());
    supervise::collect_ended(|pid, status| {
        if i64::from(pid.as_raw_nonzero().get()) == id {
            supervise::report_status(status);
        }
    });
    Ok(ExitCode::SUCCESS)
}

/// Opens the standard input of the program. Opening a named pipe does not block, because the host
/// keeps the other end open.
#[cfg(target_os = "linux")]
pub(super) fn stdin_of(path: Option<&std::path::Path>) -> Result<Stdio, String> {
    let Some(path) = path else {
        return Ok(Stdio::null());
    };
    let opened = std::fs::File::open(path);
    let opened = opened.map_err(|error| format!("standard input {}: {error}", path.display()));
    opened.map(Stdio::from)
}

#[cfg(target_os = "linux")]
fn restrict_self(policy: &ConfinedPolicy) -> Result<Report, Obstacle> {
    let shares_processes = matches!(policy.around, ConfinedSurroundings::Nothing);
    super::limits::cap_program(&policy.limits, shares_processes)
        .map_err(|error| format!("resource limits: {error}"))?;
    super::rights::drop_all();
    let mut report = Report::default();
    let mut unix_sockets = policy.unix_sockets;
    let mut network = policy.network;
    if network == SocketAccess::Loopback && !has_loopback() {
        network = SocketAccess::Off;
    }
    report.loopback = network == SocketAccess::Loopback;
    match super::landlock::restrict_files(&policy.files, network != SocketAccess::Off) {
        Ok(enforced) => {
            report.landlock = Some(enforced.abi);
            unix_sockets |= enforced.unix_sockets;
        }
        Err(obstacle) if policy.needs_landlock => return Err(obstacle),
        // Landlock is optional inside a view: the program can see no files that need protection.
        Err(_) => {}
    }
    report.unix_sockets = unix_sockets;
    super::seccomp::restrict_calls(network, unix_sockets, shares_processes)?;
    report.seccomp = true;
    Ok(report)
}

/// Whether a server can listen on the loopback interface in this network namespace.
#[cfg(target_os = "linux")]
fn has_loopback() -> bool {
    std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn restrict_self(_policy: &ConfinedPolicy) -> Result<Report, Obstacle> {
    Err(Obstacle::Missing(ONLY_LINUX.to_owned()))
}

/// Confines this process, which must be single-threaded, to one directory. Programs and libraries
/// of the system stay readable and executable.
///
/// # Errors
/// Reason why the process is not confined. Some restrictions may be in force even then.
pub fn confine_this_process(folder: &std::path::Path) -> Result<(), Obstacle> {
    let policy = ConfinedPolicy {
        around: ConfinedSurroundings::Nothing,
        files: FileAccess {
            write: vec![folder.to_owned()],
            read: super::system_folders(),
        },
        needs_landlock: true,
        cwd: folder.to_owned(),
        stdin: None,
        network: SocketAccess::Off,
        unix_sockets: false,
        limits: Limits::default(),
        cgroup: None,
        tells: false,
    };
    restrict_self(&policy).map(drop)
}
