//! Asks at the terminal about permissions of plugins, and implements `rind plugin grants`.

use std::path::Path;

use futures_util::future::BoxFuture;

use super::exit_code::ExitStatus;
use super::plugin::args::GrantsArgs;
use super::render;
use rind_lib::grant::answers::GrantAnswerStore;
use rind_lib::grant::ask::{GrantApprovalLifetime, GrantQuestion, PermissionAsker};
use rind_lib::grant::project::TrustedProjects;
use rind_lib::paths::{ADMIN_POLICY_FILE_PATH, RindPaths};

/// Asks the person at the terminal to decide on permissions of plugins.
pub(super) struct TerminalPermissionGrantAsker;

impl PermissionAsker for TerminalPermissionGrantAsker {
    fn ask<'a>(
        &'a self,
        question: &'a GrantQuestion,
    ) -> BoxFuture<'a, Option<GrantApprovalLifetime>> {
        Box::pin(async move { super::permission::ask_plugin_permissions(question).await })
    }
}

pub(super) fn run_grants_command(
    paths: &RindPaths,
    args: &GrantsArgs,
) -> anyhow::Result<ExitStatus> {
    let mut answers = GrantAnswerStore::read(&paths.grant_answers_path())?;
    let mut projects = TrustedProjects::read(&paths.trusted_projects_path())?;
    if let Some(plugin) = &args.revoke {
        let n_revoked = answers.revoke(plugin)?;
        render::print_note(&format!(
            "revoked {} that you gave about the permissions of {plugin}",
            render::format_count_with_noun(n_revoked as u64, "answer")
        ));
        return Ok(ExitStatus::from_success_flag(n_revoked > 0));
    }
    if let Some(project) = &args.distrust {
        // Use the path as typed if it no longer exists, so that trust in a deleted project can be
        // revoked.
        let path = project.canonicalize().unwrap_or_else(|_| project.clone());
        let had_hooks = TrustedProjects::read(&paths.project_hooks_path())?.revoke_trust(&path)?;
        let was_trusted = projects.revoke_trust(&path)? || had_hooks;
        let text = if was_trusted {
            "is no longer trusted"
        } else {
            "was not trusted"
        };
        render::print_note(&format!("{} {text}", path.display()));
        return Ok(ExitStatus::from_success_flag(was_trusted));
    }
    if args.json {
        let projects = projects.all();
        render::print_json(&serde_json::json!({ "grants": answers.all(), "projects": projects }))?;
    } else {
        render::grants::print_grant_answers(
            answers.all(),
            projects.all(),
            &[Path::new(ADMIN_POLICY_FILE_PATH), &paths.user_policy_path()],
        );
    }
    Ok(ExitStatus::Done)
}
