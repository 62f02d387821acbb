//! Dependencies between plugins: load order, and implementations of points that other plugins
//! define.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Error;
use super::discover::FoundPlugin;
use super::load::{FoundPluginSet, LoadedPlugin, PluginSkipReason, SkippedPlugin};
use crate::near::find_nearest_name;

/// Sorts plugins so that each follows its dependencies, and removes plugins that have unmet
/// dependencies or implement unknown points. Removing one plugin may leave another one without its
/// dependency, so this repeats until nothing changes.
pub(super) fn resolve_dependencies(set: &mut FoundPluginSet) {
    set.plugins
        .sort_by(|a, b| a.manifest.name.cmp(&b.manifest.name));
    while let Some((at, error)) = find_unmet_dependency(&set.plugins) {
        exclude_plugin(set, at, error);
    }
    let mut ordered: Vec<Arc<LoadedPlugin>> = Vec::with_capacity(set.plugins.len());
    loop {
        let is_ready = |plugin: &Arc<LoadedPlugin>| {
            let is_before =
                |name: &String| ordered.iter().any(|other| other.manifest.name == *name);
            let mut dependencies = plugin.manifest.dependencies.keys();
            dependencies.all(is_before)
        };
        match set.plugins.iter().position(is_ready) {
            Some(at) => ordered.push(set.plugins.remove(at)),
            None => break,
        }
    }
    // The remaining plugins depend on each other in a cycle, or on a plugin in such a cycle.
    let cycle: Vec<String> = set
        .plugins
        .iter()
        .map(|plugin| format!("`{}`", plugin.manifest.name))
        .collect();
    while !set.plugins.is_empty() {
        let message = format!("its dependencies form a cycle: {}", cycle.join(", "));
        exclude_plugin(set, 0, Error::Dependency { message });
    }
    set.plugins = ordered;
}

fn exclude_plugin(set: &mut FoundPluginSet, at: usize, error: Error) {
    let plugin = set.plugins.remove(at);
    let found = FoundPlugin {
        trust: plugin.trust,
        folder: plugin.folder.clone(),
    };
    let name = plugin.manifest.name.clone();
    let may_block = super::relied::has_blocking_hook(&plugin);
    set.left_out.push(SkippedPlugin::new(
        name,
        found,
        PluginSkipReason::Failed(error),
        may_block,
    ));
}

/// Returns the index of the first plugin that has an unmet dependency or implements an unknown
/// point, and the error that describes it.
fn find_unmet_dependency(plugins: &[Arc<LoadedPlugin>]) -> Option<(usize, Error)> {
    let by_name: BTreeMap<&str, &LoadedPlugin> = plugins
        .iter()
        .map(|plugin| (plugin.manifest.name.as_str(), &**plugin))
        .collect();
    plugins.iter().enumerate().find_map(|(at, plugin)| {
        let dependency =
            plugin
                .manifest
                .dependencies
                .iter()
                .find_map(|(name, range)| match by_name.get(name.as_str()) {
                    None => Some(format!(
                        "it depends on plugin `{name}` {range}, which is not loaded"
                    )),
                    Some(other) if !range.matches(&other.manifest.version) => Some(format!(
                        "it depends on plugin `{name}` {range}, but version {} is loaded",
                        other.manifest.version
                    )),
                    Some(_) => None,
                });
        if let Some(message) = dependency {
            return Some((at, Error::Dependency { message }));
        }
        let point = plugin.manifest.implements.keys().find_map(|full_name| {
            let (owner, name) = full_name.split_once('.')?;
            let why = match by_name.get(owner) {
                None => format!("plugin `{owner}` is not loaded"),
                Some(other) if !other.manifest.points.contains_key(name) => {
                    let known = other.manifest.points.keys().map(String::as_str);
                    let meant = find_nearest_name(name, known).map_or_else(String::new, |meant| {
                        format!("; did you mean `{owner}.{meant}`?")
                    });
                    format!("plugin `{owner}` declares no point `{name}`{meant}")
                }
                Some(_) => return None,
            };
            Some((full_name.clone(), why))
        });
        point.map(|(point, why)| (at, Error::UnknownPoint { point, why }))
    })
}
