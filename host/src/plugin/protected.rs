//! Plugins that only the administrator of the machine can switch off.
//!
//! The list is the host's: a plugin's own manifest has no effect on it. It holds for the copy that comes with Rind; another
//! plugin cannot have the name.

use std::borrow::Cow;

#[cfg(feature = "cli")]
use super::discover::{Found, Source, discover};
use super::load::LoadOptions;
use super::manifest::Manifest;
use crate::config::PluginSettings;
use crate::grant::Trust;
#[cfg(feature = "cli")]
use crate::grant::held::HeldFolder;
use crate::grant::policy::Policy;
use crate::paths::ADMIN_POLICY;

/// Names of protected plugins.
const NAMES: &[&str] = &[rind_audit::PLUGIN];

#[must_use]
pub(crate) fn is_protected(name: &str) -> bool {
    NAMES.contains(&name)
}

/// Returns the plugins in `sources` that are protected. What lies in a folder that is `held` is taken from there.
#[cfg(feature = "cli")]
#[must_use]
pub(crate) fn among(sources: &[Source], held: Option<&HeldFolder>) -> Vec<Found> {
    let mut found = discover(sources, held);
    found.retain(|found| {
        // One without its manifest has the name of its folder: it is missing, and must be missed.
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

/// Returns the message for a refused attempt to switch a protected plugin off.
#[must_use]
pub(crate) fn refusal(what: &str, plugin: &str) -> String {
    format!(
        "plugin {plugin} runs despite {what}: only the administrator can switch it off, with `disable = true` under \
         [plugins.{plugin}] in {ADMIN_POLICY}"
    )
}

/// The policy that holds for a plugin: the administrator's alone for a protected one.
pub(super) fn policy<'a>(plugin: &str, policy: &'a Policy) -> Cow<'a, Policy> {
    if is_protected(plugin) {
        Cow::Owned(policy.of_admin())
    } else {
        Cow::Borrowed(policy)
    }
}

/// Leaves nothing of the settings of a protected plugin but its own `config`, and that only where it fits: with the others it
/// could be made to see nothing, or to be too slow for everything, and with one that does not fit it would be left out. Returns what to tell the operator.
pub(super) fn settle(
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
        refused.push(refusal(&what, plugin));
    }
    let policy = &options.grants.policy;
    if let (Some(place), None) = (policy.disables(plugin), policy.of_admin().disables(plugin)) {
        refused.push(refusal(&place, plugin));
    }
    *settings = only_config(settings);
    // Settings that do not fit leave other plugins out.
    let place = options.places(plugin, Trust::Managed);
    let place = |keys: &[&str]| place(&[&["config"], keys].concat());
    if let Err(error) = super::settings::config(manifest, &settings.config, &place) {
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
