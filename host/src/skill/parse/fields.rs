//! A document becomes a skill: what each key means.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::super::model::{
    Context, Diagnostic, GeneratedFrom, Interaction, Invocation, Requires, Skill,
};
use super::diagnose::{Reader, refusal};
use super::keys::{Weight, meant, weight};
use super::{FORMAT, SkillFile, tools};
use crate::front_matter::{Document, Entry, Node, NodeKind};
use crate::grant::{SideEffect, Trust};
use crate::text::clean;
use crate::tool::schema;

/// Longest label, in bytes.
const MAX_LABEL_BYTES: usize = 200;

/// Longest description that other programs must read, in characters.
const MAX_DESCRIPTION_CHARS: usize = 1024;

/// Longest description that is kept, in bytes.
const MAX_DESCRIPTION_BYTES: usize = 16 << 10;

/// Most patterns of `paths`, and the longest of them in bytes.
const MAX_PATHS: usize = 100;
const MAX_PATH_BYTES: usize = 200;

/// Most alternatives in one pattern of `paths`.
const MAX_BRACES: usize = 8;

/// Most names of arguments.
const MAX_ARGUMENTS: usize = 64;

const SIDE_EFFECTS: &[(&str, SideEffect)] = &[
    ("none", SideEffect::None),
    ("filesystem", SideEffect::Filesystem),
    ("network", SideEffect::Network),
    ("session", SideEffect::Session),
    ("external", SideEffect::External),
];

const TRUSTS: &[(&str, Trust)] = &[
    ("local", Trust::Local),
    ("project", Trust::Project),
    ("user", Trust::User),
    ("package", Trust::Package),
    ("managed", Trust::Managed),
];

const INVOCATIONS: &[(&str, Invocation)] = &[
    ("auto", Invocation::Auto),
    ("user-only", Invocation::UserOnly),
    ("disabled", Invocation::Disabled),
];

const INTERACTIONS: &[(&str, Interaction)] = &[
    ("returning", Interaction::Returning),
    ("conversational", Interaction::Conversational),
];

const CONTEXTS: &[(&str, Context)] = &[("inline", Context::Inline), ("fork", Context::Fork)];

/// Makes the skill of a document.
pub(super) fn skill(
    file: &SkillFile<'_>,
    document: &Document,
    body: &str,
    hash: String,
    reader: &mut Reader,
) -> Result<Skill, Diagnostic> {
    let mut skill = empty(file, body, hash);
    let mut description = None;
    for entry in &document.entries {
        if entry.key == "skill_format" {
            check_format(entry, reader.n_before)?;
        }
    }
    for entry in &document.entries {
        match entry.key.as_str() {
            "description" => description = Some(entry),
            key if weight(key).is_some() => known(entry, &mut skill, reader),
            key => {
                if meant(key).is_some_and(|(known, _)| known == "description") {
                    description = description.or(Some(entry));
                }
                unknown(entry, &mut skill, reader);
            }
        }
    }
    describe(description, &mut skill, reader)?;
    if let Some(place) = live_command(&skill.body) {
        let first = body_line(file.bytes, body);
        let place = (first + place - 1 - reader.n_before.min(first), 1);
        let text = "the text has a command to run before it is read (`!` and a command)";
        let hint = "it is never run, and stands in the text as it is written";
        reader.note(place, text, hint);
    }
    requires_of_metadata(&mut skill);
    if skill.invocation != Invocation::Auto && !skill.user_invocable {
        let text = "neither the model nor the user may start the skill";
        let key = document.get("user-invocable").map_or((1, 1), |e| e.place);
        reader.warn(key, text, "remove `user-invocable: false`");
    }
    if reader.is_restricted {
        skill.spares.clear();
        skill.invocation = skill.invocation.max(Invocation::UserOnly);
        skill.is_restricted = true;
    }
    skill.diagnostics = std::mem::take(&mut reader.diagnostics);
    Ok(skill)
}

fn empty(file: &SkillFile<'_>, body: &str, hash: String) -> Skill {
    Skill {
        id: file.id(),
        label: file.folder.to_owned(),
        description: String::new(),
        when_to_use: None,
        body: Arc::from(body),
        dir: file.dir.to_owned(),
        file: file.file.to_owned(),
        is_flat: file.is_flat,
        source: file.source.clone(),
        installed: None,
        trust: file.trust,
        invocation: Invocation::Auto,
        user_invocable: true,
        tools: Default::default(),
        spares: Vec::new(),
        side_effects: Vec::new(),
        arguments: None,
        argument_names: Vec::new(),
        argument_hint: None,
        interaction: Interaction::Returning,
        context: Context::Inline,
        agent: None,
        model: None,
        effort: None,
        paths: Vec::new(),
        requires: Requires::default(),
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

fn check_format(entry: &Entry, n_before: usize) -> Result<(), Diagnostic> {
    let given = entry.node.text().unwrap_or_default();
    if given == FORMAT {
        return Ok(());
    }
    let (line, column) = entry.node.place;
    let text = format!("`skill_format` is `{given}`, which this program cannot read");
    let hint = format!(
        "it reads `{FORMAT}`, and files without `skill_format`; update rind, or ask the author for a file in that format"
    );
    Err(refusal((line + n_before, column), text, hint))
}

fn known(entry: &Entry, skill: &mut Skill, reader: &mut Reader) {
    if let Some(Weight::Ignored(why)) = weight(&entry.key) {
        let text = format!("`{}` has no effect: {why}", entry.key);
        return reader.note(entry.place, text, "");
    }
    match entry.key.as_str() {
        "name" => {
            if let Some(name) = reader.text(entry) {
                skill.label = clean(&name, MAX_LABEL_BYTES);
            }
        }
        "when_to_use" => skill.when_to_use = reader.text(entry),
        "license" => skill.license = reader.text(entry),
        "compatibility" => skill.compatibility = reader.text(entry),
        "version" => skill.version = reader.text(entry),
        "agent" => skill.agent = reader.text(entry),
        "model" => skill.model = reader.text(entry),
        "effort" => skill.effort = reader.text(entry),
        "argument-hint" => {
            skill.argument_hint = match &entry.node.kind {
                NodeKind::List(items) if items.iter().all(|item| item.text().is_some()) => {
                    let items = items.iter().filter_map(Node::text);
                    Some(
                        items
                            .map(|item| format!("[{item}]"))
                            .collect::<Vec<_>>()
                            .join(" "),
                    )
                }
                _ => reader.text(entry),
            }
        }
        "metadata" => metadata(entry, skill, reader),
        "requires" => match requires(&entry.node.value()) {
            Some(requires) => skill.requires = requires,
            None => {
                let text = "`requires` is no mapping with `bins`, `any_bins` and `env`";
                reader.warn(
                    entry.node.place,
                    text,
                    "write `requires: {bins: [jq], env: [TOKEN]}`",
                );
            }
        },
        "generated_from" => match serde_json::from_value::<GeneratedFrom>(stamp(&entry.node)) {
            Ok(from) => skill.generated_from = Some(from),
            Err(_) => {
                let text =
                    "`generated_from` is no mapping with `package`, `version` and `source_hash`";
                reader.warn(entry.node.place, text, "derive the skill again");
            }
        },
        "interaction" => {
            if let Some(interaction) = reader.one_of(entry, INTERACTIONS) {
                skill.interaction = interaction;
            }
        }
        "allowed-tools" => skill.spares = tools::spares(&entry.node, reader),
        "library_depends" | "attach" => library(entry, skill, reader),
        _ => rights(entry, skill, reader),
    }
}

/// Keys that restrict.
fn rights(entry: &Entry, skill: &mut Skill, reader: &mut Reader) {
    match entry.key.as_str() {
        "tools" => tools::scope(entry, &mut skill.tools, reader),
        "disallowed-tools" => {
            let denied = tools::denied("disallowed-tools", &entry.node, reader);
            skill.tools.deny.extend(denied);
        }
        "model_invocation" => {
            let invocation = reader.one_of(entry, INVOCATIONS);
            // Of two keys that say it the stricter holds.
            skill.invocation = skill
                .invocation
                .max(invocation.unwrap_or(Invocation::UserOnly));
        }
        "disable-model-invocation" => {
            let stricter = match reader.flag(entry) {
                Some(false) => Invocation::Auto,
                _ => Invocation::UserOnly,
            };
            skill.invocation = skill.invocation.max(stricter);
        }
        "user-invocable" => skill.user_invocable = reader.flag(entry).unwrap_or(true),
        "side_effects" => side_effects(entry, skill, reader),
        "trust" => trust(entry, skill, reader),
        "context" => {
            if let Some(context) = reader.one_of(entry, CONTEXTS) {
                skill.context = context;
            }
        }
        "paths" => paths(entry, skill, reader),
        "arguments" => arguments(entry, skill, reader),
        _ => {}
    }
}

fn unknown(entry: &Entry, skill: &mut Skill, reader: &mut Reader) {
    if let Some(inner) = entry.key.strip_prefix("metadata.") {
        skill.metadata.insert(inner.to_owned(), entry.node.value());
        return;
    }
    let key = clean(&entry.key, 60);
    match meant(&entry.key) {
        Some((known, Weight::Rights)) => {
            let hint = format!("write `{known}`; until then only the user can start the skill");
            reader.error(entry.place, format!("unknown key `{key}`"), hint);
        }
        Some((known, _)) => {
            let hint = format!("write `{known}` if that is meant");
            reader.warn(entry.place, format!("unknown key `{key}`"), hint);
        }
        None => reader.note(entry.place, format!("`{key}` has no meaning here"), ""),
    }
}

fn describe(
    entry: Option<&Entry>,
    skill: &mut Skill,
    reader: &mut Reader,
) -> Result<(), Diagnostic> {
    const HINT: &str = "say in one sentence what the skill does and when to use it";
    let place = entry.map_or((1, 1), |entry| entry.place);
    let text = entry.and_then(|entry| entry.node.text()).map(str::trim);
    if let Some(text) = text.filter(|text| !text.is_empty()) {
        skill.description = cut(text, MAX_DESCRIPTION_BYTES);
        if text.chars().count() > MAX_DESCRIPTION_CHARS {
            let text = format!("`description` has more than {MAX_DESCRIPTION_CHARS} characters");
            let hint = "shorten it: the format has that limit, and other programs may refuse it";
            reader.warn(place, text, hint);
        }
        return Ok(());
    }
    let Some(paragraph) = first_paragraph(&skill.body) else {
        let line = place.0 + reader.n_before;
        return Err(refusal((line, place.1), "there is no `description`", HINT));
    };
    skill.description = cut(&paragraph, MAX_DESCRIPTION_CHARS);
    match entry {
        Some(entry) if text.is_none() && !entry.node.is_null() => {
            reader.error(entry.node.place, "`description` is no text", HINT);
        }
        _ => {
            let text = "there is no `description`; the first paragraph stands in for it";
            reader.warn(place, text, HINT);
        }
    }
    Ok(())
}

fn cut(text: &str, limit: usize) -> String {
    text.get(..text.floor_char_boundary(limit))
        .unwrap_or_default()
        .to_owned()
}

/// The first lines of text that are no heading and no code.
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

fn metadata(entry: &Entry, skill: &mut Skill, reader: &mut Reader) {
    let mut value = entry.node.value();
    // Objects in JSON as a text are common.
    if let Value::String(text) = &value {
        value = serde_json::from_str(text).unwrap_or(Value::Null);
        if !value.is_object() {
            let text = "`metadata` is no mapping";
            return reader.warn(entry.node.place, text, "write `metadata: {key: text}`");
        }
    }
    match value {
        Value::Object(values) => skill.metadata.extend(values),
        Value::Null => {}
        _ => {
            let text = "`metadata` is no mapping";
            reader.warn(entry.node.place, text, "write `metadata: {key: text}`");
        }
    }
}

fn names(value: Option<&Value>) -> Option<Vec<String>> {
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

fn requires(value: &Value) -> Option<Requires> {
    let value = value.as_object()?;
    Some(Requires {
        bins: names(value.get("bins"))?,
        any_bins: names(value.get("any_bins").or_else(|| value.get("anyBins")))?,
        env: names(value.get("env"))?,
    })
}

/// Adds what `metadata.requires` and `metadata.ANY.requires` name, as two families of programs write it.
fn requires_of_metadata(skill: &mut Skill) {
    let values = skill.metadata.iter();
    let found: Vec<Requires> = values
        .filter_map(|(key, value)| match key.as_str() {
            "requires" => requires(value),
            _ => requires(value.get("requires")?),
        })
        .collect();
    let add = |all: &mut Vec<String>, more: Vec<String>| {
        for name in more {
            if !all.contains(&name) {
                all.push(name);
            }
        }
    };
    for one in found {
        add(&mut skill.requires.bins, one.bins);
        add(&mut skill.requires.any_bins, one.any_bins);
        add(&mut skill.requires.env, one.env);
    }
}

/// The stamp with each value as it was written.
fn stamp(node: &Node) -> Value {
    let NodeKind::Mapping(entries) = &node.kind else {
        return Value::Null;
    };
    let entries = entries
        .iter()
        .map(|e| (e.key.clone(), json!(e.node.text())));
    Value::Object(entries.collect())
}

fn library(entry: &Entry, skill: &mut Skill, reader: &mut Reader) {
    if entry.key == "attach" {
        skill.attach = reader.flag(entry).unwrap_or(false);
        return;
    }
    let texts = reader.texts("library_depends", &entry.node);
    skill.library_depends = texts.into_iter().map(|(text, _)| text).collect();
}

fn side_effects(entry: &Entry, skill: &mut Skill, reader: &mut Reader) {
    for (text, place) in reader.texts("side_effects", &entry.node) {
        match SIDE_EFFECTS.iter().find(|(word, _)| *word == text) {
            Some((_, effect)) if !skill.side_effects.contains(effect) => {
                skill.side_effects.push(*effect);
            }
            Some(_) => {}
            None => {
                let words: Vec<&str> = SIDE_EFFECTS.iter().map(|(word, _)| *word).collect();
                let text = format!("`side_effects` has the unknown value `{text}`");
                reader.error(place, text, format!("write `{}`", words.join("`, `")));
            }
        }
    }
    if skill.side_effects.contains(&SideEffect::None) && skill.side_effects.len() > 1 {
        skill
            .side_effects
            .retain(|effect| *effect != SideEffect::None);
        let text = "`side_effects` has `none` beside others";
        reader.error(entry.node.place, text, "remove `none`, or the others");
    }
}

fn trust(entry: &Entry, skill: &mut Skill, reader: &mut Reader) {
    match reader.one_of(entry, TRUSTS) {
        Some(declared) if declared < skill.trust => {
            let text = format!(
                "`trust: {declared}` has no effect: trust comes from where a skill lies, and that is {}",
                skill.trust
            );
            reader.note(entry.node.place, text, "");
        }
        Some(declared) => skill.trust = declared,
        None => skill.trust = Trust::Local,
    }
}

fn paths(entry: &Entry, skill: &mut Skill, reader: &mut Reader) {
    for (text, place) in reader.texts("paths", &entry.node) {
        let n_braces = text.matches(['{', ',']).count();
        let fault = if text.len() > MAX_PATH_BYTES || n_braces > MAX_BRACES {
            Some("is too long".to_owned())
        } else if skill.paths.len() >= MAX_PATHS {
            Some("is one pattern too many".to_owned())
        } else {
            globset::Glob::new(&text)
                .err()
                .map(|e| e.kind().to_string())
        };
        match fault {
            None => skill.paths.push(text),
            Some(why) => {
                let text = format!("`paths`: `{text}` {why}");
                reader.error(place, text, "write globs: `src/**/*.rs`");
            }
        }
    }
}

fn arguments(entry: &Entry, skill: &mut Skill, reader: &mut Reader) {
    const HINT: &str =
        "write `arguments: {schema: {properties: {path: {type: string}}}}`, or names: `[path]`";
    if !matches!(entry.node.kind, NodeKind::Mapping(_)) {
        for (name, place) in reader.texts("arguments", &entry.node) {
            let is_in_name = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
            if name.is_empty() || !name.chars().all(is_in_name) || name == "ARGUMENTS" {
                let text = format!("`arguments`: `{name}` cannot be a name");
                reader.error(place, text, HINT);
            } else if skill.argument_names.len() < MAX_ARGUMENTS {
                skill.argument_names.push(name);
            }
        }
        return;
    }
    let value = entry.node.value();
    let fault = |reader: &mut Reader, why: &str| {
        reader.error(entry.node.place, format!("`arguments`: {why}"), HINT);
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
    if let Err(why) = schema::compile(&schema) {
        return fault(reader, &why);
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    let names = properties.into_iter().flat_map(|p| p.keys());
    skill.argument_names = names.take(MAX_ARGUMENTS).cloned().collect();
    skill.arguments = Some(schema);
}

/// Line of the body, from 1, in which Claude Code would run a command: `` !`…` `` after a blank or at the start of a line.
fn live_command(body: &str) -> Option<usize> {
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

/// The line of a file in which its body begins.
fn body_line(bytes: &[u8], body: &str) -> usize {
    let before = bytes.get(..bytes.len().saturating_sub(body.len()));
    let before = before.unwrap_or_default().iter();
    before.filter(|byte| **byte == b'\n').count() + 1
}
