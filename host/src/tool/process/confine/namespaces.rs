//! Namespaces of the helper's own, for which no rights are needed: what a program in them can name is what is in them.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::HELPER_COMMAND;
use super::kernel::{
    self, NEW_CGROUPS, NEW_HOST_NAME, NEW_IPC, NEW_MOUNTS, NEW_NETWORK, NEW_PROCESSES, NEW_USERS,
    NO_DEVICES, NO_PROGRAMS, NO_SET_ID, READ_ONLY,
};
use super::view::{Mount, What};

/// Argument in place of a policy: the helper is to map users for the process that started it.
pub(super) const MAP: &str = "--map";

/// Mount options of the folder that holds the view: it contains names only.
const ROOT_OPTIONS: &str = "size=4m,mode=755";

/// Most processes and threads in all that a new process namespace can be told; fewer are below what the kernel needs.
pub(super) const MIN_PROCESSES: u64 = 301;

/// Moves this process, which must have one thread, into new namespaces; what it starts next is the first process of the new
/// process namespace, which ends with it.
pub(super) fn enter(network: bool) -> Result<(), String> {
    let user = rustix::process::geteuid();
    let group = rustix::process::getegid();
    let mapper = user.is_root().then(start_mapper).transpose();
    let mut flags = NEW_USERS | NEW_MOUNTS | NEW_PROCESSES | NEW_IPC | NEW_HOST_NAME | NEW_CGROUPS;
    if !network {
        flags |= NEW_NETWORK;
    }
    kernel::enter_namespaces(flags)
        .map_err(|error| format!("this machine does not allow namespaces: {error}"))?;
    let is_mapped = match mapper {
        Ok(Some(mapper)) => mapper.finish(),
        Ok(None) | Err(_) => false,
    };
    if !is_mapped {
        map_own_user(user.as_raw(), group.as_raw())?;
    }
    kernel::hand_on_capabilities(NEEDED).map_err(|error| format!("capabilities: {error}"))
}

/// Capabilities within the namespaces that the second stage needs: `CAP_SETPCAP` to give up others, `CAP_SYS_ADMIN` to mount.
const NEEDED: &[std::ffi::c_ulong] = &[8, 21];

fn map_own_user(user: u32, group: u32) -> Result<(), String> {
    let write = |file: &str, text: String| {
        let path = Path::new("/proc/self").join(file);
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
    };
    write("setgroups", "deny".to_owned())?;
    write("uid_map", format!("{user} {user} 1"))?;
    write("gid_map", format!("{group} {group} 1"))
}

/// A process that stays outside. Root may map all users, so that a command of root can work with files of others as ever; but
/// only from outside the namespace.
struct Mapper(std::process::Child);

fn start_mapper() -> io::Result<Mapper> {
    let mut command = Command::new(OWN_PROGRAM);
    command
        .args([HELPER_COMMAND, MAP])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.spawn().map(Mapper)
}

impl Mapper {
    /// Lets it map, and says whether it did.
    fn finish(mut self) -> bool {
        let told = self.0.stdin.take().map(|mut pipe| pipe.write_all(b"go\n"));
        matches!(told, Some(Ok(()))) && self.0.wait().is_ok_and(|status| status.success())
    }
}

/// The program that runs, whatever is at its path by now.
pub(super) const OWN_PROGRAM: &str = "/proc/self/exe";

/// The other side: waits until its parent is in its namespace and gives it the users and groups that this process has.
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

/// Makes the view and moves into it. `base` is a folder that is there; it is hidden.
pub(super) fn make_view(base: &Path, mounts: &[Mount]) -> Result<(), String> {
    let failed = |what: &str, path: &Path, error: io::Error| {
        format!("cannot {what} {}: {error}", path.display())
    };
    kernel::keep_mounts_private()
        .map_err(|error| failed("keep mounts of", Path::new("/"), error))?;
    kernel::mount_memory(base, ROOT_OPTIONS).map_err(|error| failed("mount", base, error))?;
    for mount in mounts {
        add(base, mount).map_err(|error| failed("mount", &mount.at, error))?;
    }
    rustix::process::chdir(base).map_err(|error| failed("enter", base, error.into()))?;
    let here = Path::new(".");
    rustix::process::pivot_root(here, here)
        .map_err(|error| failed("change the root to", base, error.into()))?;
    // What was the root lies over the new one.
    kernel::detach(here).map_err(|error| failed("leave", Path::new("/"), error))?;
    let root = enter_root().map_err(|error| failed("open", Path::new("/"), error))?;
    kernel::add_attributes(&root, READ_ONLY, false)
        .map_err(|error| failed("fix", Path::new("/"), error))
}

/// Keeps what is left of the kernel's settings in `/proc` from being changed.
pub(super) fn fix_processes() -> io::Result<()> {
    let processes = fs::File::open("/proc")?.into();
    kernel::add_attributes(&processes, READ_ONLY | NO_PROGRAMS, false)
}

fn enter_root() -> io::Result<std::os::fd::OwnedFd> {
    rustix::process::chdir("/")?;
    fs::File::open("/").map(Into::into)
}

fn add(base: &Path, mount: &Mount) -> io::Result<()> {
    let at = below(base, &mount.at);
    match &mount.what {
        What::ReadOnly(source) => bind(source, &at, READ_ONLY | NO_SET_ID | NO_DEVICES),
        What::Writable(source) => bind(source, &at, NO_SET_ID | NO_DEVICES),
        What::Device(source) => bind(source, &at, NO_SET_ID | NO_PROGRAMS),
        What::Folder => make_folder(&at),
        What::Link(to) => std::os::unix::fs::symlink(to, &at),
        What::Memory(bytes) => {
            make_folder(&at)?;
            kernel::mount_memory(&at, &format!("size={bytes},mode=1777"))
        }
        What::Processes => {
            make_folder(&at)?;
            kernel::mount_processes(&at)
        }
    }
}

fn bind(source: &Path, at: &Path, attributes: u64) -> io::Result<()> {
    if source.is_dir() {
        make_folder(at)?;
    } else if !at.exists() {
        at.parent().map(make_folder).transpose()?;
        fs::File::create_new(at)?;
    }
    let tree = kernel::copy_tree(source)?;
    kernel::add_attributes(&tree, attributes, true)?;
    kernel::attach(&tree, at)
}

fn make_folder(at: &Path) -> io::Result<()> {
    if at.is_dir() {
        return Ok(());
    }
    fs::DirBuilder::new().recursive(true).mode(0o755).create(at)
}

fn below(base: &Path, at: &Path) -> PathBuf {
    base.join(at.strip_prefix("/").unwrap_or(at))
}

/// Bounds the processes of this process namespace, also for root, whom no limit of processes binds. Older kernels have one
/// such bound for the whole machine, which stays as it is.
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
