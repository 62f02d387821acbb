//! Confines programs by means of the kernel: restricts the files, network, processes and resources
//! that a program and its descendants may use.
//!
//! A confined program is started through a helper, which is Rind's own binary with a hidden
//! command. The helper creates namespaces (or has `bwrap` create them) in which the program sees no
//! processes and files but its own and the allowed ones. Inside the namespaces, the helper
//! restricts itself with Landlock, a seccomp filter and resource limits before it starts the
//! program. The helper keeps running until no descendant of the program is left, and kills all
//! descendants if the host exits. No code runs between fork and exec in a process with threads.
//!
//! If a machine does not support namespaces, only Landlock and a stricter seccomp filter are used.
//! This confinement is weaker: it cannot hide the existence, size and times of files elsewhere; it
//! cannot protect the permissions and times of the user's files; and it cannot protect a part of
//! the workspace, such as the settings and hooks of its repository. A command of root can also read
//! files below `/etc` that only root may read.
//!
//! No code here falls back to running a program unconfined: a failure is returned as an error, see
//! [`ConfinementFailureReason`].
//!
//! This module must not depend on the program that runs, nor on the location of Rind's files. Start
//! from [`ConfinementPermissions`]; [`detect_confinement`] finds the mechanism to use on this
//! machine.

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

use super::ProcessSpec;
use super::cgroup::ProcessCgroup;
use super::environment::{is_program_in_path, set_environment_variable};
use super::group::ProcessTreeOwnedResources;
pub use helper::{confine_this_process, main as helper_main};
pub use limits::{Limits, deny_process_inspection, die_with_parent, limit_memory_and_cpu};
pub use obstacle::ConfinementFailureReason;
use policy::{ConfinedFileAccess, ConfinementRules, NamespaceIsolation, SocketAccess};
pub use probe::{
    ConfinementReport, DetectedConfinement, detect_confinement, find_program_in_folders,
    test_confinement,
};
use rind_base::beneath::real_path;
use rind_base::disk::TemporaryFolder;
pub use system::{
    SAFE_DEVICE_PATHS, list_tool_folders_in_home, list_toolchain_folders_in_env,
    readable_system_paths,
};
use view::{FileViewMountPlan, IN_MEMORY_FOLDERS, MAX_DEV_SHM_BYTES};

/// Hidden subcommand of Rind's binary that sets up the confinement and starts the program.
pub const HIDDEN_HELPER_SUBCOMMAND: &str = "__confined";

/// Mechanism that separates a program from other files and processes. Landlock and the seccomp
/// filter are used in addition to each mechanism.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfinementMechanism {
    /// Namespaces created by the helper, in which only the allowed files and the program's own
    /// processes are visible.
    Namespaces,
    /// Namespaces with the same view, created by the program `bwrap` at this path.
    Bwrap(PathBuf),
    /// Landlock and the seccomp filter only; the program can still see files and processes that it
    /// may not access.
    Landlock,
}

impl ConfinementMechanism {
    /// Whether files and processes outside of the confinement are invisible.
    #[must_use]
    pub fn hides_outside_files_and_processes(&self) -> bool {
        !matches!(self, Self::Landlock)
    }
}

/// Permissions of a confined program.
///
/// In addition to these, the program may use [harmless devices](SAFE_DEVICE_PATHS), and write to a
/// private temporary directory. That directory is created for the program, named by its variable
/// `TMPDIR`, and removed afterwards. Before using a confinement, call
/// [`ConfinementPermissions::check_forbidden_path_overlaps`] with Rind's own directories, and
/// [`detect_confinement`] to choose the mechanism.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfinementPermissions {
    /// Rind's own binary, which implements [`HIDDEN_HELPER_SUBCOMMAND`].
    pub helper: PathBuf,
    /// Mechanism of the operating system that enforces the confinement.
    pub mechanism: ConfinementMechanism,
    /// Directories and files that the program may read, execute and change. Each path must exist.
    pub write: Vec<PathBuf>,
    /// Directories and files that the program may read and execute. Missing paths are ignored.
    pub read: Vec<PathBuf>,
    /// Canonical directories inside `write` that the program must not see. Only a mechanism that
    /// [hides other files](ConfinementMechanism::hides_outside_files_and_processes) can hide them.
    pub hidden: Vec<PathBuf>,
    /// Whether the program may open network sockets.
    pub network: bool,
    /// Resource limits of the program and of all processes that it starts.
    pub limits: Limits,
    /// Content of the git configuration file that replaces the user's own during the command.
    pub git_settings: String,
    /// Directory of Rind in which the state of repositories before each command is recorded; if
    /// `None`, nothing is recorded. If Rind is killed while a command runs, the next start of Rind
    /// uses the record to find files that the command created for git to use.
    pub records: Option<PathBuf>,
}

/// Error: a confinement would allow access to a forbidden path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "commands would have access to {}, which overlaps {}, a folder of Rind's own that no command may read", allowed.display(), own.display()
)]
pub struct ForbiddenPathOverlapError {
    /// Path to which the confinement would have given access.
    pub allowed: PathBuf,
    /// Forbidden path, such as a folder of Rind, that overlaps with `allowed`.
    pub own: PathBuf,
}

impl ConfinementPermissions {
    /// Checks that no allowed path equals, contains or is inside a path in `never`. As an
    /// exception, a writable path may contain the paths in `hidden`.
    ///
    /// # Errors
    /// Returns the first pair of overlapping paths.
    pub fn check_forbidden_path_overlaps(
        &self,
        never: &[PathBuf],
    ) -> Result<(), ForbiddenPathOverlapError> {
        let is_shown = |own: &&PathBuf| !self.hidden.contains(&real_path(own));
        let shown: Vec<PathBuf> = never.iter().filter(is_shown).cloned().collect();
        let mut read = self.read.iter();
        read.try_for_each(|allowed| check_paths_do_not_overlap(allowed, never))?;
        self.write.iter().try_for_each(|allowed| {
            check_paths_do_not_overlap(allowed, &shown)?;
            let real = real_path(allowed);
            let within = never.iter().find(|own| real.starts_with(real_path(own)));
            within.map_or(Ok(()), |own| {
                Err(ForbiddenPathOverlapError {
                    allowed: allowed.clone(),
                    own: own.clone(),
                })
            })
        })
    }

    /// Returns the combined size limit in bytes of the in-memory directories: `/dev/shm`, `/tmp`
    /// and the temporary directory.
    pub(super) fn max_in_memory_folder_bytes(&self) -> u64 {
        if !self.mechanism.hides_outside_files_and_processes() {
            return 0;
        }
        let temporary = self.limits.temporary_bytes.saturating_mul(2);
        temporary.saturating_add(MAX_DEV_SHM_BYTES)
    }

    /// Returns the command line of the helper, which the host starts instead of the program. The
    /// helper confines itself and then starts the program.
    pub(super) fn wrap_in_confinement_helper(
        &self,
        process: &ProcessSpec,
    ) -> io::Result<ConfinementHelperCommand> {
        check_programs_exist(&self.helper, process)?;
        let temporary = create_confinement_folder(&self.git_settings)?;
        // In a trial, the confined program is the helper itself, which receives the report as an
        // argument. If the same binary is called without the helper's command, it is an ordinary
        // program, such as an MCP server of Rind.
        let is_trial = process
            .args
            .first()
            .is_some_and(|word| word == HIDDEN_HELPER_SUBCOMMAND);
        let tells = is_trial && Path::new(&process.program) == self.helper;
        let memory_bytes = self
            .limits
            .memory_bytes
            .saturating_add(self.max_in_memory_folder_bytes());
        let cgroup = ProcessCgroup::create_cgroup(Some((&self.limits, memory_bytes)));
        let mut policy = self.build_confinement_rules(temporary.path(), process, tells);
        policy.cgroup = cgroup.as_ref().map(|group| group.path().to_owned());
        let mut args = vec![
            OsString::from(HIDDEN_HELPER_SUBCOMMAND),
            policy.to_json()?.into(),
        ];
        args.extend(["--".into(), process.program.clone()]);
        args.extend(process.args.iter().cloned());
        let mut env = process.env.clone();
        rename_dynamic_loader_variables(&mut env);
        set_environment_variable(&mut env, "TMPDIR", temporary.path());
        // Some tools need a cache directory and fail if the usual one is read-only.
        set_environment_variable(
            &mut env,
            "XDG_CACHE_HOME",
            temporary.path().join(CACHE_FOLDER_NAME),
        );
        let git_settings = temporary.path().join(GIT_CONFIG_FILE_NAME);
        set_environment_variable(&mut env, "GIT_CONFIG_GLOBAL", git_settings);
        Ok(ConfinementHelperCommand {
            program: self.helper.clone().into(),
            args,
            env,
            kept: ProcessTreeOwnedResources {
                n_keepers: policy.around.n_helper_processes(),
                temporary: Some(temporary),
                cgroup,
            },
        })
    }

    /// Builds the policy for the helper. `tells` is the value of [`ConfinementRules::tells`].
    fn build_confinement_rules(
        &self,
        temporary: &Path,
        process: &ProcessSpec,
        tells: bool,
    ) -> ConfinementRules {
        let mut write = self.write.clone();
        write.push(temporary.to_owned());
        let is_apart = self.mechanism.hides_outside_files_and_processes();
        let mut read = self.read.clone();
        read.extend(tells.then(|| self.helper.clone()));
        read.extend(process.stdin.clone());
        let home = process.env.iter().find(|(name, _)| name == "HOME");
        let plan = FileViewMountPlan {
            write: &self.write,
            read: &read,
            hidden: &self.hidden,
            temporary,
            temporary_bytes: self.limits.temporary_bytes,
            home: home.map(|(_, home)| Path::new(home)),
        };
        let around = match &self.mechanism {
            ConfinementMechanism::Landlock => NamespaceIsolation::Nothing,
            ConfinementMechanism::Namespaces => NamespaceIsolation::Namespaces {
                base: temporary.join(NEW_ROOT_MOUNT_POINT_NAME),
                mounts: plan.plan_mounts(),
            },
            ConfinementMechanism::Bwrap(bwrap) => NamespaceIsolation::Program(
                bwrap::bwrap_command(bwrap, &self.helper, &plan.plan_mounts(), self.network),
            ),
        };
        if is_apart {
            write.extend(IN_MEMORY_FOLDERS.iter().map(PathBuf::from));
        }
        ConfinementRules {
            around,
            files: ConfinedFileAccess { write, read },
            needs_landlock: !is_apart,
            cwd: process.cwd.clone(),
            stdin: process.stdin.clone(),
            network: match (self.network, is_apart) {
                (true, _) => SocketAccess::All,
                (false, true) => SocketAccess::Loopback,
                (false, false) => SocketAccess::Off,
            },
            // If Landlock cannot restrict Unix sockets, allow them only where the program cannot
            // reach those of other programs: in a view that does not share the network, because
            // abstract sockets belong to the network.
            unix_sockets: is_apart && !self.network,
            limits: self.limits,
            cgroup: None,
            tells,
        }
    }
}

/// Makes all descriptors that this process inherited close-on-exec, so that the processes it starts
/// do not inherit them. Descriptors that Rust opened are close-on-exec already.
///
/// # Errors
/// The kernel is older than Linux 5.11.
#[cfg(target_os = "linux")]
pub fn set_close_on_exec_on_all_fds() -> io::Result<()> {
    kernel::set_close_on_exec_on_all_fds()
}

/// Does nothing: descriptors can be made close-on-exec in this way on Linux only.
#[cfg(not(target_os = "linux"))]
pub fn set_close_on_exec_on_all_fds() -> io::Result<()> {
    Ok(())
}

/// Returns the command line of the helper for an unconfined process. The first stage of the helper
/// starts the process and reaps orphaned descendants.
pub(super) fn wrap_in_helper_without_confinement(
    helper: &Path,
    process: &ProcessSpec,
) -> io::Result<ConfinementHelperCommand> {
    check_programs_exist(helper, process)?;
    let words = [HIDDEN_HELPER_SUBCOMMAND, helper::RUN_UNCONFINED_ARGUMENT].map(OsString::from);
    let mut args = words.to_vec();
    let stdin = process.stdin.clone().map(OsString::from);
    args.push(stdin.unwrap_or_default());
    let cgroup = ProcessCgroup::create_cgroup(None);
    let path = cgroup.as_ref().map(|group| group.path().into());
    args.push(path.unwrap_or_default());
    args.push(process.program.clone());
    args.extend(process.args.iter().cloned());
    Ok(ConfinementHelperCommand {
        program: helper.into(),
        args,
        env: process.env.clone(),
        kept: ProcessTreeOwnedResources {
            n_keepers: 1,
            temporary: None,
            cgroup,
        },
    })
}

/// Prefix for the names of environment variables that apply to the program but not to the helper.
const RENAMED_LOADER_VARIABLE_PREFIX: &str = "RIND_FOR_PROGRAM_";

/// Renames environment variables that make the dynamic loader load code from other paths, because
/// the helper must not run code that a command wrote to such a path. The helper passes the
/// variables to the program under their original names.
fn rename_dynamic_loader_variables(env: &mut [(OsString, OsString)]) {
    for (name, _) in env {
        let bytes = name.as_encoded_bytes();
        if bytes.starts_with(b"LD_") || bytes == b"GLIBC_TUNABLES" || bytes == b"GCONV_PATH" {
            let mut renamed = OsString::from(RENAMED_LOADER_VARIABLE_PREFIX);
            renamed.push(&*name);
            *name = renamed;
        }
    }
}

/// Returns an error if the helper or the program is missing. Otherwise only the helper would notice
/// that the program is missing, and could report it only by its exit code.
fn check_programs_exist(helper: &Path, process: &ProcessSpec) -> io::Result<()> {
    if let Err(error) = helper.metadata() {
        let why = if error.kind() == io::ErrorKind::NotFound {
            "which no longer exists; restart rind".to_owned()
        } else {
            format!(
                "which cannot be accessed ({error}); let this user read the folders above it, or move it to a folder that this user can read"
            )
        };
        return Err(io::Error::other(format!(
            "it needs {}, {why}",
            helper.display()
        )));
    }
    if !is_program_in_path(&process.program, &process.env) {
        return Err(io::ErrorKind::NotFound.into());
    }
    Ok(())
}

/// Checks that no path in `never` overlaps the path `allowed`. Symlinks are followed.
///
/// # Errors
/// Returns the overlapping pair. Landlock rules can only add permissions, so they cannot exclude a
/// forbidden path inside an allowed directory.
pub fn check_paths_do_not_overlap(
    allowed: &Path,
    never: &[PathBuf],
) -> Result<(), ForbiddenPathOverlapError> {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let real_allowed = real(allowed);
    let overlaps = |own: &&PathBuf| {
        let own = real(own);
        real_allowed.starts_with(&own) || own.starts_with(&real_allowed)
    };
    never.iter().find(overlaps).map_or(Ok(()), |own| {
        Err(ForbiddenPathOverlapError {
            allowed: allowed.to_owned(),
            own: own.clone(),
        })
    })
}

/// Command line of the helper process that is started in place of the program to confine.
pub(super) struct ConfinementHelperCommand {
    pub(super) program: OsString,
    pub(super) args: Vec<OsString>,
    pub(super) env: Vec<(OsString, OsString)>,
    pub(super) kept: ProcessTreeOwnedResources,
}

/// Names in the temporary directory: a cache directory, the mount point of the view, and the git
/// configuration file.
const CACHE_FOLDER_NAME: &str = "cache";
const NEW_ROOT_MOUNT_POINT_NAME: &str = "view";
const GIT_CONFIG_FILE_NAME: &str = "gitconfig";

/// Prefix of the names of the commands' temporary directories.
const TEMPORARY_FOLDER_NAME_PREFIX: &str = "rind-command-";

fn create_confinement_folder(git_settings: &str) -> io::Result<TemporaryFolder> {
    let folder = TemporaryFolder::new(TEMPORARY_FOLDER_NAME_PREFIX)?;
    for name in [CACHE_FOLDER_NAME, NEW_ROOT_MOUNT_POINT_NAME] {
        std::fs::create_dir(folder.path().join(name))?;
    }
    std::fs::write(folder.path().join(GIT_CONFIG_FILE_NAME), git_settings)?;
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
            let confinement = ConfinementPermissions {
                helper: PathBuf::new(),
                mechanism: ConfinementMechanism::Landlock,
                write: vec![write.to_owned()],
                read: vec![read.to_owned()],
                hidden: Vec::new(),
                network: false,
                limits: Limits::default(),
                git_settings: String::new(),
                records: None,
            };
            confinement
                .check_forbidden_path_overlaps(std::slice::from_ref(&own))
                .is_ok()
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
