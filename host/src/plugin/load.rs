//! Loads plugins from folders: every found plugin is checked, compiled, linked and asked for its
//! tools; one that fails is reported and not loaded, the rest run.

mod left_out;
mod options;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use serde_json::Value;

pub use self::left_out::{LeftOut, Why};
pub use self::options::{LoadOptions, OnCompile};
use super::access_log::MAX_RECORDS;
use super::cache::CompileCache;
use super::commands::CommandSpec;
use super::component::{ForeignComponent, ForeignFunctions};
use super::contract::stamp::Stamp;
use super::discover::{Found, discover};
use super::engine::engine;
use super::fixed::{CallCount, FixedWorld};
use super::host::PluginBacking;
use super::installed::{self, Installed};
use super::instance::InstanceTemplate;
use super::loader::PluginLoader;
use super::manifest::Manifest;
use super::meter::Meter;
use super::prompts::PromptFile;
use super::relied::{self, Absent};
use super::store::PluginStore;
use super::{Error, imports, protected};
use crate::config::PluginSettings;
use crate::egress::PluginEgress;
use crate::folder::GrantedFolders;
use crate::grant::ask::Given;
use crate::grant::decide::Decision;
use crate::grant::held::HeldFolder;
use crate::grant::policy::Required;
use crate::grant::{Granted, Request, Trust};
use crate::message::ToolSpec;

/// A plugin that is ready to run.
pub struct Loaded {
    /// Manifest of the plugin.
    pub manifest: Manifest,
    /// Trust of the plugin.
    pub trust: Trust,
    /// Folder of the plugin.
    pub folder: PathBuf,
    /// Content of the folder, if only verified or trusted content counts.
    pub held: Option<Arc<HeldFolder>>,
    /// Digest of its component; empty without one.
    pub digest: String,
    /// Every interface it imports, as it names them.
    pub imports: Vec<String>,
    /// Every interface of ours that it exports, without package and version.
    pub exports: Vec<String>,
    /// Stamp of its component.
    pub stamp: Option<Stamp>,
    /// Place in the policy that mutes it: its questions are not asked.
    pub muted_by: Option<String>,
    /// Tools of the plugin.
    pub tools: Vec<ToolSpec>,
    /// Slash commands of the plugin.
    pub commands: Vec<CommandSpec>,
    /// Templates of prompts that it carries.
    pub prompts: Arc<[PromptFile]>,
    /// Linear memory that one instance may take, in bytes.
    pub memory_limit: u64,
    /// Time that loading took.
    pub load_time: Duration,
    /// Whether its native code came from the cache.
    pub was_cached: bool,
    /// Whether a policy says that nothing runs without it.
    pub(super) is_required: bool,
    pub(super) settings: PluginSettings,
    pub(super) config: Arc<Value>,
    /// Requested permissions.
    pub request: Request,
    /// Decision on the request.
    pub decision: Decision,
    /// Granted permissions.
    pub granted: Arc<Granted>,
    /// Egress of its requests; `None` without the network, and while its tools are listed.
    pub(super) egress: Option<Arc<PluginEgress>>,
    pub(super) store: PluginStore,
    pub(super) folders: Arc<GrantedFolders>,
    /// Folder of the plugin among the host's, with its store and its `data`.
    pub(super) own_folder: PathBuf,
    pub(super) template: Option<Arc<InstanceTemplate>>,
    /// Functions of a component that knows no contract; `None` for a plugin.
    pub(super) foreign: Option<ForeignFunctions>,
    /// Environment variables of such a component.
    pub(super) environment: Arc<[(String, String)]>,
    pub(super) meter: Option<Arc<Meter>>,
    pub(super) fixed: Option<FixedWorld>,
}

debug_some!(Loaded, self, name = self.manifest.name, trust = self.trust);

/// All plugins that were found, loaded or not.
#[derive(Debug, Default)]
pub struct PluginSet {
    /// Plugins that run, dependencies before those that need them, otherwise by name.
    pub plugins: Vec<Arc<Loaded>>,
    /// Plugins that do not.
    pub left_out: Vec<LeftOut>,
    /// Plugins that the operator relies on and that were not found.
    pub absent: Vec<Absent>,
    /// Permissions that the operator granted while plugins were loaded.
    pub given: Vec<Given>,
    /// Settings that do not count, and why, each a line for people.
    pub refused: Vec<String>,
    /// Plugins without which no session begins.
    pub(super) required: Vec<Required>,
}

impl PluginSet {
    /// Finds and loads plugins. An error is about the host itself (no engine, no cache folder); a
    /// problem of one plugin is in [`PluginSet::left_out`].
    pub async fn load(options: &LoadOptions) -> Result<Self, Error> {
        let mut set = Self {
            required: options.grants.policy.required(),
            ..Self::default()
        };
        set.refused = super::astray::find_astray(&options.sources, options.held.as_deref());
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

    /// Folder of the more trusted plugin that has this name. A plugin that failed or waits keeps
    /// its name: otherwise breaking a guard would let an untrusted plugin take the guard's name.
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
        let held = loader.options.held_for(&found.folder).map(|held| &**held);
        let changed =
            installed::installed_of(&found, &loader.options.installed).and_then(Installed::refusal);
        let read = changed.map_or_else(|| Manifest::read(&found.folder, held), Err);
        let manifest = match read {
            Ok(manifest) => manifest,
            Err(error) => {
                let name = found.folder.file_name().unwrap_or(found.folder.as_os_str());
                let name = name.to_string_lossy().into_owned();
                // A protected plugin is only switched off by the administrator, also when it is
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
                Ok(plugin) if plugin.decision.is_waiting() => {
                    may_block = relied::does_block(&plugin);
                    Why::Held(Box::new(plugin))
                }
                Ok(plugin) => return self.plugins.push(Arc::new(plugin)),
                Err(error) => Why::Failed(error),
            }
        };
        self.left_out
            .push(LeftOut::new(name, found, why, may_block));
    }
}

impl PluginSet {
    /// Loads a component that knows no contract. It has no settings, and no plugin's name.
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
                Ok(plugin) if plugin.decision.is_waiting() => Why::Held(Box::new(plugin)),
                Ok(plugin) => return self.plugins.push(Arc::new(plugin)),
                Err(error) => Why::Failed(error),
            }
        };
        self.left_out.push(LeftOut::new(name, found, why, false));
    }
}

impl Loaded {
    /// Whether it is a component that knows no contract.
    #[must_use]
    pub fn is_foreign(&self) -> bool {
        self.foreign.is_some()
    }

    /// Functions of such a component that are not offered, each with the reason.
    #[must_use]
    pub fn refused_functions(&self) -> &[String] {
        self.foreign.as_ref().map_or(&[], |own| &own.refused)
    }

    /// Whether it defines the same points as another version.
    pub(crate) fn defines_points_of(&self, other: &Self) -> bool {
        let points = |plugin: &Self| serde_json::to_string(&plugin.manifest.points).ok();
        points(self) == points(other)
    }

    /// Whether anything of its component is ever called: a hook, a tool, a command, an
    /// implementation of a point or a loop. Without a component there is nothing to call, and the
    /// plugin carries prompts or skills alone.
    #[must_use]
    pub fn is_called(&self) -> bool {
        let is_used = |export: &String| match export.as_str() {
            "tools" => !self.tools.is_empty(),
            "commands" => !self.commands.is_empty(),
            "implement" => !self.manifest.implements.is_empty(),
            _ => true,
        };
        self.manifest.component.is_none() || self.is_foreign() || self.exports.iter().any(is_used)
    }

    /// Creates the state that the plugin's instances in one session share.
    pub(super) fn new_backing(
        &self,
        handle: Arc<dyn crate::point::handle::AgentHandle>,
    ) -> Arc<PluginBacking> {
        Arc::new(PluginBacking {
            plugin: Arc::from(self.manifest.name.as_str()),
            keeper: self
                .own_folder
                .file_name()
                .map_or_else(|| Arc::from(""), |name| Arc::from(&*name.to_string_lossy())),
            granted: self.granted.clone(),
            config: self.config.clone(),
            store: self.store.clone(),
            folders: self.folders.clone(),
            egress: self.egress.as_ref().map(|own| own.open(handle.clone())),
            handle,
            log_lines_left: AtomicU32::new(imports::MAX_LOG_LINES),
            file_records_left: AtomicU32::new(MAX_RECORDS + 1),
            is_muted: self.muted_by.is_some(),
            status: std::sync::Mutex::default(),
            reported: std::sync::Mutex::default(),
            meter: self.meter.clone(),
            fixed: self.fixed,
            calls: CallCount::default(),
            environment: self.environment.clone(),
        })
    }
}
