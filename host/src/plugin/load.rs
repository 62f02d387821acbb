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

pub use self::checked::PluginWithCheckedSettings;
pub use self::decided::PluginWithPermissionDecision;
pub use self::left_out::{PluginSkipReason, SkippedPlugin};
pub use self::linked::LoadedPlugin;
pub(in crate::plugin) use self::linked::{ImportLinkingOutcome, PluginAccessibleResources};
pub use self::listed::PluginWithListedTools;
pub(in crate::plugin) use self::listed::{ComponentMetadata, ComponentWithInstanceTemplate};
pub use self::options::{BeforeCompileCallback, PluginLoadOptions};
use super::cache::CompileCache;
use super::component::ComponentWithoutOwnManifest;
use super::discover::{FoundPlugin, discover_plugins};
use super::engine::create_engine;
use super::installed::{self, InstalledPlugin};
use super::loader::{PluginLoadResult, PluginLoader};
use super::manifest::Manifest;
use super::relied::{self, MissingReliedOnPlugin};
use super::{Error, protected};
use crate::config::PluginSettings;
use crate::grant::Trust;
use crate::grant::ask::GrantApproval;
use crate::grant::policy::RequiredPlugin;

/// All plugins that were found: those that run and those that do not.
#[derive(Debug, Default)]
pub struct FoundPluginSet {
    /// Plugins that run, sorted by name, but each plugin after its dependencies.
    pub plugins: Vec<Arc<LoadedPlugin>>,
    /// Plugins that were found but do not run, with the reasons.
    pub left_out: Vec<SkippedPlugin>,
    /// Plugins that the operator relies on and that were not found.
    pub absent: Vec<MissingReliedOnPlugin>,
    /// Permissions that the operator granted while plugins were loaded.
    pub given: Vec<GrantApproval>,
    /// Messages for the user, one line each, about misplaced files and about settings that have no
    /// effect.
    pub refused: Vec<String>,
    /// Plugins without which the operator's policy lets no session start.
    pub(super) required: Vec<RequiredPlugin>,
}

impl FoundPluginSet {
    /// Finds and loads plugins. An error concerns the host itself (no engine, no cache folder);
    /// problems of single plugins are in [`FoundPluginSet::left_out`].
    pub async fn load(options: &PluginLoadOptions) -> Result<Self, Error> {
        let mut set = Self {
            required: options.grants.policy.required_plugins(),
            ..Self::default()
        };
        set.refused =
            super::astray::describe_misplaced_files(&options.sources, options.held.as_deref());
        let mut found = discover_plugins(&options.sources, options.held.as_deref());
        installed::replace_found_with_installed(&mut found, &options.installed, &options.sources);
        let notes = options.installed.iter().filter_map(|own| own.note.clone());
        set.refused.extend(notes);
        found.extend(options.chosen.iter().cloned());
        super::discover::sort_plugins_by_precedence(&mut found, options.held.as_deref());
        if !found.is_empty() || !options.components.is_empty() {
            let loader = PluginLoader {
                engine: create_engine()?,
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
                set.load_component_without_contract(&loader, component)
                    .await;
            }
            super::depend::resolve_dependencies(&mut set);
        }
        let loaded = set
            .plugins
            .iter()
            .map(|plugin| plugin.manifest.name.as_str());
        let left_out = set.left_out.iter().map(|left| left.name.as_str());
        let known: Vec<&str> = loaded.chain(left_out).collect();
        let misspelt = options
            .grants
            .policy
            .misspelled_plugin_name_warnings(&known);
        set.refused.extend(misspelt);
        set.mark_needed_unloaded_plugins(options);
        Ok(set)
    }

    /// Returns the folder of the plugin that already has this name; the more trusted plugin is
    /// loaded first. A plugin that failed or waits for permissions keeps its name: otherwise
    /// breaking a guard would let an untrusted plugin take the guard's name.
    fn find_folder_of_plugin(&self, name: &str) -> Option<PathBuf> {
        let loaded = self.plugins.iter();
        let loaded = loaded.map(|plugin| (&plugin.manifest.name, &plugin.folder));
        let failed = self.left_out.iter();
        let failed = failed.filter(|left| {
            matches!(
                left.why,
                PluginSkipReason::Failed(_) | PluginSkipReason::Held(_)
            )
        });
        let mut all = loaded.chain(failed.map(|left| (&left.name, &left.found.folder)));
        all.find(|(own, _)| *own == name)
            .map(|(_, folder)| folder.clone())
    }

    async fn load_found_plugin(&mut self, loader: &PluginLoader<'_>, found: FoundPlugin) {
        let held = loader
            .options
            .in_memory_plugin_folder(&found.folder)
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
                let is_protected =
                    protected::is_protected_plugin(&name) && found.trust == Trust::Managed;
                let policy =
                    protected::effective_plugin_policy(&name, &loader.options.grants.policy);
                let why = match (
                    policy.find_disabling_entry(&name),
                    self.find_folder_of_plugin(&name),
                ) {
                    (Some(place), _) => PluginSkipReason::Disallowed { place },
                    (None, Some(by)) => PluginSkipReason::Shadowed { by },
                    (None, None) => (!is_protected)
                        .then(|| loader.options.find_disabling_reason(&name, found.trust))
                        .flatten()
                        .unwrap_or(PluginSkipReason::Failed(error)),
                };
                return self
                    .left_out
                    .push(SkippedPlugin::new(name, found, why, true));
            }
        };
        let name = manifest.name.clone();
        let mut settings = loader.options.plugin_settings_for(&name, found.trust);
        let is_protected = protected::is_protected_plugin(&name);
        if is_protected && found.trust == Trust::Managed {
            let refused = protected::restrict_protected_plugin_settings(
                &manifest,
                &mut settings,
                loader.options,
            );
            self.refused.extend(refused);
        }
        let policy = protected::effective_plugin_policy(&name, &loader.options.grants.policy);
        let mut may_block = relied::may_have_blocking_hook(&manifest, &settings);
        let why = if is_protected && found.trust != Trust::Managed {
            PluginSkipReason::Failed(Error::Reserved {
                plugin: name.clone(),
            })
        } else if let Some(by) = self.find_folder_of_plugin(&name) {
            PluginSkipReason::Shadowed { by }
        } else if let Some(place) = policy.find_disabling_entry(&name) {
            PluginSkipReason::Disallowed { place }
        } else if !settings.enabled || (loader.options.without.contains(&name) && !is_protected) {
            let off = loader.options.find_disabling_reason(&name, found.trust);
            off.unwrap_or(PluginSkipReason::Without)
        } else {
            match loader
                .load_plugin(manifest, settings, &found, None, &mut self.given)
                .await
            {
                Ok(PluginLoadResult::Waits(plugin)) => {
                    may_block = relied::has_blocking_hook(&plugin);
                    PluginSkipReason::Held(Box::new(plugin))
                }
                Ok(PluginLoadResult::Runs(plugin)) => return self.plugins.push(Arc::new(plugin)),
                Err(error) => PluginSkipReason::Failed(error),
            }
        };
        self.left_out
            .push(SkippedPlugin::new(name, found, why, may_block));
    }
}

impl FoundPluginSet {
    /// Loads a third-party component that was not built for Rind's contract. The component has no
    /// settings, and must not have the name of a plugin.
    async fn load_component_without_contract(
        &mut self,
        loader: &PluginLoader<'_>,
        component: &ComponentWithoutOwnManifest,
    ) {
        let name = component.manifest.name.clone();
        let found = FoundPlugin {
            trust: Trust::Local,
            folder: component.folder.clone(),
        };
        let policy = &loader.options.grants.policy;
        let why = if let Some(by) = self.find_folder_of_plugin(&name) {
            PluginSkipReason::Shadowed { by }
        } else if let Some(place) = policy.find_disabling_entry(&name) {
            PluginSkipReason::Disallowed { place }
        } else {
            let (manifest, settings) = (component.manifest.clone(), PluginSettings::default());
            let loaded =
                loader.load_plugin(manifest, settings, &found, Some(component), &mut self.given);
            match loaded.await {
                Ok(PluginLoadResult::Waits(plugin)) => PluginSkipReason::Held(Box::new(plugin)),
                Ok(PluginLoadResult::Runs(plugin)) => return self.plugins.push(Arc::new(plugin)),
                Err(error) => PluginSkipReason::Failed(error),
            }
        };
        self.left_out
            .push(SkippedPlugin::new(name, found, why, false));
    }
}
