//! Routes for the plugins of one folder: the running ones, with their permissions and hook calls,
//! and those that do not run.

use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::RequestQueryExtractor;
use crate::ApiState;
use crate::error::ApiError;
use crate::hook_sums::PluginHookCallStats;
use crate::workspaces::WorkspaceHost;

/// Query that selects the folder whose plugins are listed.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PluginQuery {
    /// Folder, one of those that `/workspaces` lists; without one, that in which the server was
    /// started.
    pub(crate) workspace: Option<String>,
}

/// Plugins of the host for a folder.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PluginList {
    /// Plugins that run in new sessions.
    pub(crate) plugins: Vec<PluginRow>,
    /// Plugins that were found but do not run, each with the reason.
    pub(crate) left_out: Vec<LeftOutRow>,
    /// Scripts that have been called as hooks since the server started.
    pub(crate) scripts: Vec<ScriptRow>,
}

/// Plugin that runs in new sessions.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PluginRow {
    /// Name of the plugin.
    pub(crate) name: String,
    /// Version of the plugin, as its manifest states it.
    pub(crate) version: String,
    /// Trust level of the plugin: `managed`, `package`, `user`, `project` or `local`.
    pub(crate) trust: String,
    /// Digest of the plugin's WebAssembly component.
    pub(crate) digest: String,
    /// Permissions that the plugin was granted, in the syntax of `--grant`.
    pub(crate) granted: Vec<String>,
    /// Names of the tools that the plugin provides.
    pub(crate) tools: Vec<String>,
    /// Names of the interfaces that the plugin's component exports, such as its hooks.
    pub(crate) exports: Vec<String>,
    /// Number and duration of the plugin's hook calls since the server started.
    #[serde(flatten)]
    pub(crate) sums: PluginHookCallStats,
}

/// Script that the host calls as a hook.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ScriptRow {
    /// Name of the script.
    pub(crate) name: String,
    /// Number and duration of the script's calls since the server started.
    #[serde(flatten)]
    pub(crate) sums: PluginHookCallStats,
}

/// Plugin that was found but does not run.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct LeftOutRow {
    /// Name of the plugin, or of its folder if its manifest cannot be read.
    pub(crate) name: String,
    /// Reason why the plugin does not run.
    pub(crate) reason: String,
}

pub(crate) async fn get_plugins(
    State(state): State<ApiState>,
    RequestQueryExtractor(query): RequestQueryExtractor<PluginQuery>,
) -> Result<Json<PluginList>, ApiError> {
    let workspace = state
        .sessions
        .workspaces()
        .get_workspace_host(query.workspace);
    Ok(Json(list_plugins(&*workspace.await?)))
}

/// Returns the plugins of the host `workspace`: those that run and those that were left out.
pub(crate) fn list_plugins(workspace: &WorkspaceHost) -> PluginList {
    let plugins = workspace.plugins.plugins.iter().map(|loaded| PluginRow {
        name: loaded.manifest.name.clone(),
        version: loaded.manifest.version.to_string(),
        trust: loaded.trust.to_string(),
        digest: loaded.digest.clone(),
        granted: loaded
            .granted_capabilities()
            .capabilities()
            .iter()
            .map(ToString::to_string)
            .collect(),
        tools: loaded.tools.iter().map(|tool| tool.name.clone()).collect(),
        exports: loaded.exports.clone(),
        sums: workspace.hooks.plugin_hook_totals(&loaded.manifest.name),
    });
    let left_out = workspace.plugins.left_out.iter();
    let left_out = left_out.map(|left_out| LeftOutRow {
        name: left_out.name.clone(),
        reason: left_out.why.to_string(),
    });
    let mut list = PluginList {
        plugins: plugins.collect(),
        left_out: left_out.collect(),
        scripts: Vec::new(),
    };
    for name in workspace.hooks.hook_owner_names() {
        if list.plugins.iter().all(|plugin| plugin.name != *name) {
            let sums = workspace.hooks.plugin_hook_totals(&name);
            let name = name.to_string();
            list.scripts.push(ScriptRow { name, sums });
        }
    }
    list
}
