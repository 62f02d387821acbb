//! Programs confined by the kernel: what they may write, read, name and use up, for themselves and everything they start.
//!
//! A confined program is started through a helper, which is Rind's own binary under a hidden command. It makes namespaces of
//! its own (or has `bwrap` make them), in which there are no other processes and no other files, and beneath them restricts
//! itself with Landlock, a seccomp filter and resource limits before it starts the program. It stays until nothing of the
//! program is left, and ends it all when the host is gone. Nothing runs between fork and exec of a process with threads.
//!
//! Where a machine gives no namespaces, Landlock and a stricter filter stand alone. They cannot hide that a file elsewhere
//! exists, nor its size and times, and cannot keep the permissions and times of the user's files from being changed, nor a part
//! of the workspace (the settings and hooks of its repository) from being written. Below `/etc` a command of root reads what
//! only root may.
//!
//! Nothing here runs a program bare because its confinement failed: a failure is an error of the call, see [`Obstacle`].
//!
//! It must not know what is run, nor where Rind keeps its files. Start from [`Confinement`]; [`detect`] says what the
//! machine can do.

mod bwrap;
mod helper;
#[cfg(target_os = "linux")]
mod kernel;
#[cfg(target_os = "linux")]
mod landlock;
mod limits;
#[cfg(target_os = "linux")]
mod namespaces;
mod obstacle;
mod policy;
mod probe;
mod protect;
#[cfg(target_os = "linux")]
mod rights;
#[cfg(target_os = "linux")]
mod seccomp;
#[cfg(target_os = "linux")]
mod supervise;
mod system;
mod view;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use super::Process;
use super::cgroup::Cgroup;
use super::environment::{is_found, set};
use super::group::Kept;
use crate::disk::TemporaryFolder;
pub use helper::{confine_this_process, main as helper_main};
pub use limits::{Limits, cap_memory_and_time, end_with_parent, hide_process};
pub use obstacle::Obstacle;
use policy::{Around, Files, Network, Policy};
pub use probe::{Detected, Report, attempt, detect, program_in};
pub use system::{DEVICES, system_folders, tool_folders, tool_folders_of};
use view::{MEMORY_FOLDERS, Plan, SHARED_MEMORY_BYTES};

/// The hidden command of the helper.
pub const HELPER_COMMAND: &str = "__confined";

/// Mechanism that separates a program from other files and processes. Landlock and the system call filter are beneath each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// Namespaces that the helper makes: a view of the file system and of processes that holds nothing else.
    Namespaces,
    /// Namespaces with such a view, made by the program `bwrap` at this path.
    Bwrap(PathBuf),
    /// Landlock and the filter alone; the program sees the files and processes that are there.
    Landlock,
}

impl Mechanism {
    /// Whether processes and files outside cannot even be named.
    #[must_use]
    pub fn is_apart(&self) -> bool {
        !matches!(self, Self::Landlock)
    }
}

/// Confinement of a program: what it may do. Besides that it may use the harmless devices, and write to a private temporary
/// folder that is made for it, is in `TMPDIR`, and is removed afterwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confinement {
    /// Rind's own binary, which knows [`HELPER_COMMAND`].
    pub helper: PathBuf,
    /// Mechanism that enforces it.
    pub mechanism: Mechanism,
    /// Folders and files that it may read, execute and change. Each must be there.
    pub write: Vec<PathBuf>,
    /// Folders and files that it may read and execute. Those that are not there do not count.
    pub read: Vec<PathBuf>,
    /// Whether it may open network sockets.
    pub network: bool,
    /// Resource limits.
    pub limits: Limits,
    /// Settings of git that it is given in place of the user's own file, in the form of that file.
    pub git_settings: String,
}

/// The confinement would allow something that must never be allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "commands would have access to {}, which overlaps {}, a folder of Rind's own; no command may read that", allowed.display(), own.display()
)]
pub struct Overlap {
    /// Path that the confinement allows.
    pub allowed: PathBuf,
    /// Path that it must not allow.
    pub own: PathBuf,
}

impl Confinement {
    /// Checks that nothing in `never`, nor anything within or around it, is allowed.
    ///
    /// # Errors
    /// The first pair that overlaps.
    pub fn check(&self, never: &[PathBuf]) -> Result<(), Overlap> {
        let mut allowed = self.write.iter().chain(&self.read);
        allowed.try_for_each(|allowed| check_apart(allowed, never))
    }

    /// Returns the size limit of its folders in memory together: `/dev/shm`, `/tmp` and its temporary folder.
    pub(super) fn folders_in_memory_bytes(&self) -> u64 {
        if !self.mechanism.is_apart() {
            return 0;
        }
        let temporary = self.limits.temporary_bytes.saturating_mul(2);
        temporary.saturating_add(SHARED_MEMORY_BYTES)
    }

    /// Returns the process that is really started.
    pub(super) fn wrap(&self, process: &Process) -> io::Result<Wrapped> {
        check_start(&self.helper, process)?;
        let temporary = temporary_folder(&self.git_settings)?;
        // The helper itself is run to try things out, and told what it has to do with.
        let tells = Path::new(&process.program) == self.helper;
        let memory_bytes = self
            .limits
            .memory_bytes
            .saturating_add(self.folders_in_memory_bytes());
        let cgroup = Cgroup::make(Some((&self.limits, memory_bytes)));
        let mut policy = self.policy(temporary.path(), process, tells);
        policy.cgroup = cgroup.as_ref().map(|group| group.path().to_owned());
        let mut args = vec![OsString::from(HELPER_COMMAND), policy.to_json()?.into()];
        args.extend(["--".into(), process.program.clone()]);
        args.extend(process.args.iter().cloned());
        let mut env = process.env.clone();
        keep_from_helper(&mut env);
        set(&mut env, "TMPDIR", temporary.path());
        // Tools that must have a cache fail where the usual one cannot be written.
        set(&mut env, "XDG_CACHE_HOME", temporary.path().join(CACHE));
        let git_settings = temporary.path().join(GIT_SETTINGS);
        set(&mut env, "GIT_CONFIG_GLOBAL", git_settings);
        Ok(Wrapped {
            program: self.helper.clone().into(),
            args,
            env,
            kept: Kept {
                n_keepers: policy.around.n_keepers(),
                temporary: Some(temporary),
                cgroup,
            },
        })
    }

    /// Policy for the helper. `tells`: see [`Policy`].
    fn policy(&self, temporary: &Path, process: &Process, tells: bool) -> Policy {
        let mut write = self.write.clone();
        write.push(temporary.to_owned());
        let is_apart = self.mechanism.is_apart();
        let mut read = self.read.clone();
        read.extend(tells.then(|| self.helper.clone()));
        read.extend(process.stdin.clone());
        let home = process.env.iter().find(|(name, _)| name == "HOME");
        let plan = Plan {
            write: &self.write,
            read: &read,
            temporary,
            temporary_bytes: self.limits.temporary_bytes,
            home: home.map(|(_, home)| Path::new(home)),
        };
        let around = match &self.mechanism {
            Mechanism::Landlock => Around::Nothing,
            Mechanism::Namespaces => Around::Namespaces {
                base: temporary.join(BASE),
                mounts: plan.mounts(),
            },
            Mechanism::Bwrap(bwrap) => Around::Program(bwrap::command(
                bwrap,
                &self.helper,
                &plan.mounts(),
                self.network,
            )),
        };
        if is_apart {
            write.extend(MEMORY_FOLDERS.iter().map(PathBuf::from));
        }
        Policy {
            around,
            files: Files { write, read },
            needs_landlock: !is_apart,
            cwd: process.cwd.clone(),
            stdin: process.stdin.clone(),
            network: match (self.network, is_apart) {
                (true, _) => Network::All,
                (false, true) => Network::Loopback,
                (false, false) => Network::Off,
            },
            // Within a view no socket of another program is to be seen, unless it shares the network.
            unix_sockets: is_apart && !self.network,
            limits: self.limits,
            cgroup: None,
            tells,
        }
    }
}

/// Descriptors that were handed to this process stay with it, and do not reach what it starts. Everything that Rust opens is
/// kept already.
///
/// # Errors
/// The kernel is older than Linux 5.11.
#[cfg(target_os = "linux")]
pub fn keep_descriptors() -> io::Result<()> {
    kernel::keep_descriptors()
}

/// Does nothing: only Linux supports it.
#[cfg(not(target_os = "linux"))]
pub fn keep_descriptors() -> io::Result<()> {
    Ok(())
}

/// A process that nothing confines, with the first stage of the helper around it: it collects what loses its parent.
pub(super) fn keep(helper: &Path, process: &Process) -> io::Result<Wrapped> {
    check_start(helper, process)?;
    let words = [HELPER_COMMAND, helper::KEEP].map(OsString::from);
    let mut args = words.to_vec();
    let stdin = process.stdin.clone().map(OsString::from);
    args.push(stdin.unwrap_or_default());
    let cgroup = Cgroup::make(None);
    let path = cgroup.as_ref().map(|group| group.path().into());
    args.push(path.unwrap_or_default());
    args.push(process.program.clone());
    args.extend(process.args.iter().cloned());
    Ok(Wrapped {
        program: helper.into(),
        args,
        env: process.env.clone(),
        kept: Kept {
            n_keepers: 1,
            temporary: None,
            cgroup,
        },
    })
}

/// Prefix of variables that are for the program and not for the helper.
const FOR_PROGRAM: &str = "RIND_FOR_PROGRAM_";

/// Renames variables that make the dynamic loader load code from given paths: the helper must not
/// run code that a command put there. The helper passes them to the program under their original
/// names.
fn keep_from_helper(env: &mut [(OsString, OsString)]) {
    for (name, _) in env {
        let bytes = name.as_encoded_bytes();
        if bytes.starts_with(b"LD_") || bytes == b"GLIBC_TUNABLES" || bytes == b"GCONV_PATH" {
            let mut renamed = OsString::from(FOR_PROGRAM);
            renamed.push(&*name);
            *name = renamed;
        }
    }
}

/// Refuses to start what the helper would find out too late: a program that is not there is an error, not an ending.
fn check_start(helper: &Path, process: &Process) -> io::Result<()> {
    if let Err(error) = helper.metadata() {
        let why = if error.kind() == io::ErrorKind::NotFound {
            "which no longer exists; restart rind".to_owned()
        } else {
            format!(
                "which cannot be reached ({error}); let this user read its folders, or move it to one"
            )
        };
        return Err(io::Error::other(format!(
            "it needs {}, {why}",
            helper.display()
        )));
    }
    if !is_found(&process.program, &process.env) {
        return Err(io::ErrorKind::NotFound.into());
    }
    Ok(())
}

/// Checks that nothing in `never` overlaps what is to be allowed. Links are followed.
///
/// # Errors
/// The first that does: Landlock only knows what is allowed, so nothing can be taken out of a folder again.
pub fn check_apart(allowed: &Path, never: &[PathBuf]) -> Result<(), Overlap> {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let real_allowed = real(allowed);
    let overlaps = |own: &&PathBuf| {
        let own = real(own);
        real_allowed.starts_with(&own) || own.starts_with(&real_allowed)
    };
    never.iter().find(overlaps).map_or(Ok(()), |own| {
        Err(Overlap {
            allowed: allowed.to_owned(),
            own: own.clone(),
        })
    })
}

/// A process that goes through the helper.
pub(super) struct Wrapped {
    pub(super) program: OsString,
    pub(super) args: Vec<OsString>,
    pub(super) env: Vec<(OsString, OsString)>,
    pub(super) kept: Kept,
}

/// Parts of a temporary folder: a folder for caches, one that a view is built in, and the settings of git.
const CACHE: &str = "cache";
const BASE: &str = "view";
const GIT_SETTINGS: &str = "gitconfig";

/// Begins the names of temporary folders.
const TEMPORARY_PREFIX: &str = "rind-command-";

fn temporary_folder(git_settings: &str) -> io::Result<TemporaryFolder> {
    let folder = TemporaryFolder::new(TEMPORARY_PREFIX)?;
    for name in [CACHE, BASE] {
        std::fs::create_dir(folder.path().join(name))?;
    }
    std::fs::write(folder.path().join(GIT_SETTINGS), git_settings)?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_rinds_own_is_allowed_from_above_or_from_within() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("home");
        let own = home.join(".config/rind");
        std::fs::create_dir_all(&own).unwrap();
        std::fs::create_dir_all(home.join("project")).unwrap();
        std::os::unix::fs::symlink(&home, folder.path().join("link")).unwrap();
        let check = |write: &Path, read: &Path| {
            let confinement = Confinement {
                helper: PathBuf::new(),
                mechanism: Mechanism::Landlock,
                write: vec![write.to_owned()],
                read: vec![read.to_owned()],
                network: false,
                limits: Limits::default(),
                git_settings: String::new(),
            };
            confinement.check(std::slice::from_ref(&own)).is_ok()
        };
        let project = home.join("project");
        assert!(check(&project, Path::new("/usr")));
        assert!(!check(&home, Path::new("/usr")));
        assert!(!check(&folder.path().join("link"), Path::new("/usr")));
        assert!(!check(&project, &own));
        assert!(!check(&project, &own.join("plugins")));
        assert!(!check(&project, &home.join(".config")));
        assert!(check(&project, &home.join(".config/git")));
    }
}
