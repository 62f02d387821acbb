//! Tracks a started process and its descendants (a process tree), and stops all of them.
//!
//! A tree gets SIGTERM, a grace period, then SIGKILL. If a tree keeps forking after SIGTERM, it is
//! killed before the grace period ends. Start from [`RunningProcessTree`].

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use futures_util::future::FutureExt;
use rustix::process::{Pid, Signal};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio_util::sync::CancellationToken;

use super::BACKGROUND_OUTPUT_GRACE_PERIOD;
use super::cgroup::ProcessCgroup;
use super::tree::{
    IdentifiedProcess, ProcFsProcess, count_processes_started_since_boot, descendants_and_zombies,
    find_living_descendants, is_process_alive, list_living_processes,
};
use rind_base::disk::TemporaryFolder;

/// Time that a process tree gets to end after SIGTERM, before SIGKILL is sent.
const SIGTERM_GRACE_PERIOD: Duration = Duration::from_secs(2);

/// Time limit for the keeper to kill its descendants. After that, the host searches for the
/// remaining processes in `/proc`.
const REAPER_KILL_DESCENDANTS_TIMEOUT: Duration = Duration::from_secs(10);

/// Interval at which a process tree is searched for new processes after SIGTERM.
const NEW_PROCESS_SEARCH_INTERVAL: Duration = Duration::from_millis(100);

/// Maximum number of processes that a tree may start after SIGTERM, for example to clean up. If it
/// starts more, it counts as multiplying and is killed.
const MAX_NEW_PROCESSES_AFTER_SIGTERM: usize = 32;

/// Number of processes per second, started on the whole machine, above which a tree also counts as
/// multiplying after SIGTERM. A build starts a few hundred per second. If other programs cause this
/// rate, the only effect is that a command past its deadline loses the rest of its grace period.
const MAX_SYSTEM_PROCESS_STARTS_PER_SECOND: u64 = 2000;

/// Interval between checks whether the processes of a stopped tree have ended.
const PROCESS_END_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Maximum number of rounds of SIGKILL. It is large enough for processes that fork faster than one
/// scan finds them.
const MAX_SIGKILL_ROUNDS: u32 = 50;

/// Environment variable that marks the processes of a tree. Descendants inherit it even if they
/// leave the process group (as with `timeout`, `setsid` or job control), so they can still be
/// found.
const PROCESS_TREE_MARK_VARIABLE: &str = "RIND_PROCESS";

/// Running process with all its descendants, which are stopped on drop.
pub(super) struct RunningProcessTree {
    child: Child,
    tree: ProcessTreeIdentity,
    is_over: bool,
    keeper: Option<HostToReaperSocket>,
    /// Control group that contains the process tree; `None` if there is none.
    cgroup: Option<ProcessCgroup>,
    /// Temporary folder of the tree, removed when no process of the tree can write to it anymore.
    temporary: Option<TemporaryFolder>,
}

/// Socket between the host and a keeper, which is the first process of a tree and reaps all its
/// descendants.
struct HostToReaperSocket {
    told: UnixStream,
    /// Duplicate of `told`, which keeps the socket open. When the socket closes, the keeper kills
    /// the tree without SIGTERM.
    lifeline: StdUnixStream,
}

/// Resources of a process tree that must not be released before the tree has ended.
#[derive(Default)]
pub(super) struct ProcessTreeOwnedResources {
    /// Temporary folder of the process tree, removed when the tree has ended.
    pub(super) temporary: Option<TemporaryFolder>,
    /// Number of keeper processes at the top of the tree: the first process is the first keeper,
    /// and each keeper starts the next. 0 if there are none. The standard input of a keeper is the
    /// socket to the host.
    pub(super) n_keepers: usize,
    /// Control group of the tree, which the keeper makes its children join. Removed when the tree
    /// has ended.
    pub(super) cgroup: Option<ProcessCgroup>,
}

impl RunningProcessTree {
    /// Starts a command, the root of the process tree, in its own process group.
    pub(super) fn spawn_process_tree(
        mut command: Command,
        kept: ProcessTreeOwnedResources,
    ) -> io::Result<Self> {
        let mark = rind_base::clock::new_uuid_v7();
        command
            .process_group(0)
            .env(PROCESS_TREE_MARK_VARIABLE, &mark);
        let mut keeper = None;
        if kept.n_keepers > 0 {
            let (ours, theirs) = StdUnixStream::pair()?;
            let lifeline = ours.try_clone()?;
            ours.set_nonblocking(true)?;
            command.stdin(OwnedFd::from(theirs));
            let told = UnixStream::from_std(ours)?;
            keeper = Some(HostToReaperSocket { told, lifeline });
        }
        let child = command.spawn()?;
        let leader = child
            .id()
            .and_then(|id| Pid::from_raw(i32::try_from(id).ok()?))
            .ok_or_else(|| io::Error::other("the process has no id"))?;
        Ok(Self {
            child,
            tree: ProcessTreeIdentity {
                leader,
                mark: format!("{PROCESS_TREE_MARK_VARIABLE}={mark}"),
                n_keepers: kept.n_keepers,
            },
            is_over: false,
            keeper,
            cgroup: kept.cgroup,
            temporary: kept.temporary,
        })
    }

    /// Waits until the program ends, although its background processes may still run. May be called
    /// again.
    pub(super) async fn wait_for_program(&mut self) -> io::Result<ExitStatus> {
        let Some(keeper) = &self.keeper else {
            return self.child.wait().await;
        };
        tokio::select! {
            biased;
            status = keeper.wait_for_exit_status_report() => Ok(status),
            status = self.child.wait() => Ok(keeper.try_read_exit_status_report().unwrap_or(status?)),
        }
    }

    /// Stops all living processes of the tree, and returns whether there were any. `ended_alone` is
    /// whether the program ended by itself. In this case the keepers (helper processes that reap
    /// the tree) exit by themselves, too, and get time to do so.
    pub(super) async fn stop_tree(&mut self, ended_alone: bool) -> bool {
        if self.keeper.is_some()
            && let Some(was_alive) = self.stop_via_reaper_process(ended_alone).await
        {
            self.is_over = true;
            self.cgroup = None;
            return was_alive;
        }
        let tree = self.tree.clone();
        let mut ending = tokio::task::spawn_blocking(move || tree.end_tree_gracefully());
        let mut is_collected = false;
        let was_alive = loop {
            tokio::select! {
                was_alive = &mut ending => break was_alive.unwrap_or(true),
                // Reap the child, because a zombie would count as alive on systems without `/proc`.
                _ = self.child.wait(), if !is_collected => is_collected = true,
            }
        };
        self.is_over = true;
        was_alive
    }

    /// Stops a tree with a keeper, which exits after all other processes. Unlike a scan of all
    /// processes of the machine, this is fast even while a command forks as fast as it can. Returns
    /// whether any process was alive, or `None` if the keeper still runs or was killed, so that
    /// other processes may be alive.
    async fn stop_via_reaper_process(&mut self, ended_alone: bool) -> Option<bool> {
        if ended_alone
            && let Some(is_clean) = self
                .wait_for_reaper_exit(BACKGROUND_OUTPUT_GRACE_PERIOD)
                .await
        {
            return is_clean.then_some(false);
        }
        let tree = self.tree.clone();
        let asking = tokio::task::spawn_blocking(move || tree.send_sigterm());
        let (tree, is_over) = (self.tree.clone(), CancellationToken::new());
        let until = is_over.clone();
        let mut multiplying = tokio::task::spawn_blocking(move || {
            tree.is_still_forking_after_sigterm(SIGTERM_GRACE_PERIOD, &until)
        });
        let _is_over = is_over.drop_guard();
        let ended = tokio::select! {
            ended = self.wait_for_reaper_exit(SIGTERM_GRACE_PERIOD) => ended,
            Ok(true) = &mut multiplying => None,
        };
        if let Some(is_clean) = ended {
            let were_there = asking.await.unwrap_or(true);
            return is_clean.then_some(were_there);
        }
        if let Some(cgroup) = &self.cgroup {
            cgroup.kill_cgroup_processes();
        }
        // Closing the socket makes the keeper kill the other processes of the tree.
        self.keeper = None;
        let is_clean = self
            .wait_for_reaper_exit(REAPER_KILL_DESCENDANTS_TIMEOUT)
            .await?;
        is_clean.then_some(true)
    }

    /// Waits, at most for the time `within`, until the keeper (the helper that reaps the tree's
    /// processes) exits; `None` on a timeout. Returns whether the keeper exited by itself, which it
    /// does when nothing else of the tree is left.
    async fn wait_for_reaper_exit(&mut self, within: Duration) -> Option<bool> {
        let status = tokio::time::timeout(within, self.child.wait()).await.ok()?;
        Some(status.is_ok_and(|status| status.code().is_some()))
    }

    /// Whether the kernel killed a process because the tree reached its memory limit.
    pub(super) fn ran_out_of_memory(&self) -> bool {
        self.cgroup
            .as_ref()
            .is_some_and(ProcessCgroup::ran_out_of_memory)
    }

    /// Returns the id of the first process if that is a keeper: the helper that keeps track of all
    /// its descendants. All other processes of the tree are then descendants of the keeper.
    pub(super) fn reaper_pid(&self) -> Option<Pid> {
        self.keeper.as_ref().map(|_| self.tree.leader)
    }

    pub(super) fn temporary_folder(&self) -> Option<&Path> {
        self.temporary.as_ref().map(TemporaryFolder::path)
    }
}

impl HostToReaperSocket {
    /// Returns the exit status of the program, which the keeper process reports over this socket.
    /// If the socket closes without a report, this future never completes.
    async fn wait_for_exit_status_report(&self) -> ExitStatus {
        loop {
            if self.told.readable().await.is_err() {
                return std::future::pending().await;
            }
            let mut bytes = [0; size_of::<i32>()];
            match self.told.try_read(&mut bytes) {
                Ok(n) if n == bytes.len() => {
                    return ExitStatus::from_raw(i32::from_le_bytes(bytes));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                _ => return std::future::pending().await,
            }
        }
    }

    fn try_read_exit_status_report(&self) -> Option<ExitStatus> {
        self.wait_for_exit_status_report().now_or_never()
    }
}

impl Drop for RunningProcessTree {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let _ = self.tree.send_sigterm();
        let tree = self.tree.clone();
        let temporary = self.temporary.take();
        let lifeline = self.keeper.take().map(|keeper| keeper.lifeline);
        let cgroup = self.cgroup.take();
        // Use a thread instead of a task, because the runtime may be shutting down.
        let started = std::thread::Builder::new()
            .name("stop-processes".to_owned())
            .spawn(move || {
                if lifeline.is_some() {
                    tree.is_still_forking_after_sigterm(
                        SIGTERM_GRACE_PERIOD,
                        &CancellationToken::new(),
                    );
                } else {
                    tree.wait_for_tree_end(SIGTERM_GRACE_PERIOD);
                }
                if let Some(cgroup) = &cgroup {
                    cgroup.kill_cgroup_processes();
                }
                // Closing the socket makes the keeper (the first process of the tree) kill the
                // other processes.
                if lifeline.is_some() {
                    drop(lifeline);
                    tree.wait_for_tree_end(REAPER_KILL_DESCENDANTS_TIMEOUT);
                }
                tree.kill_tree_until_gone();
                drop(cgroup);
                drop(temporary);
            });
        if started.is_err() {
            self.tree.kill_tree();
        }
    }
}

/// Measures how many processes per second the whole machine starts.
struct ProcessStartRateMeter {
    since: Instant,
    n_started: u64,
}

impl ProcessStartRateMeter {
    fn new() -> Self {
        Self {
            since: Instant::now(),
            n_started: count_processes_started_since_boot().unwrap_or(0),
        }
    }

    /// Returns the number of processes started per second since the last call.
    fn measure_processes_per_second(&mut self) -> u64 {
        let before = std::mem::replace(self, Self::new());
        let took = self.since.duration_since(before.since).as_millis().max(1);
        let n_new = self.n_started.saturating_sub(before.n_started);
        n_new.saturating_mul(1000) / u64::try_from(took).unwrap_or(u64::MAX)
    }
}

#[derive(Clone)]
struct ProcessTreeIdentity {
    /// First process. Its id is also the id of the process group.
    leader: Pid,
    /// Variable `NAME=VALUE` that marks the tree's processes in their environment.
    mark: String,
    /// Number of keeper processes at the top of the tree: `leader` is the first keeper, and each
    /// keeper starts the next. 0 if there are none. Keepers exit after all other processes.
    n_keepers: usize,
}

impl ProcessTreeIdentity {
    /// Sends SIGTERM to the processes of the tree, and returns whether there were any. Keepers get
    /// no signal, because they must reap the other processes.
    fn send_sigterm(&self) -> bool {
        if self.n_keepers == 0 {
            self.signal_all_processes(Signal::TERM);
            return true;
        }
        let mut are_there = false;
        for process in find_living_descendants(self.leader) {
            if process.depth >= self.n_keepers {
                are_there = true;
                process.send_signal(Signal::TERM);
            }
        }
        are_there
    }

    /// Kills the processes of the tree. Spares the first process if it is a keeper (a helper that
    /// reaps the processes of the tree): it exits after the others, and without it they could not
    /// be found. Further keepers are killed.
    fn kill_tree(&self) {
        if self.n_keepers == 0 {
            return self.signal_all_processes(Signal::KILL);
        }
        for process in find_living_descendants(self.leader) {
            process.send_signal(Signal::KILL);
        }
    }

    /// Sends a signal to all processes of the tree. Errors are ignored, because they mean that the
    /// process has ended.
    fn signal_all_processes(&self, signal: Signal) {
        let _ = rustix::process::kill_process_group(self.leader, signal);
        for process in list_living_processes().filter(|process| self.has_process(process)) {
            process.send_signal(signal);
        }
    }

    /// Sends SIGTERM, then SIGKILL after the grace period. Returns whether any process was alive.
    /// Blocks the thread.
    fn end_tree_gracefully(&self) -> bool {
        let was_alive = self.is_alive();
        if was_alive {
            let _ = self.send_sigterm();
            self.kill_tree_after_grace();
        }
        was_alive
    }

    /// After SIGTERM, watches a tree with a keeper (a helper process that reaps the tree), and
    /// returns whether it multiplies, that is, starts too many processes. Returns false as soon as
    /// the tree has ended or `is_over` is cancelled, and otherwise after the time `most`.
    fn is_still_forking_after_sigterm(&self, most: Duration, is_over: &CancellationToken) -> bool {
        let until = Instant::now() + most;
        let mut rate = ProcessStartRateMeter::new();
        let mut known: Option<BTreeSet<_>> = None;
        let mut n_new = 0;
        while Instant::now() < until && !is_over.is_cancelled() {
            std::thread::sleep(NEW_PROCESS_SEARCH_INTERVAL);
            if !is_process_alive(self.leader) {
                return false;
            }
            if rate.measure_processes_per_second() > MAX_SYSTEM_PROCESS_STARTS_PER_SECOND {
                return true;
            }
            let found = descendants_and_zombies(self.leader);
            let found = found.iter().map(|process| process.pid.as_raw_nonzero());
            match &mut known {
                None => known = Some(found.collect()),
                Some(known) => n_new += found.filter(|pid| known.insert(*pid)).count(),
            }
            if n_new > MAX_NEW_PROCESSES_AFTER_SIGTERM {
                return true;
            }
        }
        false
    }

    fn kill_tree_after_grace(&self) {
        self.wait_for_tree_end(SIGTERM_GRACE_PERIOD);
        self.kill_tree_until_gone();
    }

    fn wait_for_tree_end(&self, most: Duration) {
        let until = Instant::now() + most;
        while Instant::now() < until && self.is_alive() {
            std::thread::sleep(PROCESS_END_POLL_INTERVAL);
        }
    }

    fn kill_tree_until_gone(&self) {
        for _ in 0..MAX_SIGKILL_ROUNDS {
            if !self.is_alive() {
                return;
            }
            self.kill_tree();
            std::thread::sleep(PROCESS_END_POLL_INTERVAL);
        }
        self.signal_all_processes(Signal::KILL);
    }

    fn is_alive(&self) -> bool {
        if cfg!(target_os = "linux") {
            return list_living_processes().any(|process| self.has_process(&process));
        }
        rustix::process::test_kill_process_group(self.leader).is_ok()
    }

    fn has_process(&self, process: &ProcFsProcess) -> bool {
        process.group == self.leader.as_raw_nonzero().get()
            || process.has_environment_mark(self.mark.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::process::Stdio;

    use super::*;

    /// Runs a command, and returns whether its tree multiplies after its first byte of output.
    fn multiplies(command: &str) -> bool {
        let mut command_line = std::process::Command::new("bash");
        command_line.args(["-c", command]).stdin(Stdio::null());
        let mut child = command_line.stdout(Stdio::piped()).spawn().unwrap();
        let mut said = [0];
        child.stdout.take().unwrap().read_exact(&mut said).unwrap();
        let tree = ProcessTreeIdentity {
            leader: Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(),
            mark: String::new(),
            n_keepers: 1,
        };
        let found =
            tree.is_still_forking_after_sigterm(Duration::from_secs(3), &CancellationToken::new());
        tree.kill_tree();
        let _ = child.kill();
        let _ = child.wait();
        found
    }

    #[test]
    fn a_tree_that_keeps_starting_processes_is_told_from_one_that_cleans_up() {
        let many = "echo; while :; do for i in {1..20}; do sleep 0.01 & done; wait; done";
        assert!(multiplies(many));
        // Starting processes one by one, as a cleanup trap does, does not count as multiplying, nor
        // do many processes that exist already.
        assert!(!multiplies(
            "echo; for i in {1..10}; do sleep 0.2; done; sleep 60"
        ));
        assert!(!multiplies(
            "for i in {1..60}; do sleep 30 >/dev/null & done; echo; wait"
        ));
    }
}
