//! Instructions for the helper: one argument of JSON.
//!
//! Both ends are the same binary, so there is no version in it.

use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::limits::Limits;
use super::probe::Report;
use super::view::Mount;

/// Restrictions of a confined process.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Policy {
    /// Mechanism that separates the program from other processes and hides other files.
    pub(super) around: Around,
    pub(super) files: Files,
    /// Whether it must not start where Landlock cannot keep it to these files.
    pub(super) needs_landlock: bool,
    pub(super) cwd: PathBuf,
    /// Standard input of the program; `None`: an empty one.
    pub(super) stdin: Option<PathBuf>,
    pub(super) network: Network,
    /// Whether Unix sockets may be opened where Landlock cannot tell whose they are.
    pub(super) unix_sockets: bool,
    pub(super) limits: Limits,
    /// Control group of the program and its second stage.
    pub(super) cgroup: Option<PathBuf>,
    /// Whether the program receives, in one more argument, what the kernel enforces.
    pub(super) tells: bool,
}

/// Network sockets that the program may open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Network {
    Off,
    /// Sockets of its own network namespace, which has only loopback.
    Loopback,
    All,
}

/// Surroundings of a confined program.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Around {
    /// No namespaces: it shares processes, IPC and the names of files with the user's other programs.
    Nothing,
    /// Namespaces of the helper's own, with this view of the file system.
    Namespaces {
        /// An empty folder, which is hidden.
        base: PathBuf,
        mounts: Vec<Mount>,
    },
    /// Namespaces and a view that this command line makes.
    Program(Vec<String>),
}

impl Around {
    /// Number of processes between the host and the program that must outlive it.
    pub(super) fn n_keepers(&self) -> usize {
        match self {
            Self::Nothing => 1,
            Self::Namespaces { .. } => 2,
            Self::Program(_) => 3,
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Files {
    pub(super) write: Vec<PathBuf>,
    pub(super) read: Vec<PathBuf>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Trial {
    /// A folder that must be out of reach, with a file `canary` in it.
    pub(super) forbidden: PathBuf,
    /// Process whose memory and environment must be out of reach.
    pub(super) host: u32,
    /// Whether the network is within reach.
    pub(super) network: bool,
    /// Port on 127.0.0.1 on which the host listens during the trial; 0: it cannot listen.
    pub(super) host_port: u16,
    /// Name of an abstract Unix socket on which the host listens during the trial.
    pub(super) host_socket: String,
    /// Whether other processes and files cannot even be named.
    pub(super) is_apart: bool,
    /// Most processes that it may have.
    pub(super) processes: u64,
    /// Whether a control group limits them.
    pub(super) is_counted: bool,
    /// Restrictions that the kernel enforces, filled in by the helper.
    #[serde(default)]
    pub(super) report: Report,
}

impl Policy {
    pub(super) fn to_json(&self) -> io::Result<String> {
        // Fails for paths that are not UTF-8.
        serde_json::to_string(self).map_err(io::Error::other)
    }
}
