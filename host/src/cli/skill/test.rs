//! `rind skill test`: cases of skills.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use clap::Args as ClapArgs;

use super::super::args::PluginArgs;
use super::super::case::{Format, Report, parse};
use super::super::exit_code::{ExitStatus, bail_usage};
use super::super::render;
use super::super::sandbox::sandbox;
use super::{Machine, as_path, found, of_path, unusable};
use crate::cases::skill::{SkillRunner, SkillSuite};
use crate::cases::suite::{Ran, Selection};
use crate::config::Config;
use crate::paths::Paths;
use crate::skill::Skills;
use crate::tool::builtin::Commands;

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
    /// Write a report: `json=FILE` or `junit=FILE`
    #[arg(long, value_name = "FORMAT=FILE", value_parser = parse)]
    report: Vec<(Format, PathBuf)>,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    plugins: PluginArgs,
}

pub(super) async fn test(args: SkillTestArgs) -> anyhow::Result<ExitStatus> {
    let suites = suites(&args).await?;
    let runner = SkillRunner {
        commands: find_commands(),
        available: Arc::new(Machine::new()),
    };
    let selection = Selection {
        only: args.only.clone(),
        accept: args.accept,
    };
    let mut report = Report::of("skill");
    for suite in &suites {
        let on_case = |ran: &Ran| {
            if !args.json {
                render::case::ran(ran);
            }
        };
        let ran = suite.run(&runner, &selection, on_case).await;
        if ran.is_empty() && args.only.is_none() && !args.skills.is_empty() {
            render::case::none(&suite.folder, &suite.id);
        }
        report.cases.extend(ran);
        if args.only.is_none() {
            clear(suite, args.accept)?;
        }
    }
    for (format, file) in &args.report {
        report.write(*format, file)?;
    }
    match args.json {
        true => render::json(&report.json())?,
        false => render::case::total(&report.cases, ""),
    }
    // A pipeline without a single case would be green for ever.
    let is_fine = !report.cases.is_empty() && report.cases.iter().all(Ran::passed);
    Ok(ExitStatus::of(is_fine))
}

/// Tells of snapshots that no case has, or removes them.
fn clear(suite: &SkillSuite, accept: bool) -> anyhow::Result<()> {
    for file in suite.unused_snapshots()? {
        if accept {
            std::fs::remove_file(&file)
                .with_context(|| format!("remove the snapshot {}", file.display()))?;
        }
        render::case::unused(&file, accept);
    }
    Ok(())
}

/// Finds the skills that are named, and reads their cases.
async fn suites(args: &SkillTestArgs) -> anyhow::Result<Vec<SkillSuite>> {
    let mut folders: Vec<(PathBuf, String)> = Vec::new();
    let mut add = |skills: &Skills| {
        let bundles = skills.iter().filter(|skill| !skill.is_flat);
        folders.extend(bundles.map(|skill| (skill.dir.clone(), skill.id.clone())));
        // Each of their cases says why.
        let unusable = skills.unusable().iter();
        folders.extend(
            unusable.filter_map(|one| Some((one.file.parent()?.to_owned(), one.id.clone()))),
        );
    };
    let all_paths = args.skills.iter().all(|word| as_path(word).is_some());
    let known = match args.skills.is_empty() || !all_paths {
        true => found(&args.plugins).await?.0,
        false => Skills::default(),
    };
    if args.skills.is_empty() {
        add(&known);
    }
    for word in &args.skills {
        match as_path(word) {
            Some(path) => {
                let here = of_path(path);
                if here.is_empty() && here.unusable().is_empty() {
                    bail_usage!("there is no skill in {}", path.display());
                }
                add(&here);
            }
            None => {
                let broken = unusable(&known, word);
                if let Some(broken) = broken.filter(|_| known.find(word).is_none()) {
                    add(&Skills::new([], vec![broken.clone()]));
                    continue;
                }
                let Some(skill) = known.find(word) else {
                    bail_usage!(
                        "there is no skill `{}`; `rind skill list` lists all",
                        word.escape_debug()
                    );
                };
                add(&Skills::new([(**skill).clone()], Vec::new()));
            }
        }
    }
    let read = folders
        .iter()
        .map(|(folder, id)| SkillSuite::read(folder, id));
    Ok(read.collect::<Result<_, _>>()?)
}

/// Finds the way in which commands run in a case: as in a session without settings. That they run unconfined is said once.
fn find_commands() -> Arc<
    dyn Fn(Paths) -> futures_util::future::BoxFuture<'static, Result<Commands, String>>
        + Send
        + Sync,
> {
    let is_said = Arc::new(AtomicBool::new(false));
    Arc::new(move |paths| {
        let is_said = is_said.clone();
        Box::pin(async move {
            let found = sandbox(&paths, &Config::default()).await;
            let found = found.map_err(|error| format!("{error:#}"))?;
            Ok(match is_said.swap(true, Ordering::Relaxed) {
                true => found.quiet_commands(),
                false => found.commands(),
            })
        })
    })
}
