//! What the helper is told: one argument of JSON.
//!
//! Both ends are the same binary, so there is no version in it.

use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::probe::Report;

/// What holds from now on.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Policy {
    /// The files that may be touched; none when somebody else sees to that.
    pub(super) files: Option<Files>,
    /// Whether network sockets may be opened.
    pub(super) network: bool,
    /// Whether Unix sockets may be opened where Landlock cannot tell whose they are.
    pub(super) unix_sockets: bool,
    /// In place of a program: the helper itself, to try what must not work.
    pub(super) trial: Option<Trial>,
}

/// Files that may be touched.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Files {
    pub(super) write: Vec<PathBuf>,
    pub(super) read: Vec<PathBuf>,
}

/// What is tried.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Trial {
    /// The helper.
    pub(super) helper: PathBuf,
    /// A folder that must be out of reach, with a file `canary` in it.
    pub(super) forbidden: PathBuf,
    /// A folder that must be writable.
    pub(super) allowed: PathBuf,
    /// Process whose memory and environment must be out of reach.
    pub(super) host: u32,
    /// Whether the network is within reach.
    pub(super) network: bool,
    /// What the kernel took over, filled in by the helper.
    pub(super) report: Report,
}

impl Policy {
    pub(super) fn to_json(&self) -> io::Result<String> {
        // Fails for paths that are not UTF-8.
        serde_json::to_string(self).map_err(io::Error::other)
    }
}
