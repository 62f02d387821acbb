//! Trust in a plugin, by its origin.

use serde::{Deserialize, Serialize};

/// Trust in a plugin by its origin, from most to least. Never what a plugin says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trust {
    /// Carried by the program, or in the system's share folder.
    Managed,
    /// Installed, with its digest in a lock file, and signed with a key of the operator's.
    Package,
    /// Found in the user's configuration folder.
    User,
    /// Found in the project, `.rind/plugins`.
    Project,
    /// Named on the command line, `--plugin PATH`.
    Local,
}

impl Trust {
    /// All of them, most trusted first.
    pub const ALL: [Self; 5] = [
        Self::Managed,
        Self::Package,
        Self::User,
        Self::Project,
        Self::Local,
    ];
}

display_as_in_json!(Trust);
