//! Plugins that only the administrator of the machine can disable.
//!
//! The list is a constant of the host: a plugin's manifest cannot change it. It applies to the
//! copies of the plugins that ship with Rind; no other plugin may use their names.

use std::borrow::Cow;

use super::discover::{FoundPlugin, PluginSearchPath, discover_plugins};
use super::load::PluginLoadOptions;
use super::manifest::Manifest;
use crate::config::PluginSettings;
use crate::grant::Trust;
use crate::grant::held::InMemoryFolder;
use crate::grant::policy::CapabilityPolicy;
use crate::paths::ADMIN_POLICY_FILE_PATH;

/// Names of the plugins that only the administrator of the machine can disable.
const PROTECTED_PLUGIN_NAMES: &[&str] = &[rind_audit::PLUGIN];

#[must_use]
pub fn is_protected_plugin(name: &str) -> bool {
    PROTECTED_PLUGIN_NAMES.contains(&name)
}

/// Returns the protected plugins in `sources`. Plugins in a directory that `held` contains are read
/// from this copy in memory, all others from disk.
#[must_use]
pub fn find_protected_plugins(
    sources: &[PluginSearchPath],
    held: Option<&InMemoryFolder>,
) -> Vec<FoundPlugin> {
    let mut found = discover_plugins(sources, held);
    found.retain(|found| {
        // If the manifest cannot be read, compare the directory's name: the plugin is broken, and
        // must be reported as missing.
        match Manifest::read(&found.folder, held) {
            Ok(manifest) => is_protected_plugin(&manifest.name),
            Err(_) => found
                .folder
                .file_name()
                .and_then(|name| name.to_str())
                .is_some_and(is_protected_plugin),
        }
    });
    found
}

/// Returns the message that a protected plugin was not disabled. `what` describes the flag or
/// setting that tried to.
#[must_use]
pub fn plugin_disable_refusal_message(what: &str, plugin: &str) -> String {
    format!(
        "plugin {plugin} runs despite {what}: only the administrator can switch it off, with `disable = true` under \
         [plugins.{plugin}] in {ADMIN_POLICY_FILE_PATH}"
    )
}

/// Returns the policy that applies to a plugin: for a protected plugin, only the part set by the
/// administrator.
pub(super) fn effective_plugin_policy<'a>(
    plugin: &str,
    policy: &'a CapabilityPolicy,
) -> Cow<'a, CapabilityPolicy> {
    if is_protected_plugin(plugin) {
        Cow::Owned(policy.to_administrator_policy())
    } else {
        Cow::Borrowed(policy)
    }
}

/// Removes all operator settings of a protected plugin except its `config`, and its `config` as
/// well if that does not fit the schema. Other settings could hide events from the plugin or slow
/// it down until its hooks are disabled, and an invalid `config` would prevent it from loading.
/// Returns messages for the operator.
pub(super) fn restrict_protected_plugin_settings(
    manifest: &Manifest,
    settings: &mut PluginSettings,
    options: &PluginLoadOptions,
) -> Vec<String> {
    let plugin = manifest.name.as_str();
    let is_more = |settings: &PluginSettings| *settings != settings_reduced_to_config(settings);
    let mut refused = Vec::new();
    let of_project = options.project_settings.get(plugin);
    if is_more(settings) || of_project.is_some_and(is_more) {
        let what = format!("the settings of [plugins.{plugin}]");
        refused.push(plugin_disable_refusal_message(&what, plugin));
    }
    let policy = &options.grants.policy;
    if let (Some(place), None) = (
        policy.find_disabling_entry(plugin),
        policy
            .to_administrator_policy()
            .find_disabling_entry(plugin),
    ) {
        refused.push(plugin_disable_refusal_message(&place, plugin));
    }
    *settings = settings_reduced_to_config(settings);
    // For any other plugin, a `config` that does not fit the schema prevents loading.
    let place = options.setting_location_finder(plugin, Trust::Managed);
    let place = |keys: &[&str]| place(&[&["config"], keys].concat());
    if let Err(error) = super::settings::effective_plugin_config(manifest, &settings.config, &place)
    {
        refused.push(format!(
            "plugin {plugin} runs without its settings: {error}"
        ));
        settings.config.clear();
    }
    refused
}

fn settings_reduced_to_config(settings: &PluginSettings) -> PluginSettings {
    PluginSettings {
        config: settings.config.clone(),
        ..PluginSettings::default()
    }
}
