//! Lists the skills that were found but are not used or are hidden from the model. Each has a
//! reason: a fault in its file, or another skill of the same name.
//!
//! These skills are reported when a session opens, like plugins that do not run: if a skill were
//! missing without a report, it would seem that the model ignores it.

use std::path::PathBuf;

use super::model::{Diagnostic, Severity, Source};
use super::snapshot::SessionSkills;
use crate::grant::Trust;

/// Reason why a skill is not used, or is hidden from the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkillOmissionReason {
    /// A fault makes the skill's file unusable.
    Unusable,
    /// A fault in the front matter hides the skill from the model; only the user can start it.
    UserOnly,
    /// Another skill, or an unusable file, has the same name.
    Shadowed,
}

/// Displays the name of the reason in events.
impl std::fmt::Display for SkillOmissionReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Unusable => "unusable",
            Self::UserOnly => "user-only",
            Self::Shadowed => "shadowed",
        })
    }
}

/// Skill that was found and is not used, or is hidden from the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OmittedSkill {
    /// Identity of the skill; empty if the reason concerns a whole directory of skills.
    pub id: String,
    /// Location where the skill was found.
    pub source: Source,
    /// Trust in the location where the skill was found.
    pub trust: Trust,
    /// Path of the skill's file.
    pub file: PathBuf,
    /// Kind of the reason why the skill is not used or is hidden.
    pub cause: SkillOmissionReason,
    /// Reason in words: line and column of the fault and the remedy, or the file that is used
    /// instead.
    pub reason: String,
}

impl SessionSkills {
    /// Returns the skills that are not used or are hidden from the model, sorted by identity. A
    /// shadowed copy with the same content is not included, because nothing is lost.
    #[must_use]
    pub fn omitted_skills(&self) -> Vec<OmittedSkill> {
        let fault = |diagnostics: &[Diagnostic]| {
            let mut faults = diagnostics.iter().filter(|d| d.severity == Severity::Error);
            faults.next().map(ToString::to_string).unwrap_or_default()
        };
        let unusable = self.unusable_skills().iter().map(|one| OmittedSkill {
            id: one.id.clone(),
            source: one.source.clone(),
            trust: one.trust,
            file: one.file.clone(),
            cause: SkillOmissionReason::Unusable,
            // The last diagnostic is the error that ended parsing.
            reason: one
                .diagnostics
                .last()
                .map(ToString::to_string)
                .unwrap_or_default(),
        });
        let restricted = self.iter().filter(|skill| skill.is_restricted);
        let restricted = restricted.map(|skill| OmittedSkill {
            id: skill.id.clone(),
            source: skill.source.clone(),
            trust: skill.trust,
            file: skill.file.clone(),
            cause: SkillOmissionReason::UserOnly,
            reason: fault(&skill.diagnostics),
        });
        let shadowed = self
            .shadowed_skills()
            .iter()
            .filter(|one| !one.is_identical);
        let shadowed = shadowed.map(|one| OmittedSkill {
            id: one.skill.id.clone(),
            source: one.skill.source.clone(),
            trust: one.skill.trust,
            file: one.skill.file.clone(),
            cause: SkillOmissionReason::Shadowed,
            reason: format!(
                "{} has the same name and is used instead; rename one of the two",
                one.shadowed_by.display()
            ),
        });
        let mut all: Vec<OmittedSkill> = unusable.chain(restricted).chain(shadowed).collect();
        all.sort_by(|a, b| (&a.id, &a.file).cmp(&(&b.id, &b.file)));
        all
    }
}
