//! Plugins that a policy requires: where one does not run, no session begins. What is switched off can then not be a guard
//! that somebody counts on. Whoever sets the folders of a run decides what is managed there, so only a digest says which
//! plugin it must be.

use super::Error;
use super::load::{Loaded, PluginSet};
use crate::grant::policy::Asker;

impl PluginSet {
    /// Whether everything runs that must.
    ///
    /// # Errors
    /// A policy requires a plugin that does not run.
    pub fn check_required(&self) -> Result<(), Error> {
        for required in &self.required {
            let running = self.plugins.iter().find(|plugin| {
                required.is(Asker {
                    plugin: &plugin.manifest.name,
                    trust: plugin.trust,
                    content: &plugin.request.content(),
                })
            });
            let switched_off = running.map(|plugin| switched_off(plugin));
            if switched_off == Some(None) {
                continue;
            }
            let name = &required.plugin;
            let has_name = self.plugins.iter().any(|p| p.manifest.name == *name);
            let is_left_out = self.left_out.iter().any(|left| left.name == *name);
            return Err(Error::Required {
                plugin: name.clone(),
                place: required.place.clone(),
                why: if let Some(point) = switched_off.flatten() {
                    format!(
                        "its hook at {point} is switched off; take `enabled = false` out of [plugins.{name}.hooks.{point}] in \
                         your settings"
                    )
                } else if has_name {
                    "another one of its name runs; required is one with that digest, or one that is managed, installed or the \
                     user's"
                        .to_owned()
                } else if is_left_out {
                    "it is left out; `rind plugin list` says why".to_owned()
                } else {
                    "it is not there; `rind plugin list` shows what is".to_owned()
                },
            });
        }
        Ok(())
    }
}

/// The first point at which the plugin would act and its hook is switched off.
fn switched_off(plugin: &Loaded) -> Option<&str> {
    let mut points = plugin.exports.iter().map(String::as_str);
    points.find(|point| !plugin.hook_settings(point).enabled)
}
