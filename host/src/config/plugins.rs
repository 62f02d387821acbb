//! Settings of plugins: the section `[plugins.NAME]`.
//!
//! This module only defines the data. The plugin loader applies it, and checks `config` against the
//! plugin's schema.
//!
//! For example:
//!
//! ```toml
//! [plugins.guard]
//! priority = 10
//! on_failure = "block"
//!
//! [plugins.guard.hooks.pre-tool]
//! timeout_seconds = 5
//!
//! [plugins.guard.config]
//! words = ["secret"]
//! ```

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Section, number};
use crate::point::failure::OnFailure;

/// Settings that the operator makes for plugins, by name of the plugin.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct PluginsConfig(pub BTreeMap<String, PluginSettings>);

impl Section for PluginsConfig {
    const NAME: &'static str = "plugins";
}

/// Settings that the operator makes for one plugin.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PluginSettings {
    /// Whether the plugin is loaded. Default: true.
    pub enabled: bool,
    /// Priority of all hooks of the plugin; lower runs first.
    pub priority: Option<u16>,
    /// Action when a hook of the plugin fails; absent for the action that the plugin sets.
    pub on_failure: Option<OnFailure>,
    /// Deadline of each call of the plugin's hooks, in seconds; capped by the host.
    #[serde(deserialize_with = "number::within_if_set::<1, 86_400, _, _>")]
    pub timeout_seconds: Option<u64>,
    /// Settings of single hooks, by extension point; they take precedence over the fields above.
    pub hooks: BTreeMap<String, HookSettings>,
    /// Values for the plugin, checked against the schema in its manifest.
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

/// Settings that the operator makes for one hook.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HookSettings {
    /// Whether the hook is called. Default: true.
    pub enabled: bool,
    /// Priority of the hook; hooks with lower values run first.
    pub priority: Option<u16>,
    /// Action when the hook fails; absent for the action that the plugin sets.
    pub on_failure: Option<OnFailure>,
    /// Deadline of each call of the hook, in seconds; capped by the host.
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
