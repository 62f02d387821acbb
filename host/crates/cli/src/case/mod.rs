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
use super::check::find_plugin_folders;
use super::exit_code::ExitStatus;
use super::{environment, plugin, render};
use rind_cases::last::{CaseCostsByName, PreviousCaseCosts};
use rind_cases::suite::{
    CaseRunResult, CaseSelection, CaseShard, CaseSuite, DEFAULT_CASE_DEADLINE, PluginCoverage,
    SuiteError,
};
use rind_cases::{CaseCost, CaseRunner};
use rind_lib::plugin::cache::ComponentBytes;
use rind_lib::plugin::contract::sources::{describe_stale_build, digest_plugin_sources};
use rind_lib::plugin::manifest::FILE_NAME;

pub(super) use call::{PluginCallArgs, run_plugin_tool_call};
pub(super) use report::{
    CaseReport, CaseReportFormat, format_case_file_and_line, parse_report_argument,
};

#[derive(Debug, ClapArgs)]
pub(super) struct PluginTestArgs {
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
    #[arg(long, value_name = "SECONDS", default_value_t = DEFAULT_CASE_DEADLINE.as_secs())]
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
    #[arg(long, value_name = "FORMAT=FILE", value_parser = parse_report_argument)]
    report: Vec<(CaseReportFormat, PathBuf)>,
}

/// Coverage that `--require-coverage` demands: parts of a plugin, or also outcomes of its hooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RequiredCoverage {
    /// Every hook, tool and command, and the loop
    Parts,
    /// Every outcome of every hook, too
    Outcomes,
}

pub(super) async fn run_plugin_tests(args: PluginTestArgs) -> anyhow::Result<ExitStatus> {
    if args.list {
        return print_selected_cases(&args);
    }
    if args.watch {
        return watch::rerun_cases_on_changes(&args).await;
    }
    run_cases_once(&args).await
}

fn case_selection_from_args(args: &PluginTestArgs) -> CaseSelection {
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
fn print_selected_cases(args: &PluginTestArgs) -> anyhow::Result<ExitStatus> {
    let mut selection = case_selection_from_args(args);
    let mut is_fine = true;
    let mut n_listed = 0;
    for folder in &find_plugin_folders(&args.folders)? {
        let suite = CaseSuite::read_suite(folder)?;
        for fault in &suite.faults {
            is_fine = false;
            render::print_warning(&fault.to_string());
        }
        for (file, case) in suite.selected_cases(&selection) {
            n_listed += 1;
            render::case::print_case_name(&suite.manifest.name, &case.name, &file.path, case.line);
        }
        let n_named = suite.count_cases_matching_name(&selection);
        if let Some(shard) = &mut selection.shard {
            shard.advance_case_offset(n_named);
        }
    }
    Ok(ExitStatus::from_success_flag(is_fine && n_listed > 0))
}

/// Runs the test cases of all plugins once.
async fn run_cases_once(args: &PluginTestArgs) -> anyhow::Result<ExitStatus> {
    let cache = environment::find_rind_paths(None)?.cache;
    let mut report = CaseReport::empty_case_report("plugin");
    let mut selection = case_selection_from_args(args);
    let mut n_named = 0;
    for folder in &find_plugin_folders(&args.folders)? {
        let suite = match CaseSuite::read_suite(folder) {
            Ok(suite) => suite,
            Err(error) => {
                // Report a manifest that cannot be parsed as a failure, and continue with the other
                // plugins.
                let ran = create_unreadable_suite_failure(folder, &error);
                render::case::print_case_result(&ran);
                report.cases.push(ran);
                continue;
            }
        };
        // If no case file can be read, report that at once, without a build.
        let has_cases = suite.files.iter().any(|file| !file.cases.is_empty());
        if (has_cases || suite.faults.is_empty())
            && let Some(failed) = build_plugin_if_stale(&suite).await
        {
            render::case::print_case_result(&failed);
            report.cases.push(failed);
            continue;
        }
        let (ran, coverage) = run_plugin_cases(args, &cache, &suite, &selection).await?;
        report.cases.extend(ran);
        report.coverage.extend(coverage);
        let n_of_plugin = suite.count_cases_matching_name(&selection);
        n_named += n_of_plugin;
        if let Some(shard) = &mut selection.shard {
            shard.advance_case_offset(n_of_plugin);
        }
        if args.fail_fast && !report.cases.iter().all(CaseRunResult::passed) {
            break;
        }
    }
    for (format, file) in &args.report {
        report.write_report(*format, file)?;
    }
    render::case::print_case_totals(&report.cases, ", each warm and cold");
    // Fail if no case was run, because otherwise a CI pipeline that tests nothing would always be
    // green. A single shard may be empty.
    let is_empty_share = args.shard.is_some() && n_named > 0;
    let has_cases = is_empty_share || !report.cases.is_empty();
    let is_fine = has_cases && report.cases.iter().all(CaseRunResult::passed);
    Ok(ExitStatus::from_success_flag(is_fine))
}

/// Builds the plugin if its component is missing or older than its sources, so that the cases test
/// the current code. If the build fails, returns it as a failed case.
async fn build_plugin_if_stale(suite: &CaseSuite) -> Option<CaseRunResult> {
    let path = suite.manifest.component_path(&suite.folder)?;
    let name = &suite.manifest.name;
    let fault = if path.symlink_metadata().is_err() {
        // Return if there are no sources to build. The missing component is reported when the
        // plugin is loaded.
        digest_plugin_sources(&suite.folder)?;
        render::print_note(&format!("{name}: it has no component yet; building it"));
        "it has no component yet and cannot be built"
    } else {
        let component = ComponentBytes::read_component(&path, None).ok()?;
        describe_stale_build(&suite.folder, &component.bytes)?;
        render::print_note(&format!("{name}: its sources changed; building it"));
        "its component is older than its sources and cannot be rebuilt"
    };
    let why = plugin::build_plugin_quietly(&suite.folder, &CancellationToken::new())
        .await
        .err()?;
    let (file, line) =
        place::parse_source_location_in_message(&suite.folder, &why).unwrap_or((path, 1));
    Some(CaseRunResult {
        plugin: name.clone(),
        file,
        line,
        name: "build".to_owned(),
        failures: vec![format!("{fault}: {why}")],
        is_error: true,
        ..CaseRunResult::default()
    })
}

async fn run_plugin_cases(
    args: &PluginTestArgs,
    cache: &Path,
    suite: &CaseSuite,
    selection: &CaseSelection,
) -> anyhow::Result<(Vec<CaseRunResult>, Option<(String, PluginCoverage)>)> {
    let folder = suite.folder.as_path();
    let load = alone::plan_load_with_all_permissions(folder)?;
    let options = load.load_options();
    let runner = CaseRunner {
        compiler: options.compiler.clone(),
        cache: options.cache.clone(),
        cache_key: options.cache_key.clone(),
    };
    let is_whole = selection.selects_all_cases();
    let last = PreviousCaseCosts::read_costs(cache, folder);
    let mut ran = suite
        .run_suite(&runner, selection, |ran| {
            ran.last = last.case_cost(&ran.case_key()).cloned();
            render::case::print_case_result(ran);
        })
        .await;
    let costs: CaseCostsByName = ran
        .iter()
        // Skip cases that could not be run, because their cost was not measured.
        .filter(|ran| ran.cost != CaseCost::default())
        .map(|ran| (ran.case_key(), ran.cost.clone()))
        .collect();
    if let Err(error) = last.store_costs(costs, is_whole && !args.fail_fast) {
        render::print_warning(&format!(
            "the costs of this run cannot be saved, so the next run cannot compare with them: {error}"
        ));
    }
    let name = &suite.manifest.name;
    if ran.is_empty() && is_whole {
        if args.require_cases {
            let failed = create_missing_cases_failure(suite);
            render::case::print_case_result(&failed);
            return Ok((vec![failed], None));
        }
        render::case::print_plugin_without_cases(folder, name);
    }
    let is_cut_short = args.fail_fast && !ran.iter().all(CaseRunResult::passed);
    if !is_whole || is_cut_short || ran.is_empty() {
        return Ok((ran, None));
    }
    let (unused, failed) = suite.find_or_remove_unused_snapshots(args.accept);
    for one in &unused {
        render::case::report_unused_snapshot(one, args.accept);
    }
    failed.iter().for_each(render::case::print_case_result);
    ran.extend(failed);
    if !suite.faults.is_empty() {
        // Do not measure the coverage, because the unreadable files may contain the cases that seem
        // to be missing.
        return Ok((ran, None));
    }
    let coverage = suite.measure_coverage(&runner, &ran).await?;
    if let Some(coverage) = &coverage {
        render::case::print_missing_coverage(name, coverage);
        if let Some(failed) = missing_coverage_failure(args.require_coverage, suite, coverage) {
            render::case::print_case_result(&failed);
            ran.push(failed);
        }
    }
    Ok((ran, coverage.map(|coverage| (name.clone(), coverage))))
}

/// Returns the failed case that reports that a plugin has no test cases.
fn create_missing_cases_failure(suite: &CaseSuite) -> CaseRunResult {
    let place = suite.folder.join("tests/NAME.toml");
    create_failed_case_result(
        suite,
        "cases",
        format!(
            "the plugin has no test cases: write some in {}",
            place.display()
        ),
    )
}

/// Returns a failed case that lists the parts and outcomes of a plugin that no case reached; `None`
/// if none is missing or no coverage is required.
fn missing_coverage_failure(
    required: Option<RequiredCoverage>,
    suite: &CaseSuite,
    coverage: &PluginCoverage,
) -> Option<CaseRunResult> {
    let required = required?;
    let mut missing: Vec<String> = coverage
        .uncalled_plugin_parts()
        .map(str::to_owned)
        .collect();
    if required == RequiredCoverage::Outcomes {
        let unseen = coverage.untested_hook_outcomes();
        missing.extend(unseen.map(|(point, outcome)| format!("`{outcome}` of {point}")));
    }
    (!missing.is_empty()).then(|| {
        let why = format!("no case reaches {}", missing.join(", "));
        create_failed_case_result(suite, "coverage", why)
    })
}

fn create_failed_case_result(suite: &CaseSuite, name: &str, why: String) -> CaseRunResult {
    CaseRunResult {
        plugin: suite.manifest.name.clone(),
        file: suite.folder.join(FILE_NAME),
        line: 1,
        name: name.to_owned(),
        failures: vec![why],
        ..CaseRunResult::default()
    }
}

/// Returns a failed case that reports a plugin whose manifest cannot be read.
fn create_unreadable_suite_failure(folder: &Path, error: &SuiteError) -> CaseRunResult {
    let name = folder.file_name().unwrap_or(folder.as_os_str());
    let why = error.to_string();
    CaseRunResult {
        plugin: name.to_string_lossy().into_owned(),
        file: folder.join(FILE_NAME),
        line: place::parse_error_line_number(&why).unwrap_or(1),
        name: FILE_NAME.to_owned(),
        failures: vec![why],
        is_error: true,
        ..CaseRunResult::default()
    }
}
