//! Plugins of the host: what runs with which permissions, and what does not run.

use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;

use crate::ApiState;

/// Plugins of the host.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PluginList {
    /// Plugins that run in new sessions.
    pub(crate) plugins: Vec<PluginRow>,
    /// Plugins that were found and do not run.
    pub(crate) left_out: Vec<LeftOutRow>,
}

/// A plugin that runs.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PluginRow {
    /// Name of the plugin.
    pub(crate) name: String,
    /// Version of the plugin.
    pub(crate) version: String,
    /// Trust: `managed`, `package`, `user`, `project` or `local`.
    pub(crate) trust: String,
    /// Digest of its component.
    pub(crate) digest: String,
    /// Permissions that it was granted, as `--grant` takes them.
    pub(crate) granted: Vec<String>,
    /// Names of its tools.
    pub(crate) tools: Vec<String>,
    /// Interfaces that it exports: its hooks and more.
    pub(crate) exports: Vec<String>,
}

/// A plugin that does not run.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct LeftOutRow {
    /// Name of the plugin, or of its folder.
    pub(crate) name: String,
    /// Reason, in words.
    pub(crate) reason: String,
}

pub(crate) async fn list(State(state): State<ApiState>) -> Json<PluginList> {
    Json(list_plugins(&state))
}

/// Returns the plugins of the host.
pub(crate) fn list_plugins(state: &ApiState) -> PluginList {
    let plugins = state.plugins.plugins.iter().map(|loaded| PluginRow {
        name: loaded.manifest.name.clone(),
        version: loaded.manifest.version.to_string(),
        trust: loaded.trust.to_string(),
        digest: loaded.digest.clone(),
        granted: loaded
            .granted()
            .capabilities()
            .iter()
            .map(ToString::to_string)
            .collect(),
        tools: loaded.tools.iter().map(|tool| tool.name.clone()).collect(),
        exports: loaded.exports.clone(),
    });
    let left_out = state.plugins.left_out.iter().map(|left_out| LeftOutRow {
        name: left_out.name.clone(),
        reason: left_out.why.to_string(),
    });
    PluginList {
        plugins: plugins.collect(),
        left_out: left_out.collect(),
    }
}
