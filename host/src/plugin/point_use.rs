//! Lists the plugins that have hooks at each point, in the order in which the hooks run, and the
//! plugins that call the point. Covers the points of the host and those that plugins define.
//!
//! The module keeps no state: it reads manifests and reports. It must not depend on how the list is
//! displayed. Start from [`list_extension_point_usages`].

use serde::Serialize;

use super::contract;
use super::inspect::{PluginReport, build_plugin_report};
use super::load::LoadedPlugin;
use crate::point::catalog::CATALOG;
use crate::point::dispatch::ExtensionPointKind;

/// Name of the interface through which a component calls points of other plugins.
const POINTS_INTERFACE_NAME: &str = "points";

/// A point, and the plugins that have hooks at it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExtensionPointUsage {
    /// Name of the point; `owner.NAME` for a point that a plugin defines.
    pub point: String,
    /// Plugin that defines the point; absent for a point of the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Kind of the point, which determines the outcomes that its hooks may return.
    pub kind: ExtensionPointKind,
    /// Purpose of the point, as the plugin that defines the point describes it; empty for a point
    /// of the host.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Hooks or implementations of the point, in the order in which they are called.
    pub actors: Vec<PluginWithHook>,
    /// Plugins that may call the point and that import the interface `points`; empty for a point of
    /// the host, because only the host calls it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub callers: Vec<String>,
}

/// Plugin that has a hook at a point.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PluginWithHook {
    /// Name of the plugin that has the hook.
    pub plugin: String,
    /// Priority of the hook; lower runs first.
    pub priority: u16,
}

/// Lists the points of the host at which a loaded plugin has a hook, and all points that loaded
/// plugins define. Points of the host come first, in the order of a turn.
#[must_use]
pub fn list_extension_point_usages<'a>(
    plugins: impl IntoIterator<Item = &'a LoadedPlugin>,
) -> Vec<ExtensionPointUsage> {
    let loaded: Vec<(&LoadedPlugin, PluginReport)> = plugins
        .into_iter()
        .map(|plugin| (plugin, build_plugin_report(plugin)))
        .collect();
    let mut uses: Vec<ExtensionPointUsage> = CATALOG
        .iter()
        .map(|row| ExtensionPointUsage {
            point: row.name.to_owned(),
            owner: None,
            kind: row.kind,
            description: String::new(),
            actors: enabled_hooks_at_point(row.name, &loaded),
            callers: Vec::new(),
        })
        .filter(|found| !found.actors.is_empty())
        .collect();
    for (owner, _) in &loaded {
        let name = &owner.manifest.name;
        for (point, declared) in &owner.manifest.points {
            let full_name = format!("{name}.{point}");
            let may_call = |plugin: &String| plugin == name || declared.callers.contains(plugin);
            let calls = |report: &&PluginReport| {
                may_call(&report.name)
                    && report
                        .imports
                        .iter()
                        .any(|import| is_extension_point_call_interface(&import.interface))
            };
            let callers = loaded.iter().map(|(_, report)| report).filter(calls);
            uses.push(ExtensionPointUsage {
                owner: Some(name.clone()),
                kind: declared.kind,
                description: declared.description.clone(),
                actors: list_plugins_implementing_point(&full_name, declared.kind, &loaded),
                callers: callers.map(|report| report.name.clone()).collect(),
                point: full_name,
            });
        }
    }
    uses
}

/// Whether an import is the interface through which a component calls points.
fn is_extension_point_call_interface(import: &str) -> bool {
    contract::split_interface_name(import).map_or(import, |(own, _)| own) == POINTS_INTERFACE_NAME
}

/// Returns the enabled hooks at a point of the host.
fn enabled_hooks_at_point(
    point: &str,
    loaded: &[(&LoadedPlugin, PluginReport)],
) -> Vec<PluginWithHook> {
    let hooks = loaded.iter().flat_map(|(_, report)| {
        let own = report.hooks.iter();
        own.filter(|hook| hook.point == point && hook.enabled)
            .map(|hook| PluginWithHook {
                plugin: report.name.clone(),
                priority: hook.priority,
            })
    });
    sort_hooks_by_priority(hooks.collect())
}

/// Returns the implementers of a plugin-defined point.
fn list_plugins_implementing_point(
    full_name: &str,
    kind: ExtensionPointKind,
    loaded: &[(&LoadedPlugin, PluginReport)],
) -> Vec<PluginWithHook> {
    let all = loaded.iter().filter_map(|(plugin, report)| {
        let options = plugin.manifest.implements.get(full_name)?;
        Some(PluginWithHook {
            plugin: report.name.clone(),
            priority: plugin.hook_spec(full_name, kind, options).priority,
        })
    });
    sort_hooks_by_priority(all.collect())
}

fn sort_hooks_by_priority(mut actors: Vec<PluginWithHook>) -> Vec<PluginWithHook> {
    actors.sort_by_cached_key(|actor| (actor.priority, actor.plugin.clone()));
    actors
}
