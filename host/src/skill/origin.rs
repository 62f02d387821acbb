//! Describes skills that an installer placed in a directory, with the result of their verification.
//!
//! This module must not know the installer, nor where the installation is recorded. If the files
//! are unchanged since the installation, the skill is read from the verified bytes. If they were
//! changed, the skill is treated like one that the user wrote, and is reported as edited.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::front_matter;
use crate::grant::Trust;
use crate::grant::held::InMemoryFolder;

/// Record of an installed skill, with the verified content of its files.
#[derive(Clone, Debug)]
pub struct InstalledSkillRecord {
    /// Directory of the installed skill.
    pub folder: PathBuf,
    /// Description, for people, of where the skill was installed from.
    pub from: String,
    /// Trust in the skill: `package`, or `user` if the package is unsigned.
    pub trust: Trust,
    /// Files as installed, in memory; `None` if the files in the directory differ from them.
    pub files: Option<Arc<InMemoryFolder>>,
    /// Whether the directory is missing.
    pub is_gone: bool,
}

/// Origin of an installed skill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// Description, for people, of where the skill was installed from.
    pub from: String,
    /// Whether the skill's files were changed since the installation.
    pub is_edited: bool,
}

impl InstalledSkillRecord {
    /// Returns the origin of the skill.
    #[must_use]
    pub fn origin(&self) -> Origin {
        Origin {
            from: self.from.clone(),
            is_edited: self.files.is_none(),
        }
    }
}

/// Returns the `name` in the front matter of `text`; `None` if there is none, or if some program
/// would not accept it as the name of a skill's directory.
#[must_use]
pub fn read_front_matter_name(text: &str) -> Option<String> {
    let (front, _) =
        front_matter::split_front_matter(text.strip_prefix('\u{feff}').unwrap_or(text))?;
    let document = front_matter::parse_yaml_document(front).ok()?;
    let name = document.get("name")?.node.scalar_text()?.trim();
    is_portable_skill_name(name).then(|| name.to_owned())
}

/// Whether every program accepts the text as the name of a skill.
#[must_use]
pub fn is_portable_skill_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=64).contains(&name.len())
        && name.chars().all(is_plain)
        && !name.starts_with('-')
        && !name.ends_with('-')
        && !name.contains("--")
}
