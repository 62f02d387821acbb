//! Programs confined by the kernel: what they may write, read and reach, for themselves and everything they start.
//!
//! A confined program is started through a helper, which is Rind's own binary under a hidden command: it restricts itself
//! with Landlock, a seccomp filter and resource limits, and then becomes the program. Nothing runs between fork and exec of
//! a process with threads, and the process id stays the same. Where the kernel has no Landlock, `bwrap` hides the files and
//! the helper does the rest.
//!
//! What Landlock cannot do: existence, size and times of files elsewhere stay visible, and permissions and times of files
//! that belong to the user can be changed. A workspace's own `.git` can be written like the rest of it. Below `/etc` a command of
//! root reads what only root may.
//!
//! It must not know what is run, nor where Rind keeps its files. Start from [`Confinement`]; [`detect`] says what the
//! machine can do.

mod bwrap;
mod helper;
#[cfg(target_os = "linux")]
mod landlock;
mod limits;
mod policy;
mod probe;
#[cfg(target_os = "linux")]
mod rights;
#[cfg(target_os = "linux")]
mod seccomp;
mod system;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::Process;
use super::environment::is_found;
pub use helper::{confine_this_process, main as helper_main};
pub use limits::{cap_memory_and_time, end_with_parent, hide_process};
use policy::{Files, Policy, Trial};
pub use probe::{Detected, Report, attempt, bwrap_in, detect};
pub use system::{DEVICES, system_folders, tool_folders};

/// The hidden command of the helper.
pub const HELPER_COMMAND: &str = "__confined";

/// What keeps a program to its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// The kernel's own rules; the program sees the files that are there.
    Landlock,
    /// A view of the file system that holds nothing else, made by the program `bwrap` at this path.
    Bwrap(PathBuf),
}

/// What a confined program may do. Besides that it may use the harmless devices, and write to a private temporary folder
/// that is made for it, is in `TMPDIR`, and is removed afterwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confinement {
    /// Rind's own binary, which knows [`HELPER_COMMAND`].
    pub helper: PathBuf,
    /// How it is done.
    pub mechanism: Mechanism,
    /// Folders and files that it may read, execute and change. Each must be there.
    pub write: Vec<PathBuf>,
    /// Folders and files that it may read and execute. Those that are not there do not count.
    pub read: Vec<PathBuf>,
    /// Whether it may open network sockets.
    pub network: bool,
}

/// Something that a confined program would be allowed although it must never be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "commands would be allowed {}, which overlaps {}, a folder of Rind's own; no command may see what is in there", allowed.display(), own.display()
)]
pub struct Overlap {
    /// What the confinement allows.
    pub allowed: PathBuf,
    /// What it must not.
    pub own: PathBuf,
}

impl Confinement {
    /// That nothing in `never`, nor anything within or around it, is allowed.
    ///
    /// # Errors
    /// The first pair that overlaps.
    pub fn check(&self, never: &[PathBuf]) -> Result<(), Overlap> {
        let mut allowed = self.write.iter().chain(&self.read);
        allowed.try_for_each(|allowed| check_apart(allowed, never))
    }

    /// The process as it is really started.
    pub(super) fn wrap(&self, process: &Process) -> io::Result<Wrapped> {
        if !self.helper.is_file() {
            let text = format!(
                "its confinement needs {}, which is not there any more; start rind again",
                self.helper.display()
            );
            return Err(io::Error::other(text));
        }
        // The helper would find out too late: a program that is not there is an error, not an ending.
        if !is_found(&process.program, &process.env) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let temporary = temporary_folder()?;
        let mut program = vec![OsString::from("--"), process.program.clone()];
        program.extend(process.args.iter().cloned());
        let command = self.command(temporary.path(), &process.cwd, None, program)?;
        let mut env = process.env.clone();
        env.retain(|(name, _)| name != "TMPDIR" && name != "XDG_CACHE_HOME");
        env.push(("TMPDIR".into(), temporary.path().into()));
        // Tools that must have a cache fail where the usual one cannot be written.
        env.push((
            "XDG_CACHE_HOME".into(),
            temporary.path().join("cache").into(),
        ));
        let mut command = command.into_iter();
        Ok(Wrapped {
            program: command.next().unwrap_or_default(),
            args: command.collect(),
            env,
            temporary,
        })
    }

    /// The whole command line that confines what comes in `rest`.
    fn command(
        &self,
        temporary: &Path,
        cwd: &Path,
        trial: Option<Trial>,
        rest: Vec<OsString>,
    ) -> io::Result<Vec<OsString>> {
        let mut write = self.write.clone();
        write.push(temporary.to_owned());
        let mut read = self.read.clone();
        read.extend(trial.is_some().then(|| self.helper.clone()));
        let files = match self.mechanism {
            Mechanism::Landlock => Some(Files {
                write: write.clone(),
                read: read.clone(),
            }),
            Mechanism::Bwrap(_) => None,
        };
        let policy = Policy {
            files,
            network: self.network,
            // Within `bwrap` no socket of another program is to be seen, unless it shares the network.
            unix_sockets: matches!(self.mechanism, Mechanism::Bwrap(_)) && !self.network,
            trial,
        };
        let mut command = match &self.mechanism {
            Mechanism::Landlock => Vec::new(),
            Mechanism::Bwrap(bwrap) => {
                bwrap::command(bwrap, &self.helper, &write, &read, self.network, cwd)
            }
        };
        command.push(self.helper.clone().into());
        command.push(HELPER_COMMAND.into());
        command.push(policy.to_json()?.into());
        command.extend(rest);
        Ok(command)
    }
}

/// That nothing in `never` overlaps what is to be allowed. Links are followed.
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
    /// Removed when dropped, which must wait until nobody writes there any more.
    pub(super) temporary: TempDir,
}

fn temporary_folder() -> io::Result<TempDir> {
    let folder = tempfile::Builder::new().prefix("rind-").tempdir()?;
    std::fs::create_dir(folder.path().join("cache"))?;
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
