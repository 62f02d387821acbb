//! `rind skill`: lists skills, shows one, checks them, makes, derives, installs, removes, migrates
//! and tests them.

mod derive;
mod install;
mod migrate;
mod new;
mod preview;
mod remove;
mod test;

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args as ClapArgs, Subcommand};
use serde::Serialize;
use serde_json::json;

use super::args::PluginArgs;
use super::environment::{find_rind_paths, process_environment};
use super::exit_code::{ExitStatus, bail_usage};
use super::{command, plugin, render};
pub(super) use derive::{OUTLINE_WORKER_SUBCOMMAND, skill_derive_worker_main};
use rind_lib::config::Config;
use rind_lib::plugin::load::FoundPluginSet;
use rind_lib::skill::{
    self, Diagnostic, SessionSkills, Severity, Skill, SkillCatalogue, SkillSearchDirectory, Source,
    ToolsAndPluginsForSkill, compute_catalogue_budget,
};
use rind_operator::machine::SkillRequirementLookup;
use rind_operator::setup::OperatorWorkspaceSetup;
use rind_operator::skills;
use rind_package::lock_file::LockEntry;
use rind_package::signature::InstallConfig;
use rind_package::skill::{SkillLockFileEntry, verify_installed_skills};

/// Size of the context window, in tokens, of which `list` shows the catalogue's share.
const REFERENCE_CONTEXT_WINDOW_TOKENS: u64 = 200_000;

#[derive(Debug, Subcommand)]
pub(super) enum SkillCommand {
    /// List every skill that is found, with its source and what it costs, and why some are not used
    List(SkillListArgs),
    /// Show one skill: who may start it, what it may use, and its text
    Show(SkillShowArgs),
    /// Check skills: faults, missing files, programs, tools and plugins
    Check(SkillCheckArgs),
    /// Make a skill to start from
    New(new::SkillNewArgs),
    /// Install skills from a folder, an archive or a git repository on this machine
    Install(install::SkillInstallArgs),
    /// Remove a skill from your folder of skills
    Remove(remove::SkillRemoveArgs),
    /// Write a skill as `corteza.skill/v1`, or in the open format
    Migrate(migrate::SkillMigrateArgs),
    /// Run the cases of skills, tests/*.toml of their bundles
    Test(test::SkillTestArgs),
    /// Make a skill from a plugin, a component, a WIT package or a Rust crate
    Derive(derive::SkillDeriveArgs),
}

#[derive(Debug, ClapArgs)]
pub(super) struct SkillListArgs {
    #[command(flatten)]
    plugins: PluginArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, ClapArgs)]
pub(super) struct SkillShowArgs {
    /// Name of the skill, or path of its folder or file
    skill: String,
    #[command(flatten)]
    plugins: PluginArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, ClapArgs)]
pub(super) struct SkillCheckArgs {
    /// Names of skills, or paths of folders or files; all that are found without any
    skills: Vec<String>,
    #[command(flatten)]
    plugins: PluginArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// File of a skill, with the faults that the check found in it.
#[derive(Debug, Serialize)]
pub(super) struct CheckedSkillFile {
    pub(super) file: PathBuf,
    pub(super) diagnostics: Vec<Diagnostic>,
}

pub(super) async fn run_skill_subcommand(command: SkillCommand) -> anyhow::Result<ExitStatus> {
    match command {
        SkillCommand::List(args) => list_skills(args).await,
        SkillCommand::Show(args) => show_skill(args).await,
        SkillCommand::Check(args) => check_skills(args).await,
        SkillCommand::New(args) => new::create_skill(&args).await,
        SkillCommand::Install(args) => install::run_skill_install(args).await,
        SkillCommand::Remove(args) => remove::run_remove(args).await,
        SkillCommand::Migrate(args) => migrate::run_migrate(&args),
        SkillCommand::Test(args) => test::test_skills(args).await,
        SkillCommand::Derive(args) => derive::run_skill_derive(&args).await,
    }
}

/// Returns the skills and plugins that a session in this folder would have.
async fn find_session_skills_and_plugins(
    args: &PluginArgs,
) -> anyhow::Result<(SessionSkills, FoundPluginSet)> {
    let load = plugin::plan_session_plugin_load(args).await?;
    let plugins = load.load().await.context("cannot load plugins")?;
    load.check_selected_plugins(&plugins)?;
    let roots = skills::skill_roots(load.operator_setup(), &plugins, load.in_memory_folder());
    Ok((discover_skills(&roots), plugins))
}

/// Returns the skills that a session in this folder would have, except those of plugins. Used if
/// the plugins cannot be loaded.
async fn find_non_plugin_skills() -> SessionSkills {
    let none = FoundPluginSet::default();
    if let Ok(load) = plugin::plan_session_plugin_load(&PluginArgs::default()).await {
        return discover_skills(&skills::skill_roots(
            load.operator_setup(),
            &none,
            load.in_memory_folder(),
        ));
    }
    let Ok(paths) = find_rind_paths(None) else {
        return SessionSkills::default();
    };
    let setup = OperatorWorkspaceSetup::new(process_environment(), paths, Config::default());
    discover_skills(&skills::skill_roots(&setup, &none, None))
}

fn discover_skills(roots: &[SkillSearchDirectory]) -> SessionSkills {
    skill::discover_skills(
        roots,
        &command::reserved_skill_names(),
        &SkillRequirementLookup::new(&process_environment()),
    )
}

/// Returns the skills, tools and plugins that a session in this folder would have.
async fn find_skills_tools_and_plugins(
    args: &PluginArgs,
) -> anyhow::Result<(SessionSkills, ToolsAndPluginsForSkill)> {
    let (skills, plugins) = find_session_skills_and_plugins(args).await?;
    let plugins = plugins.plugins.iter();
    let around = ToolsAndPluginsForSkill {
        plugins: plugins.map(|plugin| plugin.manifest.name.clone()).collect(),
        tools: super::tools::tool_names(args).await?,
    };
    Ok((skills, around))
}

/// Returns the files of skills outside the user's folder that a new skill of this name would
/// shadow.
fn skill_files_shadowed_by(skills: &SessionSkills, name: &str) -> Vec<PathBuf> {
    let others = skills.skill_locations().filter(|(id, _, source)| {
        skill::normalize_skill_name(id) == skill::normalize_skill_name(name)
            && **source != Source::User
    });
    others.map(|(_, file, _)| file.to_owned()).collect()
}

fn discover_skills_at_path(path: &Path) -> SessionSkills {
    discover_skills(&[SkillSearchDirectory::new(Source::Local, path.to_owned())])
}

fn parse_existing_skill_path(word: &str) -> Option<&Path> {
    let path = Path::new(word);
    let is_path =
        word.contains('/') || word.starts_with('.') || path.join(skill::SKILL_FILE_NAME).is_file();
    (is_path && path.exists()).then_some(path)
}

async fn list_skills(args: SkillListArgs) -> anyhow::Result<ExitStatus> {
    let (skills, _) = find_session_skills_and_plugins(&args.plugins).await?;
    let catalogue = skills.catalogue(compute_catalogue_budget(REFERENCE_CONTEXT_WINDOW_TOKENS));
    if args.json {
        render::print_json(&skills_json(&skills, &catalogue))?;
    } else {
        render::skills::print_skills(&skills, &catalogue, REFERENCE_CONTEXT_WINDOW_TOKENS);
        render::skill_install::print_missing_skills(&find_missing_skills()?);
    }
    Ok(ExitStatus::from_success_flag(
        skills.unusable_skills().is_empty(),
    ))
}

/// Returns the names of installed skills whose folders no longer exist.
fn find_missing_skills() -> anyhow::Result<Vec<String>> {
    let paths = find_rind_paths(None)?;
    let lock_path = paths.config.join(SkillLockFileEntry::FILE_NAME);
    let installed = verify_installed_skills(
        &paths.config.join(skill::SKILLS_FOLDER_NAME),
        &lock_path,
        &InstallConfig::default(),
    );
    // An unreadable lock file was already reported.
    let gone = installed.into_iter().flatten().filter(|one| one.is_gone);
    let names = gone.filter_map(|one| Some(one.folder.file_name()?.to_string_lossy().into_owned()));
    Ok(names.collect())
}

fn skills_json(skills: &SessionSkills, catalogue: &SkillCatalogue) -> serde_json::Value {
    let all: Vec<_> = skills
        .iter()
        .map(|skill| json!({"skill": **skill, "catalogue_chars": SessionSkills::catalogue_line_chars(skill)}))
        .collect();
    let shadowed: Vec<_> = skills
        .shadowed_skills()
        .iter()
        .map(|one| json!({"skill": *one.skill, "shadowed_by": one.shadowed_by, "is_identical": one.is_identical}))
        .collect();
    json!({
        "skills": all,
        "shadowed": shadowed,
        "unusable": skills.unusable_skills(),
        "catalogue": {"chars": catalogue.text.chars().count(), "skills": catalogue.n_skills, "cut": catalogue.n_cut},
        "hash": skills.hash(),
    })
}

async fn show_skill(args: SkillShowArgs) -> anyhow::Result<ExitStatus> {
    let skills = match parse_existing_skill_path(&args.skill) {
        Some(path) => discover_skills_at_path(path),
        None => find_session_skills_and_plugins(&args.plugins).await?.0,
    };
    let one = match parse_existing_skill_path(&args.skill) {
        Some(_) => skills.iter().next(),
        None => skills.find(&args.skill),
    };
    let Some(skill) = one else {
        if let Some(unusable) = find_unusable_skill(&skills, &args.skill) {
            match args.json {
                true => render::print_json(&json!({"unusable": unusable}))?,
                false => {
                    render::skills::print_skill_diagnostics(&unusable.file, &unusable.diagnostics)
                }
            }
            return Ok(ExitStatus::from_success_flag(false));
        }
        let names: Vec<&str> = skills.iter().map(|skill| skill.id.as_str()).collect();
        let known = match names.as_slice() {
            [] => "there are none".to_owned(),
            names => format!("there are: {}", names.join(", ")),
        };
        bail_usage!("there is no skill `{}`; {known}", args.skill.escape_debug());
    };
    match args.json {
        true => render::print_json(&json!({"skill": **skill, "body": &*skill.body}))?,
        false => render::skills::print_skill(skill),
    }
    Ok(ExitStatus::Done)
}

/// Finds the unusable skill with this name. If `word` is a path, returns the first one, since
/// `skills` then comes from that path alone.
fn find_unusable_skill<'a>(
    skills: &'a SessionSkills,
    word: &str,
) -> Option<&'a skill::UnusableSkill> {
    let is_path = parse_existing_skill_path(word).is_some();
    let mut all = skills.unusable_skills().iter();
    all.find(|one| {
        is_path || skill::normalize_skill_name(&one.id) == skill::normalize_skill_name(word)
    })
}

async fn check_skills(args: SkillCheckArgs) -> anyhow::Result<ExitStatus> {
    let (skills, around) = find_skills_tools_and_plugins(&args.plugins).await?;
    let machine = SkillRequirementLookup::new(&process_environment());
    let checked = |skill: &Skill| {
        let mut diagnostics = skill.diagnostics.clone();
        diagnostics.extend(skill::check_skill(skill, Some(&around), &machine));
        diagnostics.sort_by_key(|d| (d.line, d.column));
        CheckedSkillFile {
            file: skill.file.clone(),
            diagnostics,
        }
    };
    let refused = |unusable: &skill::UnusableSkill| CheckedSkillFile {
        file: unusable.file.clone(),
        diagnostics: unusable.diagnostics.clone(),
    };
    let all_of = |skills: &SessionSkills| {
        let good = skills.iter().map(|skill| checked(skill));
        good.chain(skills.unusable_skills().iter().map(refused))
            .collect::<Vec<_>>()
    };
    let mut results = Vec::new();
    for word in &args.skills {
        if let Some(path) = parse_existing_skill_path(word) {
            let here = all_of(&discover_skills_at_path(path));
            if here.is_empty() {
                bail_usage!("there is no skill in {}", path.display());
            }
            results.extend(here);
        } else if let Some(skill) = skills.find(word) {
            results.push(checked(skill));
        } else if let Some(unusable) = find_unusable_skill(&skills, word) {
            results.push(refused(unusable));
        } else {
            bail_usage!(
                "there is no skill `{}`; `rind skill list` lists all",
                word.escape_debug()
            );
        }
    }
    if args.skills.is_empty() {
        results = all_of(&skills);
    }
    match args.json {
        true => render::print_json(&results)?,
        false => render::skills::print_check_results(&results),
    }
    let is_fault = |d: &Diagnostic| d.severity == Severity::Error;
    Ok(ExitStatus::from_success_flag(
        !results.iter().any(|r| r.diagnostics.iter().any(is_fault)),
    ))
}
