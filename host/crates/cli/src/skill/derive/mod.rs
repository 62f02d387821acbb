//! `rind skill derive`: makes a skill from a plugin, a component, a WIT package or a Rust crate.

mod outline;
mod place;
mod source;
mod summary;

use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;

use super::super::args::{ModelArgs, PluginArgs};
use super::super::exit_code::{ExitStatus, bail_usage};
use super::super::question::{QuestionScreenContent, TerminalQuestionLine};
use super::super::render::BOLD_STYLE;
use super::super::terminal::can_ask_at_terminal;
use super::super::{command, environment, render};
pub(in super::super) use outline::{OUTLINE_WORKER_SUBCOMMAND, skill_derive_worker_main};
use rind_derive::{SkillBundle, SkillBundleProvenance, SkillDraft, skill_slug};
use rind_lib::plugin::protected::is_protected_plugin;
use rind_lib::skill::SKILLS_FOLDER_NAME;

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
The same source gives the same bytes: no model, no network and no date has a part in it. A component is asked for its tools in the \
sandbox, with nothing granted; nothing of a crate is built or run.

The bundle goes into the cache, where no session looks for skills. `rind skill install` puts it among yours; `--into .rind/skills` \
makes it in a project.")]
pub(in super::super) struct SkillDeriveArgs {
    /// Folder or file of a plugin, a component, a WIT package or a Rust crate
    ///
    /// A folder is what its manifest says: `plugin.toml`, `Cargo.toml`, or files `*.wit`. Where
    /// there are several, name the file.
    source: PathBuf,
    /// Make the skill in this folder, instead of the cache
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,
    /// Print the files and write nothing
    #[arg(long, conflicts_with_all = ["into", "yes", "force"])]
    print: bool,
    /// Replace the bundle that is there without a question, after its differences are shown
    #[arg(long)]
    yes: bool,
    /// Replace it also when it was edited by hand, or is not a derived skill, which is moved to
    /// `.kept` beside it; and when a summary failed
    #[arg(long)]
    force: bool,
    /// Have the model write a summary into it: one request, which costs tokens
    #[arg(long)]
    summarize: bool,
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    plugins: PluginArgs,
}

pub(super) async fn run_skill_derive(args: &SkillDeriveArgs) -> anyhow::Result<ExitStatus> {
    let mut draft = source::draft_skill_from_source(&args.source).await?;
    if command::reserved_skill_names().contains(&draft.name.as_str()) {
        draft.name.push_str("-package");
    }
    if args.print {
        let is_whole = add_model_written_summary(&mut draft, args).await?;
        render::derive::print_skill_files(&draft.render_bundle());
        return Ok(ExitStatus::from_success_flag(is_whole));
    }
    let folder = match &args.into {
        Some(folder) => folder.join(&draft.name),
        None => derived_skill_cache_folder(&draft)?,
    };
    place::refuse_overlap_with_source(
        &folder,
        &source::folder_of_manifest_or_path_itself(&args.source),
    )?;
    let earlier = place::read_existing_bundle(&folder)?;
    let stamp = earlier.as_ref().and_then(SkillBundle::parse_provenance);
    if earlier.is_some()
        && !args.force
        && is_derived_bundle_up_to_date(stamp.as_ref(), &draft, &folder, args.summarize)?
    {
        render::print_stdout_line(folder.display());
        render::print_note("nothing to do: its source has not changed");
        return Ok(ExitStatus::Done);
    }
    let is_whole = add_model_written_summary(&mut draft, args).await?;
    let has_summary = stamp
        .as_ref()
        .is_some_and(|one| one.summarized_by.is_some());
    if !is_whole && has_summary && !args.force {
        render::print_note(
            "nothing was replaced: the existing skill has a summary, and this time none could be written; try again, or pass --force to replace it without a summary",
        );
        return Ok(ExitStatus::Failed);
    }
    let bundle = draft.render_bundle();
    if let Some(earlier) = &earlier {
        if *earlier == bundle {
            render::print_stdout_line(folder.display());
            render::print_note("nothing to do: the derived skill has not changed");
            return Ok(ExitStatus::from_success_flag(is_whole));
        }
        render::derive::print_skill_diff(earlier, &bundle);
        if !args.yes && !args.force && !confirm_bundle_replacement(&folder).await {
            render::print_note("nothing was replaced; pass --yes to replace it");
            return Ok(ExitStatus::Failed);
        }
    }
    // Keep the old bundle only if it was edited or is not a derived skill: anything else can be
    // derived again.
    let is_kept = !stamp.is_some_and(|stamp| stamp.is_whole);
    let kept = place::write_bundle(&bundle, &folder, earlier.as_ref(), is_kept)?;
    render::print_stdout_line(folder.display());
    if let Some(kept) = kept {
        render::print_note(&format!(
            "the previous files of the skill are now in {}",
            kept.display()
        ));
    }
    let is_loaded = draft
        .library_depends
        .iter()
        .all(|name| is_protected_plugin(name));
    let plugin = Some(&args.source).filter(|_| !is_loaded);
    render::derive::print_how_to_use_derived_skill(
        &draft,
        &folder,
        args.into.is_none(),
        plugin.map(PathBuf::as_path),
    );
    Ok(ExitStatus::from_success_flag(is_whole))
}

/// Adds a summary by the model, if requested. Returns `false` if the model failed; the skill is
/// still usable without a summary.
async fn add_model_written_summary(
    draft: &mut SkillDraft,
    args: &SkillDeriveArgs,
) -> anyhow::Result<bool> {
    if !args.summarize {
        return Ok(true);
    }
    let summarized =
        summary::summarize_bundle(&draft.render_bundle(), &args.model, &args.plugins).await?;
    render::derive::print_summary_cost(&summarized.turn);
    match summarized.summary {
        Ok(summary) => {
            draft.summary = Some(summary);
            Ok(true)
        }
        Err(why) => {
            render::derive::warn_skill_summary_missing(&why);
            Ok(false)
        }
    }
}

/// Whether the existing bundle is up to date: derived from this source, and with a summary if one
/// is requested. Fails if the bundle was edited or is not a derived skill.
fn is_derived_bundle_up_to_date(
    stamp: Option<&SkillBundleProvenance>,
    draft: &SkillDraft,
    folder: &Path,
    with_summary: bool,
) -> anyhow::Result<bool> {
    let shown = folder.display();
    match stamp {
        None => bail_usage!(
            "{shown} already exists and is not a derived skill: choose another folder with --into, or pass --force"
        ),
        Some(stamp) if !stamp.is_whole => bail_usage!(
            "{shown} was edited since it was derived: keep it under another name, or pass --force to replace it"
        ),
        Some(stamp) => Ok(stamp.source_hash == draft.source_hash
            && (!with_summary || stamp.summarized_by.is_some())),
    }
}

/// Returns the folder of a derived skill in the cache: `skills/PACKAGE/VERSION/NAME`.
fn derived_skill_cache_folder(draft: &SkillDraft) -> anyhow::Result<PathBuf> {
    let package = skill_slug(&draft.package).unwrap_or_else(|| draft.name.clone());
    let version = draft.version.as_deref().unwrap_or_default();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ".+-".contains(c);
    let is_name = version.starts_with(|c: char| c.is_ascii_alphanumeric())
        && version.len() <= 64
        && version.chars().all(is_plain);
    let version = if is_name { version } else { "unversioned" };
    let cache = environment::find_rind_paths(None)?.cache;
    Ok(cache
        .join(SKILLS_FOLDER_NAME)
        .join(package)
        .join(version)
        .join(&draft.name))
}

/// Asks whether to replace the bundle in `folder`; `false` if nobody can be asked.
async fn confirm_bundle_replacement(folder: &Path) -> bool {
    if !can_ask_at_terminal() {
        return false;
    }
    let question = TerminalQuestionLine::new("")
        .with_text("Replace ")
        .with_escaped_text(BOLD_STYLE, &folder.display().to_string())
        .with_text("?");
    let screen = QuestionScreenContent {
        parts: vec![vec![question]],
        covers: Vec::new(),
        keys: "[y]es [n]o".to_owned(),
        ..QuestionScreenContent::default()
    };
    let answer = screen.ask_non_approval_question(|line| match line.trim() {
        "y" | "yes" => Some(true),
        "n" | "no" => Some(false),
        _ => None,
    });
    answer.await.unwrap_or(false)
}
