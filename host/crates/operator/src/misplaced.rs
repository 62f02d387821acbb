//! Finds settings without effect: for a hook that a plugin does not have, a timeout above the
//! limit, a tool that does not exist. A guard with a misspelled hook point would not refuse
//! anything, so each such setting is reported with its location.

use std::sync::Arc;

use rind_lib::clock::format_millis;
use rind_lib::config::{Config, PluginSettings, PluginsConfig, Section};
use rind_lib::message::ToolSpec;
use rind_lib::plugin::inspect::{HookReport, inspect};
use rind_lib::plugin::load::{LoadedPlugin, PluginSet};
use rind_lib::point::catalog;
use rind_lib::script::Script;
use rind_lib::skill::{self, Skills};
use rind_lib::tool::policy::ToolPolicy;

/// Returns a message with the location for each setting of a plugin that has no effect.
///
/// # Errors
/// The settings of plugins are wrong.
pub fn of_plugins(config: &Config, plugins: &PluginSet) -> anyhow::Result<Vec<String>> {
    let PluginsConfig(settings) = config.section()?;
    let mut found = Vec::new();
    for (name, settings) in &settings {
        let loaded = plugins.plugins.iter().find(|p| p.manifest.name == *name);
        if let Some(plugin) = loaded {
            found.extend(too_long(config, plugin, settings));
            found.extend(without_hook(config, plugin, settings));
        }
    }
    Ok(found)
}

/// Settings, scripts and skills of a run, which may contain names of tools.
pub struct ToolNames<'a> {
    /// Settings of the run.
    pub config: &'a Config,
    /// Policy with the rules of the settings.
    pub policy: &'a ToolPolicy,
    /// Scripts of the settings.
    pub scripts: &'a [Script],
    /// Skills of the session.
    pub skills: &'a Skills,
}

impl ToolNames<'_> {
    /// Returns a message with the location for each rule, script and skill that names none of these
    /// tools.
    #[must_use]
    pub fn without(&self, tools: &[Arc<ToolSpec>]) -> Vec<String> {
        let tools: Vec<&ToolSpec> = tools.iter().map(|spec| &**spec).collect();
        let known: Vec<(Option<&str>, &str)> = tools
            .iter()
            .map(|spec| (spec.plugin.as_deref(), spec.name.as_str()))
            .collect();
        let mut found = of_rules(self.config, self.policy, &tools);
        found.extend(of_matchers(self.scripts, &known));
        found.extend(of_skills(self.skills, &known));
        found
    }
}

/// Returns a message with the location for each rule that matches no call of these tools.
fn of_rules(config: &Config, policy: &ToolPolicy, tools: &[&ToolSpec]) -> Vec<String> {
    let places = config.element_places(&[ToolPolicy::NAME, "rules"]);
    let faults = policy.faults(tools).into_iter();
    faults
        .map(|(index, why)| {
            let place = places
                .get(index)
                .map_or_else(String::new, |place| format!("{place}: "));
            format!("{place}tool rule {}: {why}", index + 1)
        })
        .collect()
}

/// Returns a message with the script's location for each matcher that matches no tool.
fn of_matchers(scripts: &[Script], known: &[(Option<&str>, &str)]) -> Vec<String> {
    let told = scripts.iter().filter_map(|script| {
        let why = script.unmatched_matcher(known)?;
        Some(format!("{}: script `{}`: {why}", script.place, script.name))
    });
    told.collect()
}

/// Returns a message with the position for each tool name in a skill that nearly equals the name of
/// a known tool. Other unknown names are not reported: they may be tools of other programs.
fn of_skills(skills: &Skills, known: &[(Option<&str>, &str)]) -> Vec<String> {
    let told = skills.iter().flat_map(|skill| {
        let faults = skill::misspelt_tools(skill, known).into_iter();
        faults.map(|fault| format!("{}:{fault}", skill.file.display()))
    });
    told.collect()
}

/// Returns a message for each timeout that is above the limit of its hook.
fn too_long(config: &Config, plugin: &LoadedPlugin, settings: &PluginSettings) -> Vec<String> {
    let name = plugin.manifest.name.as_str();
    let hooks = inspect(plugin).hooks;
    let longest = |point: Option<&str>| {
        let is_it = |hook: &&HookReport| point.is_none_or(|point| hook.point == point);
        let hooks = hooks.iter().filter(is_it);
        hooks.map(|hook| hook.deadline_ms).max()
    };
    let of_hooks = settings.hooks.iter().map(|(point, hook)| {
        let keys = vec!["plugins", name, "hooks", point, "timeout_seconds"];
        let longest = catalog::find(point).and_then(|row| longest(Some(row.name)));
        (keys, hook.timeout_seconds, longest)
    });
    let keys = vec!["plugins", name, "timeout_seconds"];
    let of_plugin = (keys, settings.timeout_seconds, longest(None));
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
                    "{place}: {key}: {seconds} s is above the limit for this hook, so {} are used",
                    format_millis(ms)
                )
            }));
        }
    }
    found
}

/// Returns a message for each setting of a hook that the plugin does not have.
fn without_hook(config: &Config, plugin: &LoadedPlugin, settings: &PluginSettings) -> Vec<String> {
    let manifest = &plugin.manifest;
    let has_none = |point: &&String| {
        let name = catalog::find(point).map_or(point.as_str(), |row| row.name);
        !plugin.exports.iter().any(|export| export == name)
            && !manifest.implements.keys().any(|own| own == name)
    };
    let own = plugin.exports.iter().map(String::as_str);
    let own: Vec<&str> = own
        .filter(|export| catalog::find(export).is_some())
        .collect();
    let why = format!(
        "this setting has no effect: the plugin has no hook there; its hooks are at: {}",
        own.join(", ")
    );
    let mut found = Vec::new();
    for point in settings.hooks.keys().filter(has_none) {
        let keys = ["plugins", &manifest.name, "hooks", point];
        let (places, keys) = (config.places(&keys), keys.join("."));
        found.extend(
            places
                .iter()
                .map(|place| format!("{place}: [{keys}]: {why}")),
        );
    }
    found
}
