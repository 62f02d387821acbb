//! Reads the description of a skill, and finds the start of its body and commands in it that Claude
//! Code would run.

use super::super::model::{Diagnostic, Skill};
use super::diagnose::{SkillFileDiagnostics, fatal_diagnostic};
use crate::front_matter::YamlMappingEntry;

/// Maximum length of a description in the open format, in characters; other programs may refuse a
/// longer one.
const MAX_AGENT_SKILLS_FORMAT_DESCRIPTION_CHARS: usize = 1024;

/// Maximum length of a description in bytes; a longer one is truncated.
const MAX_STORED_DESCRIPTION_BYTES: usize = 16 << 10;

pub(super) fn read_description(
    entry: Option<&YamlMappingEntry>,
    skill: &mut Skill,
    reader: &mut SkillFileDiagnostics,
) -> Result<(), Diagnostic> {
    const MISSING_DESCRIPTION_HINT: &str =
        "say in one sentence what the skill does and when to use it";
    let place = entry.map_or((1, 1), |entry| entry.place);
    let text = entry
        .and_then(|entry| entry.node.scalar_text())
        .map(str::trim);
    if let Some(text) = text.filter(|text| !text.is_empty()) {
        skill.description = truncate_description(text, MAX_STORED_DESCRIPTION_BYTES);
        if text.chars().count() > MAX_AGENT_SKILLS_FORMAT_DESCRIPTION_CHARS {
            let text = format!(
                "`description` has more than {MAX_AGENT_SKILLS_FORMAT_DESCRIPTION_CHARS} characters"
            );
            let hint = "shorten it: the format has that limit, and other programs may refuse it";
            reader.add_warning(place, text, hint);
        }
        return Ok(());
    }
    let Some(paragraph) = first_paragraph(&skill.body) else {
        let line = place.0 + reader.n_before;
        return Err(fatal_diagnostic(
            (line, place.1),
            "there is no `description`",
            MISSING_DESCRIPTION_HINT,
        ));
    };
    skill.description = truncate_description(&paragraph, MAX_AGENT_SKILLS_FORMAT_DESCRIPTION_CHARS);
    match entry {
        Some(entry) if text.is_none() && !entry.node.is_null() => {
            reader.add_error(
                entry.node.place,
                "`description` is not a text",
                MISSING_DESCRIPTION_HINT,
            );
        }
        _ => {
            let text = "there is no `description`; the first paragraph stands in for it";
            reader.add_warning(place, text, MISSING_DESCRIPTION_HINT);
        }
    }
    Ok(())
}

/// Truncates a text to `limit` bytes. The result has no trailing whitespace, so that it stays the
/// same when it is written and parsed again.
fn truncate_description(text: &str, limit: usize) -> String {
    text.get(..text.floor_char_boundary(limit))
        .unwrap_or_default()
        .trim_end()
        .to_owned()
}

/// Returns the first paragraph of plain text, as opposed to a heading, code, a table or a list;
/// `None` if there is none.
fn first_paragraph(body: &str) -> Option<String> {
    let is_text =
        |line: &&str| !line.is_empty() && !line.starts_with(['#', '`', '|', '<', '-', '=']);
    let lines = body
        .lines()
        .map(str::trim)
        .skip_while(|line| !is_text(line));
    let lines: Vec<&str> = lines.take_while(|line| !line.is_empty()).collect();
    (!lines.is_empty()).then(|| lines.join(" "))
}

/// Returns the number, from 1, of the first line of the body that contains a command which Claude
/// Code would run: `` !`…` `` after a blank or at the start of a line.
pub(super) fn find_shell_command_line(body: &str) -> Option<usize> {
    let is_live = |line: &str| {
        let mut found = line.match_indices("!`");
        found.any(|(at, _)| {
            let before = line.get(..at).unwrap_or_default();
            let after = line.get(at + 2..).unwrap_or_default();
            before.chars().next_back().is_none_or(char::is_whitespace) && after.contains('`')
        }) || line.trim_start().starts_with("```!")
    };
    Some(body.lines().position(is_live)? + 1)
}

/// Returns the line of a file, from 1, at which its body begins.
pub(super) fn body_start_line(bytes: &[u8], body: &str) -> usize {
    let before = bytes.get(..bytes.len().saturating_sub(body.len()));
    let before = before.unwrap_or_default().iter();
    before.filter(|byte| **byte == b'\n').count() + 1
}
