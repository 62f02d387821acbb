//! Reads the environment of the process and resolves the workspace, as one value for the operator's
//! rules.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use anyhow::Context;

use super::exit_code::Usage;
use super::{carried, render};
use rind_lib::paths::Paths;
use rind_operator::environment::OperatorEnvironment;
use rind_operator::project;
use rind_operator::settings::ModelSelection;
use rind_operator::setup::OperatorSetup;

/// Returns the environment of this process, which is read at the first call.
pub(super) fn operator_environment() -> Arc<OperatorEnvironment> {
    static ENVIRONMENT: OnceLock<Arc<OperatorEnvironment>> = OnceLock::new();
    let read = || OperatorEnvironment {
        variables: std::env::vars_os().collect(),
        home: std::env::home_dir(),
        program: std::env::current_exe().ok(),
        carried: Some(carried::carried_plugins()),
        on_warning: Arc::new(render::print_warning),
        ..OperatorEnvironment::default()
    };
    ENVIRONMENT.get_or_init(|| Arc::new(read())).clone()
}

/// Returns a variable of the environment that is set to text and not empty.
pub(super) fn variable(name: &str) -> Option<String> {
    operator_environment().variable(name)
}

/// Returns Rind's folders for this workspace, or for the current folder.
pub(super) fn find_paths(workspace: Option<&Path>) -> anyhow::Result<Paths> {
    let workspace: PathBuf = match workspace {
        Some(folder) => folder
            .canonicalize()
            .with_context(|| Usage(format!("open the workspace {}", folder.display())))?,
        None => std::env::current_dir().context("find the current folder")?,
    };
    operator_environment().paths(&workspace)
}

/// Reads the settings for a workspace, including those of its project if it is trusted. Asks no
/// questions.
pub(super) async fn project_setup(
    workspace: Option<&Path>,
    model: &ModelSelection,
    trust_project: bool,
) -> anyhow::Result<OperatorSetup> {
    let (environment, paths) = (operator_environment(), find_paths(workspace)?);
    let project = project::trusted(&environment, &paths, trust_project, None).await?;
    OperatorSetup::read(environment, paths, model, project)
}

/// Reads the user's own settings for the current folder, without those of a project.
pub(super) fn user_setup() -> anyhow::Result<OperatorSetup> {
    OperatorSetup::read(
        operator_environment(),
        find_paths(None)?,
        &ModelSelection::default(),
        None,
    )
}
