//! Settings of plugins: the section `[plugins.NAME]`.
//!
//! Data only. Applying it, and checking `config` against the plugin's own schema, is the plugin loader's.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Section, number};
use crate::point::failure::OnFailure;

/// The operator's settings for every plugin, by name.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct PluginsConfig(pub BTreeMap<String, PluginSettings>);

impl Section for PluginsConfig {
    const NAME: &'static str = "plugins";
}

/// The operator's settings for one plugin.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PluginSettings {
    /// Whether it is loaded at all.
    pub enabled: bool,
    /// Priority of all its hooks; lower runs first.
    pub priority: Option<u16>,
    /// Action when one of its hooks fails.
    pub on_failure: Option<OnFailure>,
    /// Deadline of its hooks; capped by the host.
    #[serde(deserialize_with = "number::within_if_set::<1, 86_400, _, _>")]
    pub timeout_seconds: Option<u64>,
    /// Settings for single hooks, by point; these go before the ones above.
    pub hooks: BTreeMap<String, HookSettings>,
    /// Values for the plugin itself, checked against the schema in its manifest.
    pub config: toml::Table,
}

impl Default for PluginSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            priority: None,
            on_failure: None,
            timeout_seconds: None,
            hooks: BTreeMap::new(),
            config: toml::Table::new(),
        }
    }
}

/// The operator's settings for one hook.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HookSettings {
    /// Whether the hook is bound at all.
    pub enabled: bool,
    /// Lower runs first.
    pub priority: Option<u16>,
    /// Action when the hook fails.
    pub on_failure: Option<OnFailure>,
    /// Deadline of the hook; capped by the host.
    #[serde(deserialize_with = "number::within_if_set::<1, 86_400, _, _>")]
    pub timeout_seconds: Option<u64>,
}

impl Default for HookSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            priority: None,
            on_failure: None,
            timeout_seconds: None,
        }
    }
}
