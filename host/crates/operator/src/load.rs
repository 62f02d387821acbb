//! Loads plugins by the operator's rules, which determine the folders, the installed plugins and
//! the granted permissions.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::component::generate_component_manifest;
use super::misplaced;
use super::plugin_flags;
use super::project;
use super::settings::PluginSelection;
use super::setup::OperatorWorkspaceSetup;
use rind_lib::config::{Config, PluginsConfig};
use rind_lib::egress::EgressOptions;
use rind_lib::grant::Trust;
use rind_lib::grant::ask::GrantOptions;
use rind_lib::grant::held::InMemoryFolder;
use rind_lib::paths::RindPaths;
use rind_lib::plugin;
use rind_lib::plugin::compile::Compiler;
use rind_lib::plugin::component::ComponentWithoutOwnManifest;
use rind_lib::plugin::discover::{FoundPlugin, PluginSearchPath};
use rind_lib::plugin::load::{BeforeCompileCallback, FoundPluginSet, PluginLoadOptions};
use rind_lib::plugin::protected;
use rind_package::installed;
use rind_package::lock_file::{LockEntry, LockedPlugin};

/// Time limit for compiling a component for the author of its plugin. It is longer than the default
/// of two minutes, which CPython exceeded on a busy machine.
const PLUGIN_AUTHOR_COMPILE_TIMEOUT: Duration = Duration::from_secs(600);

/// Plugins to load, with all decisions of the operator about them.
#[derive(Clone, Debug)]
pub struct PluginLoadPlan {
    options: PluginLoadOptions,
    selection: PluginSelection,
    setup: OperatorWorkspaceSetup,
}

impl PluginLoadPlan {
    /// Collects the plugins of a run: those of the installation, of the user and of the trusted
    /// project, and those that `selection` names.
    ///
    /// # Errors
    /// A folder, a component, the lock file, the secrets or a setting is wrong.
    pub fn new(
        setup: &OperatorWorkspaceSetup,
        selection: &PluginSelection,
        mut grants: GrantOptions,
    ) -> anyhow::Result<Self> {
        let components = selection.components.iter();
        let components =
            components.map(|file| generate_component_manifest(setup, file, &selection.grants));
        let components =
            components.collect::<anyhow::Result<Vec<ComponentWithoutOwnManifest>>>()?;
        // Grant all permissions that the manifest generated for a component requests, because the
        // operator named exactly these permissions.
        let flags = components
            .iter()
            .filter(|own| !own.manifest.requested_permissions().is_empty());
        for own in flags {
            let flag = own.manifest.name.parse().map_err(anyhow::Error::msg)?;
            grants.flags.push(flag);
        }
        let OperatorWorkspaceSetup {
            environment,
            paths,
            config,
            project,
            ..
        } = setup;
        let managed = environment.list_bundled_plugin_folders()?.into_iter();
        let managed = managed.map(|path| PluginSearchPath::new(Trust::Managed, path));
        let mut sources: Vec<PluginSearchPath> = managed.collect();
        let mut chosen = Vec::new();
        let held = match &environment.carried {
            Some(carried) => Some(Arc::new(
                carried.files.clone().with_fallback_folder(project.clone()),
            )),
            None => project.clone(),
        };
        if selection.is_local_only {
            chosen = protected::find_protected_plugins(&sources, held.as_deref());
            sources.clear();
        } else if let Some(set) = &selection.set {
            chosen = set.to_plugin_search_results();
            grants.exact = set.grants();
        } else {
            sources.push(PluginSearchPath::new(
                Trust::User,
                paths.config.join("plugins"),
            ));
            sources.extend(
                project
                    .as_ref()
                    .map(|_| project::project_plugin_search_path(paths)),
            );
        }
        // Grants are stored for the canonical path of a plugin, so use that path here.
        let local = |path: &PathBuf| {
            let path = path.canonicalize().unwrap_or_else(|_| path.clone());
            PluginSearchPath::new(Trust::Local, path)
        };
        sources.extend(selection.local.iter().map(local));
        // Ignore the settings of the project, which must not determine the trusted signing keys.
        let written = config.clone_without_file_layers(&paths.project_config_path());
        let installed = if let Some(set) = &selection.set {
            set.to_installed_plugins()
        } else if selection.is_local_only {
            Vec::new()
        } else {
            let lock_path = paths.config.join(LockedPlugin::FILE_NAME);
            installed::verify_installed_plugins(
                &paths.config.join("plugins"),
                &lock_path,
                &written.section()?,
            )?
        };
        let carried = environment.carried.as_ref();
        let options = PluginLoadOptions {
            sources,
            chosen,
            components,
            held,
            installed,
            without: [selection.without.clone(), selection.unsuited.clone()].concat(),
            expects_installed: !selection.is_local_only && selection.set.is_none(),
            compiler: Compiler {
                // The helper is a child process that compiles components. Without it, they are
                // compiled on a thread.
                helper: environment.program.clone(),
                precompiled: carried.map_or_else(Default::default, |own| own.precompiled.clone()),
                ..Compiler::default()
            },
            settings: written.section::<PluginsConfig>()?.0,
            project_settings: config.section::<PluginsConfig>()?.0,
            written,
            project_written: config.clone(),
            grants,
            protected: environment
                .installation_plugins_folder()
                .into_iter()
                .collect(),
            egress: EgressOptions {
                secrets: setup.secrets()?,
                ..EgressOptions::default()
            },
            ..PluginLoadOptions::default()
        };
        Ok(Self {
            options: options.with_workspace_and_data_folders(paths),
            selection: selection.clone(),
            setup: setup.clone(),
        })
    }

    /// Collects only the plugin in `folder`, with the given trust and without the operator's
    /// settings.
    ///
    /// # Errors
    /// See [`new`](Self::new).
    pub fn for_single_plugin(
        setup: &OperatorWorkspaceSetup,
        folder: &Path,
        trust: Trust,
        grants: GrantOptions,
    ) -> anyhow::Result<Self> {
        let mut setup = setup.clone();
        (setup.config, setup.project) = (Config::default(), None);
        let selection = PluginSelection {
            is_local_only: true,
            ..PluginSelection::default()
        };
        let mut load = Self::new(&setup, &selection, grants)?;
        load.options.chosen = vec![FoundPlugin {
            trust,
            folder: folder.to_owned(),
        }];
        Ok(load)
    }

    /// Sets options for the author of a plugin, who compiles it repeatedly: a longer time limit,
    /// and a cache of compiled functions.
    #[must_use]
    pub fn with_plugin_author_options(mut self) -> Self {
        let compiler = &mut self.options.compiler;
        (compiler.keeps_functions, compiler.time_limit) = (true, PLUGIN_AUTHOR_COMPILE_TIMEOUT);
        self
    }

    /// Searches only these folders for plugins, and trusts the plugins like those of the
    /// installation. Ignores settings of plugins that are not found there.
    #[must_use]
    pub fn search_plugins_only_in(mut self, folders: impl IntoIterator<Item = PathBuf>) -> Self {
        let folders = folders.into_iter();
        let sources = folders.map(|path| PluginSearchPath::new(Trust::Managed, path));
        self.options.sources = sources.collect();
        self.options.expects_installed = false;
        self
    }

    /// Sets the folder for the plugins' data and their workspace to those in `paths`.
    #[must_use]
    pub fn with_plugin_folders(mut self, paths: &RindPaths) -> Self {
        self.options.data = paths.data.join("plugins");
        self.options.workspace.clone_from(&paths.workspace);
        self
    }

    /// Sets a function that is called before a component is compiled.
    #[must_use]
    pub fn with_compile_callback(mut self, on_compile: Option<BeforeCompileCallback>) -> Self {
        self.options.on_compile = on_compile;
        self
    }

    /// Enables every plugin. Returns the location of each setting that disabled a plugin, keyed by
    /// the plugin's name and by whether the setting is for the project's own plugins.
    pub fn enable_all_plugins(&mut self) -> BTreeMap<(String, bool), String> {
        self.options.enable_all_plugins()
    }

    /// Returns the options with which the plugins are loaded.
    #[must_use]
    pub fn load_options(&self) -> &PluginLoadOptions {
        &self.options
    }

    /// Returns the operator's settings and paths.
    #[must_use]
    pub fn operator_setup(&self) -> &OperatorWorkspaceSetup {
        &self.setup
    }

    /// Returns the in-memory files from which plugins and skills are loaded.
    #[must_use]
    pub fn in_memory_folder(&self) -> Option<&Arc<InMemoryFolder>> {
        self.options.held.as_ref()
    }

    /// Loads the plugins.
    ///
    /// # Errors
    /// The engine or the cache cannot be used. A plugin that cannot be loaded causes no error; the
    /// returned set contains it with the reason.
    pub async fn load(&self) -> Result<FoundPluginSet, plugin::Error> {
        FoundPluginSet::load(&self.options).await
    }

    /// Checks that the plugins which the selection names were loaded. Warns about settings without
    /// effect: those that switch off a plugin which only the administrator can switch off, and
    /// those for hooks that do not exist.
    ///
    /// # Errors
    /// The selection names a plugin that does not exist, or that cannot be used as the flag
    /// requires.
    pub fn check_selected_plugins(&self, plugins: &FoundPluginSet) -> anyhow::Result<()> {
        let config = &self.setup.config;
        plugin_flags::check_plugin_selection_flags(&self.selection, config, plugins)?;
        let stray = misplaced::ineffective_plugin_settings(config, plugins)?;
        let all = plugins.refused.iter().chain(&stray);
        all.for_each(|text| self.setup.environment.warn(text));
        Ok(())
    }
}
