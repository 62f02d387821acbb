//! Decides on permissions of plugins: reads policy files and remembered answers, and asks the
//! operator.
//!
//! No function that a model or a plugin can call uses this module, so neither can grant
//! permissions.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;

use rind_lib::grant::answers::GrantAnswerStore;
use rind_lib::grant::ask::{GrantOptions, PermissionAsker};
use rind_lib::grant::decide::GrantFlagValue;
use rind_lib::grant::policy::CapabilityPolicy;
use rind_lib::paths::{ADMIN_POLICY_FILE_PATH, RindPaths};

/// Returns the options for granting permissions to plugins. `session` is the id of a resumed
/// session. Without `ask`, no question is asked.
///
/// # Errors
/// A policy or the remembered answers cannot be read.
pub fn build_permission_grant_options(
    paths: &RindPaths,
    flags: &[GrantFlagValue],
    session: Option<String>,
    ask: Option<Arc<dyn PermissionAsker>>,
) -> anyhow::Result<GrantOptions> {
    Ok(GrantOptions {
        policy: read_grant_policy(paths)?,
        answers: Some(GrantAnswerStore::read(&paths.grant_answers_path())?),
        session,
        flags: flags.to_vec(),
        ask,
        ..GrantOptions::default()
    })
}

/// Reads the policies of the administrator and the user about the permissions of plugins.
///
/// # Errors
/// One of them cannot be read.
pub fn read_grant_policy(paths: &RindPaths) -> anyhow::Result<CapabilityPolicy> {
    CapabilityPolicy::read_files(&[
        PathBuf::from(ADMIN_POLICY_FILE_PATH),
        paths.user_policy_path(),
    ])
    .context("cannot read the permissions of plugins")
}
