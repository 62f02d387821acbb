//! Plugins that were found but do not run, with the reasons.

use std::path::PathBuf;

use super::PluginWithPermissionDecision;
use crate::grant::decide::GrantStatus;
use crate::plugin::Error;
use crate::plugin::discover::FoundPlugin;
use crate::plugin::relied::PluginNeededReason;

/// Plugin that was found but does not run.
#[derive(Debug)]
pub struct SkippedPlugin {
    /// Name of the plugin, or of its folder if the manifest could not be read.
    pub name: String,
    /// Folder and trust with which the plugin was found.
    pub found: FoundPlugin,
    /// Reason why the plugin does not run.
    pub why: PluginSkipReason,
    /// Reason why no session may start without the plugin; `None` if sessions may start.
    pub reliance: Option<PluginNeededReason>,
    /// Whether a failure of one of the plugin's hooks may block the agent; true if the manifest
    /// could not be read.
    pub(in crate::plugin) may_block: bool,
}

impl SkippedPlugin {
    pub(in crate::plugin) fn new(
        name: String,
        found: FoundPlugin,
        why: PluginSkipReason,
        may_block: bool,
    ) -> Self {
        Self {
            name,
            found,
            why,
            reliance: None,
            may_block,
        }
    }
}

/// Reason why a plugin does not run.
#[derive(Debug)]
pub enum PluginSkipReason {
    /// Loading of the plugin failed with this error.
    Failed(Error),
    /// Another plugin, which is more trusted or found earlier, has the same name.
    Shadowed {
        /// Folder of the other plugin, which is used instead.
        by: PathBuf,
    },
    /// The operator's settings disable the plugin.
    Disabled {
        /// Location of the setting: `FILE:LINE` or the flag.
        place: String,
    },
    /// The operator excluded the plugin from this run with a flag.
    Without,
    /// A policy disables the plugin.
    Disallowed {
        /// Path of the policy file, and position in it of the entry that disables the plugin.
        place: String,
    },
    /// The plugin needs permissions that only the operator can grant, and they were not granted.
    /// The decision in the contained plugin lists the missing permissions.
    Held(Box<PluginWithPermissionDecision>),
}

impl std::fmt::Display for PluginSkipReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Failed(error) => error.fmt(f),
            Self::Shadowed { by } => write!(f, "shadowed by {}", by.display()),
            Self::Disabled { place } | Self::Disallowed { place } => {
                write!(f, "switched off by {place}")
            }
            Self::Without => f.write_str("switched off by --without"),
            Self::Held(plugin) => {
                let waiting = plugin
                    .decision
                    .capabilities_with_status(GrantStatus::Waiting);
                let waiting: Vec<String> = waiting.map(ToString::to_string).collect();
                write!(
                    f,
                    "it needs permissions that you have not granted: {}",
                    waiting.join(", ")
                )
            }
        }
    }
}
