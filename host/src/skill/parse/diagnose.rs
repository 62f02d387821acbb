//! Findings while a file is read, and what a fault takes away.

use super::super::model::{Diagnostic, Severity};
use crate::front_matter::Place;
use crate::text::clean;

/// Most faults that are told of one file, and most of its other findings.
const MAX_DIAGNOSTICS: usize = 50;

/// Longest text of a finding, which may quote the file.
const MAX_TEXT_BYTES: usize = 300;

/// State while a file is read.
#[derive(Debug, Default)]
pub(super) struct Reader {
    pub(super) diagnostics: Vec<Diagnostic>,
    /// Faults, told or not.
    pub(super) n_faults: usize,
    /// Lines before the front matter.
    pub(super) n_before: usize,
}

impl Reader {
    /// Notes a fault: the skill is for the user only, and is spared no question.
    pub(super) fn error(&mut self, place: Place, text: impl AsRef<str>, hint: impl AsRef<str>) {
        self.n_faults += 1;
        self.push(Severity::Error, place, text.as_ref(), hint.as_ref());
    }

    pub(super) fn warn(&mut self, place: Place, text: impl AsRef<str>, hint: impl AsRef<str>) {
        self.push(Severity::Warning, place, text.as_ref(), hint.as_ref());
    }

    pub(super) fn note(&mut self, place: Place, text: impl AsRef<str>, hint: impl AsRef<str>) {
        self.push(Severity::Note, place, text.as_ref(), hint.as_ref());
    }

    fn push(&mut self, severity: Severity, (line, column): Place, text: &str, hint: &str) {
        // A flood of notes hides no fault.
        let is_fault = |severity: Severity| severity == Severity::Error;
        let same = self
            .diagnostics
            .iter()
            .filter(|d| is_fault(d.severity) == is_fault(severity));
        if same.count() < MAX_DIAGNOSTICS {
            let place = (line + self.n_before, column);
            self.diagnostics.push(fault(severity, place, text, hint));
        }
    }
}

pub(super) fn fault(
    severity: Severity,
    (line, column): Place,
    text: &str,
    hint: &str,
) -> Diagnostic {
    Diagnostic {
        line,
        column,
        severity,
        text: clean(text, MAX_TEXT_BYTES),
        hint: clean(hint, MAX_TEXT_BYTES),
    }
}

/// A fault for which a file is not loaded.
pub(super) fn refusal(place: Place, text: impl AsRef<str>, hint: impl AsRef<str>) -> Diagnostic {
    fault(Severity::Error, place, text.as_ref(), hint.as_ref())
}
