//! Reads the environment of the process and Rind's settings, and resolves the workspace.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use anyhow::Context;

use super::exit_code::Usage;
use super::{carried, render};
use rind_lib::disk::{TemporaryFolder, create_private_folder};
use rind_lib::paths::{HOME_VARIABLE, RindPaths};
use rind_operator::environment::OperatorEnvironment;
use rind_operator::settings::ModelSelection;
use rind_operator::setup::OperatorWorkspaceSetup;

/// Returns the environment of this process, which is read at the first call.
pub(super) fn process_environment() -> Arc<OperatorEnvironment> {
    static OPERATOR_ENVIRONMENT: OnceLock<Arc<OperatorEnvironment>> = OnceLock::new();
    let read = || OperatorEnvironment {
        variables: std::env::vars_os().collect(),
        home: std::env::home_dir(),
        program: std::env::current_exe().ok(),
        carried: Some(carried::embedded_plugins()),
        on_warning: Arc::new(render::print_warning),
        ..OperatorEnvironment::default()
    };
    OPERATOR_ENVIRONMENT
        .get_or_init(|| Arc::new(read()))
        .clone()
}

/// Returns an environment variable if it is set to text that is not empty.
pub(super) fn environment_variable(name: &str) -> Option<String> {
    process_environment().variable(name)
}

/// Returns the paths of Rind's folders for this workspace; by default the workspace is the current
/// folder.
pub(super) fn find_rind_paths(workspace: Option<&Path>) -> anyhow::Result<RindPaths> {
    let workspace: PathBuf = match workspace {
        Some(folder) => folder
            .canonicalize()
            .with_context(|| Usage(format!("cannot open the workspace {}", folder.display())))?,
        None => std::env::current_dir().context("cannot find the current folder")?,
    };
    process_environment().paths_for_workspace(&workspace)
}

/// Returns advice for a command that failed, if the cause is an I/O error and one of Rind's own
/// folders is not writable.
pub(super) fn unwritable_home_advice(error: &anyhow::Error) -> Option<String> {
    let is_of_system = |cause: &(dyn std::error::Error + 'static)| cause.is::<std::io::Error>();
    if !error.chain().any(is_of_system) {
        return None;
    }
    let paths = find_rind_paths(None).ok()?;
    paths.config_data_cache_folders().into_iter().find_map(|folder| {
        let error = create_private_folder(&folder)
            .and_then(|()| TemporaryFolder::new_in("probe-", &folder).map(drop))
            .err()?;
        let folder = folder.display();
        Some(format!(
            "Rind keeps its files in {folder}, which cannot be written ({error}): set {HOME_VARIABLE} to a writable folder"
        ))
    })
}

/// Reads the settings for a workspace, with those of its project if the project is trusted. Asks no
/// questions.
pub(super) async fn read_operator_workspace_setup(
    workspace: Option<&Path>,
    model: &ModelSelection,
    trust_project: bool,
) -> anyhow::Result<OperatorWorkspaceSetup> {
    let (environment, paths) = (process_environment(), find_rind_paths(workspace)?);
    OperatorWorkspaceSetup::with_project(environment, paths, model, trust_project, None).await
}

/// Reads the user's own settings for the current folder, without those of a project.
pub(super) fn read_settings_without_project() -> anyhow::Result<OperatorWorkspaceSetup> {
    OperatorWorkspaceSetup::read(
        process_environment(),
        find_rind_paths(None)?,
        &ModelSelection::default(),
        None,
    )
}
