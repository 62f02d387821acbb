//! From folders to plugins that run: every found plugin is checked, compiled, linked and asked for its tools; one that
//! fails is reported and left out, the rest run.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

use serde_json::Value;
use wasmtime::Engine;
use wasmtime::component::types::ComponentItem;

use super::authority::{self, Export};
use super::cache::{CompileCache, ComponentBytes};
use super::discover::{Found, Source, discover};
use super::engine::engine;
use super::exports::Indices;
use super::host::Backing;
use super::imports;
use super::instance::{Slot, Template};
use super::limits::{DEFAULT_MEMORY_BYTES, MAX_MEMORY_BYTES};
use super::manifest::Manifest;
use super::store::PluginStore;
use super::{Error, tools};
use crate::config::PluginSettings;
use crate::grant::{Granted, Trust};
use crate::message::ToolSpec;
use crate::point::caller::Caller;
use crate::point::handle::NoHandle;

/// How long a plugin may take to list its tools when it is loaded.
const LIST_DEADLINE: Duration = Duration::from_secs(5);

/// What loading needs to know.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// Folders to search.
    pub sources: Vec<Source>,
    /// Folder of the compile cache.
    pub cache: PathBuf,
    /// File of the key that marks cache entries.
    pub cache_key: PathBuf,
    /// Folder that holds a folder of stored values for each plugin.
    pub data: PathBuf,
    /// Settings by plugin name.
    pub settings: BTreeMap<String, PluginSettings>,
}

/// A plugin that is ready to run.
pub struct Loaded {
    /// Its manifest.
    pub manifest: Manifest,
    /// Where it came from.
    pub trust: Trust,
    /// Its folder.
    pub folder: PathBuf,
    /// Digest of its component; empty without one.
    pub digest: String,
    /// Every interface it imports, as it names them.
    pub imports: Vec<String>,
    /// Every interface of ours that it exports, without package and version.
    pub exports: Vec<String>,
    /// Its tools.
    pub tools: Vec<ToolSpec>,
    /// Linear memory that one instance may take, in bytes.
    pub memory_limit: u64,
    /// How long loading took.
    pub load_time: Duration,
    /// Whether its native code came from the cache.
    pub was_cached: bool,
    pub(super) settings: PluginSettings,
    pub(super) config: Arc<Value>,
    /// What it may touch.
    pub granted: Arc<Granted>,
    pub(super) store: PluginStore,
    pub(super) template: Option<Arc<Template>>,
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
    /// Its name, or its folder when the manifest could not be read.
    pub name: String,
    /// Where it was found.
    pub found: Found,
    /// Why it does not run.
    pub why: Why,
}

/// Why a plugin does not run.
#[derive(Debug)]
pub enum Why {
    /// It could not be loaded.
    Failed(Error),
    /// A more trusted plugin has its name.
    Shadowed {
        /// Folder of that plugin.
        by: PathBuf,
    },
    /// The operator switched it off.
    Disabled,
}

/// Everything that was found, loaded or not.
#[derive(Debug, Default)]
pub struct PluginSet {
    /// Plugins that run, dependencies before those that need them, otherwise by name.
    pub plugins: Vec<Arc<Loaded>>,
    /// Plugins that do not.
    pub left_out: Vec<LeftOut>,
}

impl PluginSet {
    /// Finds and loads plugins. An error is about the host itself (no engine, no cache folder); what is wrong with one
    /// plugin stands in [`PluginSet::left_out`].
    pub async fn load(options: &LoadOptions) -> Result<Self, Error> {
        let found = discover(&options.sources);
        if found.is_empty() {
            return Ok(Self::default());
        }
        let loader = Loader {
            engine: engine()?,
            cache: CompileCache::open(&options.cache, &options.cache_key)?,
            options,
        };
        let mut set = Self::default();
        for found in found {
            set.take(&loader, found).await;
        }
        super::depend::settle(&mut set);
        Ok(set)
    }

    /// Folder of the more trusted plugin that has this name. One that failed keeps its name: otherwise breaking a guard
    /// would make room for somebody else's plugin of the same name.
    fn holder(&self, name: &str) -> Option<PathBuf> {
        let loaded = self
            .plugins
            .iter()
            .find(|plugin| plugin.manifest.name == name);
        let failed = || {
            self.left_out
                .iter()
                .find(|left| left.name == name && matches!(left.why, Why::Failed(_)))
        };
        loaded
            .map(|plugin| plugin.folder.clone())
            .or_else(|| failed().map(|left| left.found.folder.clone()))
    }

    async fn take(&mut self, loader: &Loader<'_>, found: Found) {
        let manifest = match Manifest::read(&found.folder) {
            Ok(manifest) => manifest,
            Err(error) => {
                let name = found.folder.file_name().map_or_else(
                    || found.folder.display().to_string(),
                    |name| name.to_string_lossy().into_owned(),
                );
                return self.left_out.push(LeftOut {
                    name,
                    found,
                    why: Why::Failed(error),
                });
            }
        };
        let name = manifest.name.clone();
        let settings = loader
            .options
            .settings
            .get(&name)
            .cloned()
            .unwrap_or_default();
        let why = if let Some(by) = self.holder(&name) {
            Why::Shadowed { by }
        } else if !settings.enabled {
            Why::Disabled
        } else {
            match loader.load(manifest, settings, &found).await {
                Ok(plugin) => return self.plugins.push(Arc::new(plugin)),
                Err(error) => Why::Failed(error),
            }
        };
        self.left_out.push(LeftOut { name, found, why });
    }
}

struct Loader<'a> {
    engine: Engine,
    cache: CompileCache,
    options: &'a LoadOptions,
}

impl Loader<'_> {
    async fn load(
        &self,
        manifest: Manifest,
        settings: PluginSettings,
        found: &Found,
    ) -> Result<Loaded, Error> {
        let started = Instant::now();
        let mut plugin = Loaded {
            config: Arc::new(super::settings::config(&manifest, &settings.config)?),
            granted: Arc::new(Granted::new(manifest.requested())),
            store: PluginStore::of(&self.options.data, &manifest.name),
            trust: found.trust,
            folder: found.folder.clone(),
            digest: String::new(),
            imports: Vec::new(),
            exports: Vec::new(),
            tools: Vec::new(),
            memory_limit: manifest
                .limits
                .memory
                .unwrap_or(DEFAULT_MEMORY_BYTES)
                .clamp(1 << 20, MAX_MEMORY_BYTES),
            load_time: Duration::ZERO,
            was_cached: false,
            template: None,
            manifest,
            settings,
        };
        if let Some(path) = plugin.manifest.component_path(&found.folder) {
            if !path.is_file() {
                return Err(Error::NotBuilt {
                    component: path,
                    folder: found.folder.clone(),
                });
            }
            self.compile(&mut plugin, &ComponentBytes::read(&path)?)
                .await?;
        }
        check_declared(&plugin)?;
        plugin.load_time = started.elapsed();
        Ok(plugin)
    }

    /// Compiles the component and checks everything that can be seen without running it; then runs it once to list its
    /// tools, in a session that has nothing in it.
    async fn compile(&self, plugin: &mut Loaded, bytes: &ComponentBytes) -> Result<(), Error> {
        let (component, was_cached) = self.cache.load(&self.engine, bytes).await?;
        let ty = component.component_type();
        for (import, _) in ty.imports(&self.engine) {
            authority::check_import(&plugin.manifest, import)?;
            plugin.imports.push(import.to_owned());
        }
        for (export, item) in ty.exports(&self.engine) {
            if !matches!(item.ty, ComponentItem::ComponentInstance(_)) {
                continue;
            }
            match authority::check_export(&plugin.manifest, export)? {
                Export::Hook(row) => plugin.exports.push(row.name.to_owned()),
                Export::Other(name) => plugin.exports.push(name.to_owned()),
                Export::Foreign => {}
            }
        }
        let start = |e: wasmtime::Error| Error::Start {
            message: format!("{e:#}"),
        };
        let pre = imports::linker(&self.engine, &plugin.granted)?
            .instantiate_pre(&component)
            .map_err(start)?;
        let exported = |name: &str| plugin.exports.iter().any(|export| export == name);
        let indices = Indices::probe(&pre, &exported).map_err(start)?;
        let template = Arc::new(Template {
            pre,
            indices,
            memory_limit: plugin.memory_limit,
        });
        plugin.template = Some(template.clone());
        plugin.digest.clone_from(&bytes.digest);
        plugin.was_cached = was_cached;
        let slot = Slot::new(template, plugin.backing(Arc::new(NoHandle)));
        let list = async {
            let busy = slot
                .acquire(&Caller::default())
                .await
                .map_err(|failure| Error::Start {
                    message: failure.to_string(),
                })?;
            tools::list(&plugin.manifest, busy).await
        };
        let too_slow = |_| Error::Start {
            message: format!(
                "it took longer than {} s to start and list its tools",
                LIST_DEADLINE.as_secs()
            ),
        };
        plugin.tools = tokio::time::timeout(LIST_DEADLINE, list)
            .await
            .map_err(too_slow)??;
        Ok(())
    }
}

impl Loaded {
    /// What the plugin's instances in one session share.
    pub(super) fn backing(
        &self,
        handle: Arc<dyn crate::point::handle::AgentHandle>,
    ) -> Arc<Backing> {
        Arc::new(Backing {
            plugin: Arc::from(self.manifest.name.as_str()),
            granted: self.granted.clone(),
            config: self.config.clone(),
            store: self.store.clone(),
            handle,
            log_lines_left: AtomicU32::new(imports::MAX_LOG_LINES),
            reported: std::sync::Mutex::default(),
        })
    }
}

/// What the manifest gives options to must be exported.
fn check_declared(plugin: &Loaded) -> Result<(), Error> {
    let declared = plugin.manifest.hooks.keys().map(|point| {
        (
            format!("[hooks.{}]", point.get_ref()),
            point.get_ref().as_str(),
        )
    });
    let implements = plugin
        .manifest
        .implements
        .keys()
        .map(|point| (format!("[implements] {point}"), "implement"));
    for (declared, export) in declared.chain(implements) {
        if !plugin.exports.iter().any(|e| e == export) {
            let path = plugin.folder.join(super::manifest::FILE_NAME);
            return Err(Error::MissingExport {
                path,
                declared,
                export: export.to_owned(),
            });
        }
    }
    Ok(())
}
