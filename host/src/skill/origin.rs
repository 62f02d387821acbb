//! Skills that an installer put into a folder: what was verified of each.
//!
//! It must not know who installed them, nor how that is recorded. One whose files are those that were installed is read from the
//! verified bytes; one that was changed since is the user's own, and told to be changed.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::front_matter;
use crate::grant::Trust;
use crate::grant::held::HeldFolder;

/// A skill that was installed, verified before any is read.
#[derive(Clone, Debug)]
pub struct Installed {
    /// Folder of the skill.
    pub folder: PathBuf,
    /// Source of it, for people.
    pub from: String,
    /// Trust in what was installed: `package`, or `user` where nobody signed it.
    pub trust: Trust,
    /// Files as they were installed; `None` when the folder holds others now.
    pub files: Option<Arc<HeldFolder>>,
    /// Whether the folder is gone.
    pub is_gone: bool,
}

/// Origin of a skill that was installed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// Source of it, for people.
    pub from: String,
    /// Whether its files were changed since.
    pub is_edited: bool,
}

impl Installed {
    /// Returns where the skill is from.
    #[must_use]
    pub fn origin(&self) -> Origin {
        Origin {
            from: self.from.clone(),
            is_edited: self.files.is_none(),
        }
    }
}

/// Returns the `name` of a front matter, if it can be that of a folder in every program.
#[must_use]
pub fn label(text: &str) -> Option<String> {
    let (front, _) = front_matter::split(text.strip_prefix('\u{feff}').unwrap_or(text))?;
    let document = front_matter::read(front).ok()?;
    let name = document.get("name")?.node.text()?.trim();
    is_plain_name(name).then(|| name.to_owned())
}

/// Whether a name can be that of a skill in every program.
#[must_use]
pub(crate) fn is_plain_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=64).contains(&name.len())
        && name.chars().all(is_plain)
        && !name.starts_with('-')
        && !name.ends_with('-')
        && !name.contains("--")
}
