//! Whether the commands of `bash` run confined: what the operator wants, and what comes of what the machine can do.
//!
//! Pure: what the machine can do is found out by `process::confine`, and the paths are made whole by whoever reads the
//! settings. Start from [`commands`].

use serde::{Deserialize, Serialize};

use super::builtin::Commands;
use super::process::confine::Detected;
use crate::config::Section;

/// Whether commands must run confined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Need {
    /// They run confined or not at all.
    Required,
    /// They run confined where the machine can do it; elsewhere it is said that they are not.
    #[default]
    WhenPossible,
    /// They run with all rights of the user.
    Off,
}

/// The section `[sandbox]`. A path may begin with `~/`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SandboxConfig {
    /// Whether the commands of `bash` must run confined. Default: when-possible.
    pub bash: Need,
    /// Whether they may open network connections. Default: no.
    pub network: bool,
    /// Folders and files that they may read besides the workspace, the system and the usual tools.
    pub read: Vec<String>,
    /// Folders and files that they may change besides the workspace. They must be there.
    pub write: Vec<String>,
}

impl Section for SandboxConfig {
    const NAME: &'static str = "sandbox";
}

/// How commands run, from what is wanted and what was [found out](crate::tool::process::confine::detect).
#[must_use]
pub fn commands(need: Need, detected: &Result<Detected, String>) -> Commands {
    match (need, detected) {
        (Need::Off, _) => Commands::Free,
        (_, Ok(detected)) => Commands::Confined(detected.confinement.clone()),
        (Need::WhenPossible, Err(why)) => Commands::Unconfined(why.clone()),
        (Need::Required, Err(why)) => Commands::Refused(why.clone()),
    }
}
