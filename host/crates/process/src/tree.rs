//! Reads `/proc`: living processes, their ancestry, and their memory.
//!
//! Process ids are reused, so a process is identified by id and start time. Start from
//! [`list_living_processes`] and [`find_living_descendants`].

use rustix::process::{Pid, Signal};

/// Process as read from its folder in `/proc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProcFsProcess {
    pub(super) pid: Pid,
    parent: i32,
    pub(super) group: i32,
    /// Start time in clock ticks since boot. Together with the id it identifies a process: on a
    /// machine that forks as fast as it can, ids are reused within a second.
    start: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DescendantProcess {
    pub(super) pid: Pid,
    /// Number of generations below the root: 1 for a child, 2 for a grandchild, and so on.
    pub(super) depth: usize,
    start: u64,
}

/// A process that was found earlier and may have ended since.
pub(super) trait IdentifiedProcess {
    fn pid(&self) -> Pid;
    fn start(&self) -> u64;

    /// Returns the current process group; `None` if the process has ended.
    fn current_group(&self) -> Option<Pid> {
        let (now, _) = ProcFsProcess::read_process(self.pid())?;
        Pid::from_raw(now.group).filter(|_| now.start == self.start())
    }

    /// Sends a signal, unless the process id now belongs to another process.
    #[cfg(target_os = "linux")]
    fn send_signal(&self, signal: Signal) {
        use rustix::process::{PidfdFlags, kill_process, pidfd_open, pidfd_send_signal};
        let process = pidfd_open(self.pid(), PidfdFlags::empty());
        // Check the start time after opening the pidfd: an open pidfd always refers to the same
        // process, so the signal cannot go to another process that gets the id after the check.
        let is_it = ProcFsProcess::read_process(self.pid())
            .is_some_and(|(now, _)| now.start == self.start());
        let _ = match process {
            _ if !is_it => return,
            Ok(process) => pidfd_send_signal(process, signal),
            Err(_) => kill_process(self.pid(), signal),
        };
    }

    /// Sends a signal to the process id, even if it now belongs to another process.
    #[cfg(not(target_os = "linux"))]
    fn send_signal(&self, signal: Signal) {
        let _ = rustix::process::kill_process(self.pid(), signal);
    }
}

impl IdentifiedProcess for ProcFsProcess {
    fn pid(&self) -> Pid {
        self.pid
    }

    fn start(&self) -> u64 {
        self.start
    }
}

impl IdentifiedProcess for DescendantProcess {
    fn pid(&self) -> Pid {
        self.pid
    }

    fn start(&self) -> u64 {
        self.start
    }
}

impl ProcFsProcess {
    /// Reads the process `pid`. Returns it, and whether it is alive. A zombie counts as dead; it
    /// may stay in the process table for long if the init process of a container does not reap
    /// orphans.
    fn read_process(pid: Pid) -> Option<(Self, bool)> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
        let fields = parse_stat_fields(&stat)?;
        let is_alive = !matches!(fields.state, "Z" | "X");
        let found = Self {
            pid,
            parent: fields.parent,
            group: fields.group,
            start: fields.start,
        };
        Some((found, is_alive))
    }

    pub(super) fn has_environment_mark(&self, mark: &[u8]) -> bool {
        std::fs::read(format!("/proc/{}/environ", self.pid.as_raw_nonzero()))
            .is_ok_and(|environ| environ.split(|&byte| byte == 0).any(|entry| entry == mark))
    }
}

/// Fields of a `/proc/PID/stat` line that identify a process and its relatives.
#[derive(Debug, PartialEq, Eq)]
struct ProcStatFields<'a> {
    state: &'a str,
    parent: i32,
    group: i32,
    start: u64,
}

/// Number of fields between the process group and the start time in a `/proc/PID/stat` line.
const STAT_FIELDS_BETWEEN_PGRP_AND_STARTTIME: usize = 16;

/// Parses a `/proc/PID/stat` line. The program name before the parsed fields is in parentheses and
/// may contain any character, including `)`.
fn parse_stat_fields(stat: &str) -> Option<ProcStatFields<'_>> {
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    Some(ProcStatFields {
        state: fields.next()?,
        parent: fields.next()?.parse().ok()?,
        group: fields.next()?.parse().ok()?,
        start: fields
            .nth(STAT_FIELDS_BETWEEN_PGRP_AND_STARTTIME)?
            .parse()
            .ok()?,
    })
}

/// Whether a process with this id exists and has not ended.
pub(super) fn is_process_alive(pid: Pid) -> bool {
    ProcFsProcess::read_process(pid).is_some_and(|(_, is_alive)| is_alive)
}

/// Returns every living process; none if there is no `/proc`.
pub(super) fn list_living_processes() -> impl Iterator<Item = ProcFsProcess> {
    list_all_processes().filter_map(|(process, is_alive)| is_alive.then_some(process))
}

/// Returns every process, including zombies, each with a flag that is true if the process is alive.
fn list_all_processes() -> impl Iterator<Item = (ProcFsProcess, bool)> {
    std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| Pid::from_raw(entry.ok()?.file_name().to_str()?.parse().ok()?))
        .filter_map(ProcFsProcess::read_process)
}

/// Returns the number of processes that the machine has started since boot. This number is the only
/// cheap way to notice a tree that keeps starting processes: while such a tree runs, a scan of
/// `/proc` gets no CPU time.
pub(super) fn count_processes_started_since_boot() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    let count = text
        .lines()
        .find_map(|line| line.strip_prefix("processes "))?;
    count.trim().parse().ok()
}

/// Returns all living descendants of the process `of`, without that process. If a process exits
/// during the scan, its children may be missing from the result; call again to be sure.
pub(super) fn find_living_descendants(of: Pid) -> Vec<DescendantProcess> {
    descendants_among_processes(list_living_processes().collect(), of.as_raw_nonzero().get())
}

/// Returns all descendants of the process `of`, including zombies, which show that processes were
/// started and ended quickly.
pub(super) fn descendants_and_zombies(of: Pid) -> Vec<DescendantProcess> {
    let all = list_all_processes().map(|(process, _)| process).collect();
    descendants_among_processes(all, of.as_raw_nonzero().get())
}

/// Returns the children of this process, including zombies, without scanning all processes; empty
/// if the kernel does not provide this list.
pub(super) fn list_own_children() -> Vec<Pid> {
    let path = format!("/proc/self/task/{}/children", std::process::id());
    let list = std::fs::read_to_string(path).unwrap_or_default();
    let pids = list.split_whitespace().filter_map(|pid| pid.parse().ok());
    pids.filter_map(Pid::from_raw).collect()
}

fn descendants_among_processes(mut others: Vec<ProcFsProcess>, of: i32) -> Vec<DescendantProcess> {
    let mut found = Vec::new();
    let mut parents = vec![of];
    for depth in 1.. {
        let is_child = |process: &mut ProcFsProcess| parents.contains(&process.parent);
        let children: Vec<ProcFsProcess> = others.extract_if(.., is_child).collect();
        if children.is_empty() {
            break;
        }
        parents = children
            .iter()
            .map(|child| child.pid.as_raw_nonzero().get())
            .collect();
        found.extend(children.iter().map(|child| DescendantProcess {
            pid: child.pid,
            depth,
            start: child.start,
        }));
    }
    found
}

/// Returns the memory of a process in bytes, without memory that only caches files. Each shared
/// page counts fully.
pub(super) fn process_memory_bytes(pid: Pid) -> u64 {
    let fields = ["RssAnon:", "RssShmem:", "VmSwap:"];
    sum_proc_file_fields_bytes(pid, "status", &fields).unwrap_or(0)
}

/// Returns the proportional memory of a process in bytes: each shared page is divided among the
/// processes that share it. Reading it costs the kernel much more than [`process_memory_bytes`].
pub(super) fn proportional_memory_bytes(pid: Pid) -> u64 {
    let fields = ["Pss_Anon:", "Pss_Shmem:", "SwapPss:"];
    sum_proc_file_fields_bytes(pid, "smaps_rollup", &fields)
        .unwrap_or_else(|| process_memory_bytes(pid))
}

/// Returns the sum of these fields of a `/proc/PID` file in bytes; `None` if the first field is
/// missing.
fn sum_proc_file_fields_bytes(pid: Pid, file: &str, fields: &[&str]) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{}/{file}", pid.as_raw_nonzero())).ok()?;
    let field = |name: &&str| parse_kb_field(&text, name);
    field(fields.first()?)?;
    Some(fields.iter().filter_map(field).sum())
}

/// Returns a field of `/proc/meminfo` in bytes.
pub(super) fn meminfo_bytes(name: &str) -> Option<u64> {
    parse_kb_field(&std::fs::read_to_string("/proc/meminfo").ok()?, name)
}

/// Returns the value of a field in bytes. `text` has lines of the form `NAME: N kB`.
fn parse_kb_field(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_parent_and_group_are_found_behind_a_name_with_parentheses() {
        let stat = "12 (a) b (c) S 1 99 98 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 7777 9";
        let expected = ProcStatFields {
            state: "S",
            parent: 1,
            group: 99,
            start: 7777,
        };
        assert_eq!(parse_stat_fields(stat), Some(expected));
    }

    #[test]
    fn descendants_are_found_through_every_generation_and_others_are_not() {
        let process = |pid, parent| ProcFsProcess {
            pid: Pid::from_raw(pid).unwrap(),
            parent,
            group: 0,
            start: 0,
        };
        let all = vec![
            process(9, 7),
            process(5, 1),
            process(6, 5),
            process(7, 6),
            process(8, 1),
        ];
        let found = descendants_among_processes(all, 5);
        let found: Vec<_> = found
            .iter()
            .map(|one| (one.pid.as_raw_nonzero().get(), one.depth))
            .collect();
        assert_eq!(found, [(6, 1), (7, 2), (9, 3)]);
    }

    #[test]
    fn a_signal_reaches_the_process_that_was_found_and_none_that_has_its_number_later() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        let (found, is_alive) = ProcFsProcess::read_process(pid).unwrap();
        assert!(is_alive);
        let earlier = ProcFsProcess {
            start: found.start.wrapping_sub(1),
            ..found
        };
        earlier.send_signal(Signal::KILL);
        std::thread::sleep(std::time::Duration::from_millis(100));
        assert!(child.try_wait().unwrap().is_none());
        found.send_signal(Signal::KILL);
        assert!(!child.wait().unwrap().success());
    }
}
