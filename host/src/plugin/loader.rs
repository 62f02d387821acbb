//! Loads one plugin from its folder in four steps. Each step returns a separate type:
//! `PluginWithCheckedSettings`, `PluginWithListedTools`, `PluginWithPermissionDecision` and
//! `LoadedPlugin`. Only the last step creates the resources that the plugin may use.

use std::sync::Arc;
use std::time::{Duration, Instant};

use wasmtime::Engine;
use wasmtime::component::Component;
use wasmtime::component::types::ComponentItem;

use super::authority::{self, ExportedInterfaceKind};
use super::cache::{CompileCache, ComponentBytes};
use super::commands::CommandSpec;
use super::component::{
    ComponentWithoutOwnManifest, check_component_import, list_functions_as_tools,
};
use super::discover::FoundPlugin;
use super::exports::ComponentExports;
use super::instance::{PluginInstanceTemplate, ReusableInstanceSlot};
use super::load::{
    BeforeCompileCallback, ComponentMetadata, ComponentWithInstanceTemplate, ImportLinkingOutcome,
    LoadedPlugin, PluginAccessibleResources, PluginLoadOptions, PluginWithCheckedSettings,
    PluginWithListedTools, PluginWithPermissionDecision,
};
use super::manifest::Manifest;
use super::{Error, commands, contract, files, protected, relied, tools};
use crate::config::PluginSettings;
use crate::grant::GrantedCapabilities;
use crate::grant::ask::GrantApproval;
use crate::grant::decide::GrantStatus;
use crate::grant::policy::RequestingPlugin;
use crate::message::ToolSpec;
use crate::point::caller::Caller;
use crate::point::failure::Failure;
use crate::point::handle::SessionlessAgentHandle;

/// Deadline for starting a component and listing its tools and commands while the plugin is loaded.
const TOOL_AND_COMMAND_LIST_DEADLINE: Duration = Duration::from_secs(5);

/// Loader of plugins, with the engine, the compile cache and the options that it needs.
pub(super) struct PluginLoader<'a> {
    pub(super) engine: Engine,
    pub(super) cache: CompileCache,
    pub(super) options: &'a PluginLoadOptions,
}

/// Outcome of loading: a plugin that can run, or a plugin about whose permissions the operator must
/// be asked first.
pub(super) enum PluginLoadResult {
    Runs(LoadedPlugin),
    Waits(PluginWithPermissionDecision),
}

/// Tools and commands that a component lists.
type ListedToolsAndCommands = (Vec<ToolSpec>, Vec<CommandSpec>);

impl PluginLoader<'_> {
    pub(super) async fn load_plugin(
        &self,
        manifest: Manifest,
        settings: PluginSettings,
        found: &FoundPlugin,
        foreign: Option<&ComponentWithoutOwnManifest>,
        given: &mut Vec<GrantApproval>,
    ) -> Result<PluginLoadResult, Error> {
        let started = Instant::now();
        let checked = PluginWithCheckedSettings::from_found_plugin(
            manifest,
            settings,
            found,
            foreign,
            self.options,
        )?;
        let listed = self
            .compile_and_list_tools(checked, foreign.is_some(), started)
            .await?;
        check_declared_exports(&listed)?;
        let decided = self
            .decide_permissions(listed, relied::folder_of_unverified_plugin(found), given)
            .await?;
        let template = |plugin: &PluginWithPermissionDecision, granted: &GrantedCapabilities| {
            self.link_with_granted_permissions(plugin, granted)
        };
        match LoadedPlugin::link_granted_imports(decided, self.options, template) {
            ImportLinkingOutcome::Done(plugin) => Ok(PluginLoadResult::Runs(plugin)),
            ImportLinkingOutcome::Waiting(plugin) => Ok(PluginLoadResult::Waits(plugin)),
            ImportLinkingOutcome::Failed(plugin, error) => {
                let is_denied = plugin
                    .decision
                    .capabilities_with_status(GrantStatus::Denied)
                    .next()
                    .is_some();
                Err(match is_denied {
                    true => Error::Denied {
                        cause: Box::new(error),
                        plugin: Box::new(plugin),
                    },
                    false => error,
                })
            }
        }
    }

    /// Compiles the component and checks everything that can be checked without running it. Then
    /// runs the component once to list its tools, because the question to the operator names them.
    /// In that run, the requested imports are linked but give access to no resource.
    async fn compile_and_list_tools(
        &self,
        plugin: PluginWithCheckedSettings,
        is_foreign: bool,
        started: Instant,
    ) -> Result<PluginWithListedTools, Error> {
        let mut facts = ComponentMetadata {
            foreign: is_foreign.then(Default::default),
            ..ComponentMetadata::default()
        };
        let Some(path) = plugin.manifest.component_path(&plugin.folder) else {
            let listed = ListedToolsAndCommands::default();
            return Ok(PluginWithListedTools::new(
                plugin,
                facts,
                listed,
                None,
                started.elapsed(),
            ));
        };
        let held = plugin.held.as_deref();
        if !files::is_regular_file(&path, held) {
            return Err(Error::NotBuilt {
                component: path,
                folder: plugin.folder.clone(),
            });
        }
        let bytes = ComponentBytes::read_component(&path, held)?;
        let requested = GrantedCapabilities::new(plugin.manifest.requested_permissions());
        let compiled = self.compile_plugin(&plugin, &bytes, &requested, &mut facts);
        let component = compiled.await?;
        let linked = self.build_instance_template(
            &plugin,
            &component,
            &requested,
            &facts.imports,
            is_foreign,
        );
        let template = match is_foreign {
            true => linked?,
            false => linked.map_err(|error| explain_type_mismatch(&bytes.bytes, error))?,
        };
        let nothing = PluginAccessibleResources::new_without_permissions(
            &plugin.own_folder,
            &plugin.manifest,
            self.options,
        );
        let backing = plugin.create_shared_state(&nothing, false, Arc::new(SessionlessAgentHandle));
        let slot = ReusableInstanceSlot::new(template.clone(), backing);
        let listed = match &facts.foreign {
            Some(functions) => {
                check_component_can_start(&slot).await?;
                let tools = functions.tools.iter().map(|(spec, _)| spec.clone());
                (tools.collect(), Vec::new())
            }
            None => list_tools_and_commands(&plugin.manifest, &slot)
                .await
                .map_err(|error| explain_type_mismatch(&bytes.bytes, error))?,
        };
        let compiled = ComponentWithInstanceTemplate {
            component,
            template,
            requested,
        };
        // Measure the time here: the time in which the operator answers does not count as loading.
        let load_time = started.elapsed();
        Ok(PluginWithListedTools::new(
            plugin,
            facts,
            listed,
            Some(compiled),
            load_time,
        ))
    }

    /// Compiles the component and checks its imports and exports.
    async fn compile_plugin(
        &self,
        plugin: &PluginWithCheckedSettings,
        bytes: &ComponentBytes,
        requested: &GrantedCapabilities,
        facts: &mut ComponentMetadata,
    ) -> Result<Component, Error> {
        facts.digest.clone_from(&bytes.digest);
        facts.stamp = contract::stamp::check_component_contract_versions(&bytes.bytes)?;
        let (component, was_cached) = self
            .cache
            .load_component(&self.engine, bytes, &self.options.compiler, || {
                if let Some(BeforeCompileCallback(tell)) = &self.options.on_compile {
                    tell(&plugin.manifest.name);
                }
            })
            .await?;
        facts.was_cached = was_cached;
        let ty = component.component_type();
        for (import, _) in ty.imports(&self.engine) {
            if facts.foreign.is_some() {
                check_component_import(&plugin.manifest, import)?;
            } else {
                authority::check_import_declared(&plugin.manifest, import)?;
                authority::check_import_granted(requested, import)?;
            }
            facts.imports.push(import.to_owned());
        }
        if facts.foreign.is_some() {
            let manifest = &plugin.manifest;
            let functions =
                list_functions_as_tools(manifest, &component, &self.engine, &bytes.bytes)?;
            facts.foreign = Some(functions);
            return Ok(component);
        }
        for (export, item) in ty.exports(&self.engine) {
            if !matches!(item.ty, ComponentItem::ComponentInstance(_)) {
                authority::check_export_is_interface(export)?;
                continue;
            }
            match authority::check_export_declared(&plugin.manifest, export)? {
                ExportedInterfaceKind::Hook(row) => facts.exports.push(row.name.to_owned()),
                ExportedInterfaceKind::Other(name) => facts.exports.push(name.to_owned()),
                ExportedInterfaceKind::Foreign => {}
            }
        }
        // An interface that lacks a function or is exported twice is a fault of the component's
        // world. The error is returned here, so that `explain_type_mismatch` does not replace it by
        // one about types.
        ComponentExports::find_exports(&component, &self.engine)
            .map_err(start_error_from_wasmtime)?;
        Ok(component)
    }

    /// Decides which permissions the plugin gets. May ask the operator.
    async fn decide_permissions(
        &self,
        listed: PluginWithListedTools,
        source: String,
        given: &mut Vec<GrantApproval>,
    ) -> Result<PluginWithPermissionDecision, Error> {
        let name = &listed.manifest.name;
        let request = listed.build_grant_request(source)?;
        let grants = &self.options.grants;
        let policy = protected::effective_plugin_policy(name, &grants.policy);
        let muted_by = policy.find_entry_muting_plugin(name, listed.trust);
        let (decision, yes) = grants.decide_or_ask_operator(&request, &policy).await;
        let is_guard = relied::has_blocking_hook(&listed);
        given.extend(yes.map(|yes| GrantApproval { is_guard, ..yes }));
        let content = request.compute_content_digest();
        let asker = RequestingPlugin {
            plugin: name,
            trust: listed.trust,
            content: &content,
        };
        let required = grants.policy.required_plugins();
        let is_required = required
            .iter()
            .any(|required| required.matches_plugin(asker));
        Ok(PluginWithPermissionDecision::new(
            listed,
            request,
            decision,
            muted_by,
            is_required,
        ))
    }

    /// Checks that the granted permissions suffice for the component's imports and exports, then
    /// links the component with exactly these permissions.
    fn link_with_granted_permissions(
        &self,
        plugin: &PluginWithPermissionDecision,
        granted: &GrantedCapabilities,
    ) -> Result<Option<Arc<PluginInstanceTemplate>>, Error> {
        if let Some(compiled) = &plugin.compiled
            && let Some(template) = compiled.instance_template_for(granted)
        {
            return Ok(Some(template));
        }
        for import in plugin
            .imports
            .iter()
            .filter(|_| !plugin.is_component_without_contract())
        {
            authority::check_import_against_grant_decision(&plugin.decision, import)?;
        }
        for export in &plugin.exports {
            authority::check_export_against_grant_decision(&plugin.decision, export)?;
        }
        let Some(compiled) = &plugin.compiled else {
            return Ok(None);
        };
        self.build_instance_template(
            plugin,
            &compiled.component,
            granted,
            &plugin.imports,
            plugin.is_component_without_contract(),
        )
        .map(Some)
    }

    /// Links a component with the imports that the permissions `granted` allow, and returns the
    /// template of its instances.
    fn build_instance_template(
        &self,
        plugin: &PluginWithCheckedSettings,
        component: &Component,
        granted: &GrantedCapabilities,
        imports: &[String],
        is_foreign: bool,
    ) -> Result<Arc<PluginInstanceTemplate>, Error> {
        let has_sockets = plugin.manifest.compat.sockets.is_some();
        let pre = super::imports::build_linker(&self.engine, granted, has_sockets, is_foreign)?
            .instantiate_pre(component)
            .map_err(start_error_from_wasmtime)?;
        let waits = |import: &String| {
            authority::find_importable_interface(import).is_some_and(|row| row.waits)
        };
        let exports = ComponentExports::find_exports(component, &self.engine)
            .map_err(start_error_from_wasmtime)?;
        Ok(Arc::new(PluginInstanceTemplate {
            pre,
            exports,
            memory_limit: plugin.memory_limit,
            is_cold: self.options.is_cold,
            waits_for_others: imports.iter().any(waits),
        }))
    }
}

/// Lists the tools and commands of a plugin, within [`TOOL_AND_COMMAND_LIST_DEADLINE`].
async fn list_tools_and_commands(
    manifest: &Manifest,
    slot: &ReusableInstanceSlot,
) -> Result<ListedToolsAndCommands, Error> {
    let caller = Caller::default();
    let list = async {
        let busy = slot
            .acquire_instance(&caller)
            .await
            .map_err(start_error_from_failure)?;
        let tools = tools::list_plugin_tools(manifest, busy).await?;
        let busy = slot
            .acquire_instance(&caller)
            .await
            .map_err(start_error_from_failure)?;
        Ok((tools, commands::list_plugin_commands(busy).await?))
    };
    let listed = tokio::time::timeout(TOOL_AND_COMMAND_LIST_DEADLINE, list).await;
    listed.map_err(|_| load_timeout_error("start and list its tools and commands"))?
}

/// Starts a component once, within [`TOOL_AND_COMMAND_LIST_DEADLINE`], to check that it can be
/// started. The component exports no interface of Rind's plugin contract, so none of its functions
/// is called.
async fn check_component_can_start(slot: &ReusableInstanceSlot) -> Result<(), Error> {
    let caller = Caller::default();
    let started = tokio::time::timeout(
        TOOL_AND_COMMAND_LIST_DEADLINE,
        slot.acquire_instance(&caller),
    )
    .await;
    let busy = started.map_err(|_| load_timeout_error("start"))?;
    let busy = busy.map_err(start_error_from_failure)?;
    busy.finish_guest_call(Ok(()))
        .map_err(start_error_from_failure)
}

fn load_timeout_error(what: &str) -> Error {
    Error::Start {
        message: format!(
            "it took longer than {} s to {what}",
            TOOL_AND_COMMAND_LIST_DEADLINE.as_secs()
        ),
    }
}

fn start_error_from_failure(failure: Failure) -> Error {
    Error::Start {
        message: failure.to_string(),
    }
}

fn start_error_from_wasmtime(error: wasmtime::Error) -> Error {
    Error::Start {
        message: format!("{error:#}"),
    }
}

/// Replaces a type error of the engine by one that names the interface and the type, if the
/// component was built with another copy of the contract.
fn explain_type_mismatch(component: &[u8], error: Error) -> Error {
    match error {
        Error::Start { .. } => contract::skew::find_type_mismatch(component).unwrap_or(error),
        error => error,
    }
}

/// Checks that the component exports every hook that the manifest has options for, and `implement`
/// if the manifest implements a point.
fn check_declared_exports(plugin: &PluginWithListedTools) -> Result<(), Error> {
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
