//! Loads one plugin from a folder and no other, to find out whether sessions would load it: for its
//! author, before it is packed, and before it is installed.

use std::path::Path;

use anyhow::Context;

use super::environment::{find_paths, operator_environment};
use rind_lib::config::Config;
use rind_lib::grant::Trust;
use rind_lib::grant::ask::GrantOptions;
use rind_lib::grant::decide::Decision;
use rind_lib::plugin::load::{DecidedPlugin, PluginSet, Why};
use rind_operator::load::PluginLoad;
use rind_operator::setup::OperatorSetup;

/// Prepares to load only the plugin in a folder, without the operator's settings and with all
/// requested permissions, for its author.
pub(super) fn load_of(folder: &Path) -> anyhow::Result<PluginLoad> {
    // Names of bundled plugins are reserved: only managed trust may use them.
    let load = load_of_trust(folder, Trust::Managed, GrantOptions::default())?;
    Ok(load.for_author())
}

fn load_of_trust(folder: &Path, trust: Trust, grants: GrantOptions) -> anyhow::Result<PluginLoad> {
    let setup = OperatorSetup::new(operator_environment(), find_paths(None)?, Config::default());
    PluginLoad::alone(&setup, folder, trust, grants)
}

/// Loads the plugin in a folder for its author, with all requested permissions.
pub(super) async fn load_alone(folder: &Path) -> anyhow::Result<PluginSet> {
    let load = load_of(folder)?;
    load.load().await.context("load plugins")
}

/// Loads the plugin in a folder with this trust and these grants.
pub(super) async fn load_as(
    folder: &Path,
    trust: Trust,
    grants: GrantOptions,
) -> anyhow::Result<PluginSet> {
    let load = load_of_trust(folder, trust, grants)?;
    load.load().await.context("load plugins")
}

/// Returns the reason why the plugin of this name cannot be loaded anywhere. Ignores reasons that
/// are up to the operator (settings, grants, other plugins).
pub(super) fn refusal_of(set: &PluginSet, plugin: &str) -> Option<String> {
    set.left_out.iter().find_map(|left| match &left.why {
        Why::Failed(error) if !error.is_up_to_operator(plugin) => Some(error.to_string()),
        _ => None,
    })
}

/// Returns the decision on the plugin's permissions, if loading got that far.
pub(super) fn decision_of(set: &PluginSet) -> Option<&Decision> {
    loaded_plugin(set).map(|plugin| &plugin.decision)
}

/// Returns the only plugin of the set, whether it runs or waits for permissions.
pub(super) fn loaded_plugin(set: &PluginSet) -> Option<&DecidedPlugin> {
    let runs = set.plugins.first().map(|plugin| &***plugin);
    runs.or_else(|| {
        set.left_out.iter().find_map(|left| match &left.why {
            Why::Held(plugin) => Some(&**plugin),
            _ => None,
        })
    })
}
