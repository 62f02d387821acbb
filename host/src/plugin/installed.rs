//! Plugins that an installer put into their folder: what was verified of each, and the bytes that were.
//!
//! It must not know who installed them, nor how that is recorded. A folder that is recorded is loaded from the verified
//! bytes or not at all: neither a change between check and use nor a folder that is gone has any effect but a refusal.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Error;
use super::discover::{Found, Source};
use crate::grant::Trust;
use crate::grant::held::HeldFolder;

/// A plugin that was installed, verified before any plugin is loaded.
#[derive(Clone, Debug)]
pub struct Installed {
    /// Name of the plugin, and of its folder.
    pub name: String,
    /// Folder of the plugin.
    pub folder: PathBuf,
    /// Trust in what was installed: `package`, or `user` where nobody signed it.
    pub trust: Trust,
    /// Files as they were installed, or the reason why they are not.
    pub files: Result<Arc<HeldFolder>, String>,
    /// Reason why it is trusted less than when it was installed, for people.
    pub note: Option<String>,
}

impl Installed {
    /// Returns the error of a plugin whose files are not those that were installed.
    pub(super) fn refusal(&self) -> Option<Error> {
        let why = self.files.as_ref().err()?;
        Some(Error::Changed {
            plugin: self.name.clone(),
            folder: self.folder.clone(),
            why: why.clone(),
        })
    }
}

/// Gives installed plugins the trust that they were verified to have. One whose folder is gone is found as well, so that it is
/// missed.
pub(super) fn settle(found: &mut Vec<Found>, installed: &[Installed], sources: &[Source]) {
    let is_searched = |folder: &Path| {
        let mut of_user = sources.iter().filter(|source| source.trust == Trust::User);
        of_user.any(|source| folder.parent() == Some(&source.path))
    };
    for own in installed.iter().filter(|own| is_searched(&own.folder)) {
        found.retain(|found| found.trust != Trust::User || found.folder != own.folder);
        found.push(Found {
            trust: own.trust,
            folder: own.folder.clone(),
        });
    }
}

/// Returns the installed plugin that was found, if it is one. In another place, or named on the command line, its folder is like
/// any other.
pub(super) fn of<'a>(found: &Found, installed: &'a [Installed]) -> Option<&'a Installed> {
    let mut all = installed.iter();
    all.find(|own| own.folder == found.folder && own.trust == found.trust)
}
