//! Coverage of a plugin by its cases: hooks with their outcomes, tools, commands and the loop.
//!
//! Start from [`PluginCoverage`].

use std::sync::Arc;

use super::needed::NeededPlugins;
use super::run::CaseRunner;
use super::suite::{CaseRun, CaseSuite, SuiteError};
use rind_lib::grant::SideEffect;
use rind_lib::plugin::load::{LoadedPlugin, PluginSet};
use rind_lib::point::catalog;
use rind_lib::point::dispatch::PointKind;

/// Name of a plugin's loop in the coverage; no tool can have this name.
pub(super) const LOOP: &str = "the loop";

/// Name of a plugin's loop of the agent in the coverage.
pub(super) const AGENT_LOOP: &str = "the loop of the agent";

/// Hooks, tools, commands and the loop of a plugin, each with the number of cases that reached it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginCoverage {
    /// Hooks by point, including those of other plugins.
    pub hooks: Vec<(String, usize)>,
    /// Tools.
    pub tools: Vec<(String, usize)>,
    /// Slash commands, with their slash.
    pub commands: Vec<(String, usize)>,
    /// The plugin's loop and its loop of the agent, if it has them.
    pub loops: Vec<(String, usize)>,
    /// Outcomes that the hooks may have, each with the number of cases in which it occurred.
    pub outcomes: Vec<HookOutcomes>,
}

/// Outcomes that hooks of one point may have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookOutcomes {
    /// Name of the point.
    pub point: String,
    /// Outcomes, each with the number of cases in which it occurred.
    pub counts: Vec<(&'static str, usize)>,
}

impl PluginCoverage {
    /// Returns the names of hooks, tools, commands and the loop that no case reached.
    pub fn never_called(&self) -> impl Iterator<Item = &str> {
        let all = self.hooks.iter().chain(&self.tools);
        let all = all.chain(&self.commands).chain(&self.loops);
        all.filter(|(_, n)| *n == 0).map(|(name, _)| name.as_str())
    }

    /// Returns the outcomes that occurred in no case, of hooks that some case reached: the point and
    /// the outcome.
    pub fn never_seen(&self) -> impl Iterator<Item = (&str, &'static str)> {
        let is_reached = |point: &str| self.hooks.iter().any(|(name, n)| name == point && *n > 0);
        let reached = self.outcomes.iter();
        let reached = reached.filter(move |hook| is_reached(&hook.point));
        reached.flat_map(|hook| {
            let missing = hook.counts.iter().filter(|(_, n)| *n == 0);
            missing.map(|(outcome, _)| (hook.point.as_str(), *outcome))
        })
    }

    /// Returns the number of hooks, tools, commands and loops.
    #[must_use]
    pub fn n_all(&self) -> usize {
        self.hooks.len() + self.tools.len() + self.commands.len() + self.loops.len()
    }
}

impl CaseSuite {
    /// Counts how many cases reached each hook and tool; `None` if the plugin cannot be loaded.
    ///
    /// # Errors
    /// The host cannot load plugins.
    pub async fn measure_coverage(
        &self,
        runner: &CaseRunner,
        ran: &[CaseRun],
    ) -> Result<Option<PluginCoverage>, SuiteError> {
        let needed = NeededPlugins::needed_by(&self.folder);
        let set = PluginSet::load(&runner.load_options(&self.folder, &needed)).await?;
        let is_it = |plugin: &&Arc<LoadedPlugin>| plugin.manifest.name == self.manifest.name;
        let Some(plugin) = set.plugins.iter().find(is_it) else {
            return Ok(None);
        };
        let counted = |name: &String| {
            let cases = ran.iter().filter(|case| case.reached.contains(name));
            (name.clone(), cases.count())
        };
        let hooks = plugin.exports.iter();
        let hooks = hooks.filter(|export| catalog::find(export).is_some());
        let outcomes = hooks.clone();
        let outcomes = outcomes.filter_map(|point| outcomes_of(plugin, point, ran));
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
                .then(|| counted(&LOOP.to_owned()))
                .into_iter()
                .chain(
                    plugin
                        .has_agent_loop()
                        .then(|| counted(&AGENT_LOOP.to_owned())),
                )
                .collect(),
        }))
    }
}

/// Counts the outcomes that a hook may return: those of its kind, without the rights that its
/// manifest gives up, and without changes where a gate lacks the side effect for them.
fn outcomes_of(plugin: &LoadedPlugin, point: &str, ran: &[CaseRun]) -> Option<HookOutcomes> {
    let row = catalog::find(point)?;
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
    let changes =
        changes && (row.kind != PointKind::Gate || plugin.manifest.has(SideEffect::Session));
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
    Some(HookOutcomes {
        point: row.name.to_owned(),
        counts: possible.map(|(outcome, _)| counted(outcome)).collect(),
    })
}
