//! What the cases of a plugin reached: its hooks, tools, commands and its loop.

use std::sync::Arc;

use super::needed::NeededPlugins;
use super::run::CaseRunner;
use super::suite::{CaseRun, CaseSuite, SuiteError};
use rind_lib::plugin::load::{Loaded, PluginSet};
use rind_lib::point::catalog;

/// Name of a plugin's loop in the coverage; no tool can have this name.
pub(super) const LOOP: &str = "the loop";

/// Hooks, tools, commands and the loop of a plugin, each with the number of cases that reached it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginCoverage {
    /// Hooks by point, including those of other plugins.
    pub hooks: Vec<(String, usize)>,
    /// Tools.
    pub tools: Vec<(String, usize)>,
    /// Slash commands, with their slash.
    pub commands: Vec<(String, usize)>,
    /// The plugin's loop, if it has one.
    pub loops: Vec<(String, usize)>,
}

impl PluginCoverage {
    /// Returns the names of hooks, tools, commands and the loop that no case reached.
    pub fn never_called(&self) -> impl Iterator<Item = &str> {
        let all = self.hooks.iter().chain(&self.tools);
        let all = all.chain(&self.commands).chain(&self.loops);
        all.filter(|(_, n)| *n == 0).map(|(name, _)| name.as_str())
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
        let is_it = |plugin: &&Arc<Loaded>| plugin.manifest.name == self.manifest.name;
        let Some(plugin) = set.plugins.iter().find(is_it) else {
            return Ok(None);
        };
        let counted = |name: &String| {
            let cases = ran.iter().filter(|case| case.reached.contains(name));
            (name.clone(), cases.count())
        };
        let hooks = plugin.exports.iter();
        let hooks = hooks.filter(|export| catalog::find(export).is_some());
        let hooks = hooks.chain(plugin.manifest.implements.keys());
        Ok(Some(PluginCoverage {
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
                .collect(),
        }))
    }
}
