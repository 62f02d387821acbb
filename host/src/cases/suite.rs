//! All cases of one plugin: what the command line runs, and what a test in Rust does.

use std::path::{Path, PathBuf};

use super::file::{Case, CaseFile, FileError};
use super::run::{CaseOutcome, Cost, Runner, run};
use super::snapshot::{self, Snapshot};
use crate::plugin::load::{Loaded, PluginSet};
use crate::plugin::manifest::Manifest;
use crate::point::catalog;

/// Error that keeps the cases of a plugin from being run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SuiteError {
    /// The manifest cannot be read, or the host cannot load plugins.
    #[error(transparent)]
    Plugin(#[from] crate::plugin::Error),
    /// A file of cases cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
}

/// Selection of cases, and what to do with their snapshots.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Text that the names of cases hold; all cases without it.
    pub only: Option<String>,
    /// Whether snapshots are written in place of being compared.
    pub accept: bool,
}

impl Selection {
    pub(super) fn takes(&self, name: &str) -> bool {
        name.contains(self.only.as_deref().unwrap_or_default())
    }
}

/// A case that was run.
#[derive(Clone, Debug, Default)]
pub struct Ran {
    /// Name of the plugin, or id of the skill.
    pub plugin: String,
    /// File of the case, as it was named.
    pub file: PathBuf,
    /// Line of the case.
    pub line: usize,
    /// Name of the case.
    pub name: String,
    /// Cost of its first turn.
    pub cost: Cost,
    /// Cost in the last run.
    pub last: Option<Cost>,
    /// Differences from what is expected, or why it cannot be run; empty when the case passed.
    pub failures: Vec<String>,
    /// Lines that the plugin logged.
    pub log: Vec<String>,
    /// Whether its snapshot was written.
    pub is_accepted: bool,
    /// Names of points, tools and commands that it reached.
    pub reached: Vec<String>,
}

impl Ran {
    /// Whether the case passed.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.failures.is_empty()
    }

    /// Key of the case among those of its plugin.
    #[must_use]
    pub fn key(&self) -> String {
        let file = self.file.file_name().unwrap_or_default();
        format!("{} {}", file.to_string_lossy(), self.name)
    }
}

/// Hooks, tools and commands of a plugin, each with the number of cases that called it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Hooks by point.
    pub hooks: Vec<(String, usize)>,
    /// Tools.
    pub tools: Vec<(String, usize)>,
    /// Slash commands, each with its slash.
    pub commands: Vec<(String, usize)>,
}

impl Coverage {
    /// Names of hooks, tools and commands that no case called.
    pub fn never_called(&self) -> impl Iterator<Item = &str> {
        let all = self.hooks.iter().chain(&self.tools);
        let all = all.chain(&self.commands);
        all.filter(|(_, n)| *n == 0).map(|(name, _)| name.as_str())
    }

    /// Number of hooks, tools and commands.
    #[must_use]
    pub fn n_all(&self) -> usize {
        self.hooks.len() + self.tools.len() + self.commands.len()
    }
}

/// The cases of one plugin.
#[derive(Debug)]
pub struct Suite {
    /// Folder of the plugin.
    pub folder: PathBuf,
    /// Manifest of the plugin.
    pub manifest: Manifest,
    /// Files of cases.
    pub files: Vec<CaseFile>,
}

impl Suite {
    /// Reads the manifest and the cases in a plugin's folder.
    ///
    /// # Errors
    /// One of the files cannot be read.
    pub fn read(folder: &Path) -> Result<Self, SuiteError> {
        Ok(Self {
            manifest: Manifest::read(folder, None)?,
            files: CaseFile::all(folder)?,
            folder: folder.to_owned(),
        })
    }

    /// Runs the cases that are selected, and tells of each when it has ended.
    pub async fn run(
        &self,
        runner: &Runner,
        selection: &Selection,
        mut on_case: impl FnMut(&mut Ran),
    ) -> Vec<Ran> {
        let mut all = Vec::new();
        for file in &self.files {
            for case in file.cases.iter().filter(|case| selection.takes(&case.name)) {
                let mut ran = self.case(runner, file, case, selection.accept).await;
                on_case(&mut ran);
                all.push(ran);
            }
        }
        all
    }

    async fn case(&self, runner: &Runner, file: &CaseFile, case: &Case, accept: bool) -> Ran {
        let name = &self.manifest.name;
        let mut ran = Ran {
            plugin: name.clone(),
            file: file.path.clone(),
            line: case.line,
            name: case.name.clone(),
            ..Ran::default()
        };
        match run(runner, &self.folder, name, case).await {
            Ok(outcome) => {
                ran.failures.clone_from(&outcome.differences);
                if case.expect.snapshot {
                    match kept(&file.path, case, &outcome, accept) {
                        Ok(is_accepted) => ran.is_accepted = is_accepted,
                        Err(why) => ran.failures.push(why),
                    }
                }
                let hooks = outcome.seen.hooks.into_iter().map(|hook| hook.point);
                let command = case.given.command.iter();
                let command = command.map(|command| format!("/{}", command.name));
                ran.reached = hooks.chain(outcome.seen.tools).chain(command).collect();
                ran.log = outcome.seen.log;
                ran.cost = outcome.cost;
            }
            Err(error) => ran.failures.push(error.to_string()),
        }
        ran
    }

    /// Finds snapshots that no case has any more.
    ///
    /// # Errors
    /// Their folder cannot be read.
    pub fn unused_snapshots(&self) -> std::io::Result<Vec<PathBuf>> {
        let mut unused = Vec::new();
        for file in &self.files {
            unused.extend(snapshot::unused(file)?);
        }
        Ok(unused)
    }

    /// Counts which hooks and tools the cases called; `None` when the plugin cannot be loaded.
    ///
    /// # Errors
    /// The host cannot load plugins.
    pub async fn coverage(
        &self,
        runner: &Runner,
        ran: &[Ran],
    ) -> Result<Option<Coverage>, SuiteError> {
        let set = PluginSet::load(&runner.alone(&self.folder)).await?;
        let is_it = |plugin: &&std::sync::Arc<Loaded>| plugin.manifest.name == self.manifest.name;
        let Some(plugin) = set.plugins.iter().find(is_it) else {
            return Ok(None);
        };
        let counted = |name: &String| {
            let cases = ran.iter().filter(|case| case.reached.contains(name));
            (name.clone(), cases.count())
        };
        let hooks = plugin.exports.iter();
        let hooks = hooks.filter(|export| catalog::find(export).is_some());
        Ok(Some(Coverage {
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
        }))
    }
}

/// Compares the snapshot of a case, or writes it. Whether it was written.
fn kept(cases: &Path, case: &Case, outcome: &CaseOutcome, accept: bool) -> Result<bool, String> {
    let snapshot = Snapshot::of(cases, case, &outcome.seen)
        .map_err(|error| format!("the snapshot cannot be written as TOML: {error}"))?;
    // What a case fails at otherwise is nothing to keep.
    snapshot.keep(accept && outcome.differences.is_empty())
}
