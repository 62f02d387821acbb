//! `rind plugin test`: cases of plugins, and `rind plugin call`: one tool by hand.

mod call;
mod report;
mod watch;

use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;

use super::alone;
use super::check::plugin_folders;
use super::exit_code::ExitStatus;
use super::{environment, render};
use rind_cases::last::{Costs, LastRun};
use rind_cases::suite::{CaseRun, CaseSelection, CaseSuite, PluginCoverage, SuiteError};
use rind_cases::{CaseCost, CaseRunner};
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
    /// Write snapshots of what cases do now
    #[arg(long)]
    accept: bool,
    /// Run the cases again whenever a component, a manifest or a case changes
    #[arg(long, conflicts_with = "accept")]
    watch: bool,
    /// Write a report: `json=FILE` or `junit=FILE`
    #[arg(long, value_name = "FORMAT=FILE", value_parser = parse_report)]
    report: Vec<(CaseReportFormat, PathBuf)>,
}

pub(super) async fn run_test(args: TestArgs) -> anyhow::Result<ExitStatus> {
    if args.watch {
        return watch::watch_cases(&args).await;
    }
    test_once(&args).await
}

/// Runs the cases of all plugins once.
async fn test_once(args: &TestArgs) -> anyhow::Result<ExitStatus> {
    let cache = environment::find_paths(None)?.cache;
    let mut report = CaseReport::report_of("plugin");
    for folder in &plugin_folders(&args.folders)? {
        let (ran, coverage) = test_plugin(args, &cache, folder).await?;
        report.cases.extend(ran);
        report.coverage.extend(coverage);
    }
    for (format, file) in &args.report {
        report.write_report(*format, file)?;
    }
    render::case::show_total(&report.cases, ", each warm and cold");
    // Without any case the result is a failure: a CI pipeline that tests nothing would always be
    // green.
    let is_fine = !report.cases.is_empty() && report.cases.iter().all(CaseRun::passed);
    Ok(ExitStatus::status_of(is_fine))
}

async fn test_plugin(
    args: &TestArgs,
    cache: &Path,
    folder: &Path,
) -> anyhow::Result<(Vec<CaseRun>, Option<(String, PluginCoverage)>)> {
    let load = alone::load_of(folder)?;
    let options = load.options();
    let runner = CaseRunner {
        compiler: options.compiler.clone(),
        cache: options.cache.clone(),
        cache_key: options.cache_key.clone(),
    };
    let suite = match CaseSuite::read_suite(folder) {
        Ok(suite) => suite,
        Err(error) => {
            // A suite that does not parse is a failure in the report; the other plugins are still
            // tested.
            let ran = unread_suite(folder, &error);
            render::case::show_ran(&ran);
            return Ok((vec![ran], None));
        }
    };
    let selection = CaseSelection {
        only: args.only.clone(),
        accept: args.accept,
    };
    let is_whole = args.only.is_none();
    let last = LastRun::read_costs(cache, folder);
    let mut ran = suite
        .run_suite(&runner, &selection, |ran| {
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
    if let Err(error) = last.keep_costs(costs, is_whole) {
        render::print_warning(&format!(
            "the next run has nothing to compare with: its costs cannot be kept: {error}"
        ));
    }
    let name = &suite.manifest.name;
    if ran.is_empty() && is_whole {
        render::case::show_none(folder, name);
    }
    if !is_whole || ran.is_empty() {
        return Ok((ran, None));
    }
    let (unused, failed) = suite.clear_snapshots(args.accept);
    for one in &unused {
        render::case::show_unused(one, args.accept);
    }
    failed.iter().for_each(render::case::show_ran);
    ran.extend(failed);
    let coverage = suite.measure_coverage(&runner, &ran).await?;
    if let Some(coverage) = &coverage {
        render::case::show_coverage(name, coverage);
    }
    Ok((ran, coverage.map(|coverage| (name.clone(), coverage))))
}

/// A plugin whose manifest cannot be read, as a case that failed.
fn unread_suite(folder: &Path, error: &SuiteError) -> CaseRun {
    let name = folder.file_name().unwrap_or(folder.as_os_str());
    CaseRun {
        plugin: name.to_string_lossy().into_owned(),
        file: folder.join(FILE_NAME),
        line: 1,
        name: FILE_NAME.to_owned(),
        failures: vec![error.to_string()],
        ..CaseRun::default()
    }
}
