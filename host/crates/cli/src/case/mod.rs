//! `rind plugin test` runs the cases of plugins, and `rind plugin call` calls one tool by hand.

mod call;
mod junit;
mod place;
mod report;
mod watch;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args as ClapArgs, ValueEnum};
use tokio_util::sync::CancellationToken;

use super::alone;
use super::check::plugin_folders;
use super::exit_code::ExitStatus;
use super::{environment, plugin, render};
use rind_cases::last::{Costs, LastRun};
use rind_cases::suite::{
    CaseRun, CaseSelection, CaseShard, CaseSuite, DEFAULT_DEADLINE, PluginCoverage, SuiteError,
};
use rind_cases::{CaseCost, CaseRunner};
use rind_lib::plugin::cache::ComponentBytes;
use rind_lib::plugin::contract::sources::{digest_sources, find_staleness};
use rind_lib::plugin::manifest::FILE_NAME;

pub(super) use call::{CallArgs, run_call};
pub(super) use report::{CaseReport, CaseReportFormat, case_place, parse_report};

#[derive(Debug, ClapArgs)]
pub(super) struct TestArgs {
    /// Folders of plugins, or folders that hold such folders; the current one when there is none.
    #[arg(value_name = "FOLDER")]
    folders: Vec<PathBuf>,
    /// Run only cases whose name contains this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Print the names of the cases, and run none
    #[arg(long)]
    list: bool,
    /// Run one share of the cases, as `1/4` for the first of four: for machines side by side
    #[arg(long, value_name = "NUMBER/OF")]
    shard: Option<CaseShard>,
    /// Cases that run at the same time; as many as there are processors when absent
    #[arg(long, short, value_name = "NUMBER")]
    jobs: Option<NonZeroUsize>,
    /// Run no further case after one that failed
    #[arg(long)]
    fail_fast: bool,
    /// Stop a case after this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = DEFAULT_DEADLINE.as_secs())]
    deadline: u64,
    /// Write snapshots of what cases do now
    #[arg(long)]
    accept: bool,
    /// Run the cases again whenever a component, a manifest or a case changes
    #[arg(long, conflicts_with = "accept")]
    watch: bool,
    /// Fail when a plugin has no case
    #[arg(long)]
    require_cases: bool,
    /// Fail when no case reaches a hook, tool, command or loop; `outcomes` also when no case sees an outcome that a hook may have
    #[arg(
        long,
        value_name = "WHAT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "parts",
        conflicts_with_all = ["only", "shard"]
    )]
    require_coverage: Option<RequiredCoverage>,
    /// Write a report: `json=FILE`, `junit=FILE`, or `github` for annotations on standard output
    #[arg(long, value_name = "FORMAT=FILE", value_parser = parse_report)]
    report: Vec<(CaseReportFormat, PathBuf)>,
}

/// Parts of a plugin that cases must reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RequiredCoverage {
    /// Every hook, tool and command, and the loop
    Parts,
    /// Every outcome of every hook, too
    Outcomes,
}

pub(super) async fn run_test(args: TestArgs) -> anyhow::Result<ExitStatus> {
    if args.list {
        return list_cases(&args);
    }
    if args.watch {
        return watch::watch_cases(&args).await;
    }
    test_once(&args).await
}

fn select_cases(args: &TestArgs) -> CaseSelection {
    // If the number of processors is unknown, run one case at a time.
    let processors = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    CaseSelection {
        only: args.only.clone(),
        shard: args.shard,
        accept: args.accept,
        jobs: Some(args.jobs.unwrap_or(processors)),
        fail_fast: args.fail_fast,
        deadline: Some(Duration::from_secs(args.deadline)),
    }
}

/// Prints the names of the selected cases.
fn list_cases(args: &TestArgs) -> anyhow::Result<ExitStatus> {
    let mut selection = select_cases(args);
    let mut is_fine = true;
    let mut n_listed = 0;
    for folder in &plugin_folders(&args.folders)? {
        let suite = CaseSuite::read_suite(folder)?;
        for fault in &suite.faults {
            is_fine = false;
            render::print_warning(&fault.to_string());
        }
        for (file, case) in suite.selected_cases(&selection) {
            n_listed += 1;
            render::case::show_name(&suite.manifest.name, &case.name, &file.path, case.line);
        }
        let n_named = suite.n_named(&selection);
        if let Some(shard) = &mut selection.shard {
            shard.pass_cases(n_named);
        }
    }
    Ok(ExitStatus::status_of(is_fine && n_listed > 0))
}

/// Runs the cases of all plugins once.
async fn test_once(args: &TestArgs) -> anyhow::Result<ExitStatus> {
    let cache = environment::find_paths(None)?.cache;
    let mut report = CaseReport::report_of("plugin");
    let mut selection = select_cases(args);
    let mut n_named = 0;
    for folder in &plugin_folders(&args.folders)? {
        let suite = match CaseSuite::read_suite(folder) {
            Ok(suite) => suite,
            Err(error) => {
                // A manifest that does not parse is a failure in the report; the other plugins are
                // still tested.
                let ran = unread_suite(folder, &error);
                render::case::show_ran(&ran);
                report.cases.push(ran);
                continue;
            }
        };
        // If no case file can be read, report that at once, without a build.
        let has_cases = suite.files.iter().any(|file| !file.cases.is_empty());
        if (has_cases || suite.faults.is_empty())
            && let Some(failed) = build_stale(&suite).await
        {
            render::case::show_ran(&failed);
            report.cases.push(failed);
            continue;
        }
        let (ran, coverage) = test_plugin(args, &cache, &suite, &selection).await?;
        report.cases.extend(ran);
        report.coverage.extend(coverage);
        let n_of_plugin = suite.n_named(&selection);
        n_named += n_of_plugin;
        if let Some(shard) = &mut selection.shard {
            shard.pass_cases(n_of_plugin);
        }
        if args.fail_fast && !report.cases.iter().all(CaseRun::passed) {
            break;
        }
    }
    for (format, file) in &args.report {
        report.write_report(*format, file)?;
    }
    render::case::show_total(&report.cases, ", each warm and cold");
    // Without any case the command fails: otherwise a CI pipeline that tests nothing would always
    // be green. A single shard may be empty.
    let is_empty_share = args.shard.is_some() && n_named > 0;
    let has_cases = is_empty_share || !report.cases.is_empty();
    let is_fine = has_cases && report.cases.iter().all(CaseRun::passed);
    Ok(ExitStatus::status_of(is_fine))
}

/// Builds the plugin if its component is missing or older than its sources, so that the cases test
/// the current code. If the build fails, returns it as a failed case.
async fn build_stale(suite: &CaseSuite) -> Option<CaseRun> {
    let path = suite.manifest.component_path(&suite.folder)?;
    let name = &suite.manifest.name;
    let fault = if path.symlink_metadata().is_err() {
        // Without sources there is nothing to build; loading reports the missing component.
        digest_sources(&suite.folder)?;
        render::print_note(&format!("{name}: it has no component yet; building it"));
        "it has no component yet and cannot be built"
    } else {
        let component = ComponentBytes::read_component(&path, None).ok()?;
        find_staleness(&suite.folder, &component.bytes)?;
        render::print_note(&format!("{name}: its sources changed; building it"));
        "its component is older than its sources and cannot be rebuilt"
    };
    let why = plugin::build_quietly(&suite.folder, &CancellationToken::new())
        .await
        .err()?;
    let (file, line) = place::source_place(&suite.folder, &why).unwrap_or((path, 1));
    Some(CaseRun {
        plugin: name.clone(),
        file,
        line,
        name: "build".to_owned(),
        failures: vec![format!("{fault}: {why}")],
        is_error: true,
        ..CaseRun::default()
    })
}

async fn test_plugin(
    args: &TestArgs,
    cache: &Path,
    suite: &CaseSuite,
    selection: &CaseSelection,
) -> anyhow::Result<(Vec<CaseRun>, Option<(String, PluginCoverage)>)> {
    let folder = suite.folder.as_path();
    let load = alone::load_of(folder)?;
    let options = load.options();
    let runner = CaseRunner {
        compiler: options.compiler.clone(),
        cache: options.cache.clone(),
        cache_key: options.cache_key.clone(),
    };
    let is_whole = selection.is_whole();
    let last = LastRun::read_costs(cache, folder);
    let mut ran = suite
        .run_suite(&runner, selection, |ran| {
            ran.last = last.case_cost(&ran.key()).cloned();
            render::case::show_ran(ran);
        })
        .await;
    let costs: Costs = ran
        .iter()
        // Skip cases that could not run: they have no cost to compare with.
        .filter(|ran| ran.cost != CaseCost::default())
        .map(|ran| (ran.key(), ran.cost.clone()))
        .collect();
    if let Err(error) = last.keep_costs(costs, is_whole && !args.fail_fast) {
        render::print_warning(&format!(
            "the costs of this run cannot be saved, so the next run cannot compare with them: {error}"
        ));
    }
    let name = &suite.manifest.name;
    if ran.is_empty() && is_whole {
        if args.require_cases {
            let failed = missing_cases(suite);
            render::case::show_ran(&failed);
            return Ok((vec![failed], None));
        }
        render::case::show_none(folder, name);
    }
    let is_cut_short = args.fail_fast && !ran.iter().all(CaseRun::passed);
    if !is_whole || is_cut_short || ran.is_empty() {
        return Ok((ran, None));
    }
    let (unused, failed) = suite.clear_snapshots(args.accept);
    for one in &unused {
        render::case::show_unused(one, args.accept);
    }
    failed.iter().for_each(render::case::show_ran);
    ran.extend(failed);
    if !suite.faults.is_empty() {
        // Skip the coverage: a file that cannot be read may contain the cases that seem to be
        // missing.
        return Ok((ran, None));
    }
    let coverage = suite.measure_coverage(&runner, &ran).await?;
    if let Some(coverage) = &coverage {
        render::case::show_coverage(name, coverage);
        if let Some(failed) = missing_coverage(args.require_coverage, suite, coverage) {
            render::case::show_ran(&failed);
            ran.push(failed);
        }
    }
    Ok((ran, coverage.map(|coverage| (name.clone(), coverage))))
}

/// Returns a failed case that reports a plugin without cases.
fn missing_cases(suite: &CaseSuite) -> CaseRun {
    let place = suite.folder.join("tests/NAME.toml");
    suite_failure(
        suite,
        "cases",
        format!("it has no case: write some in {}", place.display()),
    )
}

/// Returns a failed case that lists the parts and outcomes of a plugin that no case reached; `None`
/// if nothing is missing or no coverage is required.
fn missing_coverage(
    required: Option<RequiredCoverage>,
    suite: &CaseSuite,
    coverage: &PluginCoverage,
) -> Option<CaseRun> {
    let required = required?;
    let mut missing: Vec<String> = coverage.never_called().map(str::to_owned).collect();
    if required == RequiredCoverage::Outcomes {
        let unseen = coverage.never_seen();
        missing.extend(unseen.map(|(point, outcome)| format!("`{outcome}` of {point}")));
    }
    (!missing.is_empty()).then(|| {
        let why = format!("no case reaches {}", missing.join(", "));
        suite_failure(suite, "coverage", why)
    })
}

fn suite_failure(suite: &CaseSuite, name: &str, why: String) -> CaseRun {
    CaseRun {
        plugin: suite.manifest.name.clone(),
        file: suite.folder.join(FILE_NAME),
        line: 1,
        name: name.to_owned(),
        failures: vec![why],
        ..CaseRun::default()
    }
}

/// Returns a failed case that reports a plugin whose manifest cannot be read.
fn unread_suite(folder: &Path, error: &SuiteError) -> CaseRun {
    let name = folder.file_name().unwrap_or(folder.as_os_str());
    let why = error.to_string();
    CaseRun {
        plugin: name.to_string_lossy().into_owned(),
        file: folder.join(FILE_NAME),
        line: place::manifest_line(&why).unwrap_or(1),
        name: FILE_NAME.to_owned(),
        failures: vec![why],
        is_error: true,
        ..CaseRun::default()
    }
}
