//! Plugins that only the administrator of the machine can disable.
//!
//! The list belongs to the host: a plugin's own manifest has no effect on it. It applies to the
//! copy that ships with Rind; no other plugin may use the name.

use std::borrow::Cow;

use super::discover::{Found, Source, discover};
use super::load::LoadOptions;
use super::manifest::Manifest;
use crate::config::PluginSettings;
use crate::grant::Trust;
use crate::grant::held::HeldFolder;
use crate::grant::policy::Policy;
use crate::paths::ADMIN_POLICY;

/// Names of protected plugins.
const NAMES: &[&str] = &[rind_audit::PLUGIN];

#[must_use]
pub fn is_protected(name: &str) -> bool {
    NAMES.contains(&name)
}

/// Returns the protected plugins in `sources`. Directories covered by `held` are read from memory.
#[must_use]
pub fn protected_among(sources: &[Source], held: Option<&HeldFolder>) -> Vec<Found> {
    let mut found = discover(sources, held);
    found.retain(|found| {
        // Without a manifest, use the directory's name: the plugin is broken, and must be reported
        // as missing.
        match Manifest::read(&found.folder, held) {
            Ok(manifest) => is_protected(&manifest.name),
            Err(_) => found
                .folder
                .file_name()
                .and_then(|name| name.to_str())
                .is_some_and(is_protected),
        }
    });
    found
}

/// Returns the message that refuses to disable a protected plugin. `what` is the attempted change.
#[must_use]
pub fn protected_refusal(what: &str, plugin: &str) -> String {
    format!(
        "plugin {plugin} runs despite {what}: only the administrator can switch it off, with `disable = true` under \
         [plugins.{plugin}] in {ADMIN_POLICY}"
    )
}

/// Returns the policy that applies to a plugin: for a protected plugin, only the part set by the
/// administrator.
pub(super) fn protected_policy<'a>(plugin: &str, policy: &'a Policy) -> Cow<'a, Policy> {
    if is_protected(plugin) {
        Cow::Owned(policy.of_admin())
    } else {
        Cow::Borrowed(policy)
    }
}

/// Removes all operator settings of a protected plugin except its `config`, and its `config` as
/// well if that does not fit the schema. Other settings could hide events from the plugin or slow
/// it down until it is dropped, and an invalid `config` would keep it from loading. Returns
/// messages for the operator.
pub(super) fn settle_protected(
    manifest: &Manifest,
    settings: &mut PluginSettings,
    options: &LoadOptions,
) -> Vec<String> {
    let plugin = manifest.name.as_str();
    let is_more = |settings: &PluginSettings| *settings != only_config(settings);
    let mut refused = Vec::new();
    let of_project = options.project_settings.get(plugin);
    if is_more(settings) || of_project.is_some_and(is_more) {
        let what = format!("the settings of [plugins.{plugin}]");
        refused.push(protected_refusal(&what, plugin));
    }
    let policy = &options.grants.policy;
    if let (Some(place), None) = (policy.disables(plugin), policy.of_admin().disables(plugin)) {
        refused.push(protected_refusal(&place, plugin));
    }
    *settings = only_config(settings);
    // For any other plugin, a `config` that does not fit the schema prevents loading.
    let place = options.setting_places(plugin, Trust::Managed);
    let place = |keys: &[&str]| place(&[&["config"], keys].concat());
    if let Err(error) = super::settings::plugin_config(manifest, &settings.config, &place) {
        refused.push(format!(
            "plugin {plugin} runs without its settings: {error}"
        ));
        settings.config.clear();
    }
    refused
}

fn only_config(settings: &PluginSettings) -> PluginSettings {
    PluginSettings {
        config: settings.config.clone(),
        ..PluginSettings::default()
    }
}
