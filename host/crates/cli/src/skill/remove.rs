//! `rind skill remove`: removes a skill from the user's folder of skills.

use anyhow::bail;
use clap::Args as ClapArgs;

use super::super::exit_code::{ExitStatus, bail_usage};
use super::super::question::{QuestionScreenContent, TerminalQuestionLine};
use super::super::render::{self, BOLD_STYLE, DIM_STYLE, WARNING_STYLE};
use super::super::terminal::can_ask_at_terminal;
use super::super::{completion, environment};
use super::preview;
use rind_package::skill::{InstalledSkillStore, SkillNameState};

#[derive(Debug, ClapArgs)]
pub(in super::super) struct SkillRemoveArgs {
    /// Name of a skill in your folder of skills
    #[arg(add = completion::skill_name_candidates())]
    name: String,
    /// Remove an installed skill that was changed since; it is moved to `.kept` in the folder of
    /// skills
    #[arg(long)]
    force: bool,
    /// Remove a skill that was not installed without asking; it is moved to `.kept`
    #[arg(long, short)]
    yes: bool,
}

pub(super) async fn run_remove(args: SkillRemoveArgs) -> anyhow::Result<ExitStatus> {
    let name = &args.name;
    let shown = name.escape_debug();
    if name.is_empty() || name.contains('/') || name.starts_with('.') {
        bail_usage!("`{shown}` is not a name of a skill; `rind skill list` lists all");
    }
    let mut store = InstalledSkillStore::open_and_lock_store(
        &environment::find_rind_paths(None)?.config,
        preview::print_skill_lock_wait_notice,
    )?;
    let name = &store.exact_installed_skill_name(name);
    let place = store.determine_skill_name_state(name);
    match &place {
        SkillNameState::Free => bail_usage!(
            "there is no skill `{shown}` in {}, and skills elsewhere are not removed by this command (`rind skill show {shown}` shows where it is)",
            store.skills.display()
        ),
        SkillNameState::Edited if !args.force => bail!(
            "{name} was changed since it was installed, in {}; copy your changes and add --force, which moves it to .kept beside \
             it",
            store.skills.join(name).display()
        ),
        SkillNameState::Own(path) if !args.yes => {
            let shown = path.display().to_string();
            if !can_ask_at_terminal() {
                bail!(
                    "{shown} was not installed, and there is no terminal to ask at; add --yes, which moves it to .kept beside it"
                );
            }
            let head = TerminalQuestionLine::new("")
                .with_styled_text(WARNING_STYLE.bold(), "? ")
                .with_text("remove ")
                .with_escaped_text(BOLD_STYLE, &shown)
                .with_text(", which was not installed");
            let screen =
                QuestionScreenContent {
                    parts: vec![vec![head]],
                    covers: vec![TerminalQuestionLine::new("  ").with_styled_text(
                        DIM_STYLE,
                        "it is moved to .kept in the folder of skills",
                    )],
                    keys: "[y]es or [n]o".to_owned(),
                    ..QuestionScreenContent::default()
                };
            if !preview::confirm_preview(&screen).await {
                bail!("{name} is not removed, because you did not confirm it");
            }
        }
        SkillNameState::Own(_)
        | SkillNameState::Edited
        | SkillNameState::Installed
        | SkillNameState::Gone => {}
    }
    let kept = store.remove_skill(name, &place)?;
    render::skill_install::show_removed_skill(name, kept.as_deref());
    Ok(ExitStatus::Done)
}
