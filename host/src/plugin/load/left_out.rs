//! Plugins that were found and do not run.

use std::path::PathBuf;

use super::DecidedPlugin;
use crate::grant::decide::Standing;
use crate::plugin::Error;
use crate::plugin::discover::Found;
use crate::plugin::relied::Reliance;

/// A plugin that was found and does not run.
#[derive(Debug)]
pub struct LeftOut {
    /// Name, or the folder when the manifest could not be read.
    pub name: String,
    /// Place where it was found.
    pub found: Found,
    /// Reason why it does not run.
    pub why: Why,
    /// Reason why no session begins without it; `None` when one does.
    pub reliance: Option<Reliance>,
    /// Whether one of its hooks refuses when it fails, if that can be known.
    pub(in crate::plugin) may_block: bool,
}

impl LeftOut {
    pub(in crate::plugin) fn new(name: String, found: Found, why: Why, may_block: bool) -> Self {
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
pub enum Why {
    /// Loading failed.
    Failed(Error),
    /// A more trusted plugin has its name.
    Shadowed {
        /// Folder of that plugin.
        by: PathBuf,
    },
    /// The operator switched it off.
    Disabled {
        /// Place: `FILE:LINE` or the flag.
        place: String,
    },
    /// The operator left it out of this run.
    Without,
    /// A policy leaves it out.
    Disallowed {
        /// Policy file, and the position in it.
        place: String,
    },
    /// The plugin needs permissions that only the operator can grant, and they were not granted.
    /// Its decision lists the missing permissions.
    Held(Box<DecidedPlugin>),
}

impl std::fmt::Display for Why {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Failed(error) => error.fmt(f),
            Self::Shadowed { by } => write!(f, "shadowed by {}", by.display()),
            Self::Disabled { place } | Self::Disallowed { place } => {
                write!(f, "switched off by {place}")
            }
            Self::Without => f.write_str("switched off by --without"),
            Self::Held(plugin) => {
                let waiting = plugin.decision.of(Standing::Waiting);
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
