//! Reads `/proc`: living processes, their descent, and their memory.

use rustix::process::Pid;

/// One process that is alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProcEntry {
    pub(super) pid: Pid,
    parent: i32,
    pub(super) group: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Descendant {
    pub(super) pid: Pid,
    /// Process group.
    pub(super) group: i32,
    /// 1 for a child, 2 for a child of a child.
    pub(super) depth: usize,
}

impl ProcEntry {
    fn read(pid: Pid) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
        let (state, parent, group) = fields(&stat)?;
        // A zombie counts as dead; it can stay for long if the init process of a container does not
        // reap orphans.
        let is_alive = !matches!(state, "Z" | "X");
        is_alive.then_some(Self { pid, parent, group })
    }

    pub(super) fn has_mark(&self, mark: &[u8]) -> bool {
        std::fs::read(format!("/proc/{}/environ", self.pid.as_raw_nonzero()))
            .is_ok_and(|environ| environ.split(|&byte| byte == 0).any(|entry| entry == mark))
    }
}

/// Reads state, parent and process group from a `/proc/PID/stat` line. The preceding name is in
/// parentheses and may contain any character.
fn fields(stat: &str) -> Option<(&str, i32, i32)> {
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    Some((state, parent, group))
}

/// Returns every living process; none if there is no `/proc`.
pub(super) fn processes() -> impl Iterator<Item = ProcEntry> {
    std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| Pid::from_raw(entry.ok()?.file_name().to_str()?.parse().ok()?))
        .filter_map(ProcEntry::read)
}

/// Returns all living descendants of this process, without itself. A process whose parent exits
/// during the scan may be missing: call again to be sure.
pub(super) fn descendants(of: Pid) -> Vec<Descendant> {
    descendants_in(processes().collect(), of.as_raw_nonzero().get())
}

/// Returns the children of this process, including zombies, without scanning all processes. Empty
/// if the kernel has no such list.
pub(super) fn own_children() -> Vec<Pid> {
    let path = format!("/proc/self/task/{}/children", std::process::id());
    let list = std::fs::read_to_string(path).unwrap_or_default();
    let pids = list.split_whitespace().filter_map(|pid| pid.parse().ok());
    pids.filter_map(Pid::from_raw).collect()
}

fn descendants_in(mut others: Vec<ProcEntry>, of: i32) -> Vec<Descendant> {
    let mut found = Vec::new();
    let mut parents = vec![of];
    for depth in 1.. {
        let is_child = |process: &mut ProcEntry| parents.contains(&process.parent);
        let children: Vec<ProcEntry> = others.extract_if(.., is_child).collect();
        if children.is_empty() {
            break;
        }
        parents = children
            .iter()
            .map(|child| child.pid.as_raw_nonzero().get())
            .collect();
        found.extend(children.iter().map(|child| Descendant {
            pid: child.pid,
            group: child.group,
            depth,
        }));
    }
    found
}

/// Returns the memory of the process in bytes, without file contents. Shared pages count in full.
pub(super) fn memory_bytes(pid: Pid) -> u64 {
    let fields = ["RssAnon:", "RssShmem:", "VmSwap:"];
    sum_in(pid, "status", &fields).unwrap_or(0)
}

/// Returns the same memory with each shared page divided among the processes that share it. Much
/// more expensive for the kernel.
pub(super) fn part_of_memory_bytes(pid: Pid) -> u64 {
    let fields = ["Pss_Anon:", "Pss_Shmem:", "SwapPss:"];
    sum_in(pid, "smaps_rollup", &fields).unwrap_or_else(|| memory_bytes(pid))
}

/// Sums these fields of a `/proc/PID` file, in bytes; `None` when the first is missing.
fn sum_in(pid: Pid, file: &str, fields: &[&str]) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{}/{file}", pid.as_raw_nonzero())).ok()?;
    let field = |name: &&str| kib_in(&text, name);
    field(fields.first()?)?;
    Some(fields.iter().filter_map(field).sum())
}

/// Reads a field of `/proc/meminfo`, in bytes.
pub(super) fn memory_of_machine_bytes(name: &str) -> Option<u64> {
    kib_in(&std::fs::read_to_string("/proc/meminfo").ok()?, name)
}

/// Reads a field of a list of `NAME: N kB`, in bytes.
fn kib_in(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_parent_and_group_are_found_behind_a_name_with_parentheses() {
        assert_eq!(fields("12 (a) b (c) S 1 99 98 0 -1"), Some(("S", 1, 99)));
    }

    #[test]
    fn descendants_are_found_through_every_generation_and_others_are_not() {
        let process = |pid, parent| ProcEntry {
            pid: Pid::from_raw(pid).unwrap(),
            parent,
            group: 0,
        };
        let all = vec![
            process(9, 7),
            process(5, 1),
            process(6, 5),
            process(7, 6),
            process(8, 1),
        ];
        let found = descendants_in(all, 5);
        let found: Vec<_> = found
            .iter()
            .map(|one| (one.pid.as_raw_nonzero().get(), one.depth))
            .collect();
        assert_eq!(found, [(6, 1), (7, 2), (9, 3)]);
    }
}
