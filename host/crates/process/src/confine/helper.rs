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
use super::obstacle::{ConfinementFailureReason, MISSING_KERNEL_FEATURE_EXIT_CODE};
use super::policy::{
    ConfinedFileAccess, ConfinementRules, ConfinementTrialRequest, NamespaceIsolation, SocketAccess,
};
use super::probe::ConfinementReport;

/// Exit code that shells use for a program that cannot be executed. The helper also uses it for a
/// program that cannot be confined.
pub(super) const CANNOT_RUN_EXIT_CODE: u8 = 126;

/// First argument that makes the helper test the confinement. It replaces the policy. In a trial,
/// the helper starts itself with this argument as the confined program.
pub(super) const TEST_CONFINEMENT_ARGUMENT: &str = "--try";

/// First argument that makes the helper run a program without confinement and keep track of all its
/// descendants. It replaces the policy. The next two arguments are the paths of the program's
/// standard input and of its control group; each is empty if there is none.
pub(super) const RUN_UNCONFINED_ARGUMENT: &str = "--keep";

/// Runs the helper with the arguments after [`super::HIDDEN_HELPER_SUBCOMMAND`]. Returns the exit
/// code with the text for standard output or, on an error, for standard error.
pub fn main(
    args: impl Iterator<Item = OsString>,
) -> Result<(String, ExitCode), (String, ExitCode)> {
    run_helper_with_arguments(args).map_err(|obstacle| {
        let code = match obstacle {
            ConfinementFailureReason::Missing(_) => MISSING_KERNEL_FEATURE_EXIT_CODE,
            ConfinementFailureReason::Failed(_) => CANNOT_RUN_EXIT_CODE,
        };
        (format!("rind: {obstacle}"), ExitCode::from(code))
    })
}

#[cfg(target_os = "linux")]
fn run_helper_with_arguments(
    mut args: impl Iterator<Item = OsString>,
) -> Result<(String, ExitCode), ConfinementFailureReason> {
    use super::namespaces::{MAP_USER_IDS_ARGUMENT, map_users_in_parent_namespace};
    use super::supervise::{
        SECOND_CONFINEMENT_STAGE_ARGUMENT, run_unconfined_program, supervise_program,
    };
    let first = args.next().unwrap_or_default();
    let silent = |code| (String::new(), code);
    if first == TEST_CONFINEMENT_ARGUMENT {
        return Ok((run_confinement_trial(args)?, ExitCode::SUCCESS));
    }
    if first == MAP_USER_IDS_ARGUMENT {
        map_users_in_parent_namespace()?;
        return Ok(silent(ExitCode::SUCCESS));
    }
    if first == SECOND_CONFINEMENT_STAGE_ARGUMENT {
        let policy = parse_confinement_rules(&args.next().unwrap_or_default())?;
        return run_second_confinement_stage(policy, args.collect()).map(silent);
    }
    if first == RUN_UNCONFINED_ARGUMENT {
        return Ok(silent(run_unconfined_program(args.collect())?));
    }
    let policy = parse_confinement_rules(&first)?;
    let program = args.collect();
    supervise_program(&policy, &first.to_string_lossy(), program)
        .map(silent)
        .map_err(|obstacle| obstacle.with_failed_step(CANNOT_CONFINE_ERROR_PREFIX))
}

/// Prefix of every error about a command that was not started because it could not be confined.
#[cfg(target_os = "linux")]
const CANNOT_CONFINE_ERROR_PREFIX: &str = "cannot confine the command";

#[cfg(not(target_os = "linux"))]
fn run_helper_with_arguments(
    _args: impl Iterator<Item = OsString>,
) -> Result<(String, ExitCode), ConfinementFailureReason> {
    Err(ConfinementFailureReason::Missing(
        LINUX_REQUIRED_MESSAGE.to_owned(),
    ))
}

#[cfg(not(target_os = "linux"))]
const LINUX_REQUIRED_MESSAGE: &str = "only Linux supports this";

fn format_helper_argument_error(error: serde_json::Error) -> String {
    format!("the helper that confines the command got invalid arguments: {error}")
}

fn parse_confinement_rules(json: &OsString) -> Result<ConfinementRules, String> {
    serde_json::from_str(&json.to_string_lossy()).map_err(format_helper_argument_error)
}

/// Runs the trial that the first argument describes, and returns its report as JSON. The second
/// argument, which the first stage of the helper appended, is the report on the restrictions in
/// force.
fn run_confinement_trial(mut args: impl Iterator<Item = OsString>) -> Result<String, String> {
    let mut next = || args.next().unwrap_or_default();
    let (trial, report) = (next(), next());
    let mut trial: ConfinementTrialRequest =
        serde_json::from_str(&trial.to_string_lossy()).map_err(format_helper_argument_error)?;
    trial.report =
        serde_json::from_str(&report.to_string_lossy()).map_err(format_helper_argument_error)?;
    serde_json::to_string(&trial.run_trial()).map_err(format_helper_argument_error)
}

/// Runs the second stage: builds the program's view of the file system, confines this process and
/// starts the program.
#[cfg(target_os = "linux")]
fn run_second_confinement_stage(
    policy: ConfinementRules,
    program: Vec<OsString>,
) -> Result<ExitCode, ConfinementFailureReason> {
    use super::{RENAMED_LOADER_VARIABLE_PREFIX, kernel, limits, namespaces, rights, supervise};
    use crate::environment::variables_of_this_process;
    limits::die_with_parent();
    let confined =
        |obstacle: ConfinementFailureReason| obstacle.with_failed_step(CANNOT_CONFINE_ERROR_PREFIX);
    let uncalled = |what: &str, error: std::io::Error| {
        confined(ConfinementFailureReason::from_system_error(what, &error))
    };
    if let NamespaceIsolation::Namespaces { base, mounts } = &policy.around {
        namespaces::build_and_pivot_to_new_root(base, mounts).map_err(confined)?;
        namespaces::limit_namespace_processes(policy.limits.processes);
    }
    limits::prefer_this_process_for_oom_kill();
    if let NamespaceIsolation::Namespaces { .. } = &policy.around {
        namespaces::make_proc_read_only().map_err(|error| uncalled("/proc", error))?;
    }
    rustix::process::chdir(&policy.cwd)
        .map_err(|error| format!("cannot enter {}: {error}", policy.cwd.display()))?;
    let stdin = open_stdin(policy.stdin.as_deref())?;
    if matches!(policy.around, NamespaceIsolation::Nothing) {
        let _ = rustix::process::nice(limits::COMMAND_NICENESS);
    }
    let mut report = restrict_this_process(&policy).map_err(confined)?;
    let is_root_of_groups = matches!(policy.around, NamespaceIsolation::Program(_));
    let is_in = |group| super::super::cgroup::is_this_process_in_cgroup(group, is_root_of_groups);
    report.cgroup = policy.cgroup.as_deref().is_some_and(is_in);
    let mut program = program.into_iter().skip_while(|word| word == "--");
    let name = program
        .next()
        .ok_or_else(|| "the helper was called without a program".to_owned())?;
    let mut command = Command::new(&name);
    command.args(program).stdin(stdin);
    for (name, value) in variables_of_this_process() {
        // Undo the renaming of variables by `rename_dynamic_loader_variables`.
        if let Some(own) = name
            .to_str()
            .and_then(|name| name.strip_prefix(RENAMED_LOADER_VARIABLE_PREFIX))
        {
            command.env_remove(&name).env(own, value);
        }
    }
    if policy.tells {
        command.arg(serde_json::to_string(&report).map_err(format_helper_argument_error)?);
    }
    let failed = |error: std::io::Error| {
        format!(
            "cannot start `{}` confined: {error}; it may lie in a folder that commands may not read, see [sandbox] of \
             config.toml",
            name.to_string_lossy()
        )
    };
    if matches!(policy.around, NamespaceIsolation::Nothing) {
        return Err(failed(command.exec()).into());
    }
    // The program will be able to see this process. Therefore protect the memory of this process,
    // and drop its capabilities.
    super::deny_process_inspection();
    let rights = |error| uncalled("capabilities", error);
    rights::drop_uninherited_capabilities().map_err(rights)?;
    let start = kernel::ProcessStartAttributes {
        niceness: limits::COMMAND_NICENESS,
        ..kernel::ProcessStartAttributes::default()
    };
    kernel::set_session_niceness_and_cgroup_at_start(&mut command, start);
    let child = command.process_group(0).spawn().map_err(failed)?;
    rights::drop_every_capability().map_err(rights)?;
    let id = i64::from(child.id());
    supervise::reap_children(|pid, status| {
        if i64::from(pid.as_raw_nonzero().get()) == id {
            supervise::report_exit_status_to_host(status);
        }
    });
    Ok(ExitCode::SUCCESS)
}

/// Opens the standard input of the program. Opening a named pipe does not block, because the host
/// keeps the other end open.
#[cfg(target_os = "linux")]
pub(super) fn open_stdin(path: Option<&std::path::Path>) -> Result<Stdio, String> {
    let Some(path) = path else {
        return Ok(Stdio::null());
    };
    let opened = std::fs::File::open(path);
    let opened = opened
        .map_err(|error| format!("cannot open the standard input {}: {error}", path.display()));
    opened.map(Stdio::from)
}

#[cfg(target_os = "linux")]
fn restrict_this_process(
    policy: &ConfinementRules,
) -> Result<ConfinementReport, ConfinementFailureReason> {
    let shares_processes = matches!(policy.around, NamespaceIsolation::Nothing);
    super::limits::limit_program_resources(&policy.limits, shares_processes)
        .map_err(|error| format!("cannot set resource limits: {error}"))?;
    super::rights::limit_capability_bounding_set();
    let mut report = ConfinementReport::default();
    let mut unix_sockets = policy.unix_sockets;
    let mut network = policy.network;
    if network == SocketAccess::Loopback && !can_listen_on_loopback() {
        network = SocketAccess::Off;
    }
    report.loopback = network == SocketAccess::Loopback;
    match super::landlock::restrict_files_and_tcp(&policy.files, network != SocketAccess::Off) {
        Ok(enforced) => {
            report.landlock = Some(enforced.abi);
            unix_sockets |= enforced.unix_sockets;
        }
        Err(obstacle) if policy.needs_landlock => return Err(obstacle),
        // Landlock is optional if the program has its own view: the view shows no files that need
        // protection.
        Err(_) => {}
    }
    report.unix_sockets = unix_sockets;
    super::seccomp::restrict_system_calls(network, unix_sockets, shares_processes)?;
    report.seccomp = true;
    Ok(report)
}

/// Whether a server can listen on the loopback interface in this network namespace.
#[cfg(target_os = "linux")]
fn can_listen_on_loopback() -> bool {
    std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn restrict_this_process(
    _policy: &ConfinementRules,
) -> Result<ConfinementReport, ConfinementFailureReason> {
    Err(ConfinementFailureReason::Missing(
        LINUX_REQUIRED_MESSAGE.to_owned(),
    ))
}

/// Confines this process, which must be single-threaded, to one directory. Programs and libraries
/// of the system stay readable and executable.
///
/// # Errors
/// Reason why the process is not confined. Some restrictions may be in force even then.
pub fn confine_this_process(folder: &std::path::Path) -> Result<(), ConfinementFailureReason> {
    let policy = ConfinementRules {
        around: NamespaceIsolation::Nothing,
        files: ConfinedFileAccess {
            write: vec![folder.to_owned()],
            read: super::readable_system_paths(),
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
    restrict_this_process(&policy).map(drop)
}
