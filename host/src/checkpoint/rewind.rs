//! Rewinds files: makes the plan for a turn, and applies it.
//!
//! Start from [`SessionCheckpoints::plan_rewind`].

use std::io;

use super::Error;
use super::keeper::SessionCheckpoints;
use super::plan::{PathRestorability, UncertainRestoreReason, build_path_histories};
use super::record::{
    ChangeRecord, ChangeRecordOutcome, ChangeRecordStartData, ChangeSource, FileChange,
};
use super::restore::MAX_COMPARED_FILE_BYTES;
use super::state::{FileState, read_path_state};
use super::store::OpenedCheckpointStore;

/// Change of one path that a rewind would make or has made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedRewindChange {
    /// Path of the file, link or folder, relative to the workspace.
    pub path: String,
    /// Current state of the path, before the rewind.
    pub present: FileState,
    /// State of the path before the turns to undo, which the rewind restores.
    pub target: FileState,
    /// Reason why the rewind makes this change only if the user explicitly requests it; `None` if
    /// no such request is needed.
    pub changed: Option<UncertainRestoreReason>,
}

/// Change of a path that a rewind cannot undo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnrestorableFileChange {
    /// Path, or a description of the call whose changes are unknown.
    pub subject: String,
    /// Reason why the change cannot be undone.
    pub why: String,
}

/// Plan of a rewind: the changes of files that it undoes and those that it cannot undo.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileRewindPlan {
    /// Number of the first turn whose file changes are undone.
    pub turn: u32,
    /// Changes that the rewind makes, sorted by path.
    pub changes: Vec<PlannedRewindChange>,
    /// Changes that the rewind cannot undo.
    pub lost: Vec<UnrestorableFileChange>,
    /// Whether commands ran in these turns; they may have changed files that snapshots do not
    /// cover.
    pub has_commands: bool,
}

impl FileRewindPlan {
    /// Whether there is nothing to restore, and nothing that cannot be restored.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.lost.is_empty()
    }

    /// Returns the number of file changes that the rewind makes only on explicit request.
    #[must_use]
    pub fn n_changes_needing_explicit_request(&self) -> usize {
        let is_changed = |change: &&PlannedRewindChange| change.changed.is_some();
        self.changes.iter().filter(is_changed).count()
    }
}

/// Result of a rewind: the paths that were restored and those that were not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileRewindResult {
    /// Changes that the rewind made.
    pub restored: Vec<PlannedRewindChange>,
    /// Paths that were not restored, each with the reason.
    pub kept: Vec<(String, String)>,
}

impl SessionCheckpoints {
    /// Plans how to restore files to their state before a turn. Blocks.
    ///
    /// # Errors
    /// The records or the workspace cannot be read, or a call is running.
    pub fn plan_rewind(&self, turn: u32) -> Result<FileRewindPlan, Error> {
        if self.has_no_checkpoints() {
            return Ok(FileRewindPlan {
                turn,
                ..FileRewindPlan::default()
            });
        }
        let planned = self.with_opened_store(|store| store.plan_rewind(turn));
        let planned = planned.ok_or_else(|| Error::Unavailable(self.folder().to_owned()))?;
        planned.map_err(|source| Error::Io {
            path: self.folder().to_owned(),
            source,
        })
    }

    /// Returns the present content of the file and the content that the rewind restores. An element
    /// is `None` if its state is not a readable file or its content is not stored. Blocks.
    pub fn current_and_restored_contents(
        &self,
        change: &PlannedRewindChange,
    ) -> [Option<Vec<u8>>; 2] {
        let read = |store: &mut OpenedCheckpointStore| {
            let present = read_path_state(&store.root, &change.path, MAX_COMPARED_FILE_BYTES);
            let present = present.ok().and_then(|read| read.content);
            let target = change.target.content_digest();
            [
                present,
                target.and_then(|digest| store.contents.get(digest)),
            ]
        };
        self.with_opened_store(read).unwrap_or_default()
    }

    /// Applies a plan. Changes that need an explicit request are made only if `overwrites` is true.
    /// `last_turn` is the number of the session's last turn. Blocks.
    ///
    /// # Errors
    /// The record of the rewind cannot be written, or a call is running. If the error occurs before
    /// the record is begun, no file was changed.
    pub fn apply_rewind(
        &self,
        plan: &FileRewindPlan,
        overwrites: bool,
        last_turn: u32,
    ) -> Result<FileRewindResult, Error> {
        if plan.changes.is_empty() {
            return Ok(FileRewindResult::default());
        }
        let applied =
            self.with_opened_store(|store| store.apply_rewind(plan, overwrites, last_turn));
        let applied = applied.ok_or_else(|| Error::Unavailable(self.folder().to_owned()))?;
        applied.map_err(|source| Error::Io {
            path: self.folder().to_owned(),
            source,
        })
    }
}

impl OpenedCheckpointStore {
    fn plan_rewind(&mut self, turn: u32) -> io::Result<FileRewindPlan> {
        let mut plan = FileRewindPlan {
            turn,
            ..FileRewindPlan::default()
        };
        let is_wanted = |record: &ChangeRecord| record.turn >= turn;
        for record in self.log.records.iter().filter(|own| is_wanted(own)) {
            plan.has_commands |= record.source == ChangeSource::Snapshot;
            if let Some(why) = &record.unknown {
                plan.lost.push(UnrestorableFileChange {
                    subject: format!("{} in turn {}", record.tool, record.turn),
                    why: why.clone(),
                });
            }
        }
        for (path, history) in build_path_histories(&self.log.records, is_wanted) {
            let mut present = match read_path_state(&self.root, path, MAX_COMPARED_FILE_BYTES) {
                Ok(read) => read.state,
                Err(error) => {
                    plan.lost.push(UnrestorableFileChange {
                        subject: path.to_owned(),
                        why: format!("its folder cannot be opened: {error}"),
                    });
                    continue;
                }
            };
            let mut judgment = history.check_restorability(&present);
            if judgment == PathRestorability::Changed(UncertainRestoreReason::Now) {
                // If the content of a file was not stored, only the attributes of the file can be
                // compared.
                let unread = read_path_state(&self.root, path, 0)?.state;
                let by_stamp = history.check_restorability(&unread);
                if by_stamp != judgment {
                    (present, judgment) = (unread, by_stamp);
                }
            }
            let changed = match judgment {
                PathRestorability::Same => continue,
                PathRestorability::Safe => None,
                PathRestorability::Changed(since) => Some(since),
            };
            let target = history.target;
            match self.unrestorable_reason(&target) {
                Some(why) => plan.lost.push(UnrestorableFileChange {
                    subject: path.to_owned(),
                    why: why.to_owned(),
                }),
                None => plan.changes.push(PlannedRewindChange {
                    path: path.to_owned(),
                    present,
                    target,
                    changed,
                }),
            }
        }
        Ok(plan)
    }

    /// Returns the reason why a state cannot be restored; `None` if it can.
    fn unrestorable_reason(&self, target: &FileState) -> Option<&'static str> {
        match target {
            FileState::Unkept { why, .. } => Some(why.describe_reason()),
            FileState::Other => Some("it was no file, folder or link"),
            FileState::File { digest, .. } if !self.contents.contains(digest) => {
                Some("its content is missing in the folder of the session")
            }
            _ => None,
        }
    }

    fn apply_rewind(
        &mut self,
        plan: &FileRewindPlan,
        overwrites: bool,
        last_turn: u32,
    ) -> io::Result<FileRewindResult> {
        let mut result = FileRewindResult::default();
        let (mut chosen, mut kept) = (Vec::new(), Vec::new());
        for change in &plan.changes {
            match change.changed.filter(|_| !overwrites) {
                None => chosen.push(change.clone()),
                Some(since) => kept.push((change.path.clone(), since.describe_reason().to_owned())),
            }
        }
        result.kept = kept;
        if chosen.is_empty() {
            return Ok(result);
        }
        let change_of = |change: &PlannedRewindChange| FileChange {
            path: change.path.clone(),
            before: change.present.clone(),
            after: change.target.clone(),
        };
        let id = self.log.begin_record(ChangeRecordStartData {
            turn: last_turn,
            call: None,
            tool: "rewind".to_owned(),
            source: ChangeSource::Rewind,
            changes: chosen.iter().map(change_of).collect(),
            left_out: Vec::new(),
            unknown: None,
        })?;
        let failures = self.apply_planned_changes(&chosen, id);
        for (n, change) in chosen.into_iter().enumerate() {
            match failures.iter().find(|(at, _)| *at == n) {
                None => result.restored.push(change),
                Some((_, why)) => result.kept.push((change.path, why.clone())),
            }
        }
        let changes = result.restored.iter().map(change_of).collect();
        self.log
            .end_record(id, ChangeRecordOutcome::Done, Some(changes))?;
        Ok(result)
    }
}
