//! `rind plugin test --watch`: runs the cases again whenever something that they depend on changes.

use std::path::PathBuf;

use super::super::check::find_plugin_folders;
use super::super::exit_code::ExitStatus;
use super::super::files::{
    FileTimesAndSizes, collect_files, insert_file_time_and_size, wait_for_stable_file_change,
};
use super::super::render;
use super::{PluginTestArgs, run_cases_once};
use rind_cases::needed::RequiredPlugins;
use rind_lib::plugin::manifest::{FILE_NAME, Manifest};

/// Maximum depth of the folders within `tests` that are watched for changes.
const MAX_WATCHED_FOLDER_DEPTH: usize = 4;

/// Runs the test cases after each change of their files, until Ctrl-C.
pub(super) async fn rerun_cases_on_changes(args: &PluginTestArgs) -> anyhow::Result<ExitStatus> {
    let interrupt = tokio::signal::ctrl_c();
    tokio::pin!(interrupt);
    loop {
        // Note the state of the files before the run, so that a change during the run triggers
        // another run.
        let before = find_files_to_watch(&find_plugin_folders(&args.folders)?);
        tokio::select! {
            biased;
            _ = &mut interrupt => return Ok(ExitStatus::Interrupted),
            ran = run_cases_once(args) => {
                // Report the error and continue to watch, because an editor may still be writing
                // the case file.
                if let Err(error) = ran {
                    render::print_error(&error);
                }
            }
        }
        render::print_note("waiting for changes; Ctrl-C ends this");
        let look = || {
            Some(find_files_to_watch(
                &find_plugin_folders(&args.folders).ok()?,
            ))
        };
        let changed = tokio::select! {
            biased;
            _ = &mut interrupt => return Ok(ExitStatus::Interrupted),
            changed = wait_for_stable_file_change(&before, look) => changed,
        };
        render::case::print_file_triggering_rerun(&changed);
    }
}

/// Finds the files on which the cases depend: manifests and components of the plugins and their
/// dependencies, and everything in `tests`.
fn find_files_to_watch(folders: &[PathBuf]) -> FileTimesAndSizes {
    let mut found = FileTimesAndSizes::new();
    let needed = folders
        .iter()
        .flat_map(|folder| RequiredPlugins::find_required_plugins(folder).found);
    let needed: Vec<PathBuf> = needed.map(|(_, folder)| folder).collect();
    for folder in folders.iter().chain(&needed) {
        let manifest = folder.join(FILE_NAME);
        let component = Manifest::read(folder, None).ok();
        let component = component.and_then(|manifest| manifest.component_path(folder));
        for path in component.into_iter().chain([manifest]) {
            insert_file_time_and_size(&mut found, path);
        }
    }
    for folder in folders {
        collect_files(
            &mut found,
            &folder.join("tests"),
            MAX_WATCHED_FOLDER_DEPTH,
            &|_| true,
        );
    }
    found
}
