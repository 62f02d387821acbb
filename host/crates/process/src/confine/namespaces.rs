//! Creates namespaces in the helper itself, without privileges. A program inside the namespaces
//! sees only the files that were mounted into its view.
//!
//! Start from [`enter_namespaces`], which the first stage calls; the second stage calls
//! [`make_view`].

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

use super::obstacle::Obstacle;
use super::view::{MountSource, ViewMount};
use super::{HELPER_COMMAND, kernel, rights};

/// First argument of the helper, in place of a policy, to map users and groups into the user
/// namespace of the parent process.
pub(super) const MAP: &str = "--map";

/// Mount options of the root of the view, which contains only mount points and symlinks.
const ROOT_OPTIONS: &CStr = c"size=4m,mode=755";

/// Minimum process limit of a PID namespace that the kernel accepts.
pub(super) const MIN_PROCESSES: u64 = 301;

/// Moves this process, which must be single-threaded, into new namespaces. The next process that it
/// starts becomes the first process of the PID namespace; when that process exits, the namespace
/// ends.
pub(super) fn enter_namespaces(network: bool) -> Result<(), Obstacle> {
    let user = rustix::process::geteuid();
    let group = rustix::process::getegid();
    let mapper = user.is_root().then(start_mapper).transpose();
    let mut flags = New::NEWUSER | New::NEWNS | New::NEWPID;
    flags |= New::NEWIPC | New::NEWUTS | New::NEWCGROUP;
    flags.set(New::NEWNET, !network);
    kernel::enter_namespaces(flags)
        .map_err(|error| Obstacle::of_call("this machine does not allow namespaces", &error))?;
    let is_mapped = match mapper {
        Ok(Some(mapper)) => mapper.finish_mapping(),
        Ok(None) | Err(_) => false,
    };
    if !is_mapped {
        map_own_user(user.as_raw(), group.as_raw())?;
    }
    if !network {
        // A failure is ignored: the second stage checks whether loopback works.
        let _ = kernel::raise_loopback();
    }
    rights::keep_only_capabilities(NEEDED)
        .map_err(|error| Obstacle::of_call("capabilities", &error))
}

/// Capabilities inside the namespaces that the second stage needs: the first for dropping
/// capabilities, the second for mounting.
const NEEDED: CapabilitySet = CapabilitySet::SETPCAP.union(CapabilitySet::SYS_ADMIN);

fn map_own_user(user: u32, group: u32) -> Result<(), Obstacle> {
    let write = |file: &str, text: String| {
        let path = Path::new("/proc/self").join(file);
        fs::write(&path, text).map_err(|error| Obstacle::of_call(path.display(), &error))
    };
    write("setgroups", "deny".to_owned())?;
    write("uid_map", format!("{user} {user} 1"))?;
    write("gid_map", format!("{group} {group} 1"))
}

/// Child process that stays outside the user namespace and writes the mapping of users. Root may
/// map all users, so that a command of root can work with files of other users as usual, but such a
/// mapping must be written from outside the namespace.
struct IdMapper(std::process::Child);

fn start_mapper() -> io::Result<IdMapper> {
    let mut command = Command::new(OWN_PROGRAM);
    command
        .args([HELPER_COMMAND, MAP])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.spawn().map(IdMapper)
}

impl IdMapper {
    /// Makes the child process write the mapping, and returns whether it succeeded.
    fn finish_mapping(mut self) -> bool {
        let told = self.0.stdin.take().map(|mut pipe| pipe.write_all(b"go\n"));
        matches!(told, Some(Ok(()))) && self.0.wait().is_ok_and(|status| status.success())
    }
}

/// Path of the running program, valid even if the file at its original path was replaced.
pub(super) const OWN_PROGRAM: &str = "/proc/self/exe";

/// Runs the child process that writes the mapping: waits until its parent has entered the
/// namespace, then maps all users and groups of this process into that namespace.
pub(super) fn map_users_of_parent() -> Result<(), String> {
    let said = |error: io::Error| format!("cannot map users: {error}");
    let mut line = String::new();
    if io::stdin().read_line(&mut line).map_err(said)? == 0 {
        return Err("nobody asked for users to be mapped".to_owned());
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

/// Builds the view and makes it the root. `base` is an existing directory on which the view is
/// mounted before it becomes the root.
pub(super) fn make_view(base: &Path, mounts: &[ViewMount]) -> Result<(), Obstacle> {
    let failed = |what: &str, path: &Path, error: io::Error| {
        Obstacle::of_call(format!("cannot {what} {}", path.display()), &error)
    };
    mount_change(
        "/",
        MountPropagationFlags::REC | MountPropagationFlags::PRIVATE,
    )
    .map_err(|error| failed("keep mounts of", Path::new("/"), error.into()))?;
    mount_memory(base, ROOT_OPTIONS).map_err(|error| failed("mount", base, error))?;
    for mount in mounts {
        add_mount(base, mount).map_err(|error| failed("mount", &mount.at, error))?;
    }
    rustix::process::chdir(base).map_err(|error| failed("enter", base, error.into()))?;
    let here = Path::new(".");
    rustix::process::pivot_root(here, here)
        .map_err(|error| failed("change the root to", base, error.into()))?;
    // After `pivot_root(".", ".")` the old root is stacked on top of the new one.
    unmount(here, UnmountFlags::DETACH)
        .map_err(|error| failed("leave", Path::new("/"), error.into()))?;
    let root = enter_root().map_err(|error| failed("open", Path::new("/"), error))?;
    kernel::add_attributes(&root, Attributes::MOUNT_ATTR_RDONLY, false)
        .map_err(|error| failed("fix", Path::new("/"), error))
}

/// Makes `/proc` read-only, and with it the kernel settings that are still writable.
pub(super) fn fix_processes() -> io::Result<()> {
    let processes = fs::File::open("/proc")?.into();
    kernel::add_attributes(
        &processes,
        Attributes::MOUNT_ATTR_RDONLY | Attributes::MOUNT_ATTR_NOEXEC,
        false,
    )
}

fn enter_root() -> io::Result<std::os::fd::OwnedFd> {
    rustix::process::chdir("/")?;
    fs::File::open("/").map(Into::into)
}

fn add_mount(base: &Path, mount: &ViewMount) -> io::Result<()> {
    let at = path_below(base, &mount.at);
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
            mount_memory(&at, &options)
        }
        MountSource::Processes => {
            make_folder(&at)?;
            let flags = MountFlags::NOSUID | MountFlags::NODEV;
            Ok(rustix::mount::mount("proc", &at, "proc", flags, None)?)
        }
    }
}

/// Mounts an in-memory file system, with the options of `tmpfs(5)`.
fn mount_memory(at: &Path, options: &CStr) -> io::Result<()> {
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
    kernel::add_attributes(&tree, attributes, true)?;
    let as_a_whole = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    Ok(move_mount(&tree, "", CWD, at, as_a_whole)?)
}

fn make_folder(at: &Path) -> io::Result<()> {
    if at.is_dir() {
        return Ok(());
    }
    fs::DirBuilder::new().recursive(true).mode(0o755).create(at)
}

fn path_below(base: &Path, at: &Path) -> PathBuf {
    base.join(at.strip_prefix("/").unwrap_or(at))
}

/// Limits the number of processes in this PID namespace. Unlike an rlimit, this also applies to
/// root. Kernels before 6.14 have a single such limit for the whole machine, which is not changed.
pub(super) fn bound_processes(processes: u64) {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    if has_bound_of_namespace(&release) {
        let most = processes.max(MIN_PROCESSES).to_string();
        let _ = fs::write("/proc/sys/kernel/pid_max", most);
    }
}

fn has_bound_of_namespace(release: &str) -> bool {
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
            assert_eq!(has_bound_of_namespace(release), expected, "{release}");
        }
    }
}
