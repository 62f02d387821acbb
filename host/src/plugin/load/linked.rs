//! A plugin that is ready to run: its component is linked with exactly the granted permissions.
//!
//! Only this module creates [`PluginAccessibleResources`], either from decisions of which none
//! waits for the operator, or [without any
//! resource](PluginAccessibleResources::new_without_permissions).

use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use super::PluginLoadOptions;
use super::decided::PluginWithPermissionDecision;
use crate::egress::SharedPluginEgress;
use crate::folder::{FolderQuota, GrantedFolders, PluginFolderLocations};
use crate::grant::{Capability, ExternalCall, GrantedCapabilities};
use crate::plugin::Error;
use crate::plugin::host::SharedPluginState;
use crate::plugin::instance::PluginInstanceTemplate;
use crate::plugin::manifest::Manifest;
use crate::plugin::store::{PluginKeyValueStore, plugin_data_folder};
use crate::point::handle::AgentHandle;

/// Resources outside of a plugin that its instances can access.
pub(in crate::plugin) struct PluginAccessibleResources {
    granted: Arc<GrantedCapabilities>,
    store: PluginKeyValueStore,
    folders: Arc<GrantedFolders>,
    egress: Option<Arc<SharedPluginEgress>>,
}

impl PluginAccessibleResources {
    /// Creates the resources for the run in which a plugin lists its tools. The plugin can read the
    /// values that it stored in earlier sessions, and has no other permission.
    pub(in crate::plugin) fn new_without_permissions(
        own: &Path,
        manifest: &Manifest,
        options: &PluginLoadOptions,
    ) -> Self {
        let granted = GrantedCapabilities::default();
        Self {
            store: PluginKeyValueStore::in_plugin_folder(own).into_read_only(),
            folders: Arc::new(list_granted_folders(own, manifest, &granted, options)),
            egress: None,
            granted: Arc::new(granted),
        }
    }

    /// Returns the directories and the network access that the decision on a plugin's permissions
    /// grants; `None` if the operator must be asked first.
    fn from_grant_decision(
        plugin: &PluginWithPermissionDecision,
        options: &PluginLoadOptions,
    ) -> Option<Self> {
        if plugin.decision.needs_operator_answer() {
            return None;
        }
        let granted = Arc::new(plugin.decision.granted_capabilities());
        let (own, manifest) = (&plugin.own_folder, &plugin.manifest);
        let egress = granted.has_network().then(|| {
            SharedPluginEgress::new(
                options.egress.clone(),
                Arc::from(manifest.name.as_str()),
                granted.clone(),
                manifest.limits.requests,
            )
        });
        Some(Self {
            store: PluginKeyValueStore::in_plugin_folder(own),
            folders: Arc::new(list_granted_folders(own, manifest, &granted, options)),
            egress,
            granted,
        })
    }

    pub(in crate::plugin) fn granted_capabilities(&self) -> &Arc<GrantedCapabilities> {
        &self.granted
    }

    pub(in crate::plugin) fn key_value_store(&self) -> &PluginKeyValueStore {
        &self.store
    }

    pub(in crate::plugin) fn granted_folders(&self) -> &Arc<GrantedFolders> {
        &self.folders
    }

    /// Returns the network access for the plugin's requests; `None` if no network access was
    /// granted.
    pub(in crate::plugin) fn egress(&self) -> Option<&Arc<SharedPluginEgress>> {
        self.egress.as_ref()
    }
}

/// Returns the granted folders of a plugin. Each folder is opened only when it is first used.
fn list_granted_folders(
    own: &Path,
    manifest: &Manifest,
    granted: &GrantedCapabilities,
    options: &PluginLoadOptions,
) -> GrantedFolders {
    let places = PluginFolderLocations {
        workspace: options.workspace.clone(),
        data: plugin_data_folder(own),
        // No plugin's name can begin with a dot, so this is not the data folder of a plugin.
        empty: options.data.join(".empty"),
        protected: options.protected.clone(),
        quota: FolderQuota::from_manifest_limits(manifest.limits.data, manifest.limits.files),
    };
    GrantedFolders::new(granted, places)
}

/// Plugin that is linked with its granted permissions and ready to run.
pub struct LoadedPlugin {
    decided: PluginWithPermissionDecision,
    resources: PluginAccessibleResources,
    template: Option<Arc<PluginInstanceTemplate>>,
}

impl_partial_debug!(
    LoadedPlugin,
    self,
    name = self.manifest.name,
    trust = self.trust
);

impl Deref for LoadedPlugin {
    type Target = PluginWithPermissionDecision;

    fn deref(&self) -> &PluginWithPermissionDecision {
        &self.decided
    }
}

/// Outcome of linking a plugin with its granted permissions.
pub(in crate::plugin) enum ImportLinkingOutcome {
    /// The plugin is ready to run.
    Done(LoadedPlugin),
    /// The operator must first be asked about permissions.
    Waiting(PluginWithPermissionDecision),
    /// Permissions without which the plugin cannot run were refused.
    Failed(PluginWithPermissionDecision, Error),
}

impl LoadedPlugin {
    /// Creates the resources that were granted to a plugin, and links its imports. `template`
    /// creates the instance template for given permissions.
    pub(in crate::plugin) fn link_granted_imports(
        decided: PluginWithPermissionDecision,
        options: &PluginLoadOptions,
        template: impl FnOnce(
            &PluginWithPermissionDecision,
            &GrantedCapabilities,
        ) -> Result<Option<Arc<PluginInstanceTemplate>>, Error>,
    ) -> ImportLinkingOutcome {
        let Some(resources) = PluginAccessibleResources::from_grant_decision(&decided, options)
        else {
            return ImportLinkingOutcome::Waiting(decided);
        };
        match template(&decided, resources.granted_capabilities()) {
            Ok(template) => ImportLinkingOutcome::Done(Self {
                decided,
                resources,
                template,
            }),
            Err(error) => ImportLinkingOutcome::Failed(decided, error),
        }
    }

    /// Returns the permissions that the plugin was granted.
    #[must_use]
    pub fn granted_capabilities(&self) -> &Arc<GrantedCapabilities> {
        self.resources.granted_capabilities()
    }

    pub(in crate::plugin) fn key_value_store(&self) -> &PluginKeyValueStore {
        self.resources.key_value_store()
    }

    /// Returns the template of the plugin's instances; `None` for a plugin without a component.
    pub(in crate::plugin) fn instance_template(&self) -> Option<&Arc<PluginInstanceTemplate>> {
        self.template.as_ref()
    }

    /// Whether the plugin has an agent loop and the permission to run the agent's turns with it.
    #[must_use]
    pub fn may_run_agent_loop(&self) -> bool {
        let call = Capability::ExternalCall(ExternalCall::AgentLoop);
        self.has_agent_loop() && self.granted_capabilities().has_capability(&call)
    }

    /// Creates the state that the plugin's instances in one session share.
    pub(in crate::plugin) fn open_shared_state(
        &self,
        handle: Arc<dyn AgentHandle>,
    ) -> Arc<SharedPluginState> {
        self.create_shared_state(&self.resources, self.muted_by.is_some(), handle)
    }
}
