//! `rind skill new`: writes the file of a new skill, which the user then edits.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args as ClapArgs;

use super::super::exit_code::{ExitStatus, Usage, bail_usage};
use super::super::{environment, render};
use super::{find_non_plugin_skills, skill_files_shadowed_by};
use rind_lib::skill::{
    FORMAT, SKILL_FILE_NAME, SKILLS_FOLDER_NAME, is_portable_skill_name, is_skipped_folder_name,
    normalize_skill_name, parse_text,
};
use rind_package::skill::skill_names_in_use;

#[derive(Debug, ClapArgs)]
pub(in super::super) struct SkillNewArgs {
    /// Name of the skill and its folder: a-z, 0-9 and `-`
    name: String,
    /// Make it in this folder, instead of the user's
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,
}

pub(super) async fn create_skill(args: &SkillNewArgs) -> anyhow::Result<ExitStatus> {
    let name = &args.name;
    if !is_portable_skill_name(name) {
        bail_usage!(
            "`{}` cannot be the name of a skill: use a-z, 0-9 and single `-`",
            name.escape_debug()
        );
    }
    if super::command::reserved_skill_names().contains(&name.as_str()) {
        bail_usage!("`{name}` is a command of rind; choose another name");
    }
    if is_skipped_folder_name(name) {
        bail_usage!("sessions ignore a folder named `{name}`; choose another name");
    }
    let skills = match &args.into {
        Some(folder) => folder.clone(),
        None => environment::find_rind_paths(None)?
            .config
            .join(SKILLS_FOLDER_NAME),
    };
    let folder = skills.join(name);
    if folder.symlink_metadata().is_ok() {
        bail_usage!("{} already exists; choose another name", folder.display());
    }
    let mut taken = skill_names_in_use(&skills).into_iter();
    if let Some((_, other)) = taken.find(|(taken, _)| *taken == normalize_skill_name(name)) {
        bail_usage!(
            "the skill {} already has this name; choose another name",
            other.display()
        );
    }
    if args.into.is_none() {
        for file in skill_files_shadowed_by(&find_non_plugin_skills().await, name) {
            let file = file.display();
            render::print_warning(&format!(
                "the new skill is used instead of {file}, which has the same name"
            ));
        }
    }
    let text = format!(
        "---\nskill_format: {FORMAT}\nname: {name}\ndescription: Say what the skill does and when to use it, in one or two \
         sentences.\nmodel_invocation: auto\n# The only tools that may be called while the skill is active; without this key \
         all may.\n# tools:\n#   allow: [read_file, search]\n---\n\nSay step by step what to do. Files beside this one are \
         named by their path from here:\n`{{baseDir}}` stands for this folder.\n"
    );
    debug_assert!(parse_text(name, &text).is_ok());
    fs::create_dir_all(&folder)
        .and_then(|()| fs::write(folder.join(SKILL_FILE_NAME), text))
        .with_context(|| Usage(format!("cannot write {}", folder.display())))?;
    render::print_stdout_line(folder.join(SKILL_FILE_NAME).display());
    render::print_note(&format!(
        "write the description first; then `rind skill check {}`",
        folder.display()
    ));
    Ok(ExitStatus::Done)
}
