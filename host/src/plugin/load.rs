//! From folders to plugins that run: every found plugin is checked, compiled, linked and asked for its tools; one that
//! fails is reported and left out, the rest run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

use serde_json::Value;
use wasmtime::Engine;
use wasmtime::component::Component;
use wasmtime::component::types::ComponentItem;

use super::authority::{self, Export};
use super::cache::{CompileCache, ComponentBytes};
use super::compile::Compiler;
use super::discover::{Found, Source, discover};
use super::engine::engine;
use super::exports::Indices;
use super::host::Backing;
use super::imports;
use super::instance::{Slot, Template};
use super::limits::{DEFAULT_MEMORY_BYTES, MAX_MEMORY_BYTES};
use super::manifest::Manifest;
use super::reach::RecordsLeft;
use super::store::{PluginStore, own_folder};
use super::{Error, tools};
use crate::config::PluginSettings;
use crate::folder::{FolderPlaces, GrantedFolders, Quota};
use crate::grant::ask::{Given, GrantOptions};
use crate::grant::decide::Decision;
use crate::grant::{Granted, OfferedTool, Request, Trust};
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
    /// What compiles components that are not in the cache.
    pub compiler: Compiler,
    /// Folder that holds a folder of stored values for each plugin.
    pub data: PathBuf,
    /// Settings by plugin name.
    pub settings: BTreeMap<String, PluginSettings>,
    /// What plugins are granted.
    pub grants: GrantOptions,
    /// The folder that the agent works in.
    pub workspace: PathBuf,
    /// Rind's own folders, which no grant reaches.
    pub protected: Vec<PathBuf>,
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
    /// What it asks for.
    pub request: Request,
    /// What was decided of that.
    pub decision: Decision,
    /// What it may touch.
    pub granted: Arc<Granted>,
    pub(super) store: PluginStore,
    pub(super) folders: Arc<GrantedFolders>,
    /// Its own folder among the host's, which holds its store and its `data`.
    own_folder: PathBuf,
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
    /// It asks for what only the operator can give, and there was no yes. Its decision says what waits.
    Held(Box<Loaded>),
}

/// Everything that was found, loaded or not.
#[derive(Debug, Default)]
pub struct PluginSet {
    /// Plugins that run, dependencies before those that need them, otherwise by name.
    pub plugins: Vec<Arc<Loaded>>,
    /// Plugins that do not.
    pub left_out: Vec<LeftOut>,
    /// What the operator said yes to while they were loaded.
    pub given: Vec<Given>,
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

    /// Folder of the more trusted plugin that has this name. One that failed or waits keeps its name: otherwise breaking a guard
    /// would make room for somebody else's plugin of the same name.
    fn holder(&self, name: &str) -> Option<PathBuf> {
        let loaded = self
            .plugins
            .iter()
            .find(|plugin| plugin.manifest.name == name);
        let failed = || {
            self.left_out
                .iter()
                .find(|left| left.name == name && matches!(left.why, Why::Failed(_) | Why::Held(_)))
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
            match loader
                .load(manifest, settings, &found, &mut self.given)
                .await
            {
                Ok(plugin) if plugin.decision.is_waiting() => Why::Held(Box::new(plugin)),
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
        given: &mut Vec<Given>,
    ) -> Result<Loaded, Error> {
        let started = Instant::now();
        let requested = manifest.requested();
        let request = Request {
            plugin: manifest.name.clone(),
            version: manifest.version.to_string(),
            description: manifest.description.clone(),
            trust: manifest
                .trust
                .map_or(found.trust, |own| own.max(found.trust)),
            source: source(found),
            digest: String::new(),
            side_effects: manifest.side_effects.clone(),
            capabilities: requested.clone(),
            tools: Vec::new(),
        };
        let own = own_folder(&self.options.data, &manifest.name, found);
        let mut plugin = Loaded {
            config: Arc::new(super::settings::config(&manifest, &settings.config)?),
            request,
            decision: Decision::default(),
            // What it asks for is linked, so that it can be asked for its tools; no folder stands behind it yet.
            granted: Arc::new(Granted::new(requested)),
            folders: Arc::new(self.folders(&own, &manifest, &Granted::default())),
            store: PluginStore::of(&own),
            own_folder: own,
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
        let mut component = None;
        if let Some(path) = plugin.manifest.component_path(&found.folder) {
            if !path.is_file() {
                return Err(Error::NotBuilt {
                    component: path,
                    folder: found.folder.clone(),
                });
            }
            let bytes = ComponentBytes::read(&path)?;
            component = Some(self.compile(&mut plugin, &bytes).await?);
        }
        check_declared(&plugin)?;
        // Not how long the operator takes to answer.
        plugin.load_time = started.elapsed();
        self.grant(&mut plugin, given, component.as_ref()).await?;
        Ok(plugin)
    }

    /// Decides what the plugin may touch, which may ask the operator, and links it with exactly that.
    async fn grant(
        &self,
        plugin: &mut Loaded,
        given: &mut Vec<Given>,
        component: Option<&Component>,
    ) -> Result<(), Error> {
        plugin.request.digest.clone_from(&plugin.digest);
        plugin.request.tools = plugin.tools.iter().map(offered).collect();
        let (decision, yes) = self.options.grants.settle(&plugin.request).await;
        given.extend(yes);
        let granted = decision.granted();
        plugin.decision = decision;
        if plugin.decision.is_waiting() {
            return Ok(());
        }
        let folders = self.folders(&plugin.own_folder, &plugin.manifest, &granted);
        plugin.folders = Arc::new(folders);
        if granted != *plugin.granted {
            for import in &plugin.imports {
                authority::check_granted_import(&granted, import)?;
            }
            for export in &plugin.exports {
                authority::check_granted_export(&granted, export)?;
            }
            plugin.granted = Arc::new(granted);
            if let Some(component) = component {
                plugin.template = Some(self.template(plugin, component)?);
            }
        }
        Ok(())
    }

    /// Links a component with what the plugin was granted.
    fn template(&self, plugin: &Loaded, component: &Component) -> Result<Arc<Template>, Error> {
        let start = |e: wasmtime::Error| Error::Start {
            message: format!("{e:#}"),
        };
        let has_sockets = plugin.manifest.compat.sockets.is_some();
        let pre = imports::linker(&self.engine, &plugin.granted, has_sockets)?
            .instantiate_pre(component)
            .map_err(start)?;
        let exported = |name: &str| plugin.exports.iter().any(|export| export == name);
        let indices = Indices::probe(&pre, &exported).map_err(start)?;
        Ok(Arc::new(Template {
            pre,
            indices,
            memory_limit: plugin.memory_limit,
        }))
    }

    /// The granted folders of a plugin. None is opened before it is used.
    fn folders(&self, own: &Path, manifest: &Manifest, granted: &Granted) -> GrantedFolders {
        let options = self.options;
        let places = FolderPlaces {
            workspace: options.workspace.clone(),
            data: own.join("files"),
            // No plugin has this name.
            empty: options.data.join(".empty"),
            protected: options.protected.clone(),
            quota: Quota::of(manifest.limits.data, manifest.limits.files),
        };
        GrantedFolders::new(granted, places)
    }

    /// Compiles the component and checks everything that can be seen without running it; then runs it once to list its
    /// tools, which are part of what the operator is asked about. It runs in a session that has nothing in it and reaches
    /// nothing: what it asks for is linked, and leads nowhere yet.
    async fn compile(
        &self,
        plugin: &mut Loaded,
        bytes: &ComponentBytes,
    ) -> Result<Component, Error> {
        let (component, was_cached) = self
            .cache
            .load(&self.engine, bytes, &self.options.compiler)
            .await?;
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
        let template = self.template(plugin, &component)?;
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
        Ok(component)
    }
}

/// The place that a plugin came from, where its name is anybody's to give.
fn source(found: &Found) -> String {
    if found.trust <= Trust::User {
        String::new()
    } else {
        found.folder.display().to_string()
    }
}

fn offered(tool: &ToolSpec) -> OfferedTool {
    OfferedTool {
        name: tool.name.clone(),
        description: tool.description.clone(),
        parameters: tool.parameters.to_string(),
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
            folders: self.folders.clone(),
            handle,
            log_lines_left: AtomicU32::new(imports::MAX_LOG_LINES),
            file_records_left: RecordsLeft::default(),
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
