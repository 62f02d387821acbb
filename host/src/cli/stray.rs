//! Settings of plugins that mean nothing: for a hook that a plugin does not have, a deadline that it does not get. A guard that
//! was set to refuse at a misspelt point would not refuse, so it is said, with the line.

use crate::config::{Config, PluginSettings, PluginsConfig, Section};
use crate::plugin::inspect::{HookReport, inspect};
use crate::plugin::load::{Loaded, PluginSet};
use crate::point::catalog;
use crate::tool::policy::ToolPolicy;

/// Returns complaints for the operator, one line each.
pub(super) fn complaints(config: &Config, plugins: &PluginSet) -> anyhow::Result<Vec<String>> {
    let PluginsConfig(settings) = config.section()?;
    let mut found = Vec::new();
    for (name, settings) in &settings {
        let loaded = plugins.plugins.iter().find(|p| p.manifest.name == *name);
        if let Some(plugin) = loaded {
            found.extend(too_long(config, plugin, settings));
            for (point, why) in of_hooks(plugin, settings) {
                let keys = ["plugins", name, "hooks", point];
                let places = config.places(&keys);
                found.extend(
                    places
                        .iter()
                        .map(|place| format!("{place}: [plugins.{name}.hooks.{point}]: {why}")),
                );
            }
        }
    }
    Ok(found)
}

/// Reports rules for unknown tools, with the line of each. `known` are the tools, each with its plugin.
pub(super) fn of_rules(
    config: &Config,
    policy: &ToolPolicy,
    known: &[(Option<&str>, &str)],
) -> Vec<String> {
    let places = config.element_places(&[ToolPolicy::NAME, "rules"]);
    let faults = policy.faults(known).into_iter();
    faults
        .map(|(index, why)| {
            let place = places
                .get(index)
                .map_or_else(String::new, |place| format!("{place}: "));
            format!("{place}tool rule {}: {why}", index + 1)
        })
        .collect()
}

/// Deadlines that are longer than hooks may have.
fn too_long(config: &Config, plugin: &Loaded, settings: &PluginSettings) -> Vec<String> {
    let name = plugin.manifest.name.as_str();
    let hooks = inspect(plugin).hooks;
    let longest = |point: Option<&str>| {
        let is_it = |hook: &&HookReport| point.is_none_or(|point| hook.point == point);
        hooks
            .iter()
            .filter(is_it)
            .map(|hook| hook.deadline_ms)
            .max()
    };
    let of_hooks = settings.hooks.iter().map(|(point, hook)| {
        let row = catalog::find(point).map(|row| row.name);
        let keys = vec!["plugins", name, "hooks", point, "timeout_seconds"];
        (
            keys,
            hook.timeout_seconds,
            row.and_then(|row| longest(Some(row))),
        )
    });
    let of_plugin = (
        vec!["plugins", name, "timeout_seconds"],
        settings.timeout_seconds,
        longest(None),
    );
    let mut found = Vec::new();
    for (keys, wanted, longest) in of_hooks.chain([of_plugin]) {
        let (Some(seconds), Some(ms)) = (wanted, longest) else {
            continue;
        };
        if seconds.saturating_mul(1000) > ms {
            let places = config.places(&keys);
            let key = keys.join(".");
            found.extend(places.last().map(|place| {
                format!(
                    "{place}: {key}: {seconds} s is more than a hook may take here, so {} hold",
                    super::render::millis(ms)
                )
            }));
        }
    }
    found
}

/// Settings for hooks that do nothing, and why.
fn of_hooks<'a>(plugin: &Loaded, settings: &'a PluginSettings) -> Vec<(&'a str, String)> {
    let mut found = Vec::new();
    for point in settings.hooks.keys() {
        let row = catalog::find(point);
        let name = row.map_or(point.as_str(), |row| row.name);
        let has_it = plugin.exports.iter().any(|export| export == name)
            || plugin.manifest.implements.keys().any(|own| own == name);
        let why = if !has_it {
            let own: Vec<&str> = plugin
                .exports
                .iter()
                .map(String::as_str)
                .filter(|export| catalog::find(export).is_some())
                .collect();
            format!(
                "this setting has no effect: the plugin has no hook there; it has hooks on: {}",
                own.join(", ")
            )
        } else {
            continue;
        };
        found.push((point.as_str(), why));
    }
    found
}
