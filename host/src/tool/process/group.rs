//! A started process with everything it starts in turn: who of them is alive, and stopping them all.

use std::io;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use tempfile::TempDir;
use tokio::process::{Child, Command};

/// How long processes have between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(2);

/// How often is looked whether they are gone.
const POLL: Duration = Duration::from_millis(20);

/// How often SIGKILL is sent before giving up: what starts new processes faster than they are found is caught by then.
const KILL_ROUNDS: u32 = 50;

/// Variable that marks a process tree. Processes inherit it even when they leave the process group (`timeout`, `setsid`
/// and job control do), which is how those are found again.
const MARK: &str = "RIND_PROCESS";

/// A process tree that is stopped when this is dropped.
pub(super) struct Running {
    child: Child,
    tree: Tree,
    is_over: bool,
    /// Removed once nobody of the tree can write there any more.
    temporary: Option<TempDir>,
}

impl Running {
    /// Starts the command in a process group of its own. `temporary` is removed when its tree is gone.
    pub(super) fn spawn(mut command: Command, temporary: Option<TempDir>) -> io::Result<Self> {
        let mark = crate::clock::new_id();
        command.process_group(0).env(MARK, &mark);
        let child = command.spawn()?;
        let leader = child
            .id()
            .and_then(|id| Pid::from_raw(i32::try_from(id).ok()?))
            .ok_or_else(|| io::Error::other("the process has no id"))?;
        Ok(Self {
            child,
            tree: Tree {
                leader,
                mark: format!("{MARK}={mark}"),
            },
            is_over: false,
            temporary,
        })
    }

    /// Waits for the first process of the tree; may be called again.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Stops whatever of the tree is alive and says whether anything was.
    pub(super) async fn stop(&mut self) -> bool {
        let was_alive = self.is_alive();
        if was_alive {
            self.tree.signal(Signal::TERM);
            let until = Instant::now() + GRACE;
            while Instant::now() < until && self.is_alive() {
                tokio::time::sleep(POLL).await;
            }
            for _ in 0..KILL_ROUNDS {
                if !self.is_alive() {
                    break;
                }
                self.tree.signal(Signal::KILL);
                tokio::time::sleep(POLL).await;
            }
        }
        self.is_over = true;
        was_alive
    }

    fn is_alive(&mut self) -> bool {
        // Collects the first process if it has ended; where there is no `/proc` it would count as alive otherwise.
        let _ = self.child.try_wait();
        self.tree.is_alive()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        self.tree.signal(Signal::TERM);
        let tree = self.tree.clone();
        let temporary = self.temporary.take();
        // A thread, not a task: the runtime may be going down with us.
        let started = std::thread::Builder::new()
            .name("stop-processes".to_owned())
            .spawn(move || {
                tree.kill_after_grace();
                drop(temporary);
            });
        if started.is_err() {
            self.tree.signal(Signal::KILL);
        }
    }
}

/// Identity of a process tree.
#[derive(Clone)]
struct Tree {
    /// The first process; its id is the id of the group too.
    leader: Pid,
    /// `NAME=VALUE` as it stands in the environment of the tree's processes.
    mark: String,
}

impl Tree {
    fn signal(&self, signal: Signal) {
        // Fails only when nobody is left to signal.
        let _ = rustix::process::kill_process_group(self.leader, signal);
        for pid in self.strays() {
            let _ = rustix::process::kill_process(pid, signal);
        }
    }

    fn kill_after_grace(&self) {
        let until = Instant::now() + GRACE;
        while Instant::now() < until && self.is_alive() {
            std::thread::sleep(POLL);
        }
        for _ in 0..KILL_ROUNDS {
            if !self.is_alive() {
                return;
            }
            self.signal(Signal::KILL);
            std::thread::sleep(POLL);
        }
    }

    #[cfg(target_os = "linux")]
    fn is_alive(&self) -> bool {
        processes().any(|process| self.has(&process))
    }

    #[cfg(target_os = "linux")]
    fn strays(&self) -> impl Iterator<Item = Pid> {
        processes()
            .filter(|process| self.has(process))
            .map(|process| process.pid)
    }

    #[cfg(target_os = "linux")]
    fn has(&self, process: &ProcEntry) -> bool {
        process.group == self.leader.as_raw_nonzero().get()
            || process.has_mark(self.mark.as_bytes())
    }

    #[cfg(not(target_os = "linux"))]
    fn is_alive(&self) -> bool {
        rustix::process::test_kill_process_group(self.leader).is_ok()
    }

    #[cfg(not(target_os = "linux"))]
    fn strays(&self) -> impl Iterator<Item = Pid> {
        std::iter::empty()
    }
}

/// One process that is alive, from `/proc`.
#[cfg(target_os = "linux")]
struct ProcEntry {
    pid: Pid,
    group: i32,
}

#[cfg(target_os = "linux")]
impl ProcEntry {
    fn read(pid: Pid) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
        let (state, group) = state_and_group(&stat)?;
        // A zombie is dead; it may stay for long where the first process of a container does not collect orphans.
        (!matches!(state, "Z" | "X")).then_some(Self { pid, group })
    }

    fn has_mark(&self, mark: &[u8]) -> bool {
        std::fs::read(format!("/proc/{}/environ", self.pid.as_raw_nonzero()))
            .is_ok_and(|environ| environ.split(|&byte| byte == 0).any(|entry| entry == mark))
    }
}

/// State and process group of a `/proc/PID/stat` line. The name before them is in parentheses and may hold any character.
#[cfg(target_os = "linux")]
fn state_and_group(stat: &str) -> Option<(&str, i32)> {
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?;
    let group = fields.nth(1)?.parse().ok()?;
    Some((state, group))
}

#[cfg(target_os = "linux")]
fn processes() -> impl Iterator<Item = ProcEntry> {
    std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| Pid::from_raw(entry.ok()?.file_name().to_str()?.parse().ok()?))
        .filter_map(ProcEntry::read)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn state_and_group_are_found_behind_a_name_with_parentheses() {
        assert_eq!(
            state_and_group("12 (a) b (c) S 1 99 99 0 -1"),
            Some(("S", 99))
        );
    }
}
