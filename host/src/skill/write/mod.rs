//! Writes skills as `corteza.skill/v1`, or in the open format with a list of the features that this
//! format cannot express.
//!
//! Front matter lines whose meaning stays the same are preserved with their comments, and the body
//! stays identical byte for byte. The output is parsed again and compared before it is returned.
//! Start from [`to_v1_format`] and [`to_agent_skills_format`].

mod emit;
mod lines;
mod open;

use super::model::{Diagnostic, Severity, Skill, UnusableSkill};
use super::parse::{FORMAT, ParsedSkillFileParts, SkillFile};
use crate::front_matter::{YamlDocument, YamlMappingEntry, YamlNode, YamlNodeKind};
pub use open::UnconvertibleSkillKey;

/// Error of converting a skill to another format.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SkillWriteError {
    /// The file has faults that only its author can correct.
    #[error("the skill file has faults: {}", join_fault_texts(.0))]
    Faults(Vec<Diagnostic>),
    /// The result would differ in meaning from the file.
    #[error("the rewritten file would have another meaning: {0} would differ")]
    Differs(&'static str),
}

fn join_fault_texts(faults: &[Diagnostic]) -> String {
    let faults = faults
        .iter()
        .filter(|fault| fault.severity == Severity::Error);
    let faults: Vec<String> = faults.map(ToString::to_string).collect();
    faults.join("; ")
}

impl From<UnusableSkill> for SkillWriteError {
    fn from(unusable: UnusableSkill) -> Self {
        Self::Faults(unusable.diagnostics)
    }
}

/// Writes a front matter with the keys of `values`, including the opening and closing lines.
pub fn write_front_matter(values: &serde_json::Value) -> String {
    const DOCUMENT_START_POSITION: (usize, usize) = (1, 1);
    let entries = match YamlNode::from_json(values, DOCUMENT_START_POSITION).kind {
        YamlNodeKind::Mapping(entries) => entries,
        YamlNodeKind::Scalar(..) | YamlNodeKind::List(_) => Vec::new(),
    };
    let keys = emit::emit_document(&YamlDocument { entries });
    let fence = crate::front_matter::FRONT_MATTER_DELIMITER;
    format!("{fence}\n{keys}{fence}\n")
}

/// Writes a skill as `corteza.skill/v1`, with the keys of `SKILL.json` merged into its front
/// matter. Keys of other programs are kept: they have the same meaning in both formats.
///
/// # Errors
/// The file has faults.
pub fn to_v1_format(file: &SkillFile<'_>) -> Result<String, SkillWriteError> {
    let parts = file
        .split_into_parts()
        .map_err(|fault| SkillWriteError::Faults(vec![fault]))?;
    // The output is compared below only if the skill has no fault: the corrected file of a
    // restricted skill has the rights that the fault had removed. An unusable file stays an error.
    let before = file.parse();
    let mut document = parts.document.clone();
    let side = parts
        .side
        .iter()
        .filter(|entry| entry.key != "skill_format");
    document.entries.extend(side.cloned());
    if document.get("skill_format").is_none() {
        document
            .entries
            .insert(0, create_yaml_text_entry("skill_format", FORMAT));
    }
    let written = parts.write_parts(&document);
    let skill = parse_modified_skill(file, &written)?;
    let before = before?;
    if !before.is_restricted {
        let differs = find_skill_difference(&before, &skill);
        differs.map_or(Ok(()), |what| Err(SkillWriteError::Differs(what)))?;
    }
    Ok(written)
}

/// Writes a skill in the open format. Also returns the keys that this format cannot express.
///
/// # Errors
/// The file has faults.
pub fn to_agent_skills_format(
    file: &SkillFile<'_>,
) -> Result<(String, Vec<UnconvertibleSkillKey>), SkillWriteError> {
    let mut parts = file
        .split_into_parts()
        .map_err(|fault| SkillWriteError::Faults(vec![fault]))?;
    let side = std::mem::take(&mut parts.side);
    let mut whole = parts.document.clone();
    whole.entries.extend(side);
    // Fail on any fault except missing quotes. A faulty skill loses rights, and the output must not
    // look as if the author had removed them.
    let before = parse_modified_skill(file, &parts.write_parts(&whole))?;
    let (document, lost) = open::to_agent_skills_format_document(&whole, &before);
    let written = parts.write_parts(&document);
    let after = parse_modified_skill(file, &written)?;
    match open::find_converted_skill_difference(&before, &after, &lost) {
        None => Ok((written, lost)),
        Some(what) => Err(SkillWriteError::Differs(what)),
    }
}

/// Parses `written`, the changed text of a skill file, without the `SKILL.json` next to the file.
/// Returns an error if the text has a fault.
fn parse_modified_skill(file: &SkillFile<'_>, written: &str) -> Result<Skill, SkillWriteError> {
    let again = SkillFile {
        bytes: written.as_bytes(),
        side: None,
        ..file.clone()
    };
    let skill = again.parse()?;
    match skill.is_restricted {
        true => Err(SkillWriteError::Faults(skill.diagnostics)),
        false => Ok(skill),
    }
}

impl ParsedSkillFileParts<'_> {
    /// Returns the complete text of the file, with its front matter replaced by `document`.
    fn write_parts(&self, document: &YamlDocument) -> String {
        match &self.front {
            Some(front) => {
                let front = lines::rewrite_front_matter_lines(front, &self.document, document);
                [&front, self.fence, self.body].concat()
            }
            None => {
                let front = emit::emit_document(document);
                ["---\n", &front, "---\n", self.body].concat()
            }
        }
    }
}

/// Returns the first part in which two skills differ, ignoring their location and the findings
/// about their files.
#[must_use]
pub fn find_skill_difference(one: &Skill, other: &Skill) -> Option<&'static str> {
    let without = |skill: &Skill| Skill {
        hash: String::new(),
        body_line: 0,
        diagnostics: Vec::new(),
        ..skill.clone()
    };
    let (a, b) = (without(one), without(other));
    let parts: [(&str, bool); 8] = [
        ("the text", a.body == b.body),
        (
            "the description",
            a.description == b.description && a.when_to_use == b.when_to_use,
        ),
        (
            "who may start it",
            (a.invocation, a.user_invocable, a.is_restricted)
                == (b.invocation, b.user_invocable, b.is_restricted),
        ),
        ("its tools", a.tools == b.tools && a.spares == b.spares),
        (
            "its arguments",
            a.arguments == b.arguments
                && a.argument_names == b.argument_names
                && a.argument_hint == b.argument_hint,
        ),
        ("its metadata", a.metadata == b.metadata),
        ("what it requires", a.requires == b.requires),
        ("its front matter", a == b),
    ];
    parts
        .into_iter()
        .find(|(_, is_same)| !is_same)
        .map(|(what, _)| what)
}

fn create_yaml_text_entry(key: &str, value: &str) -> YamlMappingEntry {
    new_yaml_entry(key, YamlNodeKind::Scalar(value.to_owned(), false))
}

fn new_yaml_entry(key: &str, kind: YamlNodeKind) -> YamlMappingEntry {
    let place = (1, 1);
    YamlMappingEntry {
        key: key.to_owned(),
        place,
        node: YamlNode { place, kind },
    }
}
