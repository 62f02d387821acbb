//! Runs each command in its own control group (cgroup v2), if this user can create one. The group
//! limits and prioritizes the command as a whole, and can kill all its processes at once, even
//! while they keep forking.
//!
//! A user can create groups in a systemd session (in their own `app.slice`), and root can anywhere.
//! No controllers are enabled in parent groups: only those that the parent already delegates are
//! used. This module must not depend on the program that runs in a group. Start from
//! [`ProcessCgroup::create_cgroup`].

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::confine::Limits;

/// Prefix of group names. After it comes the id of the process that created the group.
const CGROUP_NAME_PREFIX: &str = "rind-";

/// CPU weight of a command's group; the default of other groups is 100.
const COMMAND_CGROUP_CPU_WEIGHT: u64 = 33;

/// Number of processes that is added to the limit for the helper, which runs in the same group as
/// the command.
const EXTRA_PROCESSES_FOR_HELPER: u64 = 4;

/// Control files of a cgroup, each with the name under which users see its controller.
const CGROUP_CONTROL_FILES: &[(&str, &str)] = &[
    ("cpu.weight", "cpu"),
    ("pids.max", "processes"),
    ("memory.max", "memory"),
];

/// Control group. It is removed on drop if it contains no process.
#[derive(Debug)]
pub(crate) struct ProcessCgroup(PathBuf);

/// Control group (cgroup) in which this user can create further groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParentCgroup {
    folder: PathBuf,
    /// Controllers that are available in a control group: `cpu`, `processes`, `memory`.
    pub controllers: Vec<&'static str>,
}

impl ParentCgroup {
    /// Returns the parent group on this machine in which groups can be created, or the reason why
    /// there is none. The result is cached.
    pub fn find_usable() -> Result<&'static Self, &'static str> {
        static HERE: OnceLock<Result<ParentCgroup, String>> = OnceLock::new();
        let here = HERE.get_or_init(|| {
            let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
            let own = read("/proc/self/cgroup");
            let candidates = cgroup_parent_candidates(&own, &read("/proc/self/mountinfo"));
            let candidates = candidates.ok_or("this machine has no cgroup v2")?;
            let found = candidates
                .iter()
                .find_map(|folder| Self::probe_cgroup_parent(folder));
            found.ok_or_else(|| {
                format!(
                    "this user may not create a control group in {}",
                    candidates
                        .first()
                        .map_or("?".into(), |path| path.display().to_string())
                )
            })
        });
        here.as_ref().map_err(String::as_str)
    }

    /// Whether a group can limit the number of its processes.
    #[must_use]
    pub fn can_limit_process_count(&self) -> bool {
        self.controllers.contains(&"processes")
    }

    /// Checks whether a group can be created in `folder`, by creating one.
    fn probe_cgroup_parent(folder: &Path) -> Option<Self> {
        remove_stale_cgroups(folder);
        // Moving a process into a group requires write access to `cgroup.procs` of the closest
        // common ancestor of the old and the new group.
        let access = rustix::fs::Access::WRITE_OK;
        rustix::fs::access(folder.join("cgroup.procs"), access).ok()?;
        let tried = ProcessCgroup(folder.join(new_cgroup_name()));
        fs::create_dir(&tried.0).ok()?;
        if !tried.0.join("cgroup.kill").exists() {
            return None;
        }
        let there = |(file, _): &&(&str, &str)| tried.0.join(file).exists();
        let controllers = CGROUP_CONTROL_FILES
            .iter()
            .filter(there)
            .map(|(_, name)| *name);
        Some(Self {
            folder: folder.to_owned(),
            controllers: controllers.collect(),
        })
    }
}

impl ProcessCgroup {
    /// Creates a group with `limits`: resource limits and a memory limit in bytes, which includes
    /// files in memory. Returns `None` if no group can be created.
    pub(crate) fn create_cgroup(limits: Option<(&Limits, u64)>) -> Option<Self> {
        let group = Self(
            ParentCgroup::find_usable()
                .ok()?
                .folder
                .join(new_cgroup_name()),
        );
        fs::create_dir(&group.0).ok()?;
        // A limit without its controller cannot be written; `rind doctor` reports missing
        // controllers.
        let set = |file: &str, value: u64| {
            let _ = fs::write(group.0.join(file), value.to_string());
        };
        set("cpu.weight", COMMAND_CGROUP_CPU_WEIGHT);
        if let Some((limits, memory_bytes)) = limits {
            set(
                "pids.max",
                limits.processes.saturating_add(EXTRA_PROCESSES_FOR_HELPER),
            );
            set("memory.max", memory_bytes);
        }
        Some(group)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Kills every process in the cgroup and its subgroups, including processes that are being
    /// forked.
    pub(super) fn kill_cgroup_processes(&self) {
        let _ = fs::write(self.0.join("cgroup.kill"), "1");
    }

    /// Whether the kernel killed a process because the group reached its memory limit.
    pub(super) fn ran_out_of_memory(&self) -> bool {
        let events = fs::read_to_string(self.0.join("memory.events")).unwrap_or_default();
        let kills = events
            .lines()
            .find_map(|line| line.strip_prefix("oom_kill "));
        kills.is_some_and(|n| n.trim() != "0")
    }
}

impl Drop for ProcessCgroup {
    fn drop(&mut self) {
        // If the group is still in use, a later Rind process removes it.
        let _ = fs::remove_dir(&self.0);
    }
}

/// Whether this process is in `group`. If `is_root`, `group` may also be the root of the
/// cgroup hierarchy that this process can see.
#[cfg(target_os = "linux")]
pub(super) fn is_this_process_in_cgroup(group: &Path, is_root: bool) -> bool {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = own.lines().find_map(|line| line.strip_prefix("0::"));
    let is_named = |own: &str| Path::new(own).file_name() == group.file_name();
    own.is_some_and(|own| is_named(own) || (is_root && own == "/"))
}

fn new_cgroup_name() -> String {
    static NEXT_CGROUP_NUMBER: AtomicU64 = AtomicU64::new(0);
    let n = NEXT_CGROUP_NUMBER.fetch_add(1, Ordering::Relaxed);
    format!("{CGROUP_NAME_PREFIX}{}-{n}", std::process::id())
}

/// Removes groups whose creating Rind process is gone, for example because it was killed. A group
/// that is still in use is kept, because the kernel refuses to remove it.
fn remove_stale_cgroups(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let maker = name
            .strip_prefix(CGROUP_NAME_PREFIX)
            .and_then(|rest| rest.split_once('-'));
        let is_gone = |(process, _): (&str, &str)| {
            process.parse::<u32>().is_ok() && !Path::new("/proc").join(process).exists()
        };
        if maker.is_some_and(is_gone) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// Returns the folders of groups that may serve as the parent of new groups, best first. `own` is
/// the text of `/proc/self/cgroup`, and `mounts` that of `/proc/self/mountinfo`. The parent of this
/// process's group comes before the group itself, because a group can delegate controllers only
/// while it contains no process.
fn cgroup_parent_candidates(own: &str, mounts: &str) -> Option<Vec<PathBuf>> {
    let own = Path::new(own.lines().find_map(|line| line.strip_prefix("0::"))?);
    let (mounted, below) = mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut fields = before.split(' ').skip(3);
        let (root, at) = (fields.next()?, fields.next()?);
        let is_unified = after.split(' ').next() == Some("cgroup2");
        let below = own.strip_prefix(root).ok()?;
        (is_unified && !at.contains('\\')).then_some((Path::new(at), below))
    })?;
    // This process's group is outside the cgroup namespace.
    if below.components().any(|part| part.as_os_str() == "..") {
        return None;
    }
    let beside = below.parent().map(|parent| mounted.join(parent));
    // Joining an empty path would append a slash.
    let own = if below.as_os_str().is_empty() {
        mounted.to_owned()
    } else {
        mounted.join(below)
    };
    Some(beside.into_iter().chain([own]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "30 24 0:27 / /sys rw - sysfs sysfs rw\n\
                          35 30 0:30 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";

    #[test]
    fn a_group_is_made_beside_the_own_one_or_else_below_it() {
        let of = |own: &str| cgroup_parent_candidates(own, MOUNTS).unwrap_or_default();
        let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect::<Vec<_>>();
        assert_eq!(
            of("1:name=systemd:/x\n0::/user.slice/app.slice/a.scope\n"),
            paths(&[
                "/sys/fs/cgroup/user.slice/app.slice",
                "/sys/fs/cgroup/user.slice/app.slice/a.scope"
            ])
        );
        assert_eq!(of("0::/\n"), paths(&["/sys/fs/cgroup"]));
        assert_eq!(of("0::/../other\n"), paths(&[]));
        assert_eq!(of("9:pids:/\n"), paths(&[]));
        assert_eq!(
            cgroup_parent_candidates("0::/a\n", "30 24 0:27 / /sys rw - sysfs sysfs rw\n"),
            None
        );
        let bound = "35 30 0:30 /docker/1 /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let found = cgroup_parent_candidates("0::/docker/1/a\n", bound).unwrap();
        assert_eq!(found, paths(&["/sys/fs/cgroup/", "/sys/fs/cgroup/a"]));
    }

    #[test]
    fn groups_of_processes_that_are_gone_are_removed_and_others_stay() {
        let folder = tempfile::tempdir().unwrap();
        let own = format!("rind-{}-7", std::process::id());
        for name in ["rind-4294967295-0", own.as_str(), "rind-x-0", "app.slice"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        remove_stale_cgroups(folder.path());
        let mut left: Vec<_> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        let mut expected = ["app.slice", own.as_str(), "rind-x-0"];
        expected.sort_unstable();
        assert_eq!(left, expected);
    }
}
