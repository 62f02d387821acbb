//! All cases of one plugin, for the command line and for tests in Rust.
//!
//! Start from [`CaseSuite::read_suite`], then [`CaseSuite::run_suite`].

use std::path::{Path, PathBuf};

use super::file::{CaseExpect, CaseFile, CaseFormat, FileError, NOTHING_EXPECTED, PluginCase};
use super::needed::NeededPlugins;
use super::oversight::{FAILED, failed_turn, unknown_tools, unused_replies};
use super::run::{CaseCost, CaseOutcome, CaseRunner, run_case};
use super::snapshot::{self, CaseSnapshot, UnusedSnapshot};
use rind_lib::plugin::load::{Loaded, PluginSet};
use rind_lib::plugin::manifest::Manifest;
use rind_lib::point::catalog;

/// Error that prevents the cases of a plugin from running.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SuiteError {
    /// The manifest cannot be read, or the host cannot load plugins.
    #[error(transparent)]
    Plugin(#[from] rind_lib::plugin::Error),
}

/// Selection of cases, and how their snapshots are treated.
#[derive(Clone, Debug, Default)]
pub struct CaseSelection {
    /// Substring of the names of the selected cases; all cases if absent.
    pub only: Option<String>,
    /// Whether snapshots are written instead of compared (`--accept`).
    pub accept: bool,
}

impl CaseSelection {
    pub(super) fn takes_case(&self, name: &str) -> bool {
        name.contains(self.only.as_deref().unwrap_or_default())
    }
}

/// Case that was run.
#[derive(Clone, Debug, Default)]
pub struct CaseRun {
    /// Name of the plugin, or id of the skill.
    pub plugin: String,
    /// File of the case, as passed by the caller.
    pub file: PathBuf,
    /// Line of the case.
    pub line: usize,
    /// Name of the case.
    pub name: String,
    /// Cost of the first turn.
    pub cost: CaseCost,
    /// Cost in the last run.
    pub last: Option<CaseCost>,
    /// Differences from the expected behavior, or the reason why the case cannot run; empty if it
    /// passed.
    pub failures: Vec<String>,
    /// Lines that the plugin logged.
    pub log: Vec<String>,
    /// Whether its snapshot was written.
    pub is_accepted: bool,
    /// Names of points, tools and commands that the case reached, and `the loop`.
    pub reached: Vec<String>,
}

impl CaseRun {
    /// Reports a case file that cannot be read as a failed case; the other files are still run.
    pub(super) fn unread_case(plugin: &str, fault: &FileError) -> Self {
        let name = fault.path().file_name().unwrap_or_default();
        Self {
            plugin: plugin.to_owned(),
            file: fault.path().to_owned(),
            line: fault.line(),
            name: name.to_string_lossy().into_owned(),
            failures: vec![fault.to_string()],
            ..Self::default()
        }
    }

    /// Whether the case passed.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.failures.is_empty()
    }

    /// Returns the key of the case among those of its plugin.
    #[must_use]
    pub fn key(&self) -> String {
        let file = self.file.file_name().unwrap_or_default();
        format!("{} {}", file.to_string_lossy(), self.name)
    }
}

/// Reads the case files in a directory. Also returns the errors of files that cannot be read.
pub(super) fn read_cases<C: CaseFormat>(folder: &Path) -> (Vec<CaseFile<C>>, Vec<FileError>) {
    let (mut files, mut faults) = (Vec::new(), Vec::new());
    for read in CaseFile::read_each(folder) {
        match read {
            Ok(file) => files.push(file),
            Err(fault) => faults.push(fault),
        }
    }
    (files, faults)
}

/// Finds snapshots that belong to no case, and removes them if `is_accepted`. An error is reported
/// as a failed case.
pub(super) fn clear_snapshots<C: CaseFormat>(
    plugin: &str,
    files: &[CaseFile<C>],
    is_accepted: bool,
) -> (Vec<UnusedSnapshot>, Vec<CaseRun>) {
    let (mut unused, mut failed) = (Vec::new(), Vec::new());
    for file in files {
        match snapshot::clear_unused(file, is_accepted) {
            Ok(found) => unused.extend(found),
            Err(error) => failed.push(CaseRun {
                plugin: plugin.to_owned(),
                file: file.path.clone(),
                line: 1,
                name: "snapshots".to_owned(),
                failures: vec![format!("the snapshots cannot be looked through: {error}")],
                ..CaseRun::default()
            }),
        }
    }
    (unused, failed)
}

/// Name of a plugin's loop in the coverage; no tool can have this name.
const LOOP: &str = "the loop";

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

/// Cases of one plugin.
#[derive(Debug)]
pub struct CaseSuite {
    /// Folder of the plugin.
    pub folder: PathBuf,
    /// Manifest of the plugin.
    pub manifest: Manifest,
    /// Case files.
    pub files: Vec<CaseFile>,
    /// Errors of the files that could not be read.
    pub faults: Vec<FileError>,
}

impl CaseSuite {
    /// Reads the manifest and the case files in a plugin's directory.
    ///
    /// # Errors
    /// The manifest cannot be read. A case file that cannot be read counts as a failed case when
    /// the suite runs.
    pub fn read_suite(folder: &Path) -> Result<Self, SuiteError> {
        let (files, faults) = read_cases(folder);
        Ok(Self {
            manifest: Manifest::read(folder, None)?,
            files,
            faults,
            folder: folder.to_owned(),
        })
    }

    /// Runs the selected cases, and calls `on_case` after each.
    pub async fn run_suite(
        &self,
        runner: &CaseRunner,
        selection: &CaseSelection,
        mut on_case: impl FnMut(&mut CaseRun),
    ) -> Vec<CaseRun> {
        let name = &self.manifest.name;
        let faults = self
            .faults
            .iter()
            .map(|fault| CaseRun::unread_case(name, fault));
        let mut all: Vec<CaseRun> = faults.collect();
        all.iter_mut().for_each(&mut on_case);
        for file in &self.files {
            for case in file
                .cases
                .iter()
                .filter(|case| selection.takes_case(&case.name))
            {
                let mut ran = self.run_case(runner, file, case, selection.accept).await;
                on_case(&mut ran);
                all.push(ran);
            }
        }
        all
    }

    async fn run_case(
        &self,
        runner: &CaseRunner,
        file: &CaseFile,
        case: &PluginCase,
        accept: bool,
    ) -> CaseRun {
        let name = &self.manifest.name;
        let mut ran = CaseRun {
            plugin: name.clone(),
            file: file.path.clone(),
            line: case.line,
            name: case.name.clone(),
            ..CaseRun::default()
        };
        match run_case(runner, &self.folder, name, case).await {
            Ok(outcome) => {
                ran.failures.clone_from(&outcome.differences);
                ran.failures.extend(find_oversights(case, &outcome));
                if case.expect.snapshot {
                    // If the case fails for another reason, its behavior is not accepted as a
                    // snapshot.
                    match keep_snapshot(
                        &file.path,
                        case,
                        &outcome,
                        accept && ran.failures.is_empty(),
                    ) {
                        Ok(is_accepted) => ran.is_accepted = is_accepted,
                        Err(why) => ran.failures.push(why),
                    }
                }
                let hooks = outcome.seen.hooks.into_iter().map(|hook| hook.point);
                let command = case.given.command.iter();
                let command = command.map(|command| format!("/{}", command.name));
                let own_loop = case.given.runs_loop.then(|| LOOP.to_owned());
                let called = outcome
                    .seen
                    .tools
                    .into_iter()
                    .chain(command)
                    .chain(own_loop);
                ran.reached = hooks.chain(called).collect();
                ran.log = outcome.seen.log;
                ran.cost = outcome.cost;
            }
            Err(error) => ran.failures.push(error.to_string()),
        }
        ran
    }

    /// Finds snapshots that belong to no case, and removes them if `is_accepted`. Also returns
    /// failures.
    #[must_use]
    pub fn clear_snapshots(&self, is_accepted: bool) -> (Vec<UnusedSnapshot>, Vec<CaseRun>) {
        clear_snapshots(&self.manifest.name, &self.files, is_accepted)
    }

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

/// Finds mistakes of a case that no expectation compares.
fn find_oversights(case: &PluginCase, outcome: &CaseOutcome) -> Vec<String> {
    let (expect, seen) = (&case.expect, &outcome.seen);
    let mut found = Vec::new();
    if *expect == CaseExpect::default() {
        found.push(NOTHING_EXPECTED.to_owned());
    }
    found.extend(unused_replies(
        &outcome.unused_replies,
        expect.stop.as_deref(),
    ));
    if expect.snapshot {
        return found;
    }
    if expect.results.is_none() {
        found.extend(unknown_tools(&seen.unknown_tools, "results"));
    }
    if expect.stop.is_none() && seen.stop == FAILED {
        found.push(failed_turn(1, &seen.stop, &seen.output));
    }
    let has_outcome = seen.again.is_some() || seen.done;
    let is_compared = expect.output.is_some() || expect.again.is_some() || expect.done.is_some();
    if case.given.runs_loop && !has_outcome && !is_compared {
        found.push(format!(
            "the loop failed, and `output` does not say so: {}",
            seen.output
        ));
    }
    found
}

/// Compares the snapshot of a case, or writes it. Returns whether it was written.
fn keep_snapshot(
    cases: &Path,
    case: &PluginCase,
    outcome: &CaseOutcome,
    accept: bool,
) -> Result<bool, String> {
    let snapshot = CaseSnapshot::snapshot_of(cases, case, &outcome.seen)
        .map_err(|error| format!("the snapshot cannot be written as TOML: {error}"))?;
    snapshot.keep_snapshot(accept)
}
