//! Options for loading plugins, including the settings of each plugin.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::PluginSkipReason;
use crate::config::{Config, PluginSettings};
use crate::egress::EgressOptions;
use crate::grant::Trust;
use crate::grant::ask::GrantOptions;
use crate::grant::held::InMemoryFolder;
use crate::paths::RindPaths;
use crate::plugin::compile::Compiler;
use crate::plugin::component::ComponentWithoutOwnManifest;
use crate::plugin::discover::{FoundPlugin, PluginSearchPath};
use crate::plugin::fixed::FixedClockAndRandomSeed;
use crate::plugin::installed::InstalledPlugin;
use crate::plugin::meter::PluginResourceMeter;

/// Options for loading plugins.
#[derive(Clone, Debug, Default)]
pub struct PluginLoadOptions {
    /// Folders that are searched for plugins.
    pub sources: Vec<PluginSearchPath>,
    /// Folders of single plugins, which are loaded in addition to the plugins that the search
    /// finds.
    pub chosen: Vec<FoundPlugin>,
    /// Components that were not built for the contract, and whose functions become tools.
    pub components: Vec<ComponentWithoutOwnManifest>,
    /// Folder that was read into memory before the user was asked to trust it. Its plugins are
    /// loaded from memory, so a later change on disk has no effect.
    pub held: Option<Arc<InMemoryFolder>>,
    /// Installed plugins, each with its verified files.
    pub installed: Vec<InstalledPlugin>,
    /// Folder in which compiled components are cached.
    pub cache: PathBuf,
    /// File with the key that authenticates the entries of the compile cache.
    pub cache_key: PathBuf,
    /// Compiler for components that are not in the cache.
    pub compiler: Compiler,
    /// Callback that is called before a component is compiled, which takes a while.
    pub on_compile: Option<BeforeCompileCallback>,
    /// Folder that contains a folder for the stored values of each plugin.
    pub data: PathBuf,
    /// Names of the plugins that the operator excludes from this run.
    pub without: Vec<String>,
    /// Whether to report plugins that the settings configure but that were not found. Set to false
    /// if only some of the plugin folders are searched.
    pub expects_installed: bool,
    /// Settings of plugins, keyed by the plugin's name.
    pub settings: BTreeMap<String, PluginSettings>,
    /// Settings of the project's own plugins, which the project itself may set. For a plugin that
    /// is not listed here, `settings` apply.
    pub project_settings: BTreeMap<String, PluginSettings>,
    /// Configuration from which `settings` were read; messages take line numbers from it.
    pub written: Config,
    /// Configuration from which `project_settings` were read; messages take line numbers from it.
    pub project_written: Config,
    /// Options for decisions on the plugins' permissions.
    pub grants: GrantOptions,
    /// Folder that the agent works in.
    pub workspace: PathBuf,
    /// Rind's own folders, to which no grant gives access.
    pub protected: Vec<PathBuf>,
    /// Options for network requests of plugins.
    pub egress: EgressOptions,
    /// Whether every call of a plugin runs in a new instance.
    pub is_cold: bool,
    /// Meter of the plugins' memory and import calls, in tests.
    pub meter: Option<Arc<PluginResourceMeter>>,
    /// Clock and random numbers that the plugins get instead of the real ones, in tests.
    pub fixed: Option<FixedClockAndRandomSeed>,
}

/// Callback that is called with the name of a plugin before the plugin is compiled.
#[derive(Clone)]
pub struct BeforeCompileCallback(pub Arc<dyn Fn(&str) + Send + Sync>);

impl std::fmt::Debug for BeforeCompileCallback {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BeforeCompileCallback")
    }
}

impl PluginLoadOptions {
    /// Sets the workspace and the folders for cached and stored data to those of `paths`, and
    /// protects Rind's configuration, data and cache folders from grants.
    #[must_use]
    pub fn with_workspace_and_data_folders(mut self, paths: &RindPaths) -> Self {
        self.cache = paths.cache.join("components");
        self.cache_key = paths.data.join("cache.key");
        self.data = paths.data.join("plugins");
        self.workspace.clone_from(&paths.workspace);
        let own = [&paths.config, &paths.data, &paths.cache];
        self.protected.extend(own.map(Clone::clone));
        self
    }

    /// Returns the settings of a plugin. Settings of a project apply only to the project's own
    /// plugins, so that a project cannot disable a guard.
    pub(in crate::plugin) fn plugin_settings_for(
        &self,
        name: &str,
        trust: Trust,
    ) -> PluginSettings {
        let of_project = self
            .project_settings
            .get(name)
            .filter(|_| trust == Trust::Project);
        let settings = of_project.or_else(|| self.settings.get(name));
        settings.cloned().unwrap_or_default()
    }

    /// Returns the flag or the setting that disables a plugin; `None` if the plugin is not
    /// disabled.
    pub(in crate::plugin) fn find_disabling_reason(
        &self,
        name: &str,
        trust: Trust,
    ) -> Option<PluginSkipReason> {
        if self.without.iter().any(|without| without == name) {
            return Some(PluginSkipReason::Without);
        }
        let place = || self.setting_location_finder(name, trust)(&["enabled"]);
        (!self.plugin_settings_for(name, trust).enabled).then(|| PluginSkipReason::Disabled {
            place: place().unwrap_or_else(|| "your settings".to_owned()),
        })
    }

    /// Enables all plugins that settings disable, so that they can be inspected. Returns the
    /// location of each setting that disabled a plugin. A key is the plugin's name, and whether the
    /// setting applies to the project's own plugins.
    #[must_use]
    pub fn enable_all_plugins(&mut self) -> BTreeMap<(String, bool), String> {
        let mut off = BTreeMap::new();
        let layers = [
            (Trust::User, &self.settings),
            (Trust::Project, &self.project_settings),
        ];
        for (trust, all) in layers {
            for (name, _) in all.iter().filter(|(_, settings)| !settings.enabled) {
                let place = self.setting_location_finder(name, trust)(&["enabled"]);
                let of_project = trust == Trust::Project;
                off.insert((name.clone(), of_project), place.unwrap_or_default());
            }
        }
        let settings = self.settings.values_mut();
        let all = settings.chain(self.project_settings.values_mut());
        all.for_each(|settings| settings.enabled = true);
        off
    }

    /// Returns the files in memory from which a plugin in `folder` is read; `None` if it is read
    /// from disk.
    pub(in crate::plugin) fn in_memory_plugin_folder(
        &self,
        folder: &Path,
    ) -> Option<&Arc<InMemoryFolder>> {
        let own = self.installed.iter().find(|own| own.folder == folder);
        let verified = own.and_then(|own| own.files.as_ref().ok());
        let held = self
            .held
            .as_ref()
            .filter(|held| held.is_path_inside(folder));
        verified.or(held)
    }

    /// Returns a function that finds the location of a setting under `[plugins.NAME]`: `FILE:LINE`
    /// or the flag, in the layer that takes precedence.
    pub(in crate::plugin) fn setting_location_finder<'a>(
        &'a self,
        name: &'a str,
        trust: Trust,
    ) -> impl Fn(&[&str]) -> Option<String> + 'a {
        let is_of_project = trust == Trust::Project && self.project_settings.contains_key(name);
        let written = if is_of_project {
            &self.project_written
        } else {
            &self.written
        };
        move |keys| {
            written
                .value_locations(&[&["plugins", name], keys].concat())
                .pop()
        }
    }
}
