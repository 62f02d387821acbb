//! Measures which parts of a plugin its test cases call: hooks with their outcomes, tools, commands
//! and loops.
//!
//! Start from [`PluginCoverage`].

use std::sync::Arc;

use super::needed::RequiredPlugins;
use super::run::CaseRunner;
use super::suite::{CaseRunResult, CaseSuite, SuiteError};
use rind_lib::grant::SideEffect;
use rind_lib::plugin::load::{FoundPluginSet, LoadedPlugin};
use rind_lib::point::catalog;
use rind_lib::point::dispatch::ExtensionPointKind;

/// Name in the coverage of the loop that runs under `rind serve`; no tool can have this name.
pub(super) const SERVE_LOOP_COVERAGE_ENTRY_NAME: &str = "the loop";

/// Name in the coverage of a plugin loop that replaces the agent's built-in loop.
pub(super) const AGENT_LOOP_COVERAGE_ENTRY_NAME: &str = "the loop of the agent";

/// Hooks, tools, commands and the loop of a plugin, each with the number of cases that reached it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginCoverage {
    /// Hooks by their points, including points that other plugins define.
    pub hooks: Vec<(String, usize)>,
    /// Tools by name, each with the number of cases that called it.
    pub tools: Vec<(String, usize)>,
    /// Slash commands with the slash, each with the number of cases that called it.
    pub commands: Vec<(String, usize)>,
    /// Names of the plugin's loop and agent loop, if it has them.
    pub loops: Vec<(String, usize)>,
    /// Outcomes that are possible for the hooks of each point.
    pub outcomes: Vec<HookOutcomeCounts>,
}

/// Possible outcomes of the hooks at one extension point, with counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookOutcomeCounts {
    /// Name of the extension point.
    pub point: String,
    /// Possible outcomes of the hook, each with the number of cases in which it occurred.
    pub counts: Vec<(&'static str, usize)>,
}

impl PluginCoverage {
    /// Returns the names of hooks, tools, commands and loops that no case reached.
    pub fn uncalled_plugin_parts(&self) -> impl Iterator<Item = &str> {
        let all = self.hooks.iter().chain(&self.tools);
        let all = all.chain(&self.commands).chain(&self.loops);
        all.filter(|(_, n)| *n == 0).map(|(name, _)| name.as_str())
    }

    /// Returns the possible outcomes that occurred in no case, each with its point. Outcomes of
    /// hooks that no case reached are left out.
    pub fn untested_hook_outcomes(&self) -> impl Iterator<Item = (&str, &'static str)> {
        let is_reached = |point: &str| self.hooks.iter().any(|(name, n)| name == point && *n > 0);
        let reached = self.outcomes.iter();
        let reached = reached.filter(move |hook| is_reached(&hook.point));
        reached.flat_map(|hook| {
            let missing = hook.counts.iter().filter(|(_, n)| *n == 0);
            missing.map(|(outcome, _)| (hook.point.as_str(), *outcome))
        })
    }

    /// Returns the total number of the plugin's hooks, tools, commands and loops.
    #[must_use]
    pub fn entry_count(&self) -> usize {
        self.hooks.len() + self.tools.len() + self.commands.len() + self.loops.len()
    }
}

impl CaseSuite {
    /// Counts how many cases reached each hook, tool, command and loop; `None` if the plugin cannot
    /// be loaded.
    ///
    /// # Errors
    /// The host cannot load plugins.
    pub async fn measure_coverage(
        &self,
        runner: &CaseRunner,
        ran: &[CaseRunResult],
    ) -> Result<Option<PluginCoverage>, SuiteError> {
        let needed = RequiredPlugins::find_required_plugins(&self.folder);
        let set = FoundPluginSet::load(&runner.plugin_load_options(&self.folder, &needed)).await?;
        let is_it = |plugin: &&Arc<LoadedPlugin>| plugin.manifest.name == self.manifest.name;
        let Some(plugin) = set.plugins.iter().find(is_it) else {
            return Ok(None);
        };
        let counted = |name: &String| {
            let cases = ran.iter().filter(|case| case.reached.contains(name));
            (name.clone(), cases.count())
        };
        let hooks = plugin.exports.iter();
        let hooks = hooks.filter(|export| catalog::find_builtin_extension_point(export).is_some());
        let outcomes = hooks.clone();
        let outcomes = outcomes.filter_map(|point| count_hook_outcomes(plugin, point, ran));
        let outcomes = outcomes.collect();
        let hooks = hooks.chain(plugin.manifest.implements.keys());
        Ok(Some(PluginCoverage {
            outcomes,
            hooks: hooks.map(counted).collect(),
            tools: plugin
                .tools
                .iter()
                .map(|tool| counted(&tool.name))
                .collect(),
            commands: plugin
                .commands
                .iter()
                .map(|command| counted(&format!("/{}", command.name)))
                .collect(),
            loops: plugin
                .has_loop()
                .then(|| counted(&SERVE_LOOP_COVERAGE_ENTRY_NAME.to_owned()))
                .into_iter()
                .chain(
                    plugin
                        .has_agent_loop()
                        .then(|| counted(&AGENT_LOOP_COVERAGE_ENTRY_NAME.to_owned())),
                )
                .collect(),
        }))
    }
}

/// Returns the outcomes that are possible for the plugin's hook at a point, each with the number of
/// cases in which it occurred. An outcome is impossible if the point does not allow it, if the
/// manifest declares that the hook does not use it, or if it is a change at a gate and the manifest
/// does not declare the side effect that such a change needs.
fn count_hook_outcomes(
    plugin: &LoadedPlugin,
    point: &str,
    ran: &[CaseRunResult],
) -> Option<HookOutcomeCounts> {
    let row = catalog::find_builtin_extension_point(point)?;
    let options = plugin.manifest.hooks.iter();
    let mut options = options.filter(|(name, _)| name.get_ref() == row.name);
    let may = options.next().and_then(|(_, options)| options.may.as_ref());
    let has_right = |right: &str| {
        row.rights.contains(&right) && may.is_none_or(|may| may.iter().any(|own| own == right))
    };
    let changes = row
        .rights
        .iter()
        .any(|right| !matches!(*right, "ask" | "block") && has_right(right));
    let changes = changes
        && (row.kind != ExtensionPointKind::Gate
            || plugin.manifest.has_side_effect(SideEffect::Session));
    let possible = [
        ("pass", true),
        ("changed", changes),
        ("asked", has_right("ask")),
        ("blocked", has_right("block")),
    ];
    let counted = |outcome: &'static str| {
        let is_it = |(at, seen): &(String, String)| at == row.name && seen == outcome;
        let cases = ran.iter().filter(|case| case.outcomes.iter().any(is_it));
        (outcome, cases.count())
    };
    let possible = possible.into_iter().filter(|(_, is_possible)| *is_possible);
    Some(HookOutcomeCounts {
        point: row.name.to_owned(),
        counts: possible.map(|(outcome, _)| counted(outcome)).collect(),
    })
}
