//! Finds settings without effect: settings for a hook that a plugin does not have, timeouts above
//! the limit, rules for tools that do not exist. With a misspelled hook point, a guard would not
//! refuse any call, so each such setting is reported with its location.

use std::sync::Arc;

use rind_lib::clock::format_duration_ms;
use rind_lib::config::{Config, PluginSettings, PluginsConfig, Section};
use rind_lib::message::ToolSpec;
use rind_lib::plugin::inspect::{HookReport, build_plugin_report};
use rind_lib::plugin::load::{FoundPluginSet, LoadedPlugin};
use rind_lib::point::catalog;
use rind_lib::script::HookScript;
use rind_lib::skill::{self, SessionSkills};
use rind_lib::tool::policy::ToolPolicy;

/// Returns a message, with the location, about each setting of a plugin that has no effect.
///
/// # Errors
/// The settings of plugins are wrong.
pub fn ineffective_plugin_settings(
    config: &Config,
    plugins: &FoundPluginSet,
) -> anyhow::Result<Vec<String>> {
    let PluginsConfig(settings) = config.section()?;
    let mut found = Vec::new();
    for (name, settings) in &settings {
        let loaded = plugins.plugins.iter().find(|p| p.manifest.name == *name);
        if let Some(plugin) = loaded {
            found.extend(timeouts_above_hook_limit(config, plugin, settings));
            found.extend(unused_hook_setting_messages(config, plugin, settings));
        }
    }
    Ok(found)
}

/// Settings, scripts and skills of a run, in which names of tools are checked.
pub struct ToolReferenceChecker<'a> {
    /// Settings in which names of tools are checked.
    pub config: &'a Config,
    /// Policy with the rules from the settings.
    pub policy: &'a ToolPolicy,
    /// Scripts that the settings declare as hooks.
    pub scripts: &'a [HookScript],
    /// Skills that the session can use.
    pub skills: &'a SessionSkills,
}

impl ToolReferenceChecker<'_> {
    /// Returns a message, with the location, about each rule, script and skill that matches none of
    /// these tools.
    #[must_use]
    pub fn find_settings_matching_no_tool(&self, tools: &[Arc<ToolSpec>]) -> Vec<String> {
        let tools: Vec<&ToolSpec> = tools.iter().map(|spec| &**spec).collect();
        let known: Vec<(Option<&str>, &str)> = tools
            .iter()
            .map(|spec| (spec.plugin.as_deref(), spec.name.as_str()))
            .collect();
        let mut found = describe_rules_matching_no_tool(self.config, self.policy, &tools);
        found.extend(script_matchers_without_tool(self.scripts, &known));
        found.extend(misspelled_skill_tool_messages(self.skills, &known));
        found
    }
}

/// Returns a message, with the location, about each rule that matches no call of these tools.
fn describe_rules_matching_no_tool(
    config: &Config,
    policy: &ToolPolicy,
    tools: &[&ToolSpec],
) -> Vec<String> {
    let places = config.list_element_locations(&[ToolPolicy::NAME, "rules"]);
    let faults = policy.find_unmatchable_rules(tools).into_iter();
    faults
        .map(|(index, why)| {
            let place = places
                .get(index)
                .map_or_else(String::new, |place| format!("{place}: "));
            format!("{place}tool rule {}: {why}", index + 1)
        })
        .collect()
}

/// Returns a message, with the script's location, about each matcher that matches no tool.
fn script_matchers_without_tool(
    scripts: &[HookScript],
    known: &[(Option<&str>, &str)],
) -> Vec<String> {
    let told = scripts.iter().filter_map(|script| {
        let why = script.missing_tool_message(known)?;
        Some(format!("{}: script `{}`: {why}", script.place, script.name))
    });
    told.collect()
}

/// Returns a message, with the position, about each probably misspelled tool name in a skill. Other
/// unknown names are ignored, because they may be tools of other programs.
fn misspelled_skill_tool_messages(
    skills: &SessionSkills,
    known: &[(Option<&str>, &str)],
) -> Vec<String> {
    let told = skills.iter().flat_map(|skill| {
        let faults = skill::find_misspelt_tools(skill, known).into_iter();
        faults.map(|fault| format!("{}:{fault}", skill.file.display()))
    });
    told.collect()
}

/// Returns a message about each timeout that is above the limit of its hook.
fn timeouts_above_hook_limit(
    config: &Config,
    plugin: &LoadedPlugin,
    settings: &PluginSettings,
) -> Vec<String> {
    let name = plugin.manifest.name.as_str();
    let hooks = build_plugin_report(plugin).hooks;
    let longest = |point: Option<&str>| {
        let is_it = |hook: &&HookReport| point.is_none_or(|point| hook.point == point);
        let hooks = hooks.iter().filter(is_it);
        hooks.map(|hook| hook.deadline_ms).max()
    };
    let of_hooks = settings.hooks.iter().map(|(point, hook)| {
        let keys = vec!["plugins", name, "hooks", point, "timeout_seconds"];
        let longest =
            catalog::find_builtin_extension_point(point).and_then(|row| longest(Some(row.name)));
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
            let places = config.value_locations(&keys);
            let key = keys.join(".");
            found.extend(places.last().map(|place| {
                format!(
                    "{place}: {key}: {seconds} s exceeds the limit, so the limit of {} applies",
                    format_duration_ms(ms)
                )
            }));
        }
    }
    found
}

/// Returns a message about each setting for a hook that the plugin does not have.
fn unused_hook_setting_messages(
    config: &Config,
    plugin: &LoadedPlugin,
    settings: &PluginSettings,
) -> Vec<String> {
    let manifest = &plugin.manifest;
    let has_none = |point: &&String| {
        let name =
            catalog::find_builtin_extension_point(point).map_or(point.as_str(), |row| row.name);
        !plugin.exports.iter().any(|export| export == name)
            && !manifest.implements.keys().any(|own| own == name)
    };
    let own = plugin.exports.iter().map(String::as_str);
    let own: Vec<&str> = own
        .filter(|export| catalog::find_builtin_extension_point(export).is_some())
        .collect();
    let why = format!(
        "this setting has no effect: the plugin has no hook at this point; its hooks are at: {}",
        own.join(", ")
    );
    let mut found = Vec::new();
    for point in settings.hooks.keys().filter(has_none) {
        let keys = ["plugins", &manifest.name, "hooks", point];
        let (places, keys) = (config.value_locations(&keys), keys.join("."));
        found.extend(
            places
                .iter()
                .map(|place| format!("{place}: [{keys}]: {why}")),
        );
    }
    found
}
