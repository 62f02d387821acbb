//! Options for loading plugins, including the settings of each plugin.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Why;
use crate::config::{Config, PluginSettings};
use crate::egress::EgressOptions;
use crate::grant::Trust;
use crate::grant::ask::GrantOptions;
use crate::grant::held::HeldFolder;
use crate::paths::Paths;
use crate::plugin::compile::Compiler;
use crate::plugin::component::ForeignComponent;
use crate::plugin::discover::{Found, Source};
use crate::plugin::fixed::FixedWorld;
use crate::plugin::installed::Installed;
use crate::plugin::meter::Meter;

/// Options for loading plugins.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// Folders to search.
    pub sources: Vec<Source>,
    /// Folders that are plugins themselves, in addition to those that the search finds.
    pub chosen: Vec<Found>,
    /// Components that were not built for the contract, and whose functions become tools.
    pub components: Vec<ForeignComponent>,
    /// Folder that was already read into memory when the user was asked about it. Its plugins are
    /// loaded from memory and not read again.
    pub held: Option<Arc<HeldFolder>>,
    /// Installed plugins, each with its verified files.
    pub installed: Vec<Installed>,
    /// Folder of the compile cache.
    pub cache: PathBuf,
    /// File with the key that authenticates cache entries.
    pub cache_key: PathBuf,
    /// Compiler for components that are not in the cache.
    pub compiler: Compiler,
    /// Callback before a component is compiled, which takes a while.
    pub on_compile: Option<OnCompile>,
    /// Folder in which each plugin has a folder for stored values.
    pub data: PathBuf,
    /// Names of the plugins that the operator excludes from this run.
    pub without: Vec<String>,
    /// Whether to report plugins that the settings configure but that were not found. False if only
    /// some of the plugin folders are searched.
    pub expects_installed: bool,
    /// Settings by plugin name.
    pub settings: BTreeMap<String, PluginSettings>,
    /// Settings of the project's own plugins, which the project itself may set. For a plugin that
    /// is not listed here, `settings` apply.
    pub project_settings: BTreeMap<String, PluginSettings>,
    /// Configuration from which `settings` were read, for line numbers in messages.
    pub written: Config,
    /// Configuration from which `project_settings` were read.
    pub project_written: Config,
    /// Options for granting permissions.
    pub grants: GrantOptions,
    /// The folder that the agent works in.
    pub workspace: PathBuf,
    /// Rind's own folders, which no grant reaches.
    pub protected: Vec<PathBuf>,
    /// Options for network requests of plugins.
    pub egress: EgressOptions,
    /// Whether every call gets a fresh instance.
    pub is_cold: bool,
    /// Meter that counts the plugins' use of the host.
    pub meter: Option<Arc<Meter>>,
    /// Clock and random numbers that the plugins get instead of the real ones, in tests.
    pub fixed: Option<FixedWorld>,
}

/// Callback that gets the name of a plugin.
#[derive(Clone)]
pub struct OnCompile(pub Arc<dyn Fn(&str) + Send + Sync>);

impl std::fmt::Debug for OnCompile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OnCompile")
    }
}

impl LoadOptions {
    /// Sets the folders for cached and stored data to those of `paths`, and protects the latter
    /// from grants.
    #[must_use]
    pub fn at(mut self, paths: &Paths) -> Self {
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
    pub(in crate::plugin) fn settings_of(&self, name: &str, trust: Trust) -> PluginSettings {
        let of_project = self
            .project_settings
            .get(name)
            .filter(|_| trust == Trust::Project);
        let settings = of_project.or_else(|| self.settings.get(name));
        settings.cloned().unwrap_or_default()
    }

    /// Returns the reason why a flag or a setting disables a plugin; `None` if none does.
    pub(in crate::plugin) fn switched_off(&self, name: &str, trust: Trust) -> Option<Why> {
        if self.without.iter().any(|without| without == name) {
            return Some(Why::Without);
        }
        let place = || self.setting_places(name, trust)(&["enabled"]);
        (!self.settings_of(name, trust).enabled).then(|| Why::Disabled {
            place: place().unwrap_or_else(|| "your settings".to_owned()),
        })
    }

    /// Enables all plugins that settings disable, in order to inspect them. Returns the location of
    /// each disabling setting, by the plugin's name and whether the setting is for the project's
    /// own plugins.
    #[must_use]
    pub fn switch_all_on(&mut self) -> BTreeMap<(String, bool), String> {
        let mut off = BTreeMap::new();
        let layers = [
            (Trust::User, &self.settings),
            (Trust::Project, &self.project_settings),
        ];
        for (trust, all) in layers {
            for (name, _) in all.iter().filter(|(_, settings)| !settings.enabled) {
                let place = self.setting_places(name, trust)(&["enabled"]);
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
    pub(in crate::plugin) fn held_folder_of(&self, folder: &Path) -> Option<&Arc<HeldFolder>> {
        let own = self.installed.iter().find(|own| own.folder == folder);
        let verified = own.and_then(|own| own.files.as_ref().ok());
        let held = self.held.as_ref().filter(|held| held.covers(folder));
        verified.or(held)
    }

    /// Returns a function that finds the location of a setting under `[plugins.NAME]`: `FILE:LINE`
    /// or the flag, in the layer that takes precedence.
    pub(in crate::plugin) fn setting_places<'a>(
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
        move |keys| written.places(&[&["plugins", name], keys].concat()).pop()
    }
}
