//! Checks that every plugin that a policy requires runs; otherwise no session starts. So a user
//! cannot switch off a guard that the administrator relies on. A user can choose the folders in
//! which plugins are searched, and put another plugin with the same name there; only a digest in
//! the policy prevents this.

use super::Error;
use super::load::{FoundPluginSet, LoadedPlugin};
use crate::grant::policy::{RequestingPlugin, RequiredPlugin};

impl FoundPluginSet {
    /// Checks that every required plugin runs, and that none of its hooks is switched off.
    ///
    /// # Errors
    /// A policy requires a plugin that does not run, or a hook of the plugin is switched off.
    pub(super) fn check_required_plugins(&self) -> Result<(), Error> {
        for required in &self.required {
            let running = self.plugins.iter().find(|plugin| {
                required.matches_plugin(RequestingPlugin {
                    plugin: &plugin.manifest.name,
                    trust: plugin.trust,
                    content: &plugin.request.compute_content_digest(),
                })
            });
            let name = &required.plugin;
            let why = match running.map(|plugin| find_disabled_hook(plugin)) {
                Some(None) => continue,
                Some(Some(point)) => format!(
                    "its hook at {point} is switched off; take `enabled = false` out of [plugins.{name}.hooks.{point}] in your \
                     settings"
                ),
                None => self.missing_required_plugin_reason(required),
            };
            return Err(Error::Required {
                plugin: name.clone(),
                place: required.place.clone(),
                why,
            });
        }
        Ok(())
    }

    /// Returns the reason why a required plugin is not among the running plugins.
    fn missing_required_plugin_reason(&self, required: &RequiredPlugin) -> String {
        let name = &required.plugin;
        let other = self.plugins.iter().find(|p| p.manifest.name == *name);
        if let Some(other) = other {
            return match &required.digest {
                Some(digest) => format!(
                    "the loaded one has digest {}, and {digest} is required; restore the required one, or change the digest \
                     there",
                    other.request.compute_content_digest()
                ),
                None => format!(
                    "the one of its name that runs is a {} plugin, and anybody can name one of those; write `digest = {:?}` \
                     there \
                     if it is the one that is meant",
                    other.trust,
                    other.request.compute_content_digest()
                ),
            };
        }
        let text = if self.left_out.iter().any(|left| left.name == *name) {
            "it is not loaded; `rind plugin list` shows why"
        } else {
            "it does not exist; `rind plugin list` shows all plugins"
        };
        text.to_owned()
    }
}

/// Returns the first point at which the settings switch off a hook of the plugin. A hook that would
/// not be called anyway, because the settings that it needs are empty, is ignored.
fn find_disabled_hook(plugin: &LoadedPlugin) -> Option<&str> {
    let mut points = plugin.exports.iter().map(String::as_str);
    points.find(|point| {
        !plugin.hook_settings(point).enabled
            && plugin.find_settings_disabling_hook(point).is_empty()
    })
}
