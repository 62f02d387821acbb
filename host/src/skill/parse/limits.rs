//! Reads `side_effects`, `trust`, `paths` and `arguments`: limits on the use and the input of a
//! skill.

use serde_json::{Value, json};

use super::super::model::Skill;
use super::diagnose::SkillFileDiagnostics;
use crate::front_matter::{YamlMappingEntry, YamlNodeKind};
use crate::grant::{SideEffect, Trust};
use crate::tool::schema;

/// Maximum number of patterns in `paths`.
const MAX_PATH_PATTERNS: usize = 100;

/// Maximum length of a pattern in `paths`, in bytes.
const MAX_PATH_PATTERN_BYTES: usize = 200;

/// Maximum number of `{` and `,` in one pattern of `paths`, which limits its alternatives.
const MAX_PATTERN_BRACES_AND_COMMAS: usize = 8;

/// Maximum number of argument names.
const MAX_ARGUMENT_NAMES: usize = 64;

const SIDE_EFFECTS_BY_NAME: &[(&str, SideEffect)] = &[
    ("none", SideEffect::None),
    ("filesystem", SideEffect::Filesystem),
    ("network", SideEffect::Network),
    ("session", SideEffect::Session),
    ("external", SideEffect::External),
];

const TRUST_LEVELS_BY_NAME: &[(&str, Trust)] = &[
    ("local", Trust::Local),
    ("project", Trust::Project),
    ("user", Trust::User),
    ("package", Trust::Package),
    ("managed", Trust::Managed),
];

pub(super) fn parse_side_effects_field(
    entry: &YamlMappingEntry,
    skill: &mut Skill,
    reader: &mut SkillFileDiagnostics,
) {
    for (text, place) in reader.read_text_list("side_effects", &entry.node) {
        match SIDE_EFFECTS_BY_NAME.iter().find(|(word, _)| *word == text) {
            Some((_, effect)) if !skill.side_effects.contains(effect) => {
                skill.side_effects.push(*effect);
            }
            Some(_) => {}
            None => {
                let words: Vec<&str> = SIDE_EFFECTS_BY_NAME.iter().map(|(word, _)| *word).collect();
                let text = format!("`side_effects` has the unknown value `{text}`");
                reader.add_error(place, text, format!("write `{}`", words.join("`, `")));
            }
        }
    }
    if skill.side_effects.contains(&SideEffect::None) && skill.side_effects.len() > 1 {
        skill
            .side_effects
            .retain(|effect| *effect != SideEffect::None);
        let text = "`side_effects` has `none` together with others";
        reader.add_error(entry.node.place, text, "remove `none`, or the others");
    }
}

pub(super) fn read_trust_level(
    entry: &YamlMappingEntry,
    skill: &mut Skill,
    reader: &mut SkillFileDiagnostics,
) {
    match reader.read_choice(entry, TRUST_LEVELS_BY_NAME) {
        Some(declared) if declared < skill.trust => {
            let text = format!(
                "`trust: {declared}` has no effect: the location of a skill decides its trust, which is {} here",
                skill.trust
            );
            reader.add_note(entry.node.place, text, "");
        }
        Some(declared) => skill.trust = declared,
        None => skill.trust = Trust::Local,
    }
}

pub(super) fn read_path_patterns(
    entry: &YamlMappingEntry,
    skill: &mut Skill,
    reader: &mut SkillFileDiagnostics,
) {
    for (text, place) in reader.read_text_list("paths", &entry.node) {
        let n_braces = text.matches(['{', ',']).count();
        let fault =
            if text.len() > MAX_PATH_PATTERN_BYTES || n_braces > MAX_PATTERN_BRACES_AND_COMMAS {
                Some("is too long".to_owned())
            } else if skill.paths.len() >= MAX_PATH_PATTERNS {
                Some("is one pattern too many".to_owned())
            } else {
                globset::Glob::new(&text)
                    .err()
                    .map(|e| e.kind().to_string())
            };
        match fault {
            None => {
                if let Some(why) = unmatchable_pattern_reason(&text) {
                    let text = format!("`paths`: `{text}` probably matches no file: {why}");
                    reader.add_warning(
                        place,
                        text,
                        "write globs from the workspace: `src/**/*.rs`",
                    );
                }
                skill.paths.push(text);
            }
            Some(why) => {
                let text = format!("`paths`: `{text}` {why}");
                reader.add_error(place, text, "write globs: `src/**/*.rs`");
            }
        }
    }
}

/// Returns the reason why a pattern in `paths` matches practically no file in a workspace, such as
/// a drive letter; `None` if it can match files.
fn unmatchable_pattern_reason(pattern: &str) -> Option<&'static str> {
    let pattern = pattern.trim();
    let mut parts = pattern.split(['/', '{', ',', '}']);
    let is_drive = |text: &str| {
        let text = text.as_bytes();
        text.first().is_some_and(u8::is_ascii_alphabetic) && text.get(1) == Some(&b':')
    };
    if parts.any(|part| part == "..") {
        Some("paths are those from the workspace, and have no `..`")
    } else if pattern == "~" || pattern.starts_with('~') && pattern.contains('/') {
        Some("paths are those from the workspace, and `~` is not the home folder")
    } else if pattern.starts_with('!') {
        Some("`!` is a plain character here, and takes no files out")
    } else if is_drive(pattern) {
        Some("paths are those from the workspace, and have no drive")
    } else if has_non_bracket_escape(pattern) {
        Some("`/` parts folders, and `\\` makes the next character a plain one")
    } else {
        None
    }
}

/// Whether the pattern contains a backslash that does not escape a bracket. In `app/\[id\].tsx`,
/// each backslash escapes a bracket.
fn has_non_bracket_escape(pattern: &str) -> bool {
    let mut rest = pattern.chars();
    while let Some(c) = rest.next() {
        if c == '\\' && !rest.next().is_some_and(|next| "[]{}".contains(next)) {
            return true;
        }
    }
    false
}

pub(super) fn read_argument_declarations(
    entry: &YamlMappingEntry,
    skill: &mut Skill,
    reader: &mut SkillFileDiagnostics,
) {
    const ARGUMENTS_SYNTAX_HINT: &str =
        "write `arguments: {schema: {properties: {path: {type: string}}}}`, or names: `[path]`";
    if !matches!(entry.node.kind, YamlNodeKind::Mapping(_)) {
        for (name, place) in reader.read_text_list("arguments", &entry.node) {
            let is_in_name = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
            if name.is_empty() || !name.chars().all(is_in_name) || name == "ARGUMENTS" {
                let text = format!("`arguments`: `{name}` cannot be a name");
                reader.add_error(place, text, ARGUMENTS_SYNTAX_HINT);
            } else if skill.argument_names.len() < MAX_ARGUMENT_NAMES {
                skill.argument_names.push(name);
            } else {
                let text = format!("`arguments` has more than {MAX_ARGUMENT_NAMES} names");
                return reader.add_error(place, text, ARGUMENTS_SYNTAX_HINT);
            }
        }
        return;
    }
    let value = entry.node.to_json_value();
    let fault = |reader: &mut SkillFileDiagnostics, why: &str| {
        reader.add_error(
            entry.node.place,
            format!("`arguments`: {why}"),
            ARGUMENTS_SYNTAX_HINT,
        );
    };
    let Some(Value::Object(mut schema)) = value.get("schema").cloned() else {
        return fault(reader, "there is no `schema` in it");
    };
    if value.as_object().is_some_and(|value| value.len() > 1) {
        return fault(reader, "there is more than `schema` in it");
    }
    schema.entry("type").or_insert_with(|| json!("object"));
    if schema.get("type") != Some(&json!("object")) {
        return fault(reader, "the schema must have `type: object`");
    }
    let schema = Value::Object(schema);
    if let Err(why) = schema::compile_json_schema_check(&schema) {
        return fault(reader, &why);
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    let names = properties.into_iter().flat_map(|p| p.keys());
    skill.argument_names = names.take(MAX_ARGUMENT_NAMES).cloned().collect();
    skill.arguments = Some(schema);
}
