//! Snapshots of a workspace: the state of every file that git does not ignore, within limits.
//!
//! A file with the same attributes as in the last snapshot is not read again. Owns the limits and
//! the rules for skipped files. Start from [`WorkspaceSnapshotScan`].

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cap_std::fs::Dir;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::config::CheckpointConfig;
use super::contents::FileContentStore;
use super::record::{FileChange, LeftOutFiles};
use super::state::{self, ContentNotStoredReason, FileStamp, FileState};
use crate::tool::walk::{MAX_WALK_DEPTH, WalkEndReason, WalkEntryKind, walk_workspace};
use crate::tool::workspace::Workspace;

/// Time within which two changes of a file may have the same timestamp, in nanoseconds: the clock
/// of a file system ticks every few milliseconds. A file that was changed more recently than this
/// is read again in the next snapshot.
const FILE_TIMESTAMP_UNCERTAINTY_NS: i64 = 50_000_000;

/// Prefix and suffix of temporary files of this program, which snapshots skip.
const TEMPORARY_FILE_PREFIX_AND_SUFFIX: (&str, &str) = (".rind-", ".tmp");

/// State of one path in a snapshot, with the attributes that reveal a later change of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct SnapshotEntry {
    state: FileState,
    /// Attributes of the file when it was read; `None` if it had changed so recently that a further
    /// change may leave them equal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stamp: Option<FileStamp>,
}

/// States of all paths of a workspace at one time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Snapshot {
    entries: BTreeMap<String, SnapshotEntry>,
}

impl Snapshot {
    /// Returns the state of a path; `Absent` if the snapshot does not contain it.
    fn path_state(&self, path: &str) -> FileState {
        let entry = self.entries.get(path);
        entry.map_or(FileState::Absent, |entry| entry.state.clone())
    }

    /// Returns the number of files whose contents were not stored, for each reason.
    pub(super) fn left_out_files(&self) -> Vec<LeftOutFiles> {
        let mut counts: BTreeMap<ContentNotStoredReason, usize> = BTreeMap::new();
        for entry in self.entries.values() {
            if let FileState::Unkept { why, .. } = entry.state {
                *counts.entry(why).or_default() += 1;
            }
        }
        let left_out = |(why, count)| LeftOutFiles { why, count };
        counts.into_iter().map(left_out).collect()
    }

    /// Returns the changes between this snapshot and a later one. `known` has the states that file
    /// tools wrote after this snapshot; they replace the states in this snapshot, because the
    /// writes of the tools are already recorded.
    pub(super) fn diff_to_later_snapshot(
        &self,
        later: &Self,
        known: &BTreeMap<String, FileState>,
    ) -> Vec<FileChange> {
        let mut paths: Vec<&String> = self.entries.keys().chain(later.entries.keys()).collect();
        paths.sort_unstable();
        paths.dedup();
        let change = |path: &String| {
            let before = known.get(path).cloned();
            let before = before.unwrap_or_else(|| self.path_state(path));
            let after = later.path_state(path);
            (!before.is_same_state(&after)).then(|| FileChange {
                path: path.clone(),
                before,
                after,
            })
        };
        paths.into_iter().filter_map(change).collect()
    }
}

/// Reason why no snapshot of the workspace could be made.
pub(super) type SnapshotFailureReason = String;

/// Scan of a workspace, which makes a snapshot of its files.
pub(super) struct WorkspaceSnapshotScan<'a> {
    pub(super) workspace: &'a Workspace,
    /// Folders that the snapshot skips because they belong to this program.
    pub(super) skipped: &'a [PathBuf],
    pub(super) config: &'a CheckpointConfig,
    /// Last snapshot. Files that are unchanged since are not read again.
    pub(super) last: &'a Snapshot,
    pub(super) contents: &'a mut FileContentStore,
}

impl WorkspaceSnapshotScan<'_> {
    /// Takes a snapshot, and adds the contents of files to the store.
    ///
    /// # Errors
    /// The workspace is too large, the scan takes too long, or the workspace cannot be read.
    pub(super) fn take_snapshot(mut self) -> Result<Snapshot, SnapshotFailureReason> {
        let started = Instant::now();
        let workspace = self.workspace;
        let most = Duration::from_secs(self.config.max_seconds);
        let mut taken = Snapshot::default();
        let (mut n_bytes, mut failure) = (0_u64, None);
        let mut visit = |folder: &Dir, path: &Path, kind: WalkEntryKind| {
            if taken.entries.len() >= self.config.max_files {
                failure = Some(format!(
                    "the workspace has more than {} files (`agent.checkpoint.max_files`)",
                    self.config.max_files
                ));
            } else if started.elapsed() > most {
                failure = Some(format!(
                    "the scan of the workspace took longer than {} s (`agent.checkpoint.max_seconds`)",
                    most.as_secs()
                ));
            }
            if failure.is_some() {
                return ControlFlow::Break(());
            }
            self.add_path_entry(&mut taken, &mut n_bytes, folder, path, kind);
            ControlFlow::Continue(())
        };
        let never = CancellationToken::new();
        let walked = walk_workspace(workspace, "", MAX_WALK_DEPTH, &never, &mut visit);
        match (failure, walked) {
            (Some(why), _) => Err(why),
            (None, Ok(WalkEndReason::Complete)) => Ok(taken),
            (None, Ok(WalkEndReason::TooMany)) => {
                Err("the workspace has too many files".to_owned())
            }
            (None, Err(error)) => Err(error.to_string()),
        }
    }

    fn add_path_entry(
        &mut self,
        taken: &mut Snapshot,
        n_bytes: &mut u64,
        folder: &Dir,
        path: &Path,
        kind: WalkEntryKind,
    ) {
        // Skip names that are not UTF-8, because records cannot represent them.
        let Some(path) = path.to_str() else {
            return;
        };
        let name = path.rsplit('/').next().unwrap_or(path);
        let is_temporary = name.starts_with(TEMPORARY_FILE_PREFIX_AND_SUFFIX.0)
            && name.ends_with(TEMPORARY_FILE_PREFIX_AND_SUFFIX.1);
        let full = self.workspace.root().join(path);
        if kind == WalkEntryKind::Other
            || is_temporary
            || self.skipped.iter().any(|own| full.starts_with(own))
        {
            return;
        }
        let Ok(metadata) = folder.symlink_metadata(name) else {
            return;
        };
        if !metadata.is_file() {
            let state = state::non_file_entry_state(folder, name, &metadata);
            if state != FileState::Other {
                let entry = SnapshotEntry { state, stamp: None };
                taken.entries.insert(path.to_owned(), entry);
            }
            return;
        }
        let stamp = FileStamp::from_file_metadata(&metadata);
        let last = self.last.entries.get(path);
        let unchanged = last.filter(|last| last.stamp == Some(stamp));
        let unchanged = unchanged.filter(|last| match &last.state {
            FileState::File { digest, .. } => self.contents.contains(digest),
            FileState::Unkept { why, .. } => *why == ContentNotStoredReason::Limit,
            _ => false,
        });
        if let Some(entry) = unchanged {
            if matches!(entry.state, FileState::File { .. }) {
                *n_bytes = n_bytes.saturating_add(metadata.len());
            }
            taken.entries.insert(path.to_owned(), entry.clone());
            return;
        }
        let now_ns = crate::clock::now_ms().saturating_mul(1_000_000);
        let is_settled = stamp
            .last_change_ns()
            .saturating_add(FILE_TIMESTAMP_UNCERTAINTY_NS)
            < now_ns;
        let read = state::read_file_state(folder, name, &metadata, self.config.max_file_bytes);
        let unkept = |why| FileState::Unkept {
            bytes: metadata.len(),
            stamp,
            why,
        };
        let state = match (&read.state, &read.content) {
            (FileState::File { digest, bytes, .. }, Some(content)) => {
                let total = n_bytes.saturating_add(*bytes);
                let stored = match total <= self.config.max_total_bytes {
                    true => self.contents.store_content(digest, content),
                    false => Err(ContentNotStoredReason::Limit),
                };
                match stored {
                    Ok(()) => {
                        *n_bytes = total;
                        read.state
                    }
                    Err(why) => unkept(why),
                }
            }
            _ => read.state,
        };
        let stamp = is_settled.then_some(stamp);
        let entry = SnapshotEntry { state, stamp };
        taken.entries.insert(path.to_owned(), entry);
    }
}
