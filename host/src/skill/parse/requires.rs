//! Reads `metadata`, `requires` and `generated_from`: mappings that describe the skill and grant no
//! rights.

use serde_json::{Value, json};

use super::super::model::{Skill, SkillRequirements};
use super::diagnose::SkillFileDiagnostics;
use crate::front_matter::{YamlMappingEntry, YamlNode, YamlNodeKind};

/// Maximum number of required programs, and of required variables.
const MAX_REQUIRED_PROGRAMS_OR_VARIABLES: usize = 64;

pub(super) fn read_metadata(
    entry: &YamlMappingEntry,
    skill: &mut Skill,
    reader: &mut SkillFileDiagnostics,
) {
    let mut value = entry.node.to_json_value();
    // Some programs write an object as JSON in a string.
    if let Value::String(text) = &value {
        value = serde_json::from_str(text).unwrap_or(Value::Null);
        if !value.is_object() {
            let text = "`metadata` is not a mapping";
            return reader.add_warning(entry.node.place, text, "write `metadata: {key: text}`");
        }
    }
    match value {
        Value::Object(values) => skill.metadata.extend(values),
        Value::Null => {}
        _ => {
            let text = "`metadata` is not a mapping";
            reader.add_warning(entry.node.place, text, "write `metadata: {key: text}`");
        }
    }
}

fn read_name_list(value: Option<&Value>) -> Option<Vec<String>> {
    match value {
        None | Some(Value::Null) => Some(Vec::new()),
        Some(Value::String(text)) => {
            let names = text.split([',', ' ']).filter(|name| !name.is_empty());
            Some(names.map(str::to_owned).collect())
        }
        Some(Value::Array(items)) => items
            .iter()
            .map(|item| item.as_str().map(str::to_owned))
            .collect(),
        Some(_) => None,
    }
}

pub(super) fn parse_skill_requirements(value: &Value) -> Option<SkillRequirements> {
    let value = value.as_object()?;
    Some(SkillRequirements {
        bins: read_name_list(value.get("bins"))?,
        any_bins: read_name_list(value.get("any_bins").or_else(|| value.get("anyBins")))?,
        env: read_name_list(value.get("env"))?,
    })
}

/// Adds the requirements in `metadata.requires` and in `metadata.ANY.requires`, where ANY is any
/// key. Two families of programs use these spellings.
pub(super) fn read_metadata_requirements(skill: &mut Skill, reader: &mut SkillFileDiagnostics) {
    let values = skill.metadata.iter();
    let found: Vec<SkillRequirements> = values
        .filter_map(|(key, value)| match key.as_str() {
            "requires" => parse_skill_requirements(value),
            _ => parse_skill_requirements(value.get("requires")?),
        })
        .collect();
    let mut is_too_much = false;
    let mut add = |all: &mut Vec<String>, more: Vec<String>| {
        for name in more {
            is_too_much |= all.len() >= MAX_REQUIRED_PROGRAMS_OR_VARIABLES;
            if !is_too_much && !all.contains(&name) {
                all.push(name);
            }
        }
    };
    let own = std::mem::take(&mut skill.requires);
    for one in [own].into_iter().chain(found) {
        add(&mut skill.requires.bins, one.bins);
        add(&mut skill.requires.any_bins, one.any_bins);
        add(&mut skill.requires.env, one.env);
    }
    if is_too_much {
        let text = format!(
            "`requires` names more than {MAX_REQUIRED_PROGRAMS_OR_VARIABLES} programs or variables"
        );
        reader.add_error(
            (1, 1),
            text,
            "name those without which the skill cannot work",
        );
    }
}

/// Returns the mapping of `generated_from` as JSON, with each value as it is written in the file.
pub(super) fn source_package_to_json(node: &YamlNode) -> Value {
    let YamlNodeKind::Mapping(entries) = &node.kind else {
        return Value::Null;
    };
    let entries = entries
        .iter()
        .map(|e| (e.key.clone(), json!(e.node.scalar_text())));
    Value::Object(entries.collect())
}
