//! Plans a rewind: determines the state of each path before a turn, and whether calls of the
//! session produced the current state of the path.
//!
//! Owns the rule that a rewind does not overwrite changes by the user without an explicit request.
//! Nothing here accesses the disk. Start from [`build_path_histories`] and
//! [`PathChangeHistory::check_restorability`].

use std::collections::BTreeMap;

use super::record::{ChangeRecord, ChangeRecordOutcome, ChangeSource};
use super::state::FileState;

/// Reason why a path is restored only on explicit request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UncertainRestoreReason {
    /// The path changed after the last recorded call, by another program or the user.
    Now,
    /// Another program or the user changed the file between two calls.
    Between,
    /// A call that changed the file was interrupted, so it is unknown who made the last change.
    Interrupted,
}

impl UncertainRestoreReason {
    /// Returns the reason as text for the user.
    #[must_use]
    pub fn describe_reason(self) -> &'static str {
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
pub(super) struct PathChangeHistory {
    /// State of the path before the first change, which a rewind restores.
    pub(super) target: FileState,
    /// States in which the calls may have left the path, each with false if the file mode in the
    /// state may be wrong.
    left: Vec<(FileState, bool)>,
    is_changed_between: bool,
    is_interrupted: bool,
}

/// Result of the check whether a path can be restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PathRestorability {
    /// The path is already in the state to which the rewind restores it.
    Same,
    /// The path can be restored without losing other changes.
    Safe,
    /// Restoring the path would lose changes that the turns did not make.
    Changed(UncertainRestoreReason),
}

impl PathChangeHistory {
    /// Decides from the current state of the path whether it can be restored.
    pub(super) fn check_restorability(&self, present: &FileState) -> PathRestorability {
        let is_left = |(left, is_certain): &(FileState, bool)| {
            left.is_same_state(present) || !is_certain && left.has_same_content_as(present)
        };
        if present.is_same_state(&self.target) {
            PathRestorability::Same
        } else if !self.left.iter().any(is_left) {
            PathRestorability::Changed(UncertainRestoreReason::Now)
        } else if self.is_changed_between {
            PathRestorability::Changed(UncertainRestoreReason::Between)
        } else if self.is_interrupted {
            PathRestorability::Changed(UncertainRestoreReason::Interrupted)
        } else {
            PathRestorability::Safe
        }
    }

    /// Returns the state in which the last recorded change left the path.
    pub(super) fn last_recorded_state(&self) -> Option<&FileState> {
        self.left.last().map(|(state, _)| state)
    }
}

/// Combines the records that `is_wanted` selects into one history per path. `records` are in
/// chronological order.
pub(super) fn build_path_histories(
    records: &[ChangeRecord],
    is_wanted: impl Fn(&ChangeRecord) -> bool,
) -> BTreeMap<&str, PathChangeHistory> {
    let mut histories: BTreeMap<&str, PathChangeHistory> = BTreeMap::new();
    for record in records {
        if !is_wanted(record) || record.end == Some(ChangeRecordOutcome::Void) {
            continue;
        }
        for change in &record.changes {
            let history = histories
                .entry(&change.path)
                .or_insert_with(|| PathChangeHistory {
                    target: change.before.clone(),
                    left: vec![(change.before.clone(), true)],
                    is_changed_between: false,
                    is_interrupted: false,
                });
            let follows = |(left, is_certain): &(FileState, bool)| {
                left.is_same_state(&change.before)
                    || !is_certain && left.has_same_content_as(&change.before)
            };
            history.is_changed_between |= !history.left.iter().any(follows);
            history.is_interrupted |= record.end == Some(ChangeRecordOutcome::Interrupted);
            if record.has_outcome() {
                history.left.clear();
            }
            // If the record of a write has no end, the write may or may not have changed the path.
            let is_certain = record.has_outcome() || record.source == ChangeSource::Rewind;
            history.left.push((change.after.clone(), is_certain));
        }
    }
    histories
}

#[cfg(test)]
mod tests;
