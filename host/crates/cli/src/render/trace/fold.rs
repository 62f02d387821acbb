//! Hooks that had nothing to say, in one line for all that came one after the other.

use super::super::row::Row;
use super::super::steps::took;
use super::super::{DIM, count, cut};
use rind_lib::event::Part;
use rind_lib::point::trace::{TraceOutcome, TraceRecord};

/// Hooks that wait for their line.
#[derive(Default)]
pub(super) struct Fold {
    place: Option<(Part, usize)>,
    points: Vec<String>,
    n_passed: u64,
    n_left_out: u64,
    micros: f64,
}

impl Fold {
    /// Whether a record needs no line of its own.
    pub(super) fn takes(record: &TraceRecord) -> bool {
        matches!(record.outcome, TraceOutcome::Pass | TraceOutcome::Dropped)
    }

    /// Whether collected hooks are of another scope.
    pub(super) fn is_elsewhere(&self, scope: &Part, level: usize) -> bool {
        let place = self.place.as_ref();
        place.is_some_and(|(own, at)| own != scope || *at != level)
    }

    pub(super) fn add(&mut self, scope: Part, level: usize, record: &TraceRecord) {
        self.place = Some((scope, level));
        if !self.points.iter().any(|point| *point == record.point) {
            self.points.push(record.point.to_string());
        }
        if record.was_called() {
            self.n_passed += 1;
            self.micros += record.micros;
        } else {
            self.n_left_out += 1;
        }
    }

    pub(super) fn take(&mut self) -> Option<(Part, String)> {
        let fold = std::mem::take(self);
        let (scope, level) = fold.place?;
        let row = Row::at(level);
        let points = cut(fold.points.join(", "), row.before_time());
        let mut said = Vec::new();
        if fold.n_passed > 0 {
            said.push(format!("{} passed", count(fold.n_passed, "hook")));
        }
        if fold.n_left_out > 0 {
            said.push(format!("{} out this turn", fold.n_left_out));
        }
        let took = took(fold.n_passed > 0, fold.micros);
        let row = row.add(DIM, &points).time(&took);
        Some((scope, row.add(DIM, &said.join(", ")).line()))
    }
}
