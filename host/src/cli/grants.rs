//! The operator's say about plugins: policy files, remembered answers, questions at the terminal, `rind plugin grants`.
//!
//! The only way to a grant besides the files: nothing that a model or a plugin can call leads here.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use futures_util::future::BoxFuture;

use super::args::{GrantsArgs, PluginArgs};
use super::exit_code::ExitStatus;
use super::render;
use crate::grant::answers::Answers;
use crate::grant::ask::{Ask, GrantOptions, Question, Yes};
use crate::grant::policy::Policy;
use crate::grant::project::Projects;
use crate::paths::{ADMIN_POLICY, Paths};

struct TerminalAsk;

impl Ask for TerminalAsk {
    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Option<Yes>> {
        Box::pin(async move { super::permission::ask_plugin(question).await })
    }
}

/// Returns the options for granting permissions to plugins. `session` is the id of a session that goes on.
pub(super) fn options(
    paths: &Paths,
    args: &PluginArgs,
    session: Option<String>,
    has_terminal: bool,
) -> anyhow::Result<GrantOptions> {
    Ok(GrantOptions {
        policy: policy(paths)?,
        answers: Some(Answers::read(&paths.grants())?),
        session,
        flags: args.grant.clone(),
        ask: has_terminal.then(|| Arc::new(TerminalAsk) as Arc<dyn Ask>),
    })
}

/// Reads the policies of the administrator and the user.
pub(super) fn policy(paths: &Paths) -> anyhow::Result<Policy> {
    Policy::read(&[PathBuf::from(ADMIN_POLICY), paths.user_policy()])
        .context("read what plugins are allowed")
}

pub(super) fn grants(paths: &Paths, args: &GrantsArgs) -> anyhow::Result<ExitStatus> {
    let mut answers = Answers::read(&paths.grants())?;
    let mut projects = Projects::read(&paths.projects())?;
    if let Some(plugin) = &args.revoke {
        let n_revoked = answers.revoke(plugin)?;
        render::note(&format!(
            "{} for {plugin} taken back",
            render::count(n_revoked as u64, "answer")
        ));
        return Ok(ExitStatus::of(n_revoked > 0));
    }
    if let Some(project) = &args.distrust {
        // A project that is gone can still be forgotten.
        let path = project.canonicalize().unwrap_or_else(|_| project.clone());
        let was_trusted = projects.forget(&path)?;
        let text = if was_trusted {
            "is not trusted any more"
        } else {
            "was not trusted"
        };
        render::note(&format!("{} {text}", path.display()));
        return Ok(ExitStatus::of(was_trusted));
    }
    if args.json {
        let projects = projects.all();
        render::json(&serde_json::json!({ "grants": answers.all(), "projects": projects }))?;
    } else {
        render::grants::list(
            answers.all(),
            projects.all(),
            &[Path::new(ADMIN_POLICY), &paths.user_policy()],
        );
    }
    Ok(ExitStatus::Done)
}
