//! `rind plugin test --watch`: runs the cases again whenever something that they depend on changes.
//!
//! Files are looked at, and not the events of the file system: those are lost on shared and layered file systems, which are
//! those of containers, and there are a few dozen files at most.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::super::check::plugin_folders;
use super::super::exit_code::ExitStatus;
use super::super::render;
use super::{TestArgs, test_once};
use crate::plugin::manifest::{FILE_NAME, Manifest};

/// Time between two looks at the files.
const LOOK: Duration = Duration::from_millis(250);

/// Deepest folder within `tests` that is looked at.
const MAX_DEPTH: usize = 4;

/// Files with their times of change and sizes.
type Files = BTreeMap<PathBuf, (Option<SystemTime>, u64)>;

/// Runs the cases until Ctrl-C.
pub(super) async fn watch(args: &TestArgs) -> anyhow::Result<ExitStatus> {
    let interrupt = tokio::signal::ctrl_c();
    tokio::pin!(interrupt);
    loop {
        // Before the run: what changes while it runs is run again.
        let before = files(&plugin_folders(&args.folders)?);
        tokio::select! {
            biased;
            _ = &mut interrupt => return Ok(ExitStatus::Interrupted),
            ran = test_once(args) => {
                // A case that cannot be read is being written.
                if let Err(error) = ran {
                    render::error(&error);
                }
            }
        }
        render::note("waiting for changes; Ctrl-C ends this");
        let changed = tokio::select! {
            biased;
            _ = &mut interrupt => return Ok(ExitStatus::Interrupted),
            changed = change(args, before) => changed,
        };
        render::case::changed(&changed);
    }
}

/// Waits until the files differ from `before` and are at rest. Returns one that changed.
async fn change(args: &TestArgs, before: Files) -> PathBuf {
    let mut last = before.clone();
    loop {
        tokio::time::sleep(LOOK).await;
        // A folder that is gone may come back: a build may replace it.
        let Ok(folders) = plugin_folders(&args.folders) else {
            continue;
        };
        let now = files(&folders);
        let is_at_rest = now == last;
        if is_at_rest && let Some(path) = differing(&before, &now) {
            return path.to_owned();
        }
        last = now;
    }
}

fn differing<'a>(before: &'a Files, now: &'a Files) -> Option<&'a Path> {
    let is_other = |path: &&PathBuf| before.get(*path) != now.get(*path);
    let mut all = now.keys().chain(before.keys());
    all.find(is_other).map(PathBuf::as_path)
}

/// Finds the files that cases depend on: manifest, component, and everything in `tests`.
fn files(folders: &[PathBuf]) -> Files {
    let mut found = Files::new();
    for folder in folders {
        let manifest = folder.join(FILE_NAME);
        let component = Manifest::read(folder, None).ok();
        let component = component.and_then(|manifest| manifest.component_path(folder));
        for path in component.into_iter().chain([manifest]) {
            add(&mut found, path);
        }
        within(&mut found, &folder.join("tests"), MAX_DEPTH);
    }
    found
}

fn within(found: &mut Files, folder: &Path, depth: usize) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if !is_folder {
            add(found, entry.path());
        } else if depth > 0 {
            within(found, &entry.path(), depth - 1);
        }
    }
}

fn add(found: &mut Files, path: PathBuf) {
    if let Ok(metadata) = path.metadata() {
        found.insert(path, (metadata.modified().ok(), metadata.len()));
    }
}
