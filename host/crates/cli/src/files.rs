//! Polls files of plugins for changes: source files here, files of test cases in `case::watch`.
//!
//! Files are polled because file system events are lost on shared and layered file systems, such as
//! those of containers, and there are a few dozen files at most.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rind_lib::plugin::manifest::Manifest;

/// Interval between two checks whether watched files have changed.
pub(super) const FILE_CHANGE_POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Maximum depth of the folders that are scanned for changed files.
const MAX_SCANNED_FOLDER_DEPTH: usize = 8;

/// Maximum number of files that are scanned for changes.
const MAX_SCANNED_FILES: usize = 10_000;

/// Folders that are not watched, because builds and tools write their files.
const BUILD_OUTPUT_FOLDER_NAMES: &[&str] =
    &["target", "node_modules", "__pycache__", "dist", "build"];

/// Files with their modification times and their sizes in bytes.
pub(super) type FileTimesAndSizes = BTreeMap<PathBuf, (Option<SystemTime>, u64)>;

/// Finds the source files of a plugin: all except its component, build outputs and hidden files.
pub(super) fn find_source_files(dir: &Path) -> FileTimesAndSizes {
    let component = Manifest::read(dir, None).ok();
    let component = component.and_then(|manifest| manifest.component_path(dir));
    let mut found = FileTimesAndSizes::new();
    let is_source =
        |name: &str| !name.starts_with('.') && !BUILD_OUTPUT_FOLDER_NAMES.contains(&name);
    collect_files(&mut found, dir, MAX_SCANNED_FOLDER_DEPTH, &is_source);
    found.retain(|path, _| component.as_ref() != Some(path) && !is_cargo_lock_file(path));
    found
}

/// Whether the file is `Cargo.lock`, which a build writes into the source folder.
fn is_cargo_lock_file(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == "Cargo.lock")
}

/// Waits until the files differ from `before` and did not change between two checks. Returns one of
/// the changed files.
pub(super) async fn wait_for_stable_file_change(
    before: &FileTimesAndSizes,
    look: impl Fn() -> Option<FileTimesAndSizes>,
) -> PathBuf {
    let mut last = before.clone();
    loop {
        tokio::time::sleep(FILE_CHANGE_POLL_INTERVAL).await;
        // A build may be replacing the folder, so wait until it exists again.
        let Some(now) = look() else {
            continue;
        };
        let is_at_rest = now == last;
        if is_at_rest && let Some(path) = find_differing_file(before, &now) {
            return path.to_owned();
        }
        last = now;
    }
}

/// Returns a file that differs between `before` and `now`, if any.
pub(super) fn find_differing_file<'a>(
    before: &'a FileTimesAndSizes,
    now: &'a FileTimesAndSizes,
) -> Option<&'a Path> {
    let is_other = |path: &&PathBuf| before.get(*path) != now.get(*path);
    let mut all = now.keys().chain(before.keys());
    all.find(is_other).map(PathBuf::as_path)
}

/// Adds the files of a folder and its subfolders. `is_seen` decides by name which files and folders
/// are included; `depth` is the number of levels of subfolders.
pub(super) fn collect_files(
    found: &mut FileTimesAndSizes,
    folder: &Path,
    depth: usize,
    is_seen: &dyn Fn(&str) -> bool,
) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if found.len() >= MAX_SCANNED_FILES || !is_seen(&entry.file_name().to_string_lossy()) {
            continue;
        }
        if !is_folder {
            insert_file_time_and_size(found, entry.path());
        } else if depth > 0 {
            collect_files(found, &entry.path(), depth - 1, is_seen);
        }
    }
}

pub(super) fn insert_file_time_and_size(found: &mut FileTimesAndSizes, path: PathBuf) {
    if let Ok(metadata) = path.metadata() {
        found.insert(path, (metadata.modified().ok(), metadata.len()));
    }
}
