//! Runs the first stage of the helper, which starts the second stage and keeps running until no
//! descendant is left.
//!
//! The standard input of the first stage is a socket to the host. If the socket closes, the host
//! has ended, and all descendants are killed. The exit status of the program is sent over the same
//! socket, because background processes of the program may still be running when it exits. Start
//! from [`supervise_program`].

use std::collections::BTreeSet;
use std::ffi::{CString, OsString};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions};

use super::HIDDEN_HELPER_SUBCOMMAND;
use super::kernel::{self, ProcessStartAttributes, set_session_niceness_and_cgroup_at_start};
use super::landlock;
use super::limits::COMMAND_NICENESS;
use super::namespaces::{self, OWN_EXECUTABLE_PATH};
use super::obstacle::ConfinementFailureReason;
use super::policy::{ConfinementRules, NamespaceIsolation, SocketAccess};
use crate::tree::{IdentifiedProcess, find_living_descendants, list_own_children};

/// First argument that makes the helper run the second stage. The next argument is the policy.
pub(super) const SECOND_CONFINEMENT_STAGE_ARGUMENT: &str = "--inner";

/// Interval at which orphaned processes are reaped while the program runs.
const ORPHAN_REAP_INTERVAL: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};

/// Interval at which orphaned processes are reaped, and the remaining processes are killed again,
/// after the program or the host has ended.
const KILL_REPEAT_INTERVAL: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 5_000_000,
};

/// Maximum number of processes that are reaped in a row while the host is connected. If processes
/// fork and exit as fast as they can, there is always another one to reap; without this limit, the
/// loop would never notice that the host has ended.
const MAX_PROCESSES_REAPED_IN_A_ROW: usize = 256;

/// Maximum number of scans for descendants below the direct children. Each scan stops the
/// descendants that it finds; all are killed after the last scan.
const MAX_DESCENDANT_SCANS: usize = 20;

/// Maximum number of rounds that kill direct children before each scan for deeper descendants.
const MAX_CHILD_KILL_ROUNDS_PER_SCAN: usize = 100;

/// Number that is added to the number of a signal to get the exit code of a program that the signal
/// killed, as in shells.
const SIGNAL_EXIT_CODE_OFFSET: i32 = 128;

/// Method of killing the descendants, which depends on the isolation of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DescendantKillMethod {
    /// Kill the first process of the PID namespace; the kernel then kills all others in it.
    /// Scanning `/proc` is not possible with this isolation: after the second stage has moved the
    /// first stage into the view, `/proc` shows process ids of the namespace.
    Namespace,
    /// Send one signal to the Landlock signal domain, which contains only the descendants.
    Domain,
    /// Find the descendants in `/proc`, and kill them one by one.
    Descendants,
}

/// Runs the first stage of the confinement helper: starts the second stage for `program`, and waits
/// until all descendants have ended.
pub(super) fn supervise_program(
    policy: &ConfinementRules,
    json: &str,
    program: Vec<OsString>,
) -> Result<ExitCode, ConfinementFailureReason> {
    let said = |what: &str, error: io::Error| format!("{what}: {error}");
    // If a child inherited a duplicate of the socket, the socket would stay open after this process
    // has ended, and the host would not notice the end.
    super::kernel::set_close_on_exec_on_all_fds().map_err(|error| said("descriptors", error))?;
    let mut command = match &policy.around {
        NamespaceIsolation::Program(line) => {
            let mut words = line.iter();
            let program = words.next();
            let mut command =
                Command::new(program.ok_or_else(|| "no program around it".to_owned())?);
            command.args(words);
            command
        }
        NamespaceIsolation::Nothing | NamespaceIsolation::Namespaces { .. } => {
            Command::new(OWN_EXECUTABLE_PATH)
        }
    };
    let scope = match policy.around {
        NamespaceIsolation::Namespaces { .. } => {
            namespaces::enter_namespaces(policy.network == SocketAccess::All)?;
            DescendantKillMethod::Namespace
        }
        NamespaceIsolation::Program(_) => DescendantKillMethod::Descendants,
        NamespaceIsolation::Nothing if landlock::confine_signals_to_descendants() => {
            DescendantKillMethod::Domain
        }
        NamespaceIsolation::Nothing => DescendantKillMethod::Descendants,
    };
    command
        .args([
            HIDDEN_HELPER_SUBCOMMAND,
            SECOND_CONFINEMENT_STAGE_ARGUMENT,
            json,
        ])
        .args(program);
    // The second stage opens the program's standard input itself. If the second stage keeps running
    // next to the program, it inherits the socket and reports the exit status. If the program
    // replaces the second stage, this process reports the exit status.
    let is_told_by_us = matches!(policy.around, NamespaceIsolation::Nothing);
    let stdin = is_told_by_us.then(Stdio::null);
    set_session_niceness_and_cgroup_at_start(
        &mut command,
        ProcessStartAttributes {
            session: true,
            // The second stage lowers the priority of the program. The priority of this process
            // stays normal, because it must be able to kill the descendants without delay.
            niceness: 0,
            cgroup: build_cgroup_procs_path(policy.cgroup.as_deref()),
        },
    );
    run_supervised_command(command, stdin, scope).map_err(|(what, error)| said(what, error).into())
}

/// Runs a program without confinement until all its descendants have ended. The first two entries
/// of `program` are the paths of its standard input and control group, see
/// [`RUN_UNCONFINED_ARGUMENT`](super::helper::RUN_UNCONFINED_ARGUMENT).
pub(super) fn run_unconfined_program(program: Vec<OsString>) -> Result<ExitCode, String> {
    let mut words = program.into_iter();
    let stdin = words.next().filter(|path| !path.is_empty());
    let stdin = super::helper::open_stdin(stdin.as_deref().map(Path::new))?;
    let cgroup = words.next().filter(|path| !path.is_empty());
    let name = words
        .next()
        .ok_or("the helper was called without a program")?;
    let said = |error: io::Error| format!("cannot run `{}`: {error}", name.to_string_lossy());
    super::kernel::set_close_on_exec_on_all_fds().map_err(said)?;
    let mut command = Command::new(&name);
    command.args(words);
    set_session_niceness_and_cgroup_at_start(
        &mut command,
        ProcessStartAttributes {
            session: true,
            niceness: COMMAND_NICENESS,
            cgroup: build_cgroup_procs_path(cgroup.as_deref().map(Path::new)),
        },
    );
    run_supervised_command(command, Some(stdin), DescendantKillMethod::Descendants)
        .map_err(|(_, error)| said(error))
}

fn build_cgroup_procs_path(cgroup: Option<&Path>) -> Option<CString> {
    CString::new(cgroup?.join("cgroup.procs").as_os_str().as_bytes()).ok()
}

/// Starts the command, and waits until it and all its descendants have ended. If `stdin` is set,
/// the command is the program itself, and this process reports the program's exit status.
fn run_supervised_command(
    mut command: Command,
    stdin: Option<Stdio>,
    scope: DescendantKillMethod,
) -> Result<ExitCode, (&'static str, io::Error)> {
    // Become the subreaper, so that orphaned descendants become children of this process and none
    // of them is lost.
    let own = rustix::process::getpid();
    rustix::process::set_child_subreaper(Some(own)).map_err(|error| ("orphans", error.into()))?;
    super::deny_process_inspection();
    let is_told_by_us = stdin.is_some();
    if let Some(stdin) = stdin {
        command.stdin(stdin);
    }
    let failed = |error| ("the second stage", error);
    let child = command.spawn().map_err(failed)?;
    let first = i32::try_from(child.id())
        .ok()
        .and_then(Pid::from_raw)
        .ok_or_else(|| failed(io::Error::other("it has no number")))?;
    let status = wait_for_descendants(first, own, scope, |status| {
        if is_told_by_us {
            report_exit_status_to_host(status);
        }
    });
    Ok(helper_exit_code(status))
}

/// Waits until all descendants have ended, and kills them if the host has ended. Uses no threads,
/// because a process that has entered a new PID namespace cannot create any.
fn wait_for_descendants(
    first: Pid,
    own: Pid,
    scope: DescendantKillMethod,
    when_first_ends: impl Fn(ExitStatus),
) -> Option<ExitStatus> {
    let stdin = io::stdin();
    let mut host_is_there = true;
    let mut picked = None;
    let mut watched = rustix::process::pidfd_open(first, PidfdFlags::empty()).ok();
    loop {
        let mut is_more = true;
        if scope == DescendantKillMethod::Domain && !host_is_there {
            kernel::kill_all_signalable_processes();
        }
        let most = match host_is_there {
            true => MAX_PROCESSES_REAPED_IN_A_ROW,
            false => usize::MAX,
        };
        for _ in 0..most {
            match reap_exited_child(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == first => {
                    picked = Some(status);
                    watched = None;
                    when_first_ends(status);
                }
                Ok(Some(_)) => {}
                Ok(None) => {
                    is_more = false;
                    break;
                }
                Err(_) => return picked,
            }
        }
        if !host_is_there {
            if picked.is_none() {
                let _ = rustix::process::kill_process(first, Signal::KILL);
            }
            if scope == DescendantKillMethod::Descendants {
                kill_descendants(own, |pid, status| {
                    if pid == first {
                        picked = Some(status);
                    }
                });
                // The pidfd of a reaped process stays readable, and would make `poll` return
                // immediately.
                watched = watched.filter(|_| picked.is_none());
            }
        }
        // A timeout is needed, because no event announces the exit of an orphaned process.
        let timeout = if is_more {
            Timespec::default()
        } else if watched.is_some() && host_is_there {
            ORPHAN_REAP_INTERVAL
        } else {
            KILL_REPEAT_INTERVAL
        };
        let mut waiting: Vec<PollFd<'_>> = Vec::new();
        if host_is_there {
            waiting.push(PollFd::new(&stdin, PollFlags::IN));
        }
        waiting.extend(
            watched
                .as_ref()
                .map(|first| PollFd::new(first, PollFlags::IN)),
        );
        let _ = rustix::event::poll(&mut waiting, Some(&timeout));
        // The host never writes to the socket at standard input, so the socket is readable only if
        // the host has closed it.
        if host_is_there
            && waiting
                .first()
                .is_some_and(|host| !host.revents().is_empty())
        {
            host_is_there = false;
        }
    }
}

/// Kills the descendants of this process, and passes each one that it reaps to `ended`.
///
/// Children of a killed process become children of this process, whose list of children is cheap to
/// read: even if processes fork and exit quickly, all of them appear in that list sooner or later.
/// Zombies are reaped first, because reading a list of thousands of them is slow.
///
/// Descendants below the direct children get SIGSTOP first: a stopped process cannot fork, so each
/// scan finds fewer new processes.
fn kill_descendants(own: Pid, mut ended: impl FnMut(Pid, ExitStatus)) {
    let own_group = rustix::process::getpgrp();
    let mut known = BTreeSet::new();
    for _ in 0..MAX_DESCENDANT_SCANS {
        let mut n_new = 0;
        for _ in 0..MAX_CHILD_KILL_ROUNDS_PER_SCAN {
            while let Ok(Some((pid, status))) = reap_exited_child(WaitOptions::NOHANG) {
                // The process has been reaped, so its id may be reused for another process from now
                // on.
                known.remove(&pid.as_raw_nonzero());
                ended(pid, status);
            }
            let before = known.len();
            for child in list_own_children() {
                // Killing by id is safe: the process id of a child cannot be reused before the
                // child is reaped.
                let _ = rustix::process::kill_process(child, Signal::KILL);
                known.insert(child.as_raw_nonzero());
            }
            if known.len() == before {
                break;
            }
        }
        for process in find_living_descendants(own) {
            if !known.insert(process.pid.as_raw_nonzero()) {
                continue;
            }
            n_new += 1;
            process.send_signal(Signal::STOP);
            // Stop all members of the process group at once, including processes that are being
            // forked. The group belongs to a process session of the confined program, so all its
            // members are processes of that program. The stopped process stays in its group, so no
            // other group can have the group's id.
            if let Some(group) = process.current_group().filter(|group| *group != own_group) {
                let _ = rustix::process::kill_process_group(group, Signal::STOP);
            }
        }
        if n_new == 0 {
            break;
        }
    }
    for process in find_living_descendants(own) {
        process.send_signal(Signal::KILL);
    }
}

/// Reaps all children, including adopted orphans, until none are left, and passes each to `ended`.
pub(super) fn reap_children(mut ended: impl FnMut(Pid, ExitStatus)) {
    while let Ok(child) = reap_exited_child(WaitOptions::empty()) {
        if let Some((pid, status)) = child {
            ended(pid, status);
        }
    }
}

/// Reaps a child that has exited; `None` if none has. Returns an error if there are no children.
fn reap_exited_child(how: WaitOptions) -> rustix::io::Result<Option<(Pid, ExitStatus)>> {
    match rustix::process::wait(how) {
        Ok(child) => Ok(child.map(|(pid, status)| (pid, ExitStatus::from_raw(status.as_raw())))),
        Err(rustix::io::Errno::INTR) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reports the exit status of the program to the host. Errors are ignored, because there is no
/// reader if the host has ended or the user started the helper by hand.
pub(super) fn report_exit_status_to_host(status: ExitStatus) {
    if let Ok(socket) = io::stdin().as_fd().try_clone_to_owned() {
        let _ = UnixStream::from(socket).write_all(&status.into_raw().to_le_bytes());
    }
}

fn helper_exit_code(status: Option<ExitStatus>) -> ExitCode {
    let code = status.map_or(
        Some(i32::from(super::helper::CANNOT_RUN_EXIT_CODE)),
        |status| {
            let signaled = status
                .signal()
                .map(|signal| SIGNAL_EXIT_CODE_OFFSET + signal);
            status.code().or(signaled)
        },
    );
    ExitCode::from(
        code.and_then(|code| u8::try_from(code).ok())
            .unwrap_or(u8::MAX),
    )
}
