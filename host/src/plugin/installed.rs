//! Plugins that an installer placed in the user's plugin directory, with their verified bytes.
//!
//! This module must not know who installed the plugins, nor how that is recorded. An installed
//! plugin is loaded from the verified bytes or refused: a change between check and use has no
//! effect, and a missing directory leads to a refusal.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Error;
use super::discover::{Found, Source};
use crate::grant::Trust;
use crate::grant::held::HeldFolder;

/// Installed plugin, verified before any plugin is loaded.
#[derive(Clone, Debug)]
pub struct Installed {
    /// Name of the plugin and of its directory.
    pub name: String,
    /// Folder of the plugin.
    pub folder: PathBuf,
    /// Trust: `package`, or `user` if the package is unsigned.
    pub trust: Trust,
    /// Files as they were installed, or the reason why they are not available.
    pub files: Result<Arc<HeldFolder>, String>,
    /// Notice to the user if the plugin is trusted less than when it was installed.
    pub note: Option<String>,
}

impl Installed {
    /// Returns the error for a plugin whose files differ from those that were installed.
    pub(super) fn refusal(&self) -> Option<Error> {
        let why = self.files.as_ref().err()?;
        Some(Error::Changed {
            plugin: self.name.clone(),
            folder: self.folder.clone(),
            why: why.clone(),
        })
    }
}

/// Replaces each found directory for which an installed plugin was verified, so that the plugin's
/// own trust applies. An installed plugin whose directory is missing is added too, so that it is
/// reported as missing.
pub(super) fn settle_installed(
    found: &mut Vec<Found>,
    installed: &[Installed],
    sources: &[Source],
) {
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

/// Returns the installed plugin for a found directory, if there is one. A directory that was found
/// with another trust, such as one named on the command line, is not treated as installed.
pub(super) fn installed_of<'a>(found: &Found, installed: &'a [Installed]) -> Option<&'a Installed> {
    let mut all = installed.iter();
    all.find(|own| own.folder == found.folder && own.trust == found.trust)
}
