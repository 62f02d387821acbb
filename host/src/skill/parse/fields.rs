//! Converts a parsed front matter into a skill, key by key.
//!
//! A faulty value of a restricting key never loosens the restriction; faulty values of keys that
//! only describe the skill are handled leniently.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::model::{
    Diagnostic, Skill, SkillExecutionContext, SkillInvocationRule, SkillLifetime,
    SkillRequirements, SourcePackage,
};
use super::describe::{body_start_line, find_shell_command_line, read_description};
use super::diagnose::{SkillFileDiagnostics, fatal_diagnostic};
use super::keys::{FrontMatterKeyKind, find_key_kind, find_similar_key};
use super::limits::{
    parse_side_effects_field, read_argument_declarations, read_path_patterns, read_trust_level,
};
use super::requires::{
    parse_skill_requirements, read_metadata, read_metadata_requirements, source_package_to_json,
};
use super::{FORMAT, SkillFile, tools};
use crate::front_matter::{YamlDocument, YamlMappingEntry, YamlNode, YamlNodeKind};
use crate::text::escape_and_truncate_line;

/// Maximum length of the label of a skill, in bytes.
const MAX_SKILL_LABEL_BYTES: usize = 200;

const INVOCATION_RULES_BY_NAME: &[(&str, SkillInvocationRule)] = &[
    ("auto", SkillInvocationRule::Auto),
    ("user-only", SkillInvocationRule::UserOnly),
    ("disabled", SkillInvocationRule::Disabled),
];

const SKILL_LIFETIMES_BY_NAME: &[(&str, SkillLifetime)] = &[
    ("returning", SkillLifetime::Returning),
    ("conversational", SkillLifetime::Conversational),
];

const SKILL_EXECUTION_CONTEXTS_BY_NAME: &[(&str, SkillExecutionContext)] = &[
    ("inline", SkillExecutionContext::Inline),
    ("fork", SkillExecutionContext::Fork),
];

pub(super) fn read_skill(
    file: &SkillFile<'_>,
    document: &YamlDocument,
    body: &str,
    hash: String,
    reader: &mut SkillFileDiagnostics,
) -> Result<Skill, Diagnostic> {
    let mut skill = empty_skill(file, body, hash);
    let mut description = None;
    for entry in &document.entries {
        if entry.key == "skill_format" {
            check_format_version(entry, reader.n_before)?;
        }
    }
    for entry in &document.entries {
        match entry.key.as_str() {
            "description" => description = Some(entry),
            key if find_key_kind(key).is_some() => {
                read_known_front_matter_key(entry, &mut skill, reader)
            }
            key => {
                let meant = find_similar_key(key);
                if meant.is_some_and(|(known, _)| known == "description") {
                    description = description.or(Some(entry));
                }
                report_unknown_key(entry, meant, &mut skill, reader);
            }
        }
    }
    read_description(description, &mut skill, reader)?;
    if let Some(place) = find_shell_command_line(&skill.body) {
        let first = skill.body_line;
        let place = (first + place - 1 - reader.n_before.min(first), 1);
        let text = "the text has a command to run before it is read (`!` and a command)";
        let hint = "it is never run, and stays in the text unchanged";
        reader.add_note(place, text, hint);
    }
    read_metadata_requirements(&mut skill, reader);
    if skill.invocation != SkillInvocationRule::Auto && !skill.user_invocable {
        let text = "neither the model nor the user may start the skill";
        let key = document.get("user-invocable").map_or((1, 1), |e| e.place);
        reader.add_warning(key, text, "remove `user-invocable: false`");
    }
    if reader.n_faults > 0 {
        skill.spares.clear();
        skill.invocation = skill.invocation.max(SkillInvocationRule::UserOnly);
        skill.is_restricted = true;
    }
    skill.diagnostics = std::mem::take(&mut reader.diagnostics);
    Ok(skill)
}

fn empty_skill(file: &SkillFile<'_>, body: &str, hash: String) -> Skill {
    Skill {
        id: file.id(),
        label: file.folder.to_owned(),
        description: String::new(),
        when_to_use: None,
        body: Arc::from(body),
        body_line: body_start_line(file.bytes, body),
        dir: file.dir.to_owned(),
        real_dir: file.real_dir.to_owned(),
        held: file.held.cloned(),
        file: file.file.to_owned(),
        is_flat: file.is_flat,
        source: file.source.clone(),
        installed: None,
        trust: file.trust,
        invocation: SkillInvocationRule::Auto,
        user_invocable: true,
        tools: Default::default(),
        spares: Vec::new(),
        side_effects: Vec::new(),
        arguments: None,
        argument_names: Vec::new(),
        argument_hint: None,
        interaction: SkillLifetime::Returning,
        context: SkillExecutionContext::Inline,
        agent: None,
        model: None,
        effort: None,
        paths: Vec::new(),
        requires: SkillRequirements::default(),
        missing: Vec::new(),
        library_depends: Vec::new(),
        attach: false,
        generated_from: None,
        version: None,
        license: None,
        compatibility: None,
        metadata: BTreeMap::new(),
        hash,
        is_restricted: false,
        diagnostics: Vec::new(),
    }
}

fn check_format_version(entry: &YamlMappingEntry, n_before: usize) -> Result<(), Diagnostic> {
    let given = entry.node.scalar_text().unwrap_or_default();
    if given == FORMAT {
        return Ok(());
    }
    let (line, column) = entry.node.place;
    let text = format!("`skill_format` is `{given}`, which this program cannot read");
    let hint = format!(
        "this program reads `{FORMAT}`, and files without `skill_format`; update rind, or ask the author for a file in that format"
    );
    Err(fatal_diagnostic((line + n_before, column), text, hint))
}

fn read_known_front_matter_key(
    entry: &YamlMappingEntry,
    skill: &mut Skill,
    reader: &mut SkillFileDiagnostics,
) {
    if let Some(FrontMatterKeyKind::Ignored(why)) = find_key_kind(&entry.key) {
        let text = format!("`{}` has no effect: {why}", entry.key);
        return reader.add_note(entry.place, text, "");
    }
    match entry.key.as_str() {
        "name" => {
            if let Some(name) = reader.read_descriptive_text(entry) {
                skill.label = escape_and_truncate_line(&name, MAX_SKILL_LABEL_BYTES);
            }
        }
        "when_to_use" => skill.when_to_use = reader.read_descriptive_text(entry),
        "license" => skill.license = reader.read_descriptive_text(entry),
        "compatibility" => skill.compatibility = reader.read_descriptive_text(entry),
        "version" => skill.version = reader.read_descriptive_text(entry),
        "agent" => {
            skill.agent = reader.read_descriptive_text(entry);
            let text = "`agent` has no effect: subagents are of one kind";
            reader.add_note(
                entry.place,
                text,
                "say in the text what the subagent is to be",
            );
        }
        "model" => skill.model = reader.read_descriptive_text(entry),
        "effort" => {
            skill.effort = reader.read_descriptive_text(entry);
            let text = "`effort` has no effect: requests leave it to the provider";
            reader.add_note(entry.place, text, "");
        }
        "argument-hint" => {
            skill.argument_hint = match &entry.node.kind {
                YamlNodeKind::List(items)
                    if items.iter().all(|item| item.scalar_text().is_some()) =>
                {
                    let items = items.iter().filter_map(YamlNode::scalar_text);
                    Some(
                        items
                            .map(|item| format!("[{item}]"))
                            .collect::<Vec<_>>()
                            .join(" "),
                    )
                }
                _ => reader.read_descriptive_text(entry),
            }
        }
        "metadata" => read_metadata(entry, skill, reader),
        "requires" => match parse_skill_requirements(&entry.node.to_json_value()) {
            Some(requires) => skill.requires = requires,
            None => {
                let text = "`requires` is not a mapping with `bins`, `any_bins` and `env`";
                reader.add_warning(
                    entry.node.place,
                    text,
                    "write `requires: {bins: [jq], env: [TOKEN]}`",
                );
            }
        },
        "generated_from" => {
            match serde_json::from_value::<SourcePackage>(source_package_to_json(&entry.node)) {
                Ok(from) => skill.generated_from = Some(from),
                Err(_) => {
                    let text = "`generated_from` is not a mapping with `package`, `version` and `source_hash`";
                    reader.add_warning(entry.node.place, text, "derive the skill again");
                }
            }
        }
        "interaction" => {
            if let Some(interaction) = reader.read_choice(entry, SKILL_LIFETIMES_BY_NAME) {
                skill.interaction = interaction;
            }
        }
        "allowed-tools" => {
            skill.spares = tools::parse_approval_exemptions(&entry.node, &skill.dir, reader)
        }
        "library_depends" | "attach" => parse_plugin_dependency_field(entry, skill, reader),
        _ => parse_permission_field(entry, skill, reader),
    }
}

/// Reads the value of a key that restricts the skill or grants it rights.
fn parse_permission_field(
    entry: &YamlMappingEntry,
    skill: &mut Skill,
    reader: &mut SkillFileDiagnostics,
) {
    match entry.key.as_str() {
        "tools" => tools::read_tools_field(entry, &mut skill.tools, reader),
        "disallowed-tools" => {
            tools::read_denied_tools("disallowed-tools", &entry.node, &mut skill.tools, reader);
        }
        "model_invocation" => {
            let invocation = reader.read_choice(entry, INVOCATION_RULES_BY_NAME);
            // If both keys are present, the stricter one applies.
            skill.invocation = skill
                .invocation
                .max(invocation.unwrap_or(SkillInvocationRule::UserOnly));
        }
        "disable-model-invocation" => {
            let stricter = match reader.read_boolean(entry) {
                Some(false) => SkillInvocationRule::Auto,
                _ => SkillInvocationRule::UserOnly,
            };
            skill.invocation = skill.invocation.max(stricter);
        }
        "user-invocable" => skill.user_invocable = reader.read_boolean(entry).unwrap_or(true),
        "side_effects" => parse_side_effects_field(entry, skill, reader),
        "trust" => read_trust_level(entry, skill, reader),
        "context" => {
            if let Some(context) = reader.read_choice(entry, SKILL_EXECUTION_CONTEXTS_BY_NAME) {
                skill.context = context;
            }
        }
        "paths" => read_path_patterns(entry, skill, reader),
        "arguments" => read_argument_declarations(entry, skill, reader),
        _ => {}
    }
}

fn report_unknown_key(
    entry: &YamlMappingEntry,
    meant: Option<(&'static str, FrontMatterKeyKind)>,
    skill: &mut Skill,
    reader: &mut SkillFileDiagnostics,
) {
    if let Some(inner) = entry.key.strip_prefix("metadata.") {
        skill
            .metadata
            .insert(inner.to_owned(), entry.node.to_json_value());
        return;
    }
    let key = escape_and_truncate_line(&entry.key, 60);
    match meant {
        Some((known, FrontMatterKeyKind::Rights)) => {
            if matches!(known, "tools" | "disallowed-tools") {
                // The author meant the key to restrict tools, but it is unknown which ones: allow
                // no tool.
                skill.tools.allow = Some(Vec::new());
            }
            let hint = format!("write `{known}`; until then only the user can start the skill");
            reader.add_error(entry.place, format!("unknown key `{key}`"), hint);
        }
        Some((known, _)) => {
            let hint = format!("write `{known}` if you mean this key");
            reader.add_warning(entry.place, format!("unknown key `{key}`"), hint);
        }
        None => reader.add_note(entry.place, format!("`{key}` has no meaning here"), ""),
    }
}

fn parse_plugin_dependency_field(
    entry: &YamlMappingEntry,
    skill: &mut Skill,
    reader: &mut SkillFileDiagnostics,
) {
    if entry.key == "attach" {
        skill.attach = reader.read_boolean(entry).unwrap_or(false);
        return;
    }
    let texts = reader.read_text_list("library_depends", &entry.node);
    skill.library_depends = texts.into_iter().map(|(text, _)| text).collect();
}
