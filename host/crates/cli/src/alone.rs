//! Loads a single plugin from a folder to find out whether sessions would load it. Used by commands
//! for plugin authors, before a plugin is packed, and before it is installed.

use std::path::Path;

use anyhow::Context;

use super::environment::{find_rind_paths, process_environment};
use rind_lib::config::Config;
use rind_lib::grant::Trust;
use rind_lib::grant::ask::GrantOptions;
use rind_lib::grant::decide::GrantDecision;
use rind_lib::plugin::load::{FoundPluginSet, PluginSkipReason, PluginWithPermissionDecision};
use rind_operator::load::PluginLoadPlan;
use rind_operator::setup::OperatorWorkspaceSetup;

/// Prepares to load only the plugin in a folder, for commands of its author: without the operator's
/// settings, and with all requested permissions.
pub(super) fn plan_load_with_all_permissions(folder: &Path) -> anyhow::Result<PluginLoadPlan> {
    // Names of bundled plugins are reserved: only plugins with managed trust may have them.
    let load = plan_single_plugin_load(folder, Trust::Managed, GrantOptions::default())?;
    Ok(load.with_plugin_author_options())
}

fn plan_single_plugin_load(
    folder: &Path,
    trust: Trust,
    grants: GrantOptions,
) -> anyhow::Result<PluginLoadPlan> {
    let setup = OperatorWorkspaceSetup::new(
        process_environment(),
        find_rind_paths(None)?,
        Config::default(),
    );
    PluginLoadPlan::for_single_plugin(&setup, folder, trust, grants)
}

/// Loads the plugin in a folder for its author, with all requested permissions.
pub(super) async fn load_plugin_with_all_grants(folder: &Path) -> anyhow::Result<FoundPluginSet> {
    let load = plan_load_with_all_permissions(folder)?;
    load.load().await.context("cannot load plugins")
}

/// Loads only the plugin in `folder`, with the given trust and the given permissions.
pub(super) async fn load_single_plugin_with_grants(
    folder: &Path,
    trust: Trust,
    grants: GrantOptions,
) -> anyhow::Result<FoundPluginSet> {
    let load = plan_single_plugin_load(folder, trust, grants)?;
    load.load().await.context("cannot load plugins")
}

/// Returns the reason why no operator could load the plugin of this name. Ignores reasons that an
/// operator can change (settings, grants, other plugins).
pub(super) fn find_plugin_load_failure(set: &FoundPluginSet, plugin: &str) -> Option<String> {
    set.left_out.iter().find_map(|left| match &left.why {
        PluginSkipReason::Failed(error) if !error.needs_operator_action(plugin) => {
            Some(error.to_string())
        }
        _ => None,
    })
}

/// Returns the operator's decision about the plugin's permissions. Returns `None` if loading failed
/// before the decision.
pub(super) fn single_plugin_permission_decision(set: &FoundPluginSet) -> Option<&GrantDecision> {
    only_plugin_of_set(set).map(|plugin| &plugin.decision)
}

/// Returns the only plugin of the set, whether it runs or waits for permissions.
pub(super) fn only_plugin_of_set(set: &FoundPluginSet) -> Option<&PluginWithPermissionDecision> {
    let runs = set.plugins.first().map(|plugin| &***plugin);
    runs.or_else(|| {
        set.left_out.iter().find_map(|left| match &left.why {
            PluginSkipReason::Held(plugin) => Some(&**plugin),
            _ => None,
        })
    })
}
