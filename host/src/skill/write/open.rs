//! Converts a skill to the open format: keys of v1 without an equivalent are replaced by keys with
//! the same meaning, or are reported as lost.
//!
//! A restriction that is lost makes the skill more powerful, so such losses are marked for the
//! caller.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Value, json};

use super::super::model::{Skill, SkillInvocationRule, SkillLifetime, SkillRequirements};
use super::super::parse::claude_tool_names;
use super::super::scope::SkillToolNamePattern;
use super::{create_yaml_text_entry, new_yaml_entry};
use crate::front_matter::{YamlDocument, YamlMappingEntry, YamlNode, YamlNodeKind};

/// Key of `corteza.skill/v1` that the open format cannot express.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnconvertibleSkillKey {
    /// Key of the front matter.
    pub key: &'static str,
    /// Description of the loss in the converted skill.
    pub text: String,
    /// Whether the lost key restricts the skill, so that the converted skill may do more.
    pub is_restriction: bool,
}

/// Keys of `corteza.skill/v1` that the open format does not have.
const KEYS_MISSING_IN_OPEN_FORMAT: [&str; 10] = [
    "attach",
    "generated_from",
    "interaction",
    "library_depends",
    "model_invocation",
    "requires",
    "side_effects",
    "skill_format",
    "tools",
    "trust",
];

/// Keys in `metadata` under which requirements may be written.
const METADATA_KEYS_FOR_SKILL_REQUIREMENTS: [&str; 2] = ["requires", "rind"];

/// Converts the front matter to the open Agent Skills format. Also returns a list of the keys that
/// this format cannot express.
pub(super) fn to_agent_skills_format_document(
    old: &YamlDocument,
    skill: &Skill,
) -> (YamlDocument, Vec<UnconvertibleSkillKey>) {
    let mut lost = Vec::new();
    let mut lose = |key, text: String, is_restriction| {
        lost.push(UnconvertibleSkillKey {
            key,
            text,
            is_restriction,
        })
    };
    let kept = old
        .entries
        .iter()
        .filter(|entry| !KEYS_MISSING_IN_OPEN_FORMAT.contains(&entry.key.as_str()));
    let mut new = YamlDocument {
        entries: kept.cloned().collect(),
    };
    if new.get("description").is_none() {
        new.entries
            .insert(0, create_yaml_text_entry("description", &skill.description));
    }
    if new.get("name").is_none() {
        new.entries
            .insert(0, create_yaml_text_entry("name", &skill.label));
    }
    let flag = |value: bool| YamlNodeKind::Scalar(value.to_string(), true);
    if old.get("model_invocation").is_some() && skill.invocation != SkillInvocationRule::Auto {
        set_document_key(&mut new, "disable-model-invocation", flag(true));
    }
    if skill.invocation == SkillInvocationRule::Disabled {
        set_document_key(&mut new, "user-invocable", flag(false));
    }
    convert_tool_lists_to_disallowed_tools(old, skill, &mut new, &mut lose);
    if !skill.side_effects.is_empty() {
        lose(
            "side_effects",
            "its side effects are not shown before its first use".to_owned(),
            false,
        );
    }
    if old.get("trust").is_some() {
        lose(
            "trust",
            "its trust depends only on its location".to_owned(),
            true,
        );
    }
    if skill.interaction == SkillLifetime::Conversational {
        lose("interaction", "it ends with its turn".to_owned(), false);
    }
    if !skill.library_depends.is_empty() {
        let names = skill.library_depends.join(", ");
        lose(
            "library_depends",
            format!("the open format has no key for the plugins that the skill needs: {names}"),
            false,
        );
    }
    if skill.attach {
        lose(
            "attach",
            "tools of its plugins do not stay when it ends".to_owned(),
            false,
        );
    }
    if skill.generated_from.is_some() {
        lose(
            "generated_from",
            "it does not name its source".to_owned(),
            false,
        );
    }
    if skill.arguments.is_some() {
        let names = &skill.argument_names;
        new.entries.retain(|entry| entry.key != "arguments");
        if !names.is_empty() && names.iter().all(is_argument_name) {
            set_document_key(&mut new, "arguments", text_list_node(names));
        }
        lose(
            "arguments.schema",
            "its arguments are not checked".to_owned(),
            true,
        );
    }
    if let Some(requires) = old.get("requires") {
        move_requirements_to_metadata(requires, &mut new, skill, &mut lose);
    }
    (new, lost)
}

fn convert_tool_lists_to_disallowed_tools(
    old: &YamlDocument,
    skill: &Skill,
    new: &mut YamlDocument,
    lose: &mut impl FnMut(&'static str, String, bool),
) {
    if skill.tools.allow.is_some() {
        let text = "every tool may be called; keep the v1 file where that must not be".to_owned();
        lose("tools.allow", text, true);
    }
    let of_v1 = old.get("tools").is_some_and(|tools| matches!(&tools.node.kind, YamlNodeKind::Mapping(inner) if inner.iter().any(|e| e.key == "deny")));
    if !of_v1 || skill.tools.deny.is_empty() {
        return;
    }
    let mut denied: Vec<String> = Vec::new();
    for pattern in &skill.tools.deny {
        let names = claude_tool_names(pattern.text()).map(str::to_owned);
        for name in std::iter::once(pattern.text().to_owned()).chain(names) {
            if !denied.contains(&name) {
                denied.push(name);
            }
        }
    }
    let patterns: Vec<&str> = denied
        .iter()
        .filter(|name| name.contains(['*', '?', ':']))
        .map(String::as_str)
        .collect();
    if !patterns.is_empty() {
        let text = format!(
            "other programs ignore `{}`, because they accept only names of tools, without `*`, `?` or `:`",
            patterns.join("`, `")
        );
        lose("tools.deny", text, true);
    }
    set_document_key(new, "disallowed-tools", text_list_node(&denied));
}

/// Moves `requires` into `metadata`, where programs for every format read it. Existing entries are
/// kept.
fn move_requirements_to_metadata(
    requires: &YamlMappingEntry,
    new: &mut YamlDocument,
    skill: &Skill,
    lose: &mut impl FnMut(&'static str, String, bool),
) {
    if skill.requires.is_empty() {
        return;
    }
    let free = METADATA_KEYS_FOR_SKILL_REQUIREMENTS
        .into_iter()
        .find(|place| !skill.metadata.contains_key(*place));
    let Some(place) = free else {
        return lose(
            "requires",
            "it does not declare its requirements".to_owned(),
            false,
        );
    };
    let inner = match place {
        "requires" => requires.node.clone(),
        _ => YamlNode {
            place: (1, 1),
            kind: YamlNodeKind::Mapping(vec![requires.clone()]),
        },
    };
    let mut entries = match new.get("metadata").map(|metadata| &metadata.node.kind) {
        Some(YamlNodeKind::Mapping(entries)) => entries.clone(),
        // `metadata` may be an object as JSON in a string.
        _ => {
            let metadata: Value = skill
                .metadata
                .clone()
                .into_iter()
                .collect::<serde_json::Map<_, _>>()
                .into();
            match YamlNode::from_json(&metadata, (1, 1)).kind {
                YamlNodeKind::Mapping(entries) => entries,
                _ => Vec::new(),
            }
        }
    };
    entries.push(new_yaml_entry(place, inner.kind));
    set_document_key(new, "metadata", YamlNodeKind::Mapping(entries));
}

fn set_document_key(document: &mut YamlDocument, key: &str, kind: YamlNodeKind) {
    match document.entries.iter_mut().find(|entry| entry.key == key) {
        Some(found) => found.node.kind = kind,
        None => document.entries.push(new_yaml_entry(key, kind)),
    }
}

fn text_list_node(texts: &[String]) -> YamlNodeKind {
    YamlNode::from_json(&json!(texts), (1, 1)).kind
}

/// Returns the first part, other than the lost keys, in which the converted skill differs from the
/// original.
pub(super) fn find_converted_skill_difference(
    before: &Skill,
    after: &Skill,
    lost: &[UnconvertibleSkillKey],
) -> Option<&'static str> {
    let is_lost = |key: &str| lost.iter().any(|lost| lost.key == key);
    let (mut want, mut got) = (before.clone(), after.clone());
    if want.invocation == SkillInvocationRule::Disabled {
        (want.invocation, want.user_invocable) = (SkillInvocationRule::UserOnly, false);
    }
    if is_lost("tools.allow") {
        want.tools.allow = None;
    }
    if is_lost("side_effects") {
        want.side_effects.clear();
    }
    if is_lost("trust") {
        // A skill without `trust` has the trust of the location where it is found.
        want.trust = got.trust;
    }
    if is_lost("interaction") {
        want.interaction = SkillLifetime::Returning;
    }
    if is_lost("library_depends") {
        want.library_depends.clear();
    }
    if is_lost("attach") {
        want.attach = false;
    }
    if is_lost("generated_from") {
        want.generated_from = None;
    }
    if is_lost("arguments.schema") {
        want.arguments = None;
        if !want.argument_names.iter().all(is_argument_name) {
            want.argument_names.clear();
        }
    }
    if is_lost("requires") {
        want.requires = got.requires.clone();
    }
    let moved = METADATA_KEYS_FOR_SKILL_REQUIREMENTS
        .into_iter()
        .find(|place| !want.metadata.contains_key(*place));
    moved.map(|place| got.metadata.remove(place));
    for skill in [&mut want, &mut got] {
        // The order of denied tools does not matter, nor does a second name of the same tool.
        let mut names = BTreeSet::new();
        for name in skill.tools.deny.iter().map(SkillToolNamePattern::text) {
            names.insert(name.to_owned());
            names.extend(claude_tool_names(name).map(str::to_owned));
        }
        let names = names
            .iter()
            .filter_map(|name| SkillToolNamePattern::new(name).ok());
        skill.tools.deny = names.collect();
        let SkillRequirements {
            bins,
            any_bins,
            env,
        } = &mut skill.requires;
        [bins, any_bins, env]
            .into_iter()
            .for_each(|names| names.sort());
    }
    super::find_skill_difference(&want, &got)
}

fn is_argument_name(name: &String) -> bool {
    let is_in_name = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    !name.is_empty() && name != "ARGUMENTS" && name.chars().all(is_in_name)
}
