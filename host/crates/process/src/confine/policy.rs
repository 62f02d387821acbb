//! Defines the policies that the helper receives as a JSON argument.
//!
//! Sender and receiver are the same binary, so the format has no version. [`ConfinementRules`]
//! confines a command; [`ConfinementTrialRequest`] tests a confinement.

use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::limits::Limits;
use super::probe::ConfinementReport;
use super::view::FileViewMount;

/// Restrictions that the helper applies to a program before starting it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ConfinementRules {
    /// Isolation by namespaces: which other processes and files the program can see.
    pub(super) around: NamespaceIsolation,
    pub(super) files: ConfinedFileAccess,
    /// Whether the program starts only if Landlock can enforce the file rules.
    pub(super) needs_landlock: bool,
    pub(super) cwd: PathBuf,
    /// Path from which the program's standard input is read; `None` means empty input.
    pub(super) stdin: Option<PathBuf>,
    pub(super) network: SocketAccess,
    /// Whether the program may use Unix sockets even if Landlock cannot restrict it to the sockets
    /// in its own directories.
    pub(super) unix_sockets: bool,
    pub(super) limits: Limits,
    /// Control group that the helper's second stage and the program join.
    pub(super) cgroup: Option<PathBuf>,
    /// Whether the helper appends one more argument for the program: its report on the restrictions
    /// in force, as JSON.
    pub(super) tells: bool,
}

/// Network sockets that the program may open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum SocketAccess {
    Off,
    /// Sockets in the program's own network namespace, which has only loopback.
    Loopback,
    All,
}

/// Isolation of a confined program from other processes and files.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum NamespaceIsolation {
    /// No namespaces: the program sees the same processes, IPC objects and paths as the user's
    /// other programs.
    Nothing,
    /// Namespaces created by the helper, with this view of the file system.
    Namespaces {
        /// Empty directory on which the view is mounted before it becomes the root.
        base: PathBuf,
        mounts: Vec<FileViewMount>,
    },
    /// Beginning of the command line of a program such as `bwrap`, which creates the namespaces and
    /// the view and then runs the helper.
    Program(Vec<String>),
}

impl NamespaceIsolation {
    /// Number of helper processes between the host and the program, which must outlive the program.
    pub(super) fn n_helper_processes(&self) -> usize {
        match self {
            Self::Nothing => 1,
            Self::Namespaces { .. } => 2,
            Self::Program(_) => 3,
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ConfinedFileAccess {
    pub(super) write: Vec<PathBuf>,
    pub(super) read: Vec<PathBuf>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ConfinementTrialRequest {
    /// Directory that the confined trial process must not be able to access. It contains a file
    /// `canary`.
    pub(super) forbidden: PathBuf,
    /// Id of the host process, whose memory and environment must be inaccessible.
    pub(super) host: u32,
    /// Whether the tried confinement allows network access.
    pub(super) network: bool,
    /// Port on 127.0.0.1 on which the host listens during the trial; 0 if it cannot listen.
    pub(super) host_port: u16,
    /// Name of an abstract Unix socket on which the host listens during the trial.
    pub(super) host_socket: String,
    /// Whether the trial expects that the program cannot see other processes and files.
    pub(super) is_apart: bool,
    /// Maximum number of processes that the tried confinement allows.
    pub(super) processes: u64,
    /// Whether a control group can enforce the maximum in `processes`.
    pub(super) is_counted: bool,
    /// Report on the restrictions in force, filled in by the helper.
    #[serde(default)]
    pub(super) report: ConfinementReport,
}

impl ConfinementRules {
    pub(super) fn to_json(&self) -> io::Result<String> {
        // Serializing fails if a path is not UTF-8.
        serde_json::to_string(self).map_err(io::Error::other)
    }
}
