//! Defines the sources of a host's plugins: folders to load, or a set that is already loaded.

use std::path::PathBuf;
use std::sync::Arc;

use crate::config::{self, Config, PluginsConfig};
use crate::egress::EgressOptions;
use crate::grant::Trust;
use crate::grant::ask::GrantOptions;
use crate::paths::RindPaths;
use crate::plugin;
use crate::plugin::compile::Compiler;
use crate::plugin::discover::PluginSearchPath;
use crate::plugin::load::{FoundPluginSet, PluginLoadOptions};
use crate::plugin::startable::StartablePluginSet;

/// Folders of plugins, and the operator's answers about the plugins in them. Without an answer, a
/// plugin gets the permissions that the default table gives for its [`Trust`]. A plugin that needs
/// more is skipped, because by default there is nobody to ask.
#[derive(Clone, Debug, Default)]
pub struct PluginFolders(PluginLoadOptions);

impl PluginFolders {
    /// Creates a set with the plugins in one folder. See [`Self::and`].
    #[must_use]
    pub fn new(trust: Trust, folder: impl Into<PathBuf>) -> Self {
        Self(PluginLoadOptions {
            expects_installed: true,
            ..PluginLoadOptions::default()
        })
        .and(trust, folder)
    }

    /// Adds the plugins in this folder. `trust` states the origin of these plugins and so decides
    /// which permissions they get without a question, such as [`Trust::Managed`] for those that
    /// belong to the program. A missing folder has no plugins. A folder of [`Trust::Local`] may
    /// itself be a plugin.
    #[must_use]
    pub fn and(mut self, trust: Trust, folder: impl Into<PathBuf>) -> Self {
        let folder = folder.into();
        self.0.sources.push(PluginSearchPath {
            trust,
            // Resolve symlinks, because the operator's answers about permissions are tied to the
            // canonical path of a plugin.
            path: folder.canonicalize().unwrap_or(folder),
        });
        self
    }

    /// Skips the plugin of this name, even if the host could otherwise not be built without it.
    #[must_use]
    pub fn without(mut self, name: impl Into<String>) -> Self {
        self.0.without.push(name.into());
        self
    }

    /// Uses the sections `[plugins.NAME]` of these settings. If a plugin that they configure cannot
    /// run, the host is not built.
    ///
    /// # Errors
    /// A section is malformed; the error names its line.
    pub fn settings(mut self, config: &Config) -> Result<Self, config::Error> {
        self.0.settings = config.section::<PluginsConfig>()?.0;
        self.0.written = config.clone();
        Ok(self)
    }

    /// Uses this policy, these answers and these flags for grant decisions, and asks the operator
    /// through [`GrantOptions::ask`].
    #[must_use]
    pub fn grants(mut self, grants: GrantOptions) -> Self {
        self.0.grants = grants;
        self
    }

    /// Sets the limits and secrets with which requests of plugins are sent.
    #[must_use]
    pub fn egress(mut self, egress: EgressOptions) -> Self {
        self.0.egress = egress;
        self
    }

    /// Compiles components with this compiler. The default one compiles on a thread, so its memory
    /// has no limit.
    #[must_use]
    pub fn compiler(mut self, compiler: Compiler) -> Self {
        self.0.compiler = compiler;
        self
    }
}

/// The plugins of a host. Converted from [`PluginFolders`], or from a [`FoundPluginSet`] or
/// [`StartablePluginSet`] that other hosts may share.
#[derive(Debug)]
pub struct HostPlugins(HostPluginsOrigin);

#[derive(Debug)]
enum HostPluginsOrigin {
    Folders(Box<PluginLoadOptions>),
    Loaded(Arc<FoundPluginSet>),
    Checked(StartablePluginSet),
}

impl HostPlugins {
    /// Loads the plugins if they are not loaded yet, and checks that all plugins with blocking
    /// hooks run, unless this was checked before.
    pub(super) async fn load_plugins(
        self,
        paths: &RindPaths,
    ) -> Result<StartablePluginSet, plugin::Error> {
        match self.0 {
            HostPluginsOrigin::Checked(set) => Ok(set),
            HostPluginsOrigin::Loaded(set) => StartablePluginSet::try_from_plugin_set(set),
            HostPluginsOrigin::Folders(options) => {
                let options = options.with_workspace_and_data_folders(paths);
                StartablePluginSet::try_from_plugin_set(Arc::new(
                    FoundPluginSet::load(&options).await?,
                ))
            }
        }
    }
}

impl Default for HostPlugins {
    fn default() -> Self {
        Self(HostPluginsOrigin::Loaded(Arc::default()))
    }
}

impl From<PluginFolders> for HostPlugins {
    fn from(folders: PluginFolders) -> Self {
        Self(HostPluginsOrigin::Folders(Box::new(folders.0)))
    }
}

impl From<StartablePluginSet> for HostPlugins {
    fn from(set: StartablePluginSet) -> Self {
        Self(HostPluginsOrigin::Checked(set))
    }
}

impl From<Arc<FoundPluginSet>> for HostPlugins {
    fn from(set: Arc<FoundPluginSet>) -> Self {
        Self(HostPluginsOrigin::Loaded(set))
    }
}
