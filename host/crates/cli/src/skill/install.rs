//! `rind skill install`: shows the skills of a source, and installs them into the user's folder
//! after the user agrees.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail, ensure};
use clap::Args as ClapArgs;

use super::super::args::PluginArgs;
use super::super::environment::{process_environment, read_settings_without_project};
use super::super::exit_code::{ExitStatus, bail_usage};
use super::super::terminal::can_ask_at_terminal;
use super::super::{command, render};
use super::{
    find_non_plugin_skills, find_skills_tools_and_plugins, preview, skill_files_shadowed_by,
};
use rind_lib::grant::Trust;
use rind_lib::grant::held;
use rind_lib::skill::{
    self, Diagnostic, SKILL_JSON_FILE_NAME, SessionSkills, Severity, Skill, SkillFile,
    SkillSearchDirectory, Source, ToolsAndPluginsForSkill, is_skipped_folder_name,
    normalize_skill_name,
};
use rind_operator::machine::SkillRequirementLookup;
use rind_package::lock_file::LockEntry;
use rind_package::place;
use rind_package::signature::{self, InstallConfig, SignatureCheckTarget};
use rind_package::skill::{
    FetchedSkillSource, InstalledSkillStore, SkillCandidate, SkillCandidateFiles,
    SkillInstallResult, SkillLockFileEntry, fetch_skill_source, find_skill_candidates,
    read_skill_bundle,
};

#[derive(Debug, ClapArgs)]
pub(in super::super) struct SkillInstallArgs {
    /// A folder, a `.tar.gz` or `.tar` archive, or a git repository on this machine, of which it
    /// takes what is committed
    source: PathBuf,
    /// Name of a skill in the source, or its folder there; may be given more than once
    #[arg(long = "skill", value_name = "NAME", conflicts_with = "all")]
    skills: Vec<String>,
    /// Install every skill of the source
    #[arg(long)]
    all: bool,
    /// Take all of the skill's folder, where files beside it look like those of a project
    #[arg(long)]
    whole: bool,
    /// Name to install it under, instead of its own
    #[arg(long, value_name = "NAME", conflicts_with = "all")]
    name: Option<String>,
    /// Branch, tag or commit of a repository, instead of HEAD
    #[arg(long, value_name = "REV")]
    rev: Option<String>,
    /// Take the place of a skill that you wrote or changed, which is moved to `.kept` in the folder
    /// of skills
    #[arg(long)]
    force: bool,
    /// Accept that a skill of this name was installed from another source before
    #[arg(long)]
    change_source: bool,
    /// Install without asking
    #[arg(long, short)]
    yes: bool,
}

pub(super) struct PreparedSkillInstall {
    pub(super) name: String,
    pub(super) bundle: SkillCandidateFiles,
    pub(super) skill: Skill,
    pub(super) findings: Vec<Diagnostic>,
    /// Files of other skills that the installed skill would shadow.
    pub(super) shadows: Vec<PathBuf>,
    pub(super) locked: SkillLockFileEntry,
    pub(super) change: SkillInstallResult,
}

pub(super) async fn run_skill_install(args: SkillInstallArgs) -> anyhow::Result<ExitStatus> {
    let setup = read_settings_without_project()?;
    let (paths, keys) = (&setup.paths, setup.config.section::<InstallConfig>()?);
    let fetched = fetch_skill_source(&args.source, args.rev.as_deref()).await?;
    let found = find_skill_candidates(&fetched.tree).await?;
    for index in &found.indexes {
        render::print_note(&format!(
            "{index} is treated as a table of contents of the skills below it, not as a skill"
        ));
    }
    let (chosen, mut left_out) = select_skill_candidates(found.all, &fetched, &args)?;
    let mut store = InstalledSkillStore::open_and_lock_store(
        &paths.config,
        preview::print_skill_lock_wait_notice,
    )?;
    let around = NewSkillCheckContext::new().await;
    let mut all = Vec::new();
    for candidate in &chosen {
        let ready = prepare_skill_install(candidate, &fetched, &args, &store, &keys, &around).await;
        match ready.with_context(|| format!("{} is not installed", candidate.name)) {
            Ok(ready) => all.push(ready),
            // An invalid skill in a collection does not prevent the installation of the others.
            Err(error) if args.all => left_out.push(format!("{error:#}")),
            Err(error) => return Err(error),
        }
    }
    for why in &left_out {
        render::skill_install::print_skipped_skill(why);
    }
    if all.is_empty() {
        bail!("nothing is installed, because none of the skills can be installed");
    }
    let is_committed = fetched.commit.is_some();
    // Remove the temporary files before the question, because an interrupt there would leave them
    // on disk.
    drop(fetched);
    let changes = all
        .iter()
        .filter(|one| one.change != SkillInstallResult::Unchanged);
    if changes.count() > 0 {
        let screen = preview::build_skill_install_preview_screen(&all, &store.skills);
        if args.yes {
            preview::print_skill_install_preview(&screen);
        } else if can_ask_at_terminal() {
            if !preview::confirm_preview(&screen).await {
                bail!("nothing is installed: you did not say yes");
            }
        } else {
            preview::print_skill_install_preview(&screen);
            bail!(
                "nothing is installed, because there is no terminal to ask at; read the above and pass --yes"
            );
        }
    }
    store.refresh_skill_names_in_use();
    for one in all {
        let kept =
            store.install_skill(&one.name, &one.bundle.files, one.locked.clone(), one.change)?;
        render::skill_install::show_installed_skill(
            &one.name,
            &store.skills,
            &one.locked,
            one.change,
            kept.as_deref(),
        );
    }
    if is_committed {
        render::print_note("the committed files were used, not the files in the working tree");
    }
    Ok(ExitStatus::from_success_flag(left_out.is_empty()))
}

/// Selects skills of the source. Without `--skill` or `--all`, the source must contain exactly one.
/// With `--all`, also returns the reasons, each with a remedy, for skills that are skipped because
/// two have the same name.
fn select_skill_candidates(
    all: Vec<SkillCandidate>,
    fetched: &FetchedSkillSource,
    args: &SkillInstallArgs,
) -> anyhow::Result<(Vec<SkillCandidate>, Vec<String>)> {
    let shown = args.source.display();
    // Mention the commit: the user may see uncommitted files, but only committed ones are read.
    let among = fetched.commit.iter().map(|commit| {
        let short = commit.get(..12).unwrap_or(commit);
        format!(" in the commit {short}")
    });
    let among: String = among.collect();
    let list = || {
        let lines = all.iter().map(|one| {
            format!(
                "\n  {}  {}",
                one.name.escape_debug(),
                one.folder_path_in_source().escape_debug()
            )
        });
        lines.collect::<String>()
    };
    if all.is_empty() {
        bail_usage!(
            "{shown} has no skill{among}: there is no SKILL.md at its top or in a folder that is not hidden"
        );
    }
    if args.skills.is_empty() && !args.all && all.len() > 1 {
        bail_usage!(
            "{shown} has {} skills; choose one with --skill NAME, or pass --all:{}",
            all.len(),
            list()
        );
    }
    let mut chosen: Vec<SkillCandidate> = Vec::new();
    for word in &args.skills {
        let meant: Vec<&SkillCandidate> = all
            .iter()
            .filter(|one| one.is_selected_by_argument(word))
            .collect();
        match meant.as_slice() {
            [one] if chosen.contains(one) => {}
            [one] => chosen.push((*one).clone()),
            [] => bail_usage!(
                "{shown} has no skill `{}`{among}; it has:{}",
                word.escape_debug(),
                list()
            ),
            _ => bail_usage!(
                "{shown} has several skills `{}`; name the folder of one:{}",
                word.escape_debug(),
                list()
            ),
        }
    }
    if args.skills.is_empty() {
        chosen = all;
    }
    if let Some(name) = &args.name {
        let [one] = chosen.as_mut_slice() else {
            bail_usage!(
                "--name can name only one skill, but {} are chosen; choose one with --skill",
                chosen.len()
            );
        };
        one.name.clone_from(name);
    }
    let mut by_name: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for one in &chosen {
        by_name
            .entry(normalize_skill_name(&one.name))
            .or_default()
            .push(one.folder_path_in_source());
    }
    by_name.retain(|_, places| places.len() > 1);
    let told: Vec<String> = by_name
        .values()
        .map(|places| {
            format!(
                "{} have the same name; choose one with --skill",
                places.join(" and ")
            )
        })
        .collect();
    if let Some(first) = told.first().filter(|_| !args.all) {
        bail_usage!("{first}");
    }
    chosen.retain(|one| !by_name.contains_key(&normalize_skill_name(&one.name)));
    Ok((chosen, told))
}

/// Skills, tools and plugins that a session in this folder would have, against which a new skill is
/// checked.
struct NewSkillCheckContext {
    skills: SessionSkills,
    surroundings: Option<ToolsAndPluginsForSkill>,
    machine: SkillRequirementLookup,
}

impl NewSkillCheckContext {
    async fn new() -> Self {
        let look = find_skills_tools_and_plugins(&PluginArgs::default()).await;
        let (skills, surroundings) = match look {
            Ok((skills, surroundings)) => (skills, Some(surroundings)),
            Err(error) => {
                render::print_warning(&format!(
                    "cannot check whether the tools and plugins that a skill names exist: {error:#}"
                ));
                (find_non_plugin_skills().await, None)
            }
        };
        Self {
            skills,
            surroundings,
            machine: SkillRequirementLookup::new(&process_environment()),
        }
    }
}

async fn prepare_skill_install(
    candidate: &SkillCandidate,
    fetched: &FetchedSkillSource,
    args: &SkillInstallArgs,
    store: &InstalledSkillStore,
    keys: &InstallConfig,
    around: &NewSkillCheckContext,
) -> anyhow::Result<PreparedSkillInstall> {
    let name = candidate.name.clone();
    let is_name = !name.contains('/') && !name.starts_with('.');
    ensure!(
        is_name,
        "`{}` cannot be the name of a folder; choose another name with --name",
        name.escape_debug()
    );
    let mut reserved = command::reserved_skill_names().into_iter();
    if reserved.any(|word| normalize_skill_name(word) == normalize_skill_name(&name)) {
        bail!("`{name}` is a command of rind; choose another name with --name");
    }
    ensure!(
        !is_skipped_folder_name(&name),
        "sessions ignore a folder named `{name}`; choose another name with --name"
    );
    let bundle = read_skill_bundle(&fetched.tree, candidate, args.whole).await?;
    let subject = SignatureCheckTarget {
        kind: "skill",
        name: &name,
        source: &fetched.source,
        bytes: fetched.bytes.as_deref(),
        lock_file: SkillLockFileEntry::FILE_NAME,
        how_to_pack: "make an archive of it, `tar -czf NAME.tar.gz NAME`, and sign that with `minisign -S -m NAME.tar.gz`".to_owned(),
        how_to_sign: fetched.signing_advice(),
        signature: &|| fetched.read_signature(),
    };
    let signer = signature::check_signature(keys, store.key_pinned_to_skill_name(&name), &subject)?;
    let within = Some(candidate.at.join("/")).filter(|within| !within.is_empty());
    let locked = SkillLockFileEntry {
        source: fetched.source.clone(),
        within,
        commit: fetched.commit.clone(),
        digest: held::digest_files(&bundle.files),
        key: signer,
    };
    let change =
        store.predict_skill_install_result(&name, &locked, args.force, args.change_source)?;
    let trust = if locked.key.is_some() {
        Trust::Package
    } else {
        Trust::User
    };
    let (skill, findings) =
        parse_and_check_skill_bundle(&name, &bundle, trust, &store.skills, around)?;
    Ok(PreparedSkillInstall {
        shadows: skill_files_shadowed_by(&around.skills, &name),
        name,
        bundle,
        skill,
        findings,
        locked,
        change,
    })
}

/// Parses a skill as a session would, and checks a copy of the skill's files in a temporary folder.
fn parse_and_check_skill_bundle(
    name: &str,
    bundle: &SkillCandidateFiles,
    trust: Trust,
    skills: &Path,
    around: &NewSkillCheckContext,
) -> anyhow::Result<(Skill, Vec<Diagnostic>)> {
    let file = |name: &str| bundle.files.get(&vec![name.to_owned()]).map(Vec::as_slice);
    let dir = skills.join(name);
    let read = SkillFile {
        folder: name,
        dir: &dir,
        real_dir: &dir,
        held: None,
        file: &dir.join(&bundle.file),
        is_flat: false,
        source: &Source::User,
        trust,
        bytes: file(&bundle.file).unwrap_or_default(),
        side: file(SKILL_JSON_FILE_NAME),
    };
    let skill = read.parse().map_err(|unusable| {
        let why: Vec<String> = unusable
            .diagnostics
            .iter()
            .filter(|d| d.severity == Severity::Error)
            .map(ToString::to_string)
            .collect();
        anyhow!(
            "the skill's {} cannot be used: {}",
            bundle.file,
            why.join("; ")
        )
    })?;
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let staged = place::stage_files(&bundle.files, name, folder.path())?;
    let there = skill::discover_skills(
        &[SkillSearchDirectory::new(Source::Local, staged.folder)],
        &[],
        &around.machine,
    );
    let mut findings = skill.diagnostics.clone();
    if let Some(there) = there.iter().next() {
        findings.extend(skill::check_skill(
            there,
            around.surroundings.as_ref(),
            &around.machine,
        ));
    }
    findings.sort_by_key(|finding| (finding.line, finding.column));
    Ok((skill, findings))
}
