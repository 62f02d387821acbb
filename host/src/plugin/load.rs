//! Loads plugins from folders: every found plugin is checked, compiled, linked and asked for its
//! tools. A plugin that fails is reported and not loaded; the others run.

mod checked;
mod decided;
mod left_out;
mod linked;
mod listed;
mod options;

use std::path::PathBuf;
use std::sync::Arc;

pub use self::checked::CheckedPlugin;
pub use self::decided::DecidedPlugin;
pub use self::left_out::{LeftOut, Why};
pub use self::linked::LoadedPlugin;
pub(in crate::plugin) use self::linked::{Linking, PluginResources};
pub use self::listed::ListedPlugin;
pub(in crate::plugin) use self::listed::{CompiledComponent, ComponentFacts};
pub use self::options::{LoadOptions, OnCompile};
use super::cache::CompileCache;
use super::component::ForeignComponent;
use super::discover::{Found, discover};
use super::engine::engine;
use super::installed::{self, Installed};
use super::loader::{LoadResult, PluginLoader};
use super::manifest::Manifest;
use super::relied::{self, Absent};
use super::{Error, protected};
use crate::config::PluginSettings;
use crate::grant::Trust;
use crate::grant::ask::Given;
use crate::grant::policy::Required;

/// All plugins that were found, loaded or not.
#[derive(Debug, Default)]
pub struct PluginSet {
    /// Plugins that run, sorted by name, but each one after its dependencies.
    pub plugins: Vec<Arc<LoadedPlugin>>,
    /// Plugins that do not run, with the reasons.
    pub left_out: Vec<LeftOut>,
    /// Plugins that the operator relies on and that were not found.
    pub absent: Vec<Absent>,
    /// Permissions that the operator granted while plugins were loaded.
    pub given: Vec<Given>,
    /// Messages for the user, one line each, about misplaced files and about settings that have no
    /// effect.
    pub refused: Vec<String>,
    /// Plugins without which no session may start.
    pub(super) required: Vec<Required>,
}

impl PluginSet {
    /// Finds and loads plugins. An error concerns the host itself (no engine, no cache folder);
    /// problems of single plugins are in [`PluginSet::left_out`].
    pub async fn load(options: &LoadOptions) -> Result<Self, Error> {
        let mut set = Self {
            required: options.grants.policy.required(),
            ..Self::default()
        };
        set.refused =
            super::astray::find_misplaced_files(&options.sources, options.held.as_deref());
        let mut found = discover(&options.sources, options.held.as_deref());
        installed::settle_installed(&mut found, &options.installed, &options.sources);
        let notes = options.installed.iter().filter_map(|own| own.note.clone());
        set.refused.extend(notes);
        found.extend(options.chosen.iter().cloned());
        super::discover::sort_found(&mut found, options.held.as_deref());
        if !found.is_empty() || !options.components.is_empty() {
            let loader = PluginLoader {
                engine: engine()?,
                cache: CompileCache::open_cache(&options.cache, &options.cache_key)?,
                options,
            };
            for found in found {
                set.take_found(&loader, found).await;
            }
            for component in &options.components {
                set.take_component(&loader, component).await;
            }
            super::depend::settle_dependencies(&mut set);
        }
        let loaded = set
            .plugins
            .iter()
            .map(|plugin| plugin.manifest.name.as_str());
        let left_out = set.left_out.iter().map(|left| left.name.as_str());
        let known: Vec<&str> = loaded.chain(left_out).collect();
        let misspelt = options.grants.policy.misspelt(&known);
        set.refused.extend(misspelt);
        set.settle_reliance(options);
        Ok(set)
    }

    /// Returns the folder of the plugin that already has this name; the more trusted plugin comes
    /// first. A plugin that failed or waits for permissions keeps its name: otherwise breaking a
    /// guard would let an untrusted plugin take the guard's name.
    fn name_holder(&self, name: &str) -> Option<PathBuf> {
        let loaded = self.plugins.iter();
        let loaded = loaded.map(|plugin| (&plugin.manifest.name, &plugin.folder));
        let failed = self.left_out.iter();
        let failed = failed.filter(|left| matches!(left.why, Why::Failed(_) | Why::Held(_)));
        let mut all = loaded.chain(failed.map(|left| (&left.name, &left.found.folder)));
        all.find(|(own, _)| *own == name)
            .map(|(_, folder)| folder.clone())
    }

    async fn take_found(&mut self, loader: &PluginLoader<'_>, found: Found) {
        let held = loader
            .options
            .held_folder_of(&found.folder)
            .map(|held| &**held);
        let changed =
            installed::installed_of(&found, &loader.options.installed).and_then(Installed::refusal);
        let read = changed.map_or_else(|| Manifest::read(&found.folder, held), Err);
        let manifest = match read {
            Ok(manifest) => manifest,
            Err(error) => {
                let name = found.folder.file_name().unwrap_or(found.folder.as_os_str());
                let name = name.to_string_lossy().into_owned();
                // Only the administrator can disable a protected plugin, even if the plugin is
                // broken.
                let is_protected = protected::is_protected(&name) && found.trust == Trust::Managed;
                let policy = protected::protected_policy(&name, &loader.options.grants.policy);
                let why = match (policy.disables(&name), self.name_holder(&name)) {
                    (Some(place), _) => Why::Disallowed { place },
                    (None, Some(by)) => Why::Shadowed { by },
                    (None, None) => (!is_protected)
                        .then(|| loader.options.switched_off(&name, found.trust))
                        .flatten()
                        .unwrap_or(Why::Failed(error)),
                };
                return self.left_out.push(LeftOut::new(name, found, why, true));
            }
        };
        let name = manifest.name.clone();
        let mut settings = loader.options.settings_of(&name, found.trust);
        let is_protected = protected::is_protected(&name);
        if is_protected && found.trust == Trust::Managed {
            let refused = protected::settle_protected(&manifest, &mut settings, loader.options);
            self.refused.extend(refused);
        }
        let policy = protected::protected_policy(&name, &loader.options.grants.policy);
        let mut may_block = relied::may_block(&manifest, &settings);
        let why = if is_protected && found.trust != Trust::Managed {
            Why::Failed(Error::Reserved {
                plugin: name.clone(),
            })
        } else if let Some(by) = self.name_holder(&name) {
            Why::Shadowed { by }
        } else if let Some(place) = policy.disables(&name) {
            Why::Disallowed { place }
        } else if !settings.enabled || (loader.options.without.contains(&name) && !is_protected) {
            let off = loader.options.switched_off(&name, found.trust);
            off.unwrap_or(Why::Without)
        } else {
            match loader
                .load_plugin(manifest, settings, &found, None, &mut self.given)
                .await
            {
                Ok(LoadResult::Waits(plugin)) => {
                    may_block = relied::is_blocking_hook(&plugin);
                    Why::Held(Box::new(plugin))
                }
                Ok(LoadResult::Runs(plugin)) => return self.plugins.push(Arc::new(plugin)),
                Err(error) => Why::Failed(error),
            }
        };
        self.left_out
            .push(LeftOut::new(name, found, why, may_block));
    }
}

impl PluginSet {
    /// Loads a third-party component that was not built for Rind's contract. The component has no
    /// settings, and must not have the name of a plugin.
    async fn take_component(&mut self, loader: &PluginLoader<'_>, component: &ForeignComponent) {
        let name = component.manifest.name.clone();
        let found = Found {
            trust: Trust::Local,
            folder: component.folder.clone(),
        };
        let policy = &loader.options.grants.policy;
        let why = if let Some(by) = self.name_holder(&name) {
            Why::Shadowed { by }
        } else if let Some(place) = policy.disables(&name) {
            Why::Disallowed { place }
        } else {
            let (manifest, settings) = (component.manifest.clone(), PluginSettings::default());
            let loaded =
                loader.load_plugin(manifest, settings, &found, Some(component), &mut self.given);
            match loaded.await {
                Ok(LoadResult::Waits(plugin)) => Why::Held(Box::new(plugin)),
                Ok(LoadResult::Runs(plugin)) => return self.plugins.push(Arc::new(plugin)),
                Err(error) => Why::Failed(error),
            }
        };
        self.left_out.push(LeftOut::new(name, found, why, false));
    }
}
