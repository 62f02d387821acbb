//! Loads plugins from folders: every found plugin is checked, compiled, linked and asked for its tools; one that fails is
//! reported and not loaded, the rest run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use serde_json::Value;

use super::access_log::MAX_RECORDS;
use super::cache::CompileCache;
use super::commands::CommandSpec;
use super::compile::Compiler;
use super::contract::stamp::Stamp;
use super::discover::{Found, Source, discover};
use super::engine::engine;
use super::host::Backing;
use super::installed::{self, Installed};
use super::instance::Template;
use super::loader::Loader;
use super::manifest::Manifest;
use super::meter::Meter;
use super::prompts::PromptFile;
use super::relied::{self, Absent, Reliance};
use super::store::PluginStore;
use super::{Error, imports, protected};
use crate::config::{Config, PluginSettings};
use crate::egress::{EgressOptions, PluginEgress};
use crate::folder::GrantedFolders;
use crate::grant::ask::{Given, GrantOptions};
use crate::grant::decide::{Decision, Standing};
use crate::grant::held::HeldFolder;
use crate::grant::policy::Required;
use crate::grant::{Granted, Request, Trust};
use crate::message::ToolSpec;
use crate::paths::Paths;

/// Options for loading plugins.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// Folders to search.
    pub sources: Vec<Source>,
    /// Folders that are plugins themselves, besides what is found there.
    pub chosen: Vec<Found>,
    /// A folder that was read before, when somebody was asked about it: what is in it is taken from here and not read again.
    pub held: Option<Arc<HeldFolder>>,
    /// Plugins that were installed, with what was verified of each.
    pub installed: Vec<Installed>,
    /// Folder of the compile cache.
    pub cache: PathBuf,
    /// File of the key that marks cache entries.
    pub cache_key: PathBuf,
    /// Compiler for components that are not in the cache.
    pub compiler: Compiler,
    /// Folder that holds a folder of stored values for each plugin.
    pub data: PathBuf,
    /// Plugins that the operator leaves out of this run, by name.
    pub without: Vec<String>,
    /// Whether a plugin that the settings configure must be there. Not where only some places are searched.
    pub expects_installed: bool,
    /// Settings by plugin name.
    pub settings: BTreeMap<String, PluginSettings>,
    /// Settings of the project's own plugins, which the project may set itself; where there are none, those above hold.
    pub project_settings: BTreeMap<String, PluginSettings>,
    /// Source of `settings`, for line numbers in messages.
    pub written: Config,
    /// Source of `project_settings`.
    pub project_written: Config,
    /// Options for granting permissions.
    pub grants: GrantOptions,
    /// The folder that the agent works in.
    pub workspace: PathBuf,
    /// Rind's own folders, which no grant reaches.
    pub protected: Vec<PathBuf>,
    /// Options for requests of plugins.
    pub egress: EgressOptions,
    /// Whether every call gets a fresh instance.
    pub is_cold: bool,
    /// Counts the use that the plugins make of the host.
    pub meter: Option<Arc<Meter>>,
}

impl LoadOptions {
    /// Sets the folders: what is cached and stored in those of `paths`, which no grant reaches.
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

    /// The settings of a plugin. What a project sets is for its own plugins only: it must not switch a guard off.
    fn settings_of(&self, name: &str, trust: Trust) -> PluginSettings {
        let of_project = self
            .project_settings
            .get(name)
            .filter(|_| trust == Trust::Project);
        let settings = of_project.or_else(|| self.settings.get(name));
        settings.cloned().unwrap_or_default()
    }

    /// Returns the flag or setting that switches a plugin off, if there is one.
    fn switched_off(&self, name: &str, trust: Trust) -> Option<Why> {
        if self.without.iter().any(|without| without == name) {
            return Some(Why::Without);
        }
        let place = || self.places(name, trust)(&["enabled"]);
        (!self.settings_of(name, trust).enabled).then(|| Why::Disabled {
            place: place().unwrap_or_else(|| "your settings".to_owned()),
        })
    }

    /// Switches on what settings switch off, for a look at it. Where each was switched off, by its name and whether that holds
    /// for the project's own plugins.
    #[must_use]
    pub fn switch_all_on(&mut self) -> BTreeMap<(String, bool), String> {
        let mut off = BTreeMap::new();
        let layers = [
            (Trust::User, &self.settings),
            (Trust::Project, &self.project_settings),
        ];
        for (trust, all) in layers {
            for (name, _) in all.iter().filter(|(_, settings)| !settings.enabled) {
                let place = self.places(name, trust)(&["enabled"]);
                let of_project = trust == Trust::Project;
                off.insert((name.clone(), of_project), place.unwrap_or_default());
            }
        }
        let settings = self.settings.values_mut();
        let all = settings.chain(self.project_settings.values_mut());
        all.for_each(|settings| settings.enabled = true);
        off
    }

    /// The held files that a plugin in `folder` is read from, if it is.
    pub(super) fn held_for(&self, folder: &Path) -> Option<&Arc<HeldFolder>> {
        let own = self.installed.iter().find(|own| own.folder == folder);
        let verified = own.and_then(|own| own.files.as_ref().ok());
        let held = self.held.as_ref().filter(|held| held.covers(folder));
        verified.or(held)
    }

    /// Says where something under `[plugins.NAME]` is written: `FILE:LINE` or the flag, of the layer that decides.
    pub(super) fn places<'a>(
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

/// A plugin that is ready to run.
pub struct Loaded {
    /// Manifest of the plugin.
    pub manifest: Manifest,
    /// Trust of the plugin.
    pub trust: Trust,
    /// Folder of the plugin.
    pub folder: PathBuf,
    /// Content of the folder, if only what was verified or trusted counts.
    pub held: Option<Arc<HeldFolder>>,
    /// Digest of its component; empty without one.
    pub digest: String,
    /// Every interface it imports, as it names them.
    pub imports: Vec<String>,
    /// Every interface of ours that it exports, without package and version.
    pub exports: Vec<String>,
    /// Stamp of its component.
    pub stamp: Option<Stamp>,
    /// Place in the policy that mutes it: nobody is asked its questions.
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
    pub(super) template: Option<Arc<Template>>,
    pub(super) meter: Option<Arc<Meter>>,
}

impl std::fmt::Debug for Loaded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loaded")
            .field("name", &self.manifest.name)
            .field("trust", &self.trust)
            .finish_non_exhaustive()
    }
}

/// A plugin that was found and does not run.
#[derive(Debug)]
pub struct LeftOut {
    /// Name, or the folder when the manifest could not be read.
    pub name: String,
    /// Place where it was found.
    pub found: Found,
    /// Reason why it does not run.
    pub why: Why,
    /// Reason why no session begins without it; `None` when one does.
    pub reliance: Option<Reliance>,
    /// Whether a hook of it refuses when it fails, as far as that can be known.
    pub(super) may_block: bool,
}

impl LeftOut {
    pub(super) fn new(name: String, found: Found, why: Why, may_block: bool) -> Self {
        Self {
            name,
            found,
            why,
            reliance: None,
            may_block,
        }
    }
}

/// Reason why a plugin does not run.
#[derive(Debug)]
pub enum Why {
    /// Loading failed.
    Failed(Error),
    /// A more trusted plugin has its name.
    Shadowed {
        /// Folder of that plugin.
        by: PathBuf,
    },
    /// The operator switched it off.
    Disabled {
        /// Place: `FILE:LINE` or the flag.
        place: String,
    },
    /// The operator left it out of this run.
    Without,
    /// A policy leaves it out.
    Disallowed {
        /// Policy file, and the place in it.
        place: String,
    },
    /// The plugin needs permissions that only the operator can grant, and they were not granted. Its decision says what waits.
    Held(Box<Loaded>),
}

impl std::fmt::Display for Why {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Failed(error) => error.fmt(f),
            Self::Shadowed { by } => write!(f, "shadowed by {}", by.display()),
            Self::Disabled { place } | Self::Disallowed { place } => {
                write!(f, "switched off by {place}")
            }
            Self::Without => f.write_str("switched off by --without"),
            Self::Held(plugin) => {
                let waiting = plugin.decision.of(Standing::Waiting);
                let waiting: Vec<String> = waiting.map(ToString::to_string).collect();
                write!(
                    f,
                    "it needs permissions that you have not granted: {}",
                    waiting.join(", ")
                )
            }
        }
    }
}

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
    /// Finds and loads plugins. An error is about the host itself (no engine, no cache folder); what is wrong with one
    /// plugin stands in [`PluginSet::left_out`].
    pub async fn load(options: &LoadOptions) -> Result<Self, Error> {
        let mut set = Self {
            required: options.grants.policy.required(),
            ..Self::default()
        };
        set.refused = super::astray::astray(&options.sources, options.held.as_deref());
        let mut found = discover(&options.sources, options.held.as_deref());
        installed::settle(&mut found, &options.installed, &options.sources);
        let notes = options.installed.iter().filter_map(|own| own.note.clone());
        set.refused.extend(notes);
        found.extend(options.chosen.iter().cloned());
        found.sort();
        if !found.is_empty() {
            let loader = Loader {
                engine: engine()?,
                cache: CompileCache::open(&options.cache, &options.cache_key)?,
                options,
            };
            for found in found {
                set.take(&loader, found).await;
            }
            super::depend::settle(&mut set);
        }
        set.settle_reliance(options);
        Ok(set)
    }

    /// Folder of the more trusted plugin that has this name. One that failed or waits keeps its name: otherwise breaking a guard
    /// would make room for somebody else's plugin of the same name.
    fn holder(&self, name: &str) -> Option<PathBuf> {
        let loaded = self.plugins.iter();
        let loaded = loaded.map(|plugin| (&plugin.manifest.name, &plugin.folder));
        let failed = self.left_out.iter();
        let failed = failed.filter(|left| matches!(left.why, Why::Failed(_) | Why::Held(_)));
        let mut all = loaded.chain(failed.map(|left| (&left.name, &left.found.folder)));
        all.find(|(own, _)| *own == name)
            .map(|(_, folder)| folder.clone())
    }

    async fn take(&mut self, loader: &Loader<'_>, found: Found) {
        let held = loader.options.held_for(&found.folder).map(|held| &**held);
        let changed = installed::of(&found, &loader.options.installed).and_then(Installed::refusal);
        let read = changed.map_or_else(|| Manifest::read(&found.folder, held), Err);
        let manifest = match read {
            Ok(manifest) => manifest,
            Err(error) => {
                let name = found.folder.file_name().unwrap_or(found.folder.as_os_str());
                let name = name.to_string_lossy().into_owned();
                // A protected plugin is only switched off by the administrator, also when it is broken.
                let is_protected = protected::is_protected(&name) && found.trust == Trust::Managed;
                let policy = protected::policy(&name, &loader.options.grants.policy);
                let why = match policy.disables(&name) {
                    Some(place) => Why::Disallowed { place },
                    None => (!is_protected)
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
            let refused = protected::settle(&manifest, &mut settings, loader.options);
            self.refused.extend(refused);
        }
        let policy = protected::policy(&name, &loader.options.grants.policy);
        let mut may_block = relied::may_block(&manifest, &settings);
        let why = if is_protected && found.trust != Trust::Managed {
            Why::Failed(Error::Reserved {
                plugin: name.clone(),
            })
        } else if let Some(by) = self.holder(&name) {
            Why::Shadowed { by }
        } else if let Some(place) = policy.disables(&name) {
            Why::Disallowed { place }
        } else if !settings.enabled || (loader.options.without.contains(&name) && !is_protected) {
            let off = loader.options.switched_off(&name, found.trust);
            off.unwrap_or(Why::Without)
        } else {
            match loader
                .load(manifest, settings, &found, &mut self.given)
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

impl Loaded {
    /// Whether it defines the same points as another version.
    pub(crate) fn defines_points_of(&self, other: &Self) -> bool {
        let points = |plugin: &Self| serde_json::to_string(&plugin.manifest.points).ok();
        points(self) == points(other)
    }

    /// Creates the state that the plugin's instances in one session share.
    pub(super) fn backing(
        &self,
        handle: Arc<dyn crate::point::handle::AgentHandle>,
    ) -> Arc<Backing> {
        Arc::new(Backing {
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
        })
    }
}
