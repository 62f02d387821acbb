//! Loads a single plugin from a folder to find out whether sessions would load it. Used by commands
//! for plugin authors, before a plugin is packed, and before it is installed.

use std::path::Path;

use anyhow::Context;

use super::environment::{find_paths, operator_environment};
use rind_lib::config::Config;
use rind_lib::grant::Trust;
use rind_lib::grant::ask::GrantOptions;
use rind_lib::grant::decide::Decision;
use rind_lib::plugin::load::{DecidedPlugin, LeftOutReason, PluginSet};
use rind_operator::load::PreparedPluginLoad;
use rind_operator::setup::OperatorSetup;

/// Prepares to load only the plugin in a folder, for commands of its author: without the operator's
/// settings, and with all requested permissions.
pub(super) fn prepare_author_plugin_load(folder: &Path) -> anyhow::Result<PreparedPluginLoad> {
    // Names of bundled plugins are reserved: only plugins with managed trust may have them.
    let load = prepare_load(folder, Trust::Managed, GrantOptions::default())?;
    Ok(load.with_author_options())
}

fn prepare_load(
    folder: &Path,
    trust: Trust,
    grants: GrantOptions,
) -> anyhow::Result<PreparedPluginLoad> {
    let setup = OperatorSetup::new(operator_environment(), find_paths(None)?, Config::default());
    PreparedPluginLoad::for_single_plugin(&setup, folder, trust, grants)
}

/// Loads the plugin in a folder for its author, with all requested permissions.
pub(super) async fn load_plugin_for_author(folder: &Path) -> anyhow::Result<PluginSet> {
    let load = prepare_author_plugin_load(folder)?;
    load.load().await.context("load plugins")
}

/// Loads only the plugin in `folder`, with the given trust and the given permissions.
pub(super) async fn load_plugin_with_trust(
    folder: &Path,
    trust: Trust,
    grants: GrantOptions,
) -> anyhow::Result<PluginSet> {
    let load = prepare_load(folder, trust, grants)?;
    load.load().await.context("load plugins")
}

/// Returns the reason why no operator could load the plugin of this name. Ignores reasons that an
/// operator can change (settings, grants, other plugins).
pub(super) fn find_load_failure(set: &PluginSet, plugin: &str) -> Option<String> {
    set.left_out.iter().find_map(|left| match &left.why {
        LeftOutReason::Failed(error) if !error.needs_operator_action(plugin) => {
            Some(error.to_string())
        }
        _ => None,
    })
}

/// Returns the operator's decision about the plugin's permissions. Returns `None` if loading failed
/// before the decision.
pub(super) fn permission_decision(set: &PluginSet) -> Option<&Decision> {
    single_plugin(set).map(|plugin| &plugin.decision)
}

/// Returns the only plugin of the set, whether it runs or waits for permissions.
pub(super) fn single_plugin(set: &PluginSet) -> Option<&DecidedPlugin> {
    let runs = set.plugins.first().map(|plugin| &***plugin);
    runs.or_else(|| {
        set.left_out.iter().find_map(|left| match &left.why {
            LeftOutReason::Held(plugin) => Some(&**plugin),
            _ => None,
        })
    })
}
