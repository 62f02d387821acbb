//! Creates namespaces in the helper process, without privileges. A program inside the namespaces
//! sees only the files that are mounted into its view.
//!
//! Start from [`enter_namespaces`], which the first stage of the helper calls; the second stage
//! calls [`build_and_pivot_to_new_root`].

use std::ffi::{CStr, CString};
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::CWD;
use rustix::mount::{
    MountAttrFlags as Attributes, MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags,
    UnmountFlags, mount_change, move_mount, open_tree, unmount,
};
use rustix::thread::{CapabilitySet, UnshareFlags as New};

use super::obstacle::ConfinementFailureReason;
use super::view::{FileViewMount, MountSource};
use super::{HIDDEN_HELPER_SUBCOMMAND, kernel, rights};

/// First argument that makes the helper map users and groups into the user namespace of its parent
/// process. It replaces the policy.
pub(super) const MAP_USER_IDS_ARGUMENT: &str = "--map";

/// Mount options of the root of the view, which contains only mount points and symlinks.
const NEW_ROOT_MOUNT_OPTIONS: &CStr = c"size=4m,mode=755";

/// Smallest process limit that the kernel accepts for a PID namespace.
pub(super) const MIN_PID_NAMESPACE_PROCESS_LIMIT: u64 = 301;

/// Moves this process, which must be single-threaded, into new namespaces. The next process that it
/// starts becomes the first process of the PID namespace; when that process exits, the namespace
/// ends.
pub(super) fn enter_namespaces(network: bool) -> Result<(), ConfinementFailureReason> {
    let user = rustix::process::geteuid();
    let group = rustix::process::getegid();
    let mapper = user.is_root().then(start_user_mapping_process).transpose();
    let mut flags = New::NEWUSER | New::NEWNS | New::NEWPID;
    flags |= New::NEWIPC | New::NEWUTS | New::NEWCGROUP;
    flags.set(New::NEWNET, !network);
    kernel::enter_namespaces(flags).map_err(|error| {
        ConfinementFailureReason::from_system_error(
            "this machine does not allow namespaces",
            &error,
        )
    })?;
    let is_mapped = match mapper {
        Ok(Some(mapper)) => mapper.request_user_mapping(),
        Ok(None) | Err(_) => false,
    };
    if !is_mapped {
        map_own_user(user.as_raw(), group.as_raw())?;
    }
    if !network {
        // Ignore a failure: the second stage of the helper checks whether the loopback interface
        // works.
        let _ = kernel::enable_loopback();
    }
    rights::keep_only_capabilities(CONFINEMENT_SETUP_CAPABILITIES)
        .map_err(|error| ConfinementFailureReason::from_system_error("capabilities", &error))
}

/// Capabilities that the second stage of the helper needs inside the namespaces: `SETPCAP` to drop
/// capabilities, and `SYS_ADMIN` to mount.
const CONFINEMENT_SETUP_CAPABILITIES: CapabilitySet =
    CapabilitySet::SETPCAP.union(CapabilitySet::SYS_ADMIN);

fn map_own_user(user: u32, group: u32) -> Result<(), ConfinementFailureReason> {
    let write = |file: &str, text: String| {
        let path = Path::new("/proc/self").join(file);
        fs::write(&path, text)
            .map_err(|error| ConfinementFailureReason::from_system_error(path.display(), &error))
    };
    write("setgroups", "deny".to_owned())?;
    write("uid_map", format!("{user} {user} 1"))?;
    write("gid_map", format!("{group} {group} 1"))
}

/// Child process that stays outside the user namespace and writes the mapping of users. The process
/// is needed if this user is root: then all users are mapped, so that a command of root can work
/// with files of other users as usual, and such a mapping must be written from outside the
/// namespace.
struct UserNamespaceMappingProcess(std::process::Child);

fn start_user_mapping_process() -> io::Result<UserNamespaceMappingProcess> {
    let mut command = Command::new(OWN_EXECUTABLE_PATH);
    command
        .args([HIDDEN_HELPER_SUBCOMMAND, MAP_USER_IDS_ARGUMENT])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.spawn().map(UserNamespaceMappingProcess)
}

impl UserNamespaceMappingProcess {
    /// Makes the child process write the user and group mapping of the new user namespace. Returns
    /// whether it succeeded.
    fn request_user_mapping(mut self) -> bool {
        let told = self.0.stdin.take().map(|mut pipe| pipe.write_all(b"go\n"));
        matches!(told, Some(Ok(()))) && self.0.wait().is_ok_and(|status| status.success())
    }
}

/// Path of the running program. It is valid even if the file at the program's original path was
/// replaced.
pub(super) const OWN_EXECUTABLE_PATH: &str = "/proc/self/exe";

/// Runs the child process that writes the mapping: waits until its parent has entered the
/// namespace, then maps all users and groups of this process into that namespace.
pub(super) fn map_users_in_parent_namespace() -> Result<(), String> {
    let said = |error: io::Error| format!("cannot map users: {error}");
    let mut line = String::new();
    if io::stdin().read_line(&mut line).map_err(said)? == 0 {
        return Err("the parent process ended before it asked for users to be mapped".to_owned());
    }
    let parent = rustix::process::getppid().ok_or("there is no parent")?;
    for file in ["uid_map", "gid_map"] {
        let own = fs::read_to_string(Path::new("/proc/self").join(file)).map_err(said)?;
        let mut map = String::new();
        for line in own.lines() {
            let mut fields = line.split_whitespace();
            if let (Some(first), Some(_), Some(count)) =
                (fields.next(), fields.next(), fields.next())
            {
                map.push_str(&format!("{first} {first} {count}\n"));
            }
        }
        let path = format!("/proc/{}/{file}", parent.as_raw_nonzero());
        fs::write(path, map).map_err(said)?;
    }
    Ok(())
}

/// Builds the view of the file system and makes it the root directory. `base` is an existing
/// directory on which the view is mounted until then.
pub(super) fn build_and_pivot_to_new_root(
    base: &Path,
    mounts: &[FileViewMount],
) -> Result<(), ConfinementFailureReason> {
    let failed = |what: &str, path: &Path, error: io::Error| {
        ConfinementFailureReason::from_system_error(
            format!("cannot {what} {}", path.display()),
            &error,
        )
    };
    mount_change(
        "/",
        MountPropagationFlags::REC | MountPropagationFlags::PRIVATE,
    )
    .map_err(|error| failed("keep mounts of", Path::new("/"), error.into()))?;
    mount_tmpfs(base, NEW_ROOT_MOUNT_OPTIONS).map_err(|error| failed("mount", base, error))?;
    for mount in mounts {
        add_mount(base, mount).map_err(|error| failed("mount", &mount.at, error))?;
    }
    rustix::process::chdir(base).map_err(|error| failed("enter", base, error.into()))?;
    let here = Path::new(".");
    rustix::process::pivot_root(here, here)
        .map_err(|error| failed("change the root to", base, error.into()))?;
    // After `pivot_root(".", ".")`, the old root is mounted on top of the new one.
    unmount(here, UnmountFlags::DETACH)
        .map_err(|error| failed("leave", Path::new("/"), error.into()))?;
    let root = enter_new_root().map_err(|error| failed("open", Path::new("/"), error))?;
    kernel::add_mount_attributes(&root, Attributes::MOUNT_ATTR_RDONLY, false)
        .map_err(|error| failed("fix", Path::new("/"), error))
}

/// Makes `/proc` read-only, including those kernel settings that are still writable.
pub(super) fn make_proc_read_only() -> io::Result<()> {
    let processes = fs::File::open("/proc")?.into();
    kernel::add_mount_attributes(
        &processes,
        Attributes::MOUNT_ATTR_RDONLY | Attributes::MOUNT_ATTR_NOEXEC,
        false,
    )
}

fn enter_new_root() -> io::Result<std::os::fd::OwnedFd> {
    rustix::process::chdir("/")?;
    fs::File::open("/").map(Into::into)
}

fn add_mount(base: &Path, mount: &FileViewMount) -> io::Result<()> {
    let at = join_path_under_base(base, &mount.at);
    match &mount.what {
        MountSource::ReadOnly(source) => bind_mount(
            source,
            &at,
            Attributes::MOUNT_ATTR_RDONLY
                | Attributes::MOUNT_ATTR_NOSUID
                | Attributes::MOUNT_ATTR_NODEV,
        ),
        MountSource::Writable(source) => bind_mount(
            source,
            &at,
            Attributes::MOUNT_ATTR_NOSUID | Attributes::MOUNT_ATTR_NODEV,
        ),
        MountSource::Device(source) => bind_mount(
            source,
            &at,
            Attributes::MOUNT_ATTR_NOSUID | Attributes::MOUNT_ATTR_NOEXEC,
        ),
        MountSource::Folder => make_folder(&at),
        MountSource::Link(to) => std::os::unix::fs::symlink(to, &at),
        MountSource::Memory(bytes) => {
            make_folder(&at)?;
            let options = CString::new(format!("size={bytes},mode=1777"))?;
            mount_tmpfs(&at, &options)
        }
        MountSource::Processes => {
            make_folder(&at)?;
            let flags = MountFlags::NOSUID | MountFlags::NODEV;
            Ok(rustix::mount::mount("proc", &at, "proc", flags, None)?)
        }
    }
}

/// Mounts an in-memory file system, with the options of `tmpfs(5)`.
fn mount_tmpfs(at: &Path, options: &CStr) -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    Ok(rustix::mount::mount("tmpfs", at, "tmpfs", flags, options)?)
}

/// Bind-mounts `source`, with everything mounted below it, at the path `at`.
fn bind_mount(source: &Path, at: &Path, attributes: Attributes) -> io::Result<()> {
    if source.is_dir() {
        make_folder(at)?;
    } else if !at.exists() {
        at.parent().map(make_folder).transpose()?;
        fs::File::create_new(at)?;
    }
    let copy = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::AT_RECURSIVE;
    let tree = open_tree(CWD, source, copy | OpenTreeFlags::OPEN_TREE_CLOEXEC)?;
    kernel::add_mount_attributes(&tree, attributes, true)?;
    let as_a_whole = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    Ok(move_mount(&tree, "", CWD, at, as_a_whole)?)
}

fn make_folder(at: &Path) -> io::Result<()> {
    if at.is_dir() {
        return Ok(());
    }
    fs::DirBuilder::new().recursive(true).mode(0o755).create(at)
}

fn join_path_under_base(base: &Path, at: &Path) -> PathBuf {
    base.join(at.strip_prefix("/").unwrap_or(at))
}

/// Limits the number of processes in this PID namespace. Unlike an rlimit, this also applies to
/// root. Kernels before 6.14 have a single such limit for the whole machine, which is not changed.
pub(super) fn limit_namespace_processes(processes: u64) {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    if supports_process_limit_per_namespace(&release) {
        let most = processes.max(MIN_PID_NAMESPACE_PROCESS_LIMIT).to_string();
        let _ = fs::write("/proc/sys/kernel/pid_max", most);
    }
}

fn supports_process_limit_per_namespace(release: &str) -> bool {
    let mut numbers = release
        .split(['.', '-'])
        .map_while(|part| part.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(6), Some(14))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_of_the_whole_machine_is_never_changed() {
        for (release, expected) in [
            ("6.14.0-rc1", true),
            ("7.0", true),
            ("6.13.9", false),
            ("5.15.0", false),
            ("", false),
        ] {
            assert_eq!(
                supports_process_limit_per_namespace(release),
                expected,
                "{release}"
            );
        }
    }
}
