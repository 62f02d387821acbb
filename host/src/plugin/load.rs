//! Loads plugins from folders: every found plugin is checked, compiled, run once to list its tools,
//! and linked. A plugin that fails is reported and not loaded; the others run.

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
pub use self::left_out::{LeftOutPlugin, LeftOutReason};
pub use self::linked::LoadedPlugin;
pub(in crate::plugin) use self::linked::{PluginLinkOutcome, PluginResources};
pub use self::listed::ListedPlugin;
pub(in crate::plugin) use self::listed::{CompiledComponent, ComponentFacts};
pub use self::options::{CompileCallback, LoadOptions};
use super::cache::CompileCache;
use super::component::ForeignComponent;
use super::discover::{FoundPlugin, discover};
use super::engine::engine;
use super::installed::{self, InstalledPlugin};
use super::loader::{PluginLoadResult, PluginLoader};
use super::manifest::Manifest;
use super::relied::{self, MissingPlugin};
use super::{Error, protected};
use crate::config::PluginSettings;
use crate::grant::Trust;
use crate::grant::ask::GrantApproval;
use crate::grant::policy::RequiredPlugin;

/// All plugins that were found: those that run and those that do not.
#[derive(Debug, Default)]
pub struct PluginSet {
    /// Plugins that run, sorted by name, but each plugin after its dependencies.
    pub plugins: Vec<Arc<LoadedPlugin>>,
    /// Plugins that do not run, with the reasons.
    pub left_out: Vec<LeftOutPlugin>,
    /// Plugins that the operator relies on and that were not found.
    pub absent: Vec<MissingPlugin>,
    /// Permissions that the operator granted while plugins were loaded.
    pub given: Vec<GrantApproval>,
    /// Messages for the user, one line each, about misplaced files and about settings that have no
    /// effect.
    pub refused: Vec<String>,
    /// Plugins without which no session may start.
    pub(super) required: Vec<RequiredPlugin>,
}

impl PluginSet {
    /// Finds and loads plugins. An error concerns the host itself (no engine, no cache folder);
    /// problems of single plugins are in [`PluginSet::left_out`].
    pub async fn load(options: &LoadOptions) -> Result<Self, Error> {
        let mut set = Self {
            required: options.grants.policy.required_plugins(),
            ..Self::default()
        };
        set.refused =
            super::astray::find_misplaced_files(&options.sources, options.held.as_deref());
        let mut found = discover(&options.sources, options.held.as_deref());
        installed::replace_with_installed_plugins(&mut found, &options.installed, &options.sources);
        let notes = options.installed.iter().filter_map(|own| own.note.clone());
        set.refused.extend(notes);
        found.extend(options.chosen.iter().cloned());
        super::discover::sort_by_precedence(&mut found, options.held.as_deref());
        if !found.is_empty() || !options.components.is_empty() {
            let loader = PluginLoader {
                engine: engine()?,
                cache: CompileCache::open_or_create_temporary_cache(
                    &options.cache,
                    &options.cache_key,
                )?,
                options,
            };
            for found in found {
                set.load_found_plugin(&loader, found).await;
            }
            for component in &options.components {
                set.load_foreign_component(&loader, component).await;
            }
            super::depend::resolve_dependencies(&mut set);
        }
        let loaded = set
            .plugins
            .iter()
            .map(|plugin| plugin.manifest.name.as_str());
        let left_out = set.left_out.iter().map(|left| left.name.as_str());
        let known: Vec<&str> = loaded.chain(left_out).collect();
        let misspelt = options.grants.policy.misspelled_names(&known);
        set.refused.extend(misspelt);
        set.mark_relied_on_plugins(options);
        Ok(set)
    }

    /// Returns the folder of the plugin that already has this name; the more trusted plugin is
    /// loaded first. A plugin that failed or waits for permissions keeps its name: otherwise
    /// breaking a guard would let an untrusted plugin take the guard's name.
    fn find_folder_of_name(&self, name: &str) -> Option<PathBuf> {
        let loaded = self.plugins.iter();
        let loaded = loaded.map(|plugin| (&plugin.manifest.name, &plugin.folder));
        let failed = self.left_out.iter();
        let failed = failed
            .filter(|left| matches!(left.why, LeftOutReason::Failed(_) | LeftOutReason::Held(_)));
        let mut all = loaded.chain(failed.map(|left| (&left.name, &left.found.folder)));
        all.find(|(own, _)| *own == name)
            .map(|(_, folder)| folder.clone())
    }

    async fn load_found_plugin(&mut self, loader: &PluginLoader<'_>, found: FoundPlugin) {
        let held = loader
            .options
            .find_in_memory_folder(&found.folder)
            .map(|held| &**held);
        let changed = installed::find_installed_plugin(&found, &loader.options.installed)
            .and_then(InstalledPlugin::changed_files_error);
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
                let why = match (
                    policy.find_disabling_entry(&name),
                    self.find_folder_of_name(&name),
                ) {
                    (Some(place), _) => LeftOutReason::Disallowed { place },
                    (None, Some(by)) => LeftOutReason::Shadowed { by },
                    (None, None) => (!is_protected)
                        .then(|| loader.options.find_disabling_reason(&name, found.trust))
                        .flatten()
                        .unwrap_or(LeftOutReason::Failed(error)),
                };
                return self
                    .left_out
                    .push(LeftOutPlugin::new(name, found, why, true));
            }
        };
        let name = manifest.name.clone();
        let mut settings = loader.options.plugin_settings_for(&name, found.trust);
        let is_protected = protected::is_protected(&name);
        if is_protected && found.trust == Trust::Managed {
            let refused =
                protected::restrict_protected_settings(&manifest, &mut settings, loader.options);
            self.refused.extend(refused);
        }
        let policy = protected::protected_policy(&name, &loader.options.grants.policy);
        let mut may_block = relied::may_block_on_failure(&manifest, &settings);
        let why = if is_protected && found.trust != Trust::Managed {
            LeftOutReason::Failed(Error::Reserved {
                plugin: name.clone(),
            })
        } else if let Some(by) = self.find_folder_of_name(&name) {
            LeftOutReason::Shadowed { by }
        } else if let Some(place) = policy.find_disabling_entry(&name) {
            LeftOutReason::Disallowed { place }
        } else if !settings.enabled || (loader.options.without.contains(&name) && !is_protected) {
            let off = loader.options.find_disabling_reason(&name, found.trust);
            off.unwrap_or(LeftOutReason::Without)
        } else {
            match loader
                .load_plugin(manifest, settings, &found, None, &mut self.given)
                .await
            {
                Ok(PluginLoadResult::Waits(plugin)) => {
                    may_block = relied::has_blocking_hook(&plugin);
                    LeftOutReason::Held(Box::new(plugin))
                }
                Ok(PluginLoadResult::Runs(plugin)) => return self.plugins.push(Arc::new(plugin)),
                Err(error) => LeftOutReason::Failed(error),
            }
        };
        self.left_out
            .push(LeftOutPlugin::new(name, found, why, may_block));
    }
}

impl PluginSet {
    /// Loads a third-party component that was not built for Rind's contract. The component has no
    /// settings, and must not have the name of a plugin.
    async fn load_foreign_component(
        &mut self,
        loader: &PluginLoader<'_>,
        component: &ForeignComponent,
    ) {
        let name = component.manifest.name.clone();
        let found = FoundPlugin {
            trust: Trust::Local,
            folder: component.folder.clone(),
        };
        let policy = &loader.options.grants.policy;
        let why = if let Some(by) = self.find_folder_of_name(&name) {
            LeftOutReason::Shadowed { by }
        } else if let Some(place) = policy.find_disabling_entry(&name) {
            LeftOutReason::Disallowed { place }
        } else {
            let (manifest, settings) = (component.manifest.clone(), PluginSettings::default());
            let loaded =
                loader.load_plugin(manifest, settings, &found, Some(component), &mut self.given);
            match loaded.await {
                Ok(PluginLoadResult::Waits(plugin)) => LeftOutReason::Held(Box::new(plugin)),
                Ok(PluginLoadResult::Runs(plugin)) => return self.plugins.push(Arc::new(plugin)),
                Err(error) => LeftOutReason::Failed(error),
            }
        };
        self.left_out
            .push(LeftOutPlugin::new(name, found, why, false));
    }
}
