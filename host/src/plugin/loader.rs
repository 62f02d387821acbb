//! Loads one plugin from its folder: it is checked, compiled, asked for its tools, granted, linked.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use wasmtime::Engine;
use wasmtime::component::Component;
use wasmtime::component::types::ComponentItem;

use super::authority::{self, Export};
use super::cache::{CompileCache, ComponentBytes};
use super::component::{ForeignComponent, ForeignFunctions, check_foreign_import, list_functions};
use super::discover::Found;
use super::exports::ComponentExports;
use super::instance::{InstanceSlot, InstanceTemplate};
use super::limits::{DEFAULT_MEMORY_BYTES, MAX_MEMORY_BYTES};
use super::load::{LoadOptions, Loaded, OnCompile};
use super::manifest::Manifest;
use super::store::{PluginStore, data_folder, own_folder};
use super::{Error, commands, contract, files, imports, prompts, protected, relied, tools};
use crate::config::PluginSettings;
use crate::egress::PluginEgress;
use crate::folder::{FolderPlaces, FolderQuota, GrantedFolders};
use crate::grant::ask::Given;
use crate::grant::decide::{Decision, Standing};
use crate::grant::policy::Asker;
use crate::grant::{Granted, OfferedTool, Request};
use crate::message::ToolSpec;
use crate::point::caller::Caller;
use crate::point::handle::NoHandle;

/// Deadline for listing a plugin's tools when it is loaded.
const LIST_DEADLINE: Duration = Duration::from_secs(5);

/// Context for loading plugins.
pub(super) struct PluginLoader<'a> {
    pub(super) engine: Engine,
    pub(super) cache: CompileCache,
    pub(super) options: &'a LoadOptions,
}

impl PluginLoader<'_> {
    pub(super) async fn load_plugin(
        &self,
        manifest: Manifest,
        settings: PluginSettings,
        found: &Found,
        foreign: Option<&ForeignComponent>,
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
            source: super::relied::source_words(found),
            digest: String::new(),
            manifest: whole_manifest(&manifest)?,
            side_effects: manifest.side_effects.clone(),
            capabilities: requested.clone(),
            tools: Vec::new(),
            has_hooks: false,
        };
        let own = own_folder(&self.options.data, &manifest.name, found);
        let name = manifest.name.clone();
        let place = self.options.setting_places(&name, found.trust);
        let mut plugin = Loaded {
            config: Arc::new(super::settings::plugin_config(
                &manifest,
                &settings.config,
                &|keys| place(&[&["config"], keys].concat()),
            )?),
            request,
            decision: Decision::default(),
            // Its requested imports are linked, so that it can list its tools; no folder is opened
            // for them yet.
            granted: Arc::new(Granted::new(requested)),
            folders: Arc::new(self.plugin_folders(&own, &manifest, &Granted::default())),
            store: PluginStore::of(&own).closed(),
            own_folder: own,
            trust: found.trust,
            folder: found.folder.clone(),
            held: self.options.held_for(&found.folder).cloned(),
            digest: String::new(),
            imports: Vec::new(),
            exports: Vec::new(),
            muted_by: None,
            tools: Vec::new(),
            commands: Vec::new(),
            prompts: match foreign {
                // The file may lie in any folder.
                Some(_) => Arc::default(),
                None => prompts::read(
                    &found.folder.join(prompts::FOLDER),
                    self.options.held_for(&found.folder).map(|held| &**held),
                ),
            },
            foreign: foreign.map(|_| ForeignFunctions::default()),
            environment: foreign
                .map(|own| own.environment.clone())
                .unwrap_or_default()
                .into(),
            memory_limit: manifest
                .limits
                .memory
                .unwrap_or(DEFAULT_MEMORY_BYTES)
                .clamp(1 << 20, MAX_MEMORY_BYTES),
            load_time: Duration::ZERO,
            was_cached: false,
            stamp: None,
            meter: self.options.meter.clone(),
            fixed: self.options.fixed,
            template: None,
            is_required: false,
            egress: None,
            manifest,
            settings,
        };
        let mut component = None;
        if let Some(path) = plugin.manifest.component_path(&found.folder) {
            let held = plugin.held.clone();
            let held = held.as_deref();
            if !files::is_there(&path, held) {
                return Err(Error::NotBuilt {
                    component: path,
                    folder: found.folder.clone(),
                });
            }
            let bytes = ComponentBytes::read_component(&path, held)?;
            component = Some(self.compile_plugin(&mut plugin, &bytes).await?);
        }
        check_declared(&plugin)?;
        // Exclude the time that the operator takes to answer.
        plugin.load_time = started.elapsed();
        match self
            .grant_plugin(&mut plugin, given, component.as_ref())
            .await
        {
            Err(error) if plugin.decision.of(Standing::Denied).next().is_some() => {
                Err(Error::Denied {
                    cause: Box::new(error),
                    plugin: Box::new(plugin),
                })
            }
            granted => granted.map(|()| plugin),
        }
    }

    /// Decides which resources the plugin may use, which may ask the operator, and links it with
    /// exactly those.
    async fn grant_plugin(
        &self,
        plugin: &mut Loaded,
        given: &mut Vec<Given>,
        component: Option<&Component>,
    ) -> Result<(), Error> {
        plugin.request.digest.clone_from(&plugin.digest);
        plugin.request.tools = plugin.tools.iter().map(offered_tool).collect();
        plugin.request.has_hooks = plugin.exports.iter().any(|e| authority::shows_session(e));
        let grants = &self.options.grants;
        let policy = protected::protected_policy(&plugin.manifest.name, &grants.policy);
        plugin.muted_by = policy.mutes(&plugin.manifest.name, plugin.trust);
        let (decision, yes) = grants.settle(&plugin.request, &policy).await;
        let is_guard = relied::does_block(plugin);
        given.extend(yes.map(|yes| Given { is_guard, ..yes }));
        let content = plugin.request.content();
        let asker = Asker {
            plugin: &plugin.manifest.name,
            trust: plugin.trust,
            content: &content,
        };
        let required = grants.policy.required();
        plugin.is_required = required.iter().any(|required| required.is(asker));
        let granted = decision.granted();
        plugin.decision = decision;
        if plugin.decision.is_waiting() {
            return Ok(());
        }
        let folders = self.plugin_folders(&plugin.own_folder, &plugin.manifest, &granted);
        plugin.folders = Arc::new(folders);
        plugin.egress = granted.has_network().then(|| {
            PluginEgress::new(
                self.options.egress.clone(),
                Arc::from(plugin.manifest.name.as_str()),
                Arc::new(granted.clone()),
                plugin.manifest.limits.requests,
            )
        });
        plugin.store = PluginStore::of(&plugin.own_folder);
        if granted != *plugin.granted {
            for import in plugin.imports.iter().filter(|_| !plugin.is_foreign()) {
                authority::check_decided(&plugin.decision, import)?;
            }
            for export in &plugin.exports {
                authority::check_decided_export(&plugin.decision, export)?;
            }
            plugin.granted = Arc::new(granted);
            if let Some(component) = component {
                plugin.template = Some(self.build_template(plugin, component)?);
            }
        }
        Ok(())
    }

    /// Links a component with the plugin's grants.
    fn build_template(
        &self,
        plugin: &Loaded,
        component: &Component,
    ) -> Result<Arc<InstanceTemplate>, Error> {
        let has_sockets = plugin.manifest.compat.sockets.is_some();
        let is_foreign = plugin.is_foreign();
        let pre = imports::build_linker(&self.engine, &plugin.granted, has_sockets, is_foreign)?
            .instantiate_pre(component)
            .map_err(start_error)?;
        let waits = |import: &String| authority::find(import).is_some_and(|row| row.waits);
        let exports = ComponentExports::exports_of(component, &self.engine).map_err(start_error)?;
        Ok(Arc::new(InstanceTemplate {
            pre,
            exports,
            memory_limit: plugin.memory_limit,
            is_cold: self.options.is_cold,
            waits_for_others: plugin.imports.iter().any(waits),
        }))
    }

    /// The granted folders of a plugin. None is opened before it is used.
    fn plugin_folders(&self, own: &Path, manifest: &Manifest, granted: &Granted) -> GrantedFolders {
        let options = self.options;
        let places = FolderPlaces {
            workspace: options.workspace.clone(),
            data: data_folder(own),
            // Plugins cannot have this name.
            empty: options.data.join(".empty"),
            protected: options.protected.clone(),
            quota: FolderQuota::quota_of(manifest.limits.data, manifest.limits.files),
        };
        GrantedFolders::new(granted, places)
    }

    /// Compiles the component and checks everything that can be seen without running it; then runs
    /// it once to list its tools, which are part of the question to the operator. The session of
    /// that run is empty: the requested imports are linked, but reach no resource.
    async fn compile_plugin(
        &self,
        plugin: &mut Loaded,
        bytes: &ComponentBytes,
    ) -> Result<Component, Error> {
        plugin.stamp = contract::stamp::read_stamp(&bytes.bytes)?;
        let (component, was_cached) = self
            .cache
            .load_component(&self.engine, bytes, &self.options.compiler, || {
                if let Some(OnCompile(tell)) = &self.options.on_compile {
                    tell(&plugin.manifest.name);
                }
            })
            .await?;
        let ty = component.component_type();
        for (import, _) in ty.imports(&self.engine) {
            if plugin.is_foreign() {
                check_foreign_import(&plugin.manifest, import)?;
            } else {
                authority::check_import(&plugin.manifest, import)?;
                authority::check_granted(&plugin.granted, import)?;
            }
            plugin.imports.push(import.to_owned());
        }
        if plugin.is_foreign() {
            self.start_foreign(plugin, &component, bytes).await?;
            plugin.was_cached = was_cached;
            return Ok(component);
        }
        for (export, item) in ty.exports(&self.engine) {
            if !matches!(item.ty, ComponentItem::ComponentInstance(_)) {
                authority::check_shape(export)?;
                continue;
            }
            match authority::check_export(&plugin.manifest, export)? {
                Export::Hook(row) => plugin.exports.push(row.name.to_owned()),
                Export::Other(name) => plugin.exports.push(name.to_owned()),
                Export::Foreign => {}
            }
        }
        // An interface that lacks a function, or is there twice, is the fault of the component's
        // world and not of its types.
        ComponentExports::exports_of(&component, &self.engine).map_err(start_error)?;
        let template = self.build_template(plugin, &component);
        let template = template.map_err(|error| skew_error(&bytes.bytes, error))?;
        plugin.template = Some(template.clone());
        plugin.digest.clone_from(&bytes.digest);
        plugin.was_cached = was_cached;
        let slot = InstanceSlot::new(template, plugin.new_backing(Arc::new(NoHandle)));
        let list = async {
            let busy = slot
                .acquire_instance(&Caller::default())
                .await
                .map_err(|failure| Error::Start {
                    message: failure.to_string(),
                })?;
            let tools = tools::list_tools(&plugin.manifest, busy).await?;
            let busy = slot
                .acquire_instance(&Caller::default())
                .await
                .map_err(|failure| Error::Start {
                    message: failure.to_string(),
                })?;
            Ok((tools, commands::list_commands(busy).await?))
        };
        let skewed = |error| skew_error(&bytes.bytes, error);
        let too_slow = |_| Error::Start {
            message: format!(
                "it took longer than {} s to start and list its tools and commands",
                LIST_DEADLINE.as_secs()
            ),
        };
        (plugin.tools, plugin.commands) = tokio::time::timeout(LIST_DEADLINE, list)
            .await
            .map_err(too_slow)?
            .map_err(skewed)?;
        Ok(component)
    }
}

impl PluginLoader<'_> {
    /// Lists the functions of a component that knows no contract, and starts it once.
    async fn start_foreign(
        &self,
        plugin: &mut Loaded,
        component: &Component,
        bytes: &ComponentBytes,
    ) -> Result<(), Error> {
        let functions = list_functions(&plugin.manifest, component, &self.engine, &bytes.bytes)?;
        plugin.tools = functions
            .tools
            .iter()
            .map(|(spec, _)| spec.clone())
            .collect();
        plugin.foreign = Some(functions);
        let template = self.build_template(plugin, component)?;
        plugin.template = Some(template.clone());
        plugin.digest.clone_from(&bytes.digest);
        let slot = InstanceSlot::new(template, plugin.new_backing(Arc::new(NoHandle)));
        let caller = Caller::default();
        let started = tokio::time::timeout(LIST_DEADLINE, slot.acquire_instance(&caller)).await;
        let start = |message: String| Error::Start { message };
        let busy = started.map_err(|_| {
            start(format!(
                "it took longer than {} s to start",
                LIST_DEADLINE.as_secs()
            ))
        })?;
        let busy = busy.map_err(|failure| start(failure.to_string()))?;
        busy.settle_call(Ok(()))
            .map_err(|failure| start(failure.to_string()))
    }
}

fn start_error(error: wasmtime::Error) -> Error {
    Error::Start {
        message: format!("{error:#}"),
    }
}

/// Replaces an error of the engine about types by one that names the interface and the type, where
/// the component was built with another copy of the contract.
fn skew_error(component: &[u8], error: Error) -> Error {
    match error {
        Error::Start { .. } => contract::skew::find(component).unwrap_or(error),
        error => error,
    }
}

/// The whole manifest as text; comments and order do not count.
fn whole_manifest(manifest: &Manifest) -> Result<String, Error> {
    serde_json::to_string(manifest).map_err(|e| Error::Start {
        message: format!("its manifest cannot be stored: {e}"),
    })
}

fn offered_tool(tool: &ToolSpec) -> OfferedTool {
    OfferedTool {
        name: tool.name.clone(),
        description: tool.description.clone(),
        parameters: tool.parameters.to_string(),
    }
}

/// Checks that every hook with options in the manifest is exported.
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
