//! Collects findings while a file is parsed, and applies the consequences of a fault.

use super::super::model::{Diagnostic, Severity};
use crate::front_matter::YamlPosition;
use crate::text::escape_and_truncate_line;

/// Maximum number of faults that are reported per file, and maximum number of other findings.
const MAX_DIAGNOSTICS_PER_FILE: usize = 50;

/// Maximum length of a finding in bytes, because a finding may quote the file.
const MAX_DIAGNOSTIC_TEXT_BYTES: usize = 300;

/// Faults and other findings about the skill file that is being parsed.
#[derive(Debug, Default)]
pub(super) struct SkillFileDiagnostics {
    pub(super) diagnostics: Vec<Diagnostic>,
    /// Number of faults in the skill file, including those that are not reported.
    pub(super) n_faults: usize,
    /// Number of lines before the front matter, which is added to the line of each finding.
    pub(super) n_before: usize,
}

impl SkillFileDiagnostics {
    /// Records a fault of the skill. Because of a fault, only the user can start the skill, and the
    /// skill's calls skip no approval questions.
    pub(super) fn add_error(
        &mut self,
        place: YamlPosition,
        text: impl AsRef<str>,
        hint: impl AsRef<str>,
    ) {
        self.n_faults += 1;
        self.add_diagnostic(Severity::Error, place, text.as_ref(), hint.as_ref());
    }

    pub(super) fn add_warning(
        &mut self,
        place: YamlPosition,
        text: impl AsRef<str>,
        hint: impl AsRef<str>,
    ) {
        self.add_diagnostic(Severity::Warning, place, text.as_ref(), hint.as_ref());
    }

    pub(super) fn add_note(
        &mut self,
        place: YamlPosition,
        text: impl AsRef<str>,
        hint: impl AsRef<str>,
    ) {
        self.add_diagnostic(Severity::Note, place, text.as_ref(), hint.as_ref());
    }

    fn add_diagnostic(
        &mut self,
        severity: Severity,
        (line, column): YamlPosition,
        text: &str,
        hint: &str,
    ) {
        // Faults and other findings are limited separately, so that many notes cannot hide a fault.
        let is_fault = |severity: Severity| severity == Severity::Error;
        let same = self
            .diagnostics
            .iter()
            .filter(|d| is_fault(d.severity) == is_fault(severity));
        if same.count() < MAX_DIAGNOSTICS_PER_FILE {
            let place = (line + self.n_before, column);
            self.diagnostics
                .push(new_diagnostic(severity, place, text, hint));
        }
    }
}

pub(super) fn new_diagnostic(
    severity: Severity,
    (line, column): YamlPosition,
    text: &str,
    hint: &str,
) -> Diagnostic {
    Diagnostic {
        line,
        column,
        severity,
        text: escape_and_truncate_line(text, MAX_DIAGNOSTIC_TEXT_BYTES),
        hint: escape_and_truncate_line(hint, MAX_DIAGNOSTIC_TEXT_BYTES),
    }
}

/// Creates the error for a fault that prevents a file from loading.
pub(super) fn fatal_diagnostic(
    place: YamlPosition,
    text: impl AsRef<str>,
    hint: impl AsRef<str>,
) -> Diagnostic {
    new_diagnostic(Severity::Error, place, text.as_ref(), hint.as_ref())
}
