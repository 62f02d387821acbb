//! Reads and runs all cases of one plugin, for the command line and for tests in Rust.
//!
//! Start from [`CaseSuite::read_suite`], then [`CaseSuite::run_suite`].

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use tokio_util::task::AbortOnDropHandle;

pub use super::coverage::PluginCoverage;
use super::coverage::{AGENT_LOOP_COVERAGE_ENTRY_NAME, SERVE_LOOP_COVERAGE_ENTRY_NAME};
use super::file::{
    CASE_WITHOUT_EXPECTATIONS_ERROR, CaseExpectation, CaseFile, CaseFileError, CaseFileFormat,
    PluginCase,
};
use super::needed::RequiredPlugins;
use super::oversight::{
    FAILED_STOP_REASON, describe_failed_turn, describe_unknown_tool_calls, describe_unused_replies,
};
use super::run::{CaseCost, CaseOutcome, CaseRunner, prepend_step_number, run_case};
use super::seen::ObservedTurn;
pub use super::select::{CaseSelection, CaseShard, DEFAULT_CASE_DEADLINE};
use super::snapshot::{self, CaseSnapshot, UnusedSnapshot};
use rind_lib::plugin::load::FoundPluginSet;
use rind_lib::plugin::manifest::Manifest;

/// Error that prevents the cases of a plugin from running.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SuiteError {
    /// The manifest cannot be read, or the host cannot load plugins.
    #[error(transparent)]
    Plugin(#[from] rind_lib::plugin::Error),
}

/// Result of running one test case.
#[derive(Clone, Debug, Default)]
pub struct CaseRunResult {
    /// Name of the tested plugin, or id of the tested skill.
    pub plugin: String,
    /// Path of the file with the case, as passed by the caller.
    pub file: PathBuf,
    /// Number of the line in the file at which the case begins.
    pub line: usize,
    /// Name of the case.
    pub name: String,
    /// Time, memory and host calls of the first turn.
    pub cost: CaseCost,
    /// Duration of the whole case: all turns, warm and cold.
    pub total: Duration,
    /// Cost of the case in the previous run of the suite, if known.
    pub last: Option<CaseCost>,
    /// Differences from the expected behavior, or the reason why the case cannot run; empty if it
    /// passed.
    pub failures: Vec<String>,
    /// Lines that the plugin logged in the first turn.
    pub log: Vec<String>,
    /// Whether the snapshot of the case was written (`--accept`).
    pub is_accepted: bool,
    /// Names of the points whose hooks the case called and of the tools and commands that it
    /// called, and the names of the loops of the plugin that ran.
    pub reached: Vec<String>,
    /// Outcomes of the hooks that were called in the case: the point, and the outcome.
    pub outcomes: Vec<(String, String)>,
    /// Whether the case could not be run, so that it says nothing about the plugin's behavior.
    pub is_error: bool,
}

impl CaseRunResult {
    /// Creates the failed run that reports a case file that cannot be read. The other files are
    /// still run.
    pub(super) fn from_unreadable_file(plugin: &str, fault: &CaseFileError) -> Self {
        let name = fault.affected_path().file_name().unwrap_or_default();
        Self {
            plugin: plugin.to_owned(),
            file: fault.affected_path().to_owned(),
            line: fault.line(),
            name: name.to_string_lossy().into_owned(),
            failures: vec![fault.to_string()],
            is_error: true,
            ..Self::default()
        }
    }

    /// Whether the case passed.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.failures.is_empty()
    }

    /// Returns a key that identifies the case among the cases of its plugin.
    #[must_use]
    pub fn case_key(&self) -> String {
        let file = self.file.file_name().unwrap_or_default();
        format!("{} {}", file.to_string_lossy(), self.name)
    }
}

/// Reads the case files in a directory. Also returns the errors of files that cannot be read.
pub(super) fn read_case_files<C: CaseFileFormat>(
    folder: &Path,
) -> (Vec<CaseFile<C>>, Vec<CaseFileError>) {
    let (mut files, mut faults) = (Vec::new(), Vec::new());
    for read in CaseFile::read_each_in_folder(folder) {
        match read {
            Ok(file) => files.push(file),
            Err(fault) => faults.push(fault),
        }
    }
    (files, faults)
}

/// Finds snapshots that belong to no case, and removes them if `is_accepted` is set. If a directory
/// cannot be searched, the error is returned as a failed case.
pub(super) fn report_or_remove_unused_snapshots<C: CaseFileFormat>(
    plugin: &str,
    files: &[CaseFile<C>],
    is_accepted: bool,
) -> (Vec<UnusedSnapshot>, Vec<CaseRunResult>) {
    let (mut unused, mut failed) = (Vec::new(), Vec::new());
    for file in files {
        match snapshot::clear_unused_snapshots(file, is_accepted) {
            Ok(found) => unused.extend(found),
            Err(error) => failed.push(CaseRunResult {
                plugin: plugin.to_owned(),
                file: file.path.clone(),
                line: 1,
                name: "snapshots".to_owned(),
                failures: vec![format!("cannot search the snapshots: {error}")],
                ..CaseRunResult::default()
            }),
        }
    }
    (unused, failed)
}

/// Test cases of one plugin, read from its directory.
#[derive(Debug)]
pub struct CaseSuite {
    /// Directory of the tested plugin.
    pub folder: PathBuf,
    /// Manifest of the tested plugin.
    pub manifest: Manifest,
    /// Case files that could be read.
    pub files: Vec<CaseFile>,
    /// Errors of the case files that could not be read.
    pub faults: Vec<CaseFileError>,
}

impl CaseSuite {
    /// Reads the manifest and the case files in a plugin's directory.
    ///
    /// # Errors
    /// The manifest cannot be read. A case file that cannot be read counts as a failed case when
    /// the suite runs.
    pub fn read_suite(folder: &Path) -> Result<Self, SuiteError> {
        let (files, faults) = read_case_files(folder);
        Ok(Self {
            manifest: Manifest::read(folder, None)?,
            files,
            faults,
            folder: folder.to_owned(),
        })
    }

    /// Returns the selected cases, in the order of their files.
    pub fn selected_cases<'a>(
        &'a self,
        selection: &'a CaseSelection,
    ) -> impl Iterator<Item = (&'a CaseFile, &'a PluginCase)> {
        let in_file = |file: &'a CaseFile| file.cases.iter().map(move |case| (file, case));
        let all = self.files.iter().flat_map(in_file);
        let named = all.filter(|(_, case)| selection.selects_case(&case.name));
        let share = selection.shard;
        let taken = named.enumerate();
        let taken =
            taken.filter(move |(index, _)| share.is_none_or(|share| share.contains_case(*index)));
        taken.map(|(_, found)| found)
    }

    /// Returns the number of cases that the selection includes by name, without regard to the
    /// shard.
    #[must_use]
    pub fn count_cases_matching_name(&self, selection: &CaseSelection) -> usize {
        let cases = self.files.iter().flat_map(|file| &file.cases);
        cases
            .filter(|case| selection.selects_case(&case.name))
            .count()
    }

    /// Runs the selected cases, several at a time, and calls `on_case` with each result in the
    /// order of the files.
    pub async fn run_suite(
        &self,
        runner: &CaseRunner,
        selection: &CaseSelection,
        mut on_case: impl FnMut(&mut CaseRunResult),
    ) -> Vec<CaseRunResult> {
        let name = &self.manifest.name;
        let faults = self
            .faults
            .iter()
            .map(|fault| CaseRunResult::from_unreadable_file(name, fault));
        let mut all: Vec<CaseRunResult> = faults.collect();
        all.iter_mut().for_each(&mut on_case);
        if selection.fail_fast && !all.is_empty() {
            return all;
        }
        let work = self.selected_cases(selection);
        let work: Vec<PluginCaseTask> = work
            .map(|(file, case)| PluginCaseTask {
                runner: runner.clone(),
                folder: self.folder.clone(),
                plugin: name.clone(),
                file: file.path.clone(),
                case: case.clone(),
                accept: selection.accept,
                deadline: selection.case_deadline(),
            })
            .collect();
        if !work.is_empty() {
            // Compile the plugins first: a large component can take a minute, which must not count
            // as time of the first case. Ignore errors here, because each case reports why a plugin
            // cannot be loaded.
            let needed = RequiredPlugins::find_required_plugins(&self.folder);
            let _compiled =
                FoundPluginSet::load(&runner.plugin_load_options(&self.folder, &needed)).await;
        }
        let started = futures_util::stream::iter(work).map(PluginCaseTask::run_case_in_task);
        let mut running = std::pin::pin!(started.buffered(selection.max_parallel_cases()));
        while let Some(mut ran) = running.next().await {
            on_case(&mut ran);
            let is_last = selection.fail_fast && !ran.passed();
            all.push(ran);
            if is_last {
                break;
            }
        }
        all
    }

    /// Finds snapshots that belong to no case, and removes them if `is_accepted`. Also returns a
    /// failed case for each case file whose snapshots cannot be searched.
    #[must_use]
    pub fn find_or_remove_unused_snapshots(
        &self,
        is_accepted: bool,
    ) -> (Vec<UnusedSnapshot>, Vec<CaseRunResult>) {
        report_or_remove_unused_snapshots(&self.manifest.name, &self.files, is_accepted)
    }
}

/// Test case, with everything that the task which runs it needs.
struct PluginCaseTask {
    runner: CaseRunner,
    folder: PathBuf,
    plugin: String,
    file: PathBuf,
    case: PluginCase,
    accept: bool,
    deadline: Duration,
}

impl PluginCaseTask {
    /// Runs the case in a separate task, so that cases run in parallel. If the future is dropped,
    /// the task is stopped.
    async fn run_case_in_task(self) -> CaseRunResult {
        let mut lost = self.new_case_run_result();
        let running = AbortOnDropHandle::new(tokio::spawn(self.run_case()));
        match running.await {
            Ok(ran) => ran,
            Err(error) => {
                lost.is_error = true;
                lost.failures
                    .push(format!("the case did not finish: {error}"));
                lost
            }
        }
    }

    fn new_case_run_result(&self) -> CaseRunResult {
        CaseRunResult {
            plugin: self.plugin.clone(),
            file: self.file.clone(),
            line: self.case.line,
            name: self.case.name.clone(),
            ..CaseRunResult::default()
        }
    }

    async fn run_case(self) -> CaseRunResult {
        let mut ran = self.new_case_run_result();
        let started = Instant::now();
        let running = run_case(&self.runner, &self.folder, &self.plugin, &self.case);
        match tokio::time::timeout(self.deadline, running).await {
            Ok(Ok(outcome)) => self.compare_outcome(&mut ran, outcome),
            Ok(Err(error)) => {
                ran.is_error = true;
                ran.failures.push(error.to_string());
            }
            Err(_) => ran.failures.push(format!(
                "the case was stopped at its deadline of {} s; `--deadline SECONDS` sets another one",
                self.deadline.as_secs_f64()
            )),
        }
        ran.total = started.elapsed();
        ran
    }

    /// Compares the behavior in the case with the expected one, and with its snapshot.
    fn compare_outcome(&self, ran: &mut CaseRunResult, outcome: CaseOutcome) {
        let case = &self.case;
        ran.failures.clone_from(&outcome.differences);
        ran.failures.extend(find_case_problems(case, &outcome));
        if case.expect.snapshot {
            // Do not accept the behavior as a snapshot if the case fails for another reason.
            let accept = self.accept && ran.failures.is_empty();
            match compare_case_snapshot(&self.file, case, &outcome, accept) {
                Ok(is_accepted) => ran.is_accepted = is_accepted,
                Err(why) => ran.failures.push(why),
            }
        }
        ran.reached = coverage_entries_of_case(case, &outcome);
        let steps = std::iter::once(&outcome.seen).chain(&outcome.then);
        let hooks = steps.flat_map(|seen| &seen.hooks);
        ran.outcomes = hooks
            .map(|hook| (hook.point.clone(), hook.outcome.clone()))
            .collect();
        ran.log = outcome.seen.log;
        ran.cost = outcome.cost;
    }
}

/// Returns the names of the points, tools and commands that the steps of a case reached, with
/// [`SERVE_LOOP_COVERAGE_ENTRY_NAME`] and [`AGENT_LOOP_COVERAGE_ENTRY_NAME`] if those ran.
fn coverage_entries_of_case(case: &PluginCase, outcome: &CaseOutcome) -> Vec<String> {
    let steps = std::iter::once(&outcome.seen).chain(&outcome.then);
    let seen = steps.flat_map(|seen| {
        let hooks = seen.hooks.iter().map(|hook| hook.point.clone());
        let mut accesses = seen.accesses.iter();
        let is_ordered = accesses.any(|access| access.starts_with("external the order of turn "));
        let ordered = is_ordered.then(|| AGENT_LOOP_COVERAGE_ENTRY_NAME.to_owned());
        hooks.chain(seen.tools.iter().cloned()).chain(ordered)
    });
    let first = std::iter::once((&case.given.command, case.given.runs_loop));
    let then = case.then.iter();
    let then = then.map(|step| (&step.given.command, step.given.runs_loop));
    let called = first.chain(then).flat_map(|(command, runs_loop)| {
        let command = command.iter();
        let command = command.map(|command| format!("/{}", command.name));
        command.chain(runs_loop.then(|| SERVE_LOOP_COVERAGE_ENTRY_NAME.to_owned()))
    });
    seen.chain(called).collect()
}

/// Finds problems in the steps of a case that do not make an expectation fail, such as an unused
/// reply.
fn find_case_problems(case: &PluginCase, outcome: &CaseOutcome) -> Vec<String> {
    let none = Vec::new();
    let steps = std::iter::once(&outcome.seen).chain(&outcome.then);
    let runs_loop = std::iter::once(case.given.runs_loop);
    let runs_loop = runs_loop.chain(case.then.iter().map(|step| step.given.runs_loop));
    let all = case.expectations().zip(steps).zip(runs_loop).enumerate();
    all.flat_map(|(n, ((expect, seen), runs_loop))| {
        let unused = outcome.unused_replies.get(n).unwrap_or(&none);
        let found = find_step_problems(expect, seen, unused, runs_loop);
        found
            .into_iter()
            .map(move |text| prepend_step_number(n, text))
    })
    .collect()
}

fn find_step_problems(
    expect: &CaseExpectation,
    seen: &ObservedTurn,
    unused: &[usize],
    runs_loop: bool,
) -> Vec<String> {
    let mut found = Vec::new();
    if *expect == CaseExpectation::default() {
        found.push(CASE_WITHOUT_EXPECTATIONS_ERROR.to_owned());
    }
    found.extend(describe_unused_replies(unused, expect.stop.as_deref()));
    if expect.snapshot {
        return found;
    }
    if expect.results.is_none() {
        found.extend(describe_unknown_tool_calls(&seen.unknown_tools, "results"));
    }
    if expect.stop.is_none() && seen.stop == FAILED_STOP_REASON {
        found.push(describe_failed_turn(1, &seen.stop, &seen.output));
    }
    let has_outcome = seen.again.is_some() || seen.done;
    let is_compared = expect.output.is_some() || expect.again.is_some() || expect.done.is_some();
    if runs_loop && !has_outcome && !is_compared {
        found.push(format!(
            "the loop failed, and the case does not expect this in `output`: {}",
            seen.output
        ));
    }
    found
}

/// Compares the snapshot of a case with its file, or writes the file if `accept`. Returns whether
/// the file was written.
fn compare_case_snapshot(
    cases: &Path,
    case: &PluginCase,
    outcome: &CaseOutcome,
    accept: bool,
) -> Result<bool, String> {
    let snapshot = CaseSnapshot::from_case(cases, case, &outcome.seen)
        .map_err(|error| format!("the snapshot cannot be written as TOML: {error}"))?;
    snapshot.compare_or_accept(accept)
}
