//! `rind skill migrate`: writes a skill as `corteza.skill/v1`, or in the open format, and shows the
//! changes.

use std::borrow::Cow;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, ensure};
use clap::{Args as ClapArgs, ValueEnum};

use super::super::environment::read_settings_without_project;
use super::super::exit_code::{ExitStatus, bail_usage};
use super::super::render;
use super::discover_skills_at_path;
use rind_lib::grant::Trust;
use rind_lib::skill::{
    FORMAT, SKILL_FILE_NAME, SKILL_JSON_FILE_NAME, SKILLS_FOLDER_NAME, SkillFile, Source,
    read_skill_content, to_agent_skills_format, to_v1_format,
};
use rind_operator::skills::list_installed_skills;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum SkillMigrateFormat {
    /// `corteza.skill/v1`
    V1,
    /// The open Agent Skills format, with keys of Claude Code
    Open,
}

#[derive(Debug, ClapArgs)]
pub(in super::super) struct SkillMigrateArgs {
    /// Folder of a skill, or its file
    path: PathBuf,
    /// Format to write
    #[arg(long, value_enum, default_value_t = SkillMigrateFormat::V1, hide_default_value = true)]
    to: SkillMigrateFormat,
    /// Replace the file; without this, what would change is printed
    #[arg(long, conflicts_with = "out")]
    write: bool,
    /// Write to this file instead of the skill's own
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Replace the file even where restrictions are lost, or the skill was installed
    #[arg(long, requires = "write")]
    force: bool,
}

pub(super) fn run_migrate(args: &SkillMigrateArgs) -> anyhow::Result<ExitStatus> {
    let path = &args.path;
    let shown = path.display();
    let skills = discover_skills_at_path(path);
    let good = skills
        .iter()
        .map(|skill| (&skill.id, &skill.file, skill.is_flat));
    let bad = skills.unusable_skills().iter();
    let mut all = good.chain(bad.map(|one| (&one.id, &one.file, !has_skill_file_name(&one.file))));
    let (Some((folder, file, is_flat)), None) = (all.next(), all.next()) else {
        match skills.iter().len() + skills.unusable_skills().len() {
            0 => bail_usage!("there is no skill in {shown}"),
            n => bail_usage!("{shown} has {n} skills; name the folder or file of one"),
        }
    };
    let original = read_and_check_skill_file(file, true)?;
    let original = original.with_context(|| format!("there is no file {}", file.display()))?;
    let side_path = file.with_file_name(SKILL_JSON_FILE_NAME);
    let side = match is_flat {
        true => None,
        // Never follow a symlink to a side file, since its target is not part of the skill.
        false => read_and_check_skill_file(&side_path, false)?,
    };
    let dir = file.parent().unwrap_or(Path::new("."));
    let skill = SkillFile {
        folder,
        dir,
        real_dir: dir,
        held: None,
        file,
        is_flat,
        source: &Source::User,
        trust: Trust::User,
        bytes: &original,
        side: side.as_deref(),
    };
    let about = || format!("{} is not migrated", file.display());
    let (text, lost) = match args.to {
        SkillMigrateFormat::V1 => (to_v1_format(&skill).with_context(about)?, Vec::new()),
        SkillMigrateFormat::Open => to_agent_skills_format(&skill).with_context(about)?,
    };
    let before = String::from_utf8_lossy(&original);
    let is_same = before == text && side.is_none();
    render::migrate::print_keys_lost_in_migration(&lost);
    if let Some(out) = &args.out {
        write_new_file(out, text.as_bytes())
            .with_context(|| format!("cannot write {}", out.display()))?;
        render::migrate::print_migrated_file(out);
        return Ok(ExitStatus::Done);
    }
    if is_same {
        let format = match args.to {
            SkillMigrateFormat::V1 => FORMAT,
            SkillMigrateFormat::Open => "the open format",
        };
        render::print_note(&format!("{} is {format} already", file.display()));
        return Ok(ExitStatus::Done);
    }
    render::migrate::print_file_diff(file, &before, &text);
    if let Some(side) = &side {
        render::migrate::print_file_diff(&side_path, &String::from_utf8_lossy(side), "");
    }
    if !args.write {
        render::print_note(
            "nothing is written; --write replaces the file, --out FILE writes another one",
        );
        return Ok(ExitStatus::Done);
    }
    let restrictions: Vec<&str> = lost
        .iter()
        .filter(|lost| lost.is_restriction)
        .map(|lost| lost.key)
        .collect();
    ensure!(
        args.force || restrictions.is_empty(),
        "{} is not replaced: without `{}` the skill may do more; write another file with --out FILE, or add --force",
        file.display(),
        restrictions.join("`, `")
    );
    ensure!(
        args.force || is_flat || !is_installed_skill_file(file)?,
        "{} is not replaced, because it was installed and would then count as modified; copy its folder, write to another file with --out FILE, or pass --force",
        file.display()
    );
    replace_original_skill(file, &original, text.as_bytes())?;
    if let Some(side) = &side {
        // The written file now contains the data of the side file, so remove the side file, unless
        // it was changed meanwhile.
        ensure!(
            read_and_check_skill_file(&side_path, false)?.as_ref() == Some(side),
            "{} was changed meanwhile, so it was not replaced; run the command again",
            side_path.display()
        );
        fs::remove_file(&side_path)
            .with_context(|| format!("cannot remove {}", side_path.display()))?;
    }
    render::migrate::print_migrated_file(file);
    Ok(ExitStatus::Done)
}

/// Reads a skill's file with the checks that a session applies. If `follows` is true, the file may
/// be a symlink.
fn read_and_check_skill_file(file: &Path, follows: bool) -> anyhow::Result<Option<Vec<u8>>> {
    let read =
        read_skill_content(file, follows, None).map_err(|why| anyhow!("{}: {why}", file.display()));
    Ok(read?.map(Cow::into_owned))
}

fn is_installed_skill_file(file: &Path) -> anyhow::Result<bool> {
    let setup = read_settings_without_project()?;
    let real = |path: &Path| path.canonicalize().ok();
    let own = file.parent().and_then(real);
    let all = list_installed_skills(&setup, &setup.paths.config.join(SKILLS_FOLDER_NAME));
    Ok(own.is_some() && all.iter().any(|one| real(&one.folder) == own))
}

fn has_skill_file_name(file: &Path) -> bool {
    file.file_name()
        .is_some_and(|name| name.eq_ignore_ascii_case(SKILL_FILE_NAME))
}

/// Replaces a file atomically and keeps its permissions. Fails if the file has changed since it was
/// read.
fn replace_original_skill(file: &Path, original: &[u8], new: &[u8]) -> anyhow::Result<()> {
    // Replace the target of a symlink, so that the symlink itself stays.
    let real = file
        .canonicalize()
        .with_context(|| format!("cannot find {}", file.display()))?;
    let write = || {
        let folder = real.parent().unwrap_or(Path::new("."));
        let mut temporary = tempfile::Builder::new()
            .prefix(".migrate-")
            .tempfile_in(folder)?;
        temporary
            .as_file()
            .set_permissions(fs::metadata(&real)?.permissions())?;
        temporary.write_all(new)?;
        temporary.as_file().sync_all()?;
        if fs::read(&real)? != original {
            return Err(std::io::Error::other("it was changed meanwhile"));
        }
        temporary
            .persist(&real)
            .map(drop)
            .map_err(|error| error.error)
    };
    write().with_context(|| format!("cannot replace {}", real.display()))
}

fn write_new_file(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(path)?;
    file.write_all(bytes)
}
