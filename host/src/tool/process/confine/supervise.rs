//! The first stage of the helper: it starts the second one and stays until nothing that came of it is left.
//!
//! Its standard input is a socket to the host: closed, it means that the host is gone, and everything ends at once. The end of
//! the program goes back the same way, because what it left in the background is still running then.

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

use super::HELPER_COMMAND;
use super::kernel::{self, Start, start_in};
use super::landlock;
use super::limits::NICENESS;
use super::namespaces::{self, OWN_PROGRAM};
use super::obstacle::Obstacle;
use super::policy::{Around, Network, Policy};
use crate::tool::process::tree::{Found, descendants, own_children};

/// Argument in place of a policy, which follows: the second stage.
pub(super) const INNER: &str = "--inner";

/// Period at which ended orphans are reaped while the program runs.
const ORPHANS: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};

/// Period at which they are reaped when it has ended or the host is gone, and what is left then is ended again.
const AGAIN: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 5_000_000,
};

/// Most ended processes that are waited for in a row while the host is there. Where processes start others and end as fast as
/// they can, there is always one more, and the end of the host would never be seen.
const MAX_REAPED: usize = 256;

/// Maximum number of scans for processes that are not children and not stopped yet, before the found ones are
/// killed.
const STOP_ROUNDS: usize = 20;

/// Maximum number of rounds that kill direct children before one such scan.
const CHILD_ROUNDS: usize = 100;

/// Exit code of a program that a signal ended, as shells count it.
const SIGNALED: i32 = 128;

/// Reach of what ends everything that a program has started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    /// The first process of a process namespace takes everybody in it with it. The numbers that the first stage would find in
    /// `/proc` are those of the namespace by then, where the second stage has moved it into the view as well.
    Namespace,
    /// One signal reaches everything at once, and nothing else.
    Domain,
    /// Processes are found one by one.
    Descendants,
}

/// Runs the first stage to the end of everything that it started.
pub(super) fn supervise(
    policy: &Policy,
    json: &str,
    program: Vec<OsString>,
) -> Result<ExitCode, Obstacle> {
    let said = |what: &str, error: io::Error| format!("{what}: {error}");
    // A second name of the socket would keep it open for what must see its end.
    super::kernel::keep_descriptors().map_err(|error| said("descriptors", error))?;
    let mut command = match &policy.around {
        Around::Program(line) => {
            let mut words = line.iter();
            let program = words.next();
            let mut command =
                Command::new(program.ok_or_else(|| "no program around it".to_owned())?);
            command.args(words);
            command
        }
        Around::Nothing | Around::Namespaces { .. } => Command::new(OWN_PROGRAM),
    };
    let scope = match policy.around {
        Around::Namespaces { .. } => {
            namespaces::enter(policy.network == Network::All)?;
            Scope::Namespace
        }
        Around::Program(_) => Scope::Descendants,
        Around::Nothing if landlock::scope_signals() => Scope::Domain,
        Around::Nothing => Scope::Descendants,
    };
    command.args([HELPER_COMMAND, INNER, json]).args(program);
    // The second stage opens that of the program; what makes a view hands this one on.
    let is_told_by_us = matches!(policy.around, Around::Nothing);
    let stdin = is_told_by_us.then(Stdio::null);
    start_in(
        &mut command,
        Start {
            session: true,
            // The second stage lowers the priority of the program only: this process, which kills
            // the others, must not wait for them.
            niceness: 0,
            cgroup: procs_of(policy.cgroup.as_deref()),
        },
    );
    run(command, stdin, scope).map_err(|(what, error)| said(what, error).into())
}

/// Runs a program that nothing confines to the end of everything that it started.
pub(super) fn keep(program: Vec<OsString>) -> Result<ExitCode, String> {
    let mut words = program.into_iter();
    let stdin = words.next().filter(|path| !path.is_empty());
    let stdin = super::helper::stdin_of(stdin.as_deref().map(Path::new))?;
    let cgroup = words.next().filter(|path| !path.is_empty());
    let name = words
        .next()
        .ok_or("the helper was called without a program")?;
    let said = |error: io::Error| format!("cannot run `{}`: {error}", name.to_string_lossy());
    super::kernel::keep_descriptors().map_err(said)?;
    let mut command = Command::new(&name);
    command.args(words);
    start_in(
        &mut command,
        Start {
            session: true,
            niceness: NICENESS,
            cgroup: procs_of(cgroup.as_deref().map(Path::new)),
        },
    );
    run(command, Some(stdin), Scope::Descendants).map_err(|(_, error)| said(error))
}

fn procs_of(cgroup: Option<&Path>) -> Option<CString> {
    CString::new(cgroup?.join("cgroup.procs").as_os_str().as_bytes()).ok()
}

/// Starts the program and waits for it and all its descendants. With a `stdin` the program is its child, and this process
/// reports its end.
fn run(
    mut command: Command,
    stdin: Option<Stdio>,
    scope: Scope,
) -> Result<ExitCode, (&'static str, io::Error)> {
    // Programs that lost their parent become ours, so that none gets away.
    let own = rustix::process::getpid();
    rustix::process::set_child_subreaper(Some(own)).map_err(|error| ("orphans", error.into()))?;
    super::hide_process();
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
    let status = attend(first, own, scope, |status| {
        if is_told_by_us {
            report(status);
        }
    });
    Ok(code_of(status))
}

/// Waits until nothing is left of what this process started, and ends it all when the host is gone. No thread does the
/// waiting: a process that has left its process namespace cannot have any.
fn attend(
    first: Pid,
    own: Pid,
    scope: Scope,
    when_first_ends: impl Fn(ExitStatus),
) -> Option<ExitStatus> {
    let stdin = io::stdin();
    let mut host_is_there = true;
    let mut picked = None;
    let mut watched = rustix::process::pidfd_open(first, PidfdFlags::empty()).ok();
    loop {
        let mut is_more = true;
        if scope == Scope::Domain && !host_is_there {
            kernel::kill_all_in_domain();
        }
        let most = match host_is_there {
            true => MAX_REAPED,
            false => usize::MAX,
        };
        for _ in 0..most {
            match next_ended(WaitOptions::NOHANG) {
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
            if scope == Scope::Descendants {
                end_descendants(own, |pid, status| {
                    if pid == first {
                        picked = Some(status);
                    }
                });
                // The descriptor of a process that was waited for is ready for good.
                watched = watched.filter(|_| picked.is_none());
            }
        }
        // An orphan that ends wakes nobody.
        let timeout = if is_more {
            Timespec::default()
        } else if watched.is_some() && host_is_there {
            ORPHANS
        } else {
            AGAIN
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
        // Nobody writes to it: only its end can be read.
        if host_is_there
            && waiting
                .first()
                .is_some_and(|host| !host.revents().is_empty())
        {
            host_is_there = false;
        }
    }
}

/// Kills the descendants of this process. What a killed process has started comes to this one, whose list of children is fast
/// to read: where processes start another and end, all of them are in it sooner or later. What has ended is waited for first,
/// because a list of thousands of zombies is not. `ended` receives each.
///
/// Others get SIGSTOP before, because a stopped process cannot fork, so that their number shrinks from scan to scan.
fn end_descendants(own: Pid, mut ended: impl FnMut(Pid, ExitStatus)) {
    let own_group = rustix::process::getpgrp();
    let mut known = BTreeSet::new();
    for _ in 0..STOP_ROUNDS {
        let mut n_new = 0;
        for _ in 0..CHILD_ROUNDS {
            while let Ok(Some((pid, status))) = next_ended(WaitOptions::NOHANG) {
                // Another process may have the number from now on.
                known.remove(&pid.as_raw_nonzero());
                ended(pid, status);
            }
            let before = known.len();
            for child in own_children() {
                // Nobody else can have the number of a child before it is waited for.
                let _ = rustix::process::kill_process(child, Signal::KILL);
                known.insert(child.as_raw_nonzero());
            }
            if known.len() == before {
                break;
            }
        }
        for process in descendants(own) {
            if !known.insert(process.pid.as_raw_nonzero()) {
                continue;
            }
            n_new += 1;
            process.signal(Signal::STOP);
            // Stop all members of the group at once, including processes that are being forked. It
            // belongs to a session of the program. A process that is stopped keeps its group, so that
            // no other group has the number.
            if let Some(group) = process.group_now().filter(|group| *group != own_group) {
                let _ = rustix::process::kill_process_group(group, Signal::STOP);
            }
        }
        if n_new == 0 {
            break;
        }
    }
    for process in descendants(own) {
        process.signal(Signal::KILL);
    }
}

/// Waits for every child, adopted ones included, until there is none; passes each on.
pub(super) fn collect(mut ended: impl FnMut(Pid, ExitStatus)) {
    while let Ok(child) = next_ended(WaitOptions::empty()) {
        if let Some((pid, status)) = child {
            ended(pid, status);
        }
    }
}

/// Returns a child that has exited; an error if there are no children.
fn next_ended(how: WaitOptions) -> rustix::io::Result<Option<(Pid, ExitStatus)>> {
    match rustix::process::wait(how) {
        Ok(child) => Ok(child.map(|(pid, status)| (pid, ExitStatus::from_raw(status.as_raw())))),
        Err(rustix::io::Errno::INTR) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reports the exit status of the program to the host. Nothing reads it if the host is gone or the
/// helper was started by hand.
pub(super) fn report(status: ExitStatus) {
    if let Ok(socket) = io::stdin().as_fd().try_clone_to_owned() {
        let _ = UnixStream::from(socket).write_all(&status.into_raw().to_le_bytes());
    }
}

fn code_of(status: Option<ExitStatus>) -> ExitCode {
    let code = status.map_or(Some(i32::from(super::helper::CANNOT_RUN)), |status| {
        let signaled = status.signal().map(|signal| SIGNALED + signal);
        status.code().or(signaled)
    });
    ExitCode::from(
        code.and_then(|code| u8::try_from(code).ok())
            .unwrap_or(u8::MAX),
    )
}
