//! `rind skill test`: runs the test cases of skills.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args as ClapArgs;

use super::super::args::PluginArgs;
use super::super::case::{CaseReport, CaseReportFormat, parse_report_argument};
use super::super::environment::{find_rind_paths, process_environment};
use super::super::exit_code::{ExitStatus, bail_usage};
use super::super::{plugin, render};
use super::{
    discover_skills_at_path, find_session_skills_and_plugins, find_unusable_skill,
    parse_existing_skill_path,
};
use rind_cases::skill::{CommandEnvironmentFactory, SkillCaseRunnerConfig, SkillCaseSuite};
use rind_cases::suite::{CaseRunResult, CaseSelection};
use rind_lib::config::Config;
use rind_lib::skill::SessionSkills;
use rind_lib::tool::builtin::CommandConfinementMode;
use rind_lib::tool::sandbox::{SandboxConfig, SandboxRequirement};
use rind_operator::confinement::{
    find_command_confinement_for_config, rind_folders, warn_commands_unconfined,
};
use rind_operator::machine::SkillRequirementLookup;

#[derive(Debug, ClapArgs)]
pub(in super::super) struct SkillTestArgs {
    /// Names of skills, or paths of folders; all that are found without any
    skills: Vec<String>,
    /// Run only cases whose name contains this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Write snapshots of what cases do now
    #[arg(long)]
    accept: bool,
    /// Write a report: `json=FILE`, `junit=FILE`, or `github` for annotations on standard output
    #[arg(long, value_name = "FORMAT=FILE", value_parser = parse_report_argument)]
    report: Vec<(CaseReportFormat, PathBuf)>,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    /// Let commands of bash run with all your rights where they cannot be confined
    #[arg(long)]
    unconfined: bool,
    #[command(flatten)]
    plugins: PluginArgs,
}

pub(super) async fn test_skills(args: SkillTestArgs) -> anyhow::Result<ExitStatus> {
    let suites = find_suites(&args).await?;
    let load = plugin::plan_session_plugin_load(&args.plugins).await?;
    let runner = SkillCaseRunnerConfig {
        commands: create_command_environment_factory(
            &load.operator_setup().config,
            args.unconfined,
        )?,
        available: Arc::new(SkillRequirementLookup::new(&process_environment())),
    };
    let selection = CaseSelection {
        only: args.only.clone(),
        accept: args.accept,
        ..CaseSelection::default()
    };
    let mut report = CaseReport::empty_case_report("skill");
    for suite in &suites {
        let on_case = |ran: &CaseRunResult| {
            if !args.json {
                render::case::print_case_result(ran);
            }
        };
        let ran = suite.run_suite(&runner, &selection, on_case).await;
        if ran.is_empty() && args.only.is_none() && !args.skills.is_empty() {
            render::case::print_plugin_without_cases(&suite.folder, &suite.id);
        }
        report.cases.extend(ran);
        if args.only.is_none() {
            let (unused, failed) = suite.find_or_remove_unused_snapshots(args.accept);
            for one in &unused {
                render::case::report_unused_snapshot(one, args.accept);
            }
            failed.iter().for_each(on_case);
            report.cases.extend(failed);
        }
    }
    for (format, file) in &args.report {
        report.write_report(*format, file)?;
    }
    match args.json {
        true => render::print_json(&report.to_json())?,
        false => render::case::print_case_totals(&report.cases, ""),
    }
    // Fail without cases: a pipeline that runs none would otherwise always pass.
    let is_fine = !report.cases.is_empty() && report.cases.iter().all(CaseRunResult::passed);
    Ok(ExitStatus::from_success_flag(is_fine))
}

/// Finds the named skills, or all, and reads their cases.
async fn find_suites(args: &SkillTestArgs) -> anyhow::Result<Vec<SkillCaseSuite>> {
    let mut folders: Vec<(PathBuf, String)> = Vec::new();
    let mut add = |skills: &SessionSkills| {
        let bundles = skills.iter().filter(|skill| !skill.is_flat);
        folders.extend(bundles.map(|skill| (skill.dir.clone(), skill.id.clone())));
        // Test shadowed skills too: no session uses them, but their cases are still valid.
        let shadowed = skills.shadowed_skills().iter().map(|one| &one.skill);
        let bundles = shadowed.filter(|skill| !skill.is_flat);
        folders.extend(bundles.map(|skill| (skill.dir.clone(), skill.id.clone())));
        // Include unusable skills: each of their cases reports why.
        let unusable = skills.unusable_skills().iter();
        folders.extend(
            unusable.filter_map(|one| Some((one.file.parent()?.to_owned(), one.id.clone()))),
        );
    };
    let all_paths = args
        .skills
        .iter()
        .all(|word| parse_existing_skill_path(word).is_some());
    let known = match args.skills.is_empty() || !all_paths {
        true => find_session_skills_and_plugins(&args.plugins).await?.0,
        false => SessionSkills::default(),
    };
    if args.skills.is_empty() {
        add(&known);
    }
    for word in &args.skills {
        match parse_existing_skill_path(word) {
            Some(path) => {
                let here = discover_skills_at_path(path);
                if here.is_empty() && here.unusable_skills().is_empty() {
                    bail_usage!("there is no skill in {}", path.display());
                }
                add(&here);
            }
            None => {
                let broken = find_unusable_skill(&known, word);
                if let Some(broken) = broken.filter(|_| known.find(word).is_none()) {
                    add(&SessionSkills::new([], vec![broken.clone()]));
                    continue;
                }
                let Some(skill) = known.find(word) else {
                    bail_usage!(
                        "there is no skill `{}`; `rind skill list` lists all",
                        word.escape_debug()
                    );
                };
                add(&SessionSkills::new([(**skill).clone()], Vec::new()));
            }
        }
    }
    let read = folders
        .iter()
        .map(|(folder, id)| SkillCaseSuite::read_suite(folder, id));
    Ok(read.collect())
}

/// Decides how cases run commands: confined by the operator's settings, but without network and
/// without writable folders, because a case must leave no traces.
///
/// If `may_be_unconfined`, commands run unconfined where the settings turn confinement off or the
/// machine cannot confine them, unless the settings say `required`.
fn create_command_environment_factory(
    config: &Config,
    may_be_unconfined: bool,
) -> anyhow::Result<Arc<CommandEnvironmentFactory>> {
    let mut config: SandboxConfig = config.section()?;
    config.network = false;
    config.write.clear();
    let is_required = config.bash == Some(SandboxRequirement::Required);
    let is_off = may_be_unconfined && config.bash == Some(SandboxRequirement::Off);
    config.bash = Some(if is_off {
        SandboxRequirement::Off
    } else {
        SandboxRequirement::Required
    });
    let (environment, own) = (process_environment(), rind_folders(&find_rind_paths(None)?));
    let is_said = Arc::new(AtomicBool::new(false));
    Ok(Arc::new(move |paths| {
        let (environment, config, is_said) = (environment.clone(), config.clone(), is_said.clone());
        let own = [own.clone(), rind_folders(&paths)].concat();
        Box::pin(async move {
            let found =
                find_command_confinement_for_config(&environment, &paths, config, &own).await;
            let found = found.map_err(|error| format!("{error:#}"))?;
            let mut commands = found.command_environment_without_warning();
            let Some(why) = found.refusal_reason().filter(|_| !is_off) else {
                return Ok(commands);
            };
            commands.confining = if may_be_unconfined && !is_required {
                if !is_said.swap(true, Ordering::Relaxed) {
                    warn_commands_unconfined(&environment, why);
                }
                CommandConfinementMode::Unconfined {
                    why: why.to_owned(),
                    keeper: environment.process_reaper_path(),
                }
            } else {
                let advice = match is_required {
                    true => "",
                    false => ". `rind skill test --unconfined` runs it with all your rights",
                };
                CommandConfinementMode::Refused(format!("{why}; see `rind doctor`{advice}"))
            };
            Ok(commands)
        })
    }))
}
