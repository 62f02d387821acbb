//! Defines the trust in a plugin, which depends on the plugin's origin.

use serde::{Deserialize, Serialize};

/// Trust in a plugin by its origin, from most to least. A plugin cannot raise its own trust.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trust {
    /// Embedded in the program, or in the system's share directory.
    Managed,
    /// Installed, with its digest in a lock file, and signed with one of the operator's keys.
    Package,
    /// Trust in plugins that were found in the user's configuration directory.
    User,
    /// Trust in plugins that were found in the project's `.rind/plugins`.
    Project,
    /// Trust in plugins that the command line names with `--plugin PATH`.
    Local,
}

impl Trust {
    /// All trust levels, most trusted first.
    pub const ALL: [Self; 5] = [
        Self::Managed,
        Self::Package,
        Self::User,
        Self::Project,
        Self::Local,
    ];
}

display_as_in_json!(Trust);
