//! Plans a rewind: determines the state of each path before a turn, and whether calls of the
//! session produced the current state of the path.
//!
//! Owns the rule that protects changes of the user. Nothing here accesses the disk. Start from
//! [`fold_changes`] and [`PathHistory::judge_present`].

use std::collections::BTreeMap;

use super::record::{ChangeRecord, ChangeSource, RecordEnd};
use super::state::FileState;

/// Reason why a path is restored only on explicit request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangedSince {
    /// The path changed after the last call.
    Now,
    /// Another program or the user changed the file between two calls.
    Between,
    /// A call that changed the file was interrupted, so it is unknown who made the last change.
    Interrupted,
}

impl ChangedSince {
    /// Describes the reason to the user.
    #[must_use]
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Now => "it was changed since",
            Self::Between => "something else changed it between two calls",
            Self::Interrupted => {
                "a call that changed it was interrupted, so the last change may be yours"
            }
        }
    }
}

/// History of one path, computed from the records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PathHistory {
    /// State before the first change, which a rewind restores.
    pub(super) target: FileState,
    /// States in which the calls may have left the path, each with whether the mode is certain.
    left: Vec<(FileState, bool)>,
    is_changed_between: bool,
    is_interrupted: bool,
}

/// Judgment on whether a path can be restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PathJudgment {
    /// The path already has the state to restore.
    Same,
    /// The path can be restored without losing other changes.
    Safe,
    /// Restoring the path would lose changes that the turns did not make.
    Changed(ChangedSince),
}

impl PathHistory {
    /// Judges a path by its current state.
    pub(super) fn judge_present(&self, present: &FileState) -> PathJudgment {
        let is_left = |(left, is_certain): &(FileState, bool)| {
            left.is_same(present) || !is_certain && left.has_content_of(present)
        };
        if present.is_same(&self.target) {
            PathJudgment::Same
        } else if !self.left.iter().any(is_left) {
            PathJudgment::Changed(ChangedSince::Now)
        } else if self.is_changed_between {
            PathJudgment::Changed(ChangedSince::Between)
        } else if self.is_interrupted {
            PathJudgment::Changed(ChangedSince::Interrupted)
        } else {
            PathJudgment::Safe
        }
    }

    /// Returns the last state in which the calls left the path.
    pub(super) fn last(&self) -> Option<&FileState> {
        self.left.last().map(|(state, _)| state)
    }
}

/// Combines the records that `is_wanted` selects into one history per path. `records` are in
/// chronological order.
pub(super) fn fold_changes(
    records: &[ChangeRecord],
    is_wanted: impl Fn(&ChangeRecord) -> bool,
) -> BTreeMap<&str, PathHistory> {
    let mut histories: BTreeMap<&str, PathHistory> = BTreeMap::new();
    for record in records {
        if !is_wanted(record) || record.end == Some(RecordEnd::Void) {
            continue;
        }
        for change in &record.changes {
            let history = histories
                .entry(&change.path)
                .or_insert_with(|| PathHistory {
                    target: change.before.clone(),
                    left: vec![(change.before.clone(), true)],
                    is_changed_between: false,
                    is_interrupted: false,
                });
            let follows = |(left, is_certain): &(FileState, bool)| {
                left.is_same(&change.before) || !is_certain && left.has_content_of(&change.before)
            };
            history.is_changed_between |= !history.left.iter().any(follows);
            history.is_interrupted |= record.end == Some(RecordEnd::Interrupted);
            if record.is_done() {
                history.left.clear();
            }
            // A write without an end may or may not have changed the path.
            let is_certain = record.is_done() || record.source == ChangeSource::Rewind;
            history.left.push((change.after.clone(), is_certain));
        }
    }
    histories
}

#[cfg(test)]
mod tests;
