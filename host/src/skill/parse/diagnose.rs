//! Findings while a file is read, and what a fault takes away.

use super::super::model::{Diagnostic, Severity};
use crate::front_matter::Place;
use crate::text::clean;

/// Most findings about one file.
const MAX_DIAGNOSTICS: usize = 50;

/// Longest text of a finding, which may quote the file.
const MAX_TEXT_BYTES: usize = 300;

/// State while a file is read.
#[derive(Debug, Default)]
pub(super) struct Reader {
    pub(super) diagnostics: Vec<Diagnostic>,
    /// Whether there was a fault.
    pub(super) is_restricted: bool,
    /// Lines before the front matter.
    pub(super) n_before: usize,
}

impl Reader {
    /// Notes a fault: the skill is for the user only, and is spared no question.
    pub(super) fn error(&mut self, place: Place, text: impl AsRef<str>, hint: impl AsRef<str>) {
        self.is_restricted = true;
        self.push(Severity::Error, place, text.as_ref(), hint.as_ref());
    }

    pub(super) fn warn(&mut self, place: Place, text: impl AsRef<str>, hint: impl AsRef<str>) {
        self.push(Severity::Warning, place, text.as_ref(), hint.as_ref());
    }

    pub(super) fn note(&mut self, place: Place, text: impl AsRef<str>, hint: impl AsRef<str>) {
        self.push(Severity::Note, place, text.as_ref(), hint.as_ref());
    }

    fn push(&mut self, severity: Severity, (line, column): Place, text: &str, hint: &str) {
        if self.diagnostics.len() < MAX_DIAGNOSTICS {
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
