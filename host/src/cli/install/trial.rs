//! Loads one plugin from a folder, to know before it is packed or installed whether any session would load it.

use std::path::Path;

use super::super::{plugin, setup};
use crate::config::Config;
use crate::grant::Trust;
use crate::grant::ask::GrantOptions;
use crate::grant::decide::Decision;
use crate::plugin::Error;
use crate::plugin::discover::Found;
use crate::plugin::load::{PluginSet, Why};

use super::super::args::PluginArgs;

/// Loads the plugin in a folder and nothing else, without settings.
pub(super) async fn load(
    folder: &Path,
    trust: Trust,
    grants: GrantOptions,
) -> anyhow::Result<PluginSet> {
    let args = PluginArgs {
        no_plugins: true,
        ..PluginArgs::default()
    };
    let paths = setup::paths(None)?;
    let mut options = setup::load_options(&paths, &Config::default(), &args, None, grants)?;
    options.chosen = vec![Found {
        trust,
        folder: folder.to_owned(),
    }];
    plugin::load_with(&options).await
}

/// Returns the reason why the plugin of this name cannot be loaded anywhere. What only an operator decides (settings, grants,
/// other plugins) is not considered.
pub(super) fn refusal(set: &PluginSet, plugin: &str) -> Option<String> {
    set.left_out.iter().find_map(|left| match &left.why {
        Why::Failed(Error::Dependency { .. } | Error::Config { .. }) => None,
        Why::Failed(Error::UnknownPoint { point, .. })
            if point.contains('.') && !point.starts_with(&format!("{plugin}.")) =>
        {
            None
        }
        Why::Failed(error) => Some(error.to_string()),
        _ => None,
    })
}

/// Returns the decision on the plugin's permissions, where it came that far.
pub(super) fn decision(set: &PluginSet) -> Option<&Decision> {
    let loaded = set.plugins.first().map(|plugin| &plugin.decision);
    loaded.or_else(|| {
        set.left_out.iter().find_map(|left| match &left.why {
            Why::Held(plugin) => Some(&plugin.decision),
            _ => None,
        })
    })
}
