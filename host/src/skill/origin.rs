//! Skills that an installer placed in a directory, with the result of their verification.
//!
//! This module must not know who installed them, nor how that is recorded. If the files are those
//! that were installed, the skill is read from the verified bytes; if they were changed since, it
//! is treated as the user's own and reported as edited.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::front_matter;
use crate::grant::Trust;
use crate::grant::held::HeldFolder;

/// Installed skill, verified before any skill is read.
#[derive(Clone, Debug)]
pub struct Installed {
    /// Directory of the skill.
    pub folder: PathBuf,
    /// Description of its source, for people.
    pub from: String,
    /// Trust: `package`, or `user` if the package is unsigned.
    pub trust: Trust,
    /// Files as installed; `None` if the directory contains different ones now.
    pub files: Option<Arc<HeldFolder>>,
    /// Whether the directory is missing.
    pub is_gone: bool,
}

/// Origin of an installed skill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// Description of its source, for people.
    pub from: String,
    /// Whether its files were changed since.
    pub is_edited: bool,
}

impl Installed {
    /// Returns the origin of the skill.
    #[must_use]
    pub fn origin(&self) -> Origin {
        Origin {
            from: self.from.clone(),
            is_edited: self.files.is_none(),
        }
    }
}

/// Returns the `name` in a front matter, if every program accepts it as the name of a directory.
#[must_use]
pub fn label(text: &str) -> Option<String> {
    let (front, _) = front_matter::split_front(text.strip_prefix('\u{feff}').unwrap_or(text))?;
    let document = front_matter::read_document(front).ok()?;
    let name = document.get("name")?.node.text()?.trim();
    is_plain_name(name).then(|| name.to_owned())
}

/// Whether every program accepts the text as the name of a skill.
#[must_use]
pub fn is_plain_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=64).contains(&name.len())
        && name.chars().all(is_plain)
        && !name.starts_with('-')
        && !name.ends_with('-')
        && !name.contains("--")
}
