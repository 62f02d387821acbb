//! Plan of a rewind: the state of each path before a turn, and whether its present state was left
//! by a later turn.
//!
//! Owns the rule that protects changes of a person. Nothing here touches the disk. Start from
//! [`fold_changes`] and [`PathHistory::judge_present`].

use std::collections::BTreeMap;

use super::record::{ChangeRecord, ChangeSource, RecordEnd};
use super::state::FileState;

/// Reason why a path is not put back without asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangedSince {
    /// The path changed after the last call.
    Now,
    /// Another program or the user changed the file between two calls.
    Between,
    /// A call that changed it was interrupted, so it is unknown who made the last change.
    Interrupted,
}

impl ChangedSince {
    /// Describes the reason for a person.
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

/// History of one path, from the records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PathHistory {
    /// State before the first change.
    pub(super) target: FileState,
    /// States that the calls may have left, each with whether its mode is certain.
    left: Vec<(FileState, bool)>,
    is_changed_between: bool,
    is_interrupted: bool,
}

/// Judgment on a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PathJudgment {
    /// The path has not changed.
    Same,
    /// The path can be put back.
    Safe,
    /// Restoring the path would lose changes that the turns did not make.
    Changed(ChangedSince),
}

impl PathHistory {
    /// Judges a path by its present state.
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

    /// The last state that the calls left.
    pub(super) fn last(&self) -> Option<&FileState> {
        self.left.last().map(|(state, _)| state)
    }
}

/// Adds up the records that `is_wanted` selects, which are in the order of time.
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
            // If a write did not end, the path may or may not have changed.
            let is_certain = record.is_done() || record.source == ChangeSource::Rewind;
            history.left.push((change.after.clone(), is_certain));
        }
    }
    histories
}

#[cfg(test)]
mod tests;
