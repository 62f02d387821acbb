//! Plugins that an installer placed in the user's plugin directory, with their verified bytes.
//!
//! This module must not depend on the installer, nor on how installations are recorded. An
//! installed plugin is loaded from the verified bytes or refused: a change between check and use
//! has no effect, and a missing directory leads to a refusal.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Error;
use super::discover::{FoundPlugin, PluginSearchPath};
use crate::grant::Trust;
use crate::grant::held::InMemoryFolder;

/// Installed plugin, whose files were verified before plugins are loaded.
#[derive(Clone, Debug)]
pub struct InstalledPlugin {
    /// Name of the plugin and of its directory.
    pub name: String,
    /// Folder in which the plugin is installed.
    pub folder: PathBuf,
    /// Trust level: `package`, or `user` if the package is unsigned.
    pub trust: Trust,
    /// Verified content of the installed files, or the reason why it is not available.
    pub files: Result<Arc<InMemoryFolder>, String>,
    /// Notice to the user, if the plugin's trust is now lower than when the plugin was installed.
    pub note: Option<String>,
}

impl InstalledPlugin {
    /// Returns the error for a plugin whose files differ from those that were installed.
    pub(super) fn changed_files_error(&self) -> Option<Error> {
        let why = self.files.as_ref().err()?;
        Some(Error::Changed {
            plugin: self.name.clone(),
            folder: self.folder.clone(),
            why: why.clone(),
        })
    }
}

/// Replaces each found directory for which an installed plugin was verified, so that the plugin's
/// own trust applies. An installed plugin whose directory is missing is added too, so that a
/// session reports it as missing.
pub(super) fn replace_found_with_installed(
    found: &mut Vec<FoundPlugin>,
    installed: &[InstalledPlugin],
    sources: &[PluginSearchPath],
) {
    let is_searched = |folder: &Path| {
        let mut of_user = sources.iter().filter(|source| source.trust == Trust::User);
        of_user.any(|source| folder.parent() == Some(&source.path))
    };
    for own in installed.iter().filter(|own| is_searched(&own.folder)) {
        found.retain(|found| found.trust != Trust::User || found.folder != own.folder);
        found.push(FoundPlugin {
            trust: own.trust,
            folder: own.folder.clone(),
        });
    }
}

/// Returns the installed plugin in a found directory, if there is one. A directory that was found
/// with another trust, such as one named on the command line, is not treated as installed.
pub(super) fn find_installed_plugin<'a>(
    found: &FoundPlugin,
    installed: &'a [InstalledPlugin],
) -> Option<&'a InstalledPlugin> {
    let mut all = installed.iter();
    all.find(|own| own.folder == found.folder && own.trust == found.trust)
}
