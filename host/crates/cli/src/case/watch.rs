//! `rind plugin test --watch`: runs the cases again whenever something that they depend on changes.

use std::path::PathBuf;

use super::super::check::plugin_folders;
use super::super::exit_code::ExitStatus;
use super::super::files::{Files, add_file, find_within, wait_for_change};
use super::super::render;
use super::{TestArgs, test_once};
use rind_cases::needed::NeededPlugins;
use rind_lib::plugin::manifest::{FILE_NAME, Manifest};

/// Maximum depth of watched folders within `tests`.
const MAX_DEPTH: usize = 4;

/// Runs the cases until Ctrl-C.
pub(super) async fn watch_cases(args: &TestArgs) -> anyhow::Result<ExitStatus> {
    let interrupt = tokio::signal::ctrl_c();
    tokio::pin!(interrupt);
    loop {
        // Take the snapshot before the run, so that a change during the run triggers another.
        let before = watched_files(&plugin_folders(&args.folders)?);
        tokio::select! {
            biased;
            _ = &mut interrupt => return Ok(ExitStatus::Interrupted),
            ran = test_once(args) => {
                // Report the error and keep watching: the case file may be half written.
                if let Err(error) = ran {
                    render::print_error(&error);
                }
            }
        }
        render::print_note("waiting for changes; Ctrl-C ends this");
        let look = || Some(watched_files(&plugin_folders(&args.folders).ok()?));
        let changed = tokio::select! {
            biased;
            _ = &mut interrupt => return Ok(ExitStatus::Interrupted),
            changed = wait_for_change(&before, look) => changed,
        };
        render::case::show_changed(&changed);
    }
}

/// Finds the files that cases depend on: manifests and components of the plugins and their
/// dependencies, and everything in `tests`.
fn watched_files(folders: &[PathBuf]) -> Files {
    let mut found = Files::new();
    let needed = folders
        .iter()
        .flat_map(|folder| NeededPlugins::needed_by(folder).found);
    let needed: Vec<PathBuf> = needed.map(|(_, folder)| folder).collect();
    for folder in folders.iter().chain(&needed) {
        let manifest = folder.join(FILE_NAME);
        let component = Manifest::read(folder, None).ok();
        let component = component.and_then(|manifest| manifest.component_path(folder));
        for path in component.into_iter().chain([manifest]) {
            add_file(&mut found, path);
        }
    }
    for folder in folders {
        find_within(&mut found, &folder.join("tests"), MAX_DEPTH, &|_| true);
    }
    found
}
