//! Sources of a host's plugins: folders that it loads, or a set that is loaded already.

use std::path::PathBuf;
use std::sync::Arc;

use crate::config::{self, Config, PluginsConfig};
use crate::egress::EgressOptions;
use crate::grant::Trust;
use crate::grant::ask::GrantOptions;
use crate::paths::Paths;
use crate::plugin;
use crate::plugin::compile::Compiler;
use crate::plugin::discover::Source;
use crate::plugin::load::{LoadOptions, PluginSet};
use crate::plugin::startable::StartableSet;

/// Folders of plugins, and the operator's answers about the plugins in them. Without an answer a
/// plugin gets the permissions that the table gives for its [`Trust`]; a plugin that needs more is
/// left out, as there is no person to ask.
#[derive(Clone, Debug, Default)]
pub struct PluginFolders(LoadOptions);

impl PluginFolders {
    /// The plugins in one folder. See [`Self::and`].
    #[must_use]
    pub fn new(trust: Trust, folder: impl Into<PathBuf>) -> Self {
        Self(LoadOptions {
            expects_installed: true,
            ..LoadOptions::default()
        })
        .and(trust, folder)
    }

    /// Adds the plugins in this folder. `trust` is the source of these plugins and so decides which
    /// permissions they get without asking: [`Trust::Managed`] for those that belong to the
    /// program. A folder that is not there has none; one of [`Trust::Local`] may be a plugin
    /// itself.
    #[must_use]
    pub fn and(mut self, trust: Trust, folder: impl Into<PathBuf>) -> Self {
        let folder = folder.into();
        self.0.sources.push(Source {
            trust,
            // An answer about a plugin holds for its real path, whichever path names it.
            path: folder.canonicalize().unwrap_or(folder),
        });
        self
    }

    /// Does not load a plugin, even if it is relied on.
    #[must_use]
    pub fn without(mut self, name: impl Into<String>) -> Self {
        self.0.without.push(name.into());
        self
    }

    /// Takes the sections `[plugins.NAME]`. A plugin that they configure is relied on.
    ///
    /// # Errors
    /// A section is malformed; the error names its line.
    pub fn settings(mut self, config: &Config) -> Result<Self, config::Error> {
        self.0.settings = config.section::<PluginsConfig>()?.0;
        self.0.written = config.clone();
        Ok(self)
    }

    /// Uses these policies, answers and flags for decisions, and this person for questions.
    #[must_use]
    pub fn grants(mut self, grants: GrantOptions) -> Self {
        self.0.grants = grants;
        self
    }

    /// Sends requests of plugins with these limits and secrets.
    #[must_use]
    pub fn egress(mut self, egress: EgressOptions) -> Self {
        self.0.egress = egress;
        self
    }

    /// Compiles components with this one. The default compiles on a thread, whose memory has no
    /// limit.
    #[must_use]
    pub fn compiler(mut self, compiler: Compiler) -> Self {
        self.0.compiler = compiler;
        self
    }
}

/// The plugins of a host. Made from [`PluginFolders`], or from a [`PluginSet`] or [`StartableSet`]
/// that is shared with others.
#[derive(Debug)]
pub struct Plugins(PluginsOrigin);

#[derive(Debug)]
enum PluginsOrigin {
    Folders(Box<LoadOptions>),
    Loaded(Arc<PluginSet>),
    Checked(StartableSet),
}

impl Plugins {
    /// Loads them and checks that the guards run, where that is still to do.
    pub(super) async fn load_plugins(self, paths: &Paths) -> Result<StartableSet, plugin::Error> {
        match self.0 {
            PluginsOrigin::Checked(set) => Ok(set),
            PluginsOrigin::Loaded(set) => StartableSet::check(set),
            PluginsOrigin::Folders(options) => {
                let options = options.at(paths);
                StartableSet::check(Arc::new(PluginSet::load(&options).await?))
            }
        }
    }
}

impl Default for Plugins {
    fn default() -> Self {
        Self(PluginsOrigin::Loaded(Arc::default()))
    }
}

impl From<PluginFolders> for Plugins {
    fn from(folders: PluginFolders) -> Self {
        Self(PluginsOrigin::Folders(Box::new(folders.0)))
    }
}

impl From<StartableSet> for Plugins {
    fn from(set: StartableSet) -> Self {
        Self(PluginsOrigin::Checked(set))
    }
}

impl From<Arc<PluginSet>> for Plugins {
    fn from(set: Arc<PluginSet>) -> Self {
        Self(PluginsOrigin::Loaded(set))
    }
}
