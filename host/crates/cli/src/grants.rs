//! Asks at the terminal about permissions of plugins, and implements `rind plugin grants`.

use std::path::Path;

use futures_util::future::BoxFuture;

use super::args::GrantsArgs;
use super::exit_code::ExitStatus;
use super::render;
use rind_lib::grant::answers::Answers;
use rind_lib::grant::ask::{Ask, Question, Yes};
use rind_lib::grant::project::Projects;
use rind_lib::paths::{ADMIN_POLICY, Paths};

/// Asks the person at the terminal to decide on permissions of plugins.
pub(super) struct TerminalGrantAsker;

impl Ask for TerminalGrantAsker {
    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Option<Yes>> {
        Box::pin(async move { super::permission::ask_plugin(question).await })
    }
}

pub(super) fn run_grants(paths: &Paths, args: &GrantsArgs) -> anyhow::Result<ExitStatus> {
    let mut answers = Answers::read(&paths.grants())?;
    let mut projects = Projects::read(&paths.projects())?;
    if let Some(plugin) = &args.revoke {
        let n_revoked = answers.revoke(plugin)?;
        render::print_note(&format!(
            "{} about the permissions of {plugin} revoked",
            render::format_count(n_revoked as u64, "answer")
        ));
        return Ok(ExitStatus::from_success(n_revoked > 0));
    }
    if let Some(project) = &args.distrust {
        // Use the path as typed if it no longer exists, so that trust in a deleted project can be
        // revoked.
        let path = project.canonicalize().unwrap_or_else(|_| project.clone());
        let had_hooks = Projects::read(&paths.project_hooks())?.forget(&path)?;
        let was_trusted = projects.forget(&path)? || had_hooks;
        let text = if was_trusted {
            "is no longer trusted"
        } else {
            "was not trusted"
        };
        render::print_note(&format!("{} {text}", path.display()));
        return Ok(ExitStatus::from_success(was_trusted));
    }
    if args.json {
        let projects = projects.all();
        render::print_json(&serde_json::json!({ "grants": answers.all(), "projects": projects }))?;
    } else {
        render::grants::print_grant_answers(
            answers.all(),
            projects.all(),
            &[Path::new(ADMIN_POLICY), &paths.user_policy()],
        );
    }
    Ok(ExitStatus::Done)
}
