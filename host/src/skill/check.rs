//! Checks a skill against its environment: files that its text mentions, interpreters of its
//! scripts, tools and plugins.
//!
//! These findings depend on the machine and the session, unlike those of the parser, which depend
//! on the file alone.

use std::collections::BTreeSet;
use std::path::{Component, Path};
use std::sync::LazyLock;

use regex::Regex;

use super::catalogue::{MAX_CATALOGUE_DESCRIPTION_CHARS, describe_skill};
use super::model::{Diagnostic, ProgramAndVariableLookup, Severity, Skill, Source};
use super::parse::is_claude_tool;
use super::scope::SkillToolNamePattern;
use crate::front_matter::{
    self, YamlDocument, YamlMappingEntry, YamlNode, YamlNodeKind, YamlPosition,
};
use crate::near::find_nearest_name;
use crate::text::escape_and_truncate_line;

/// Number of lines above which a skill's body causes a warning, because the body fills the context;
/// the format recommends this maximum.
const MAX_RECOMMENDED_BODY_LINES: usize = 500;

/// Maximum number of file references per skill that are checked.
const MAX_CHECKED_FILE_REFERENCES: usize = 200;

/// Interpreters of scripts, by the extension of the script.
const SCRIPT_INTERPRETERS_BY_EXTENSION: &[(&str, &str)] = &[
    ("bash", "bash"),
    ("js", "node"),
    ("mjs", "node"),
    ("pl", "perl"),
    ("ps1", "pwsh"),
    ("py", "python3"),
    ("rb", "ruby"),
    ("sh", "bash"),
];

/// Conventional directories of a bundle: a path that begins with one of them is relative to the
/// bundle.
const BUNDLE_FOLDER_NAME_ALTERNATIVES: &str =
    "scripts|references|reference|assets|templates|examples";

/// Regular expression for the file references in a skill's text: paths in Markdown links, paths
/// after a placeholder for the bundle's directory, and paths in inline code that begin with one of
/// [`BUNDLE_FOLDER_NAME_ALTERNATIVES`].
#[expect(clippy::expect_used, reason = "the pattern is a constant")]
static FILE_REFERENCE_REGEX: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = format!(
        r"\]\((?<link>[^)\s#]+)(?:#[^)\s]*)?\)|(?:\{{baseDir\}}|\$\{{CLAUDE_SKILL_DIR\}})/(?<based>[\w./-]+)|`(?:[a-z0-9]+ )?(?:\./)?(?<code>(?:{BUNDLE_FOLDER_NAME_ALTERNATIVES})/[\w./-]+)"
    );
    Regex::new(&pattern).expect("a valid pattern")
});

/// Tools and plugins that would be available to the skill in a session.
#[derive(Clone, Debug, Default)]
pub struct ToolsAndPluginsForSkill {
    /// Names of the tools, each with the name of the plugin that provides it, if a plugin does.
    pub tools: Vec<(String, Option<String>)>,
    /// Names of the plugins that would be available.
    pub plugins: Vec<String>,
}

/// Checks a parsed skill against its environment, and returns the findings. The findings of the
/// parser are not included.
#[must_use]
pub fn check_skill(
    skill: &Skill,
    around: Option<&ToolsAndPluginsForSkill>,
    available: &dyn ProgramAndVariableLookup,
) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let places = FrontMatterPositions::read_front_matter_positions(skill);
    let mut add = |(line, column): YamlPosition, severity: Severity, text: String, hint: &str| {
        let hint = hint.to_owned();
        found.push(Diagnostic {
            line,
            column,
            severity,
            text,
            hint,
        });
    };
    for missing in skill.requires.missing_requirements(available) {
        let (at, text) = (
            places.find_position(&["requires"], ""),
            format!("{missing} is missing"),
        );
        let hint = "the model does not get the skill until the tool exists";
        add(at, Severity::Warning, text, hint);
    }
    if let Some(around) = around {
        let any = |pattern: &&SkillToolNamePattern| {
            let mut tools = around.tools.iter();
            tools.any(|(name, plugin)| pattern.matches(name, plugin.as_deref()))
        };
        let allowed = skill.tools.allow.iter().flatten();
        for pattern in allowed.filter(|p| !any(p)) {
            let name = pattern.text();
            let text = format!("`tools.allow` names `{name}`, and there is no such tool");
            let hint = "load the plugin that has it, or correct the name; `rind tools` lists all";
            add(
                places.find_position(&["tools"], name),
                Severity::Error,
                text,
                hint,
            );
        }
        let denied = skill.tools.deny.iter();
        for pattern in denied.filter(|p| !any(p) && !is_claude_tool(p.text())) {
            let text = format!("it denies `{}`, and there is no such tool", pattern.text());
            let hint = "correct the name if it is misspelt; `rind tools` lists all";
            let at = places.find_position(&["disallowed-tools", "deny", "tools"], pattern.text());
            add(at, Severity::Warning, text, hint);
        }
        for spare in &skill.spares {
            if !around.tools.iter().any(|(name, _)| *name == spare.tool) {
                let text = format!("`allowed-tools` names `{spare}`, and there is no such tool");
                let at = places.find_position(&["allowed-tools"], &spare.to_string());
                add(at, Severity::Warning, text, "it has no effect");
            }
        }
        for name in &skill.library_depends {
            if !around.plugins.contains(name) {
                let text = format!("it depends on the plugin `{name}`, which is not loaded");
                // A skill that was generated from the plugin only describes the plugin, and so
                // remains valid if the plugin is not loaded.
                let about = skill.generated_from.as_ref();
                let is_about = about.is_some_and(|from| from.package == *name);
                let severity = match is_about {
                    true => Severity::Warning,
                    false => Severity::Error,
                };
                let hint =
                    "install it with `rind plugin install`, or name its folder with `--plugin`";
                let at = places.find_position(&["library_depends"], name);
                add(at, severity, text, hint);
            }
        }
    }
    if let Some(model) = skill
        .model
        .as_ref()
        .filter(|_| !skill.may_choose_model() && skill.source != Source::Local)
    {
        let text = format!(
            "`model: {}` has no effect: only a skill of the user chooses a model",
            escape_and_truncate_line(model, 64)
        );
        add(
            places.find_position(&["model"], ""),
            Severity::Note,
            text,
            "",
        );
    }
    if describe_skill(skill).is_cut {
        let text = format!(
            "the description is cut at {MAX_CATALOGUE_DESCRIPTION_CHARS} characters in the catalogue"
        );
        let at = places.find_position(&["description"], "");
        add(at, Severity::Warning, text, "shorten it");
    }
    let n_lines = skill.body.lines().count();
    if n_lines > MAX_RECOMMENDED_BODY_LINES {
        let text = format!(
            "the text of the skill has {n_lines} lines, more than the recommended {MAX_RECOMMENDED_BODY_LINES}, and the model reads all of them"
        );
        let hint = "move what is not always needed into files beside it";
        add((skill.body_line, 1), Severity::Warning, text, hint);
    }
    if !skill.is_flat {
        check_file_references(skill, &mut add);
        check_script_files(skill, available, &mut add);
    }
    found
}

/// Returns a finding for each tool that a skill allows or denies, if the tool does not exist but an
/// existing tool has a similar name. `known` lists the existing tools, each with its plugin.
#[must_use]
pub fn find_misspelt_tools(skill: &Skill, known: &[(Option<&str>, &str)]) -> Vec<Diagnostic> {
    let named = |pattern: &&SkillToolNamePattern| {
        let is_there = known
            .iter()
            .any(|(plugin, name)| pattern.matches(name, *plugin));
        !is_there && !is_claude_tool(pattern.text())
    };
    let allowed = skill.tools.allow.iter().flatten().filter(named);
    let denied = skill.tools.deny.iter().filter(named);
    let all = allowed
        .map(|pattern| ("allows", pattern))
        .chain(denied.map(|pattern| ("denies", pattern)));
    let mut places = None;
    let found = all.filter_map(|(verb, pattern)| {
        let text = pattern.text();
        let (plugin, name) = match text.rsplit_once(':') {
            Some((plugin, name)) => (Some(plugin), name),
            None => (None, text),
        };
        let own = known
            .iter()
            .filter(|(own, _)| plugin.is_none() || plugin == *own);
        let meant = find_nearest_name(name, own.map(|(_, name)| *name))?;
        let places =
            places.get_or_insert_with(|| FrontMatterPositions::read_front_matter_positions(skill));
        let (line, column) =
            places.find_position(&["disallowed-tools", "deny", "allow", "tools"], text);
        Some(Diagnostic {
            line,
            column,
            severity: Severity::Warning,
            text: format!(
                "skill `{}` {verb} `{text}`, and there is no such tool",
                skill.id
            ),
            hint: format!("did you mean `{meant}`?"),
        })
    });
    found.collect()
}

/// Positions of keys and values in the front matter of a skill.
struct FrontMatterPositions(YamlDocument);

impl FrontMatterPositions {
    /// Parses the skill's file again to find the positions. Finds none if the file can no longer be
    /// read, and none for keys in `SKILL.json`.
    fn read_front_matter_positions(skill: &Skill) -> Self {
        let bytes = match &skill.held {
            Some(held) => held.file_content(&skill.file).map(<[u8]>::to_vec),
            None => std::fs::read(&skill.file).ok(),
        };
        let text = String::from_utf8(bytes.unwrap_or_default()).unwrap_or_default();
        let front = front_matter::split_front_matter(&text).map(|(front, _)| front);
        let document = front.and_then(|front| front_matter::parse_yaml_document(front).ok());
        Self(document.unwrap_or_default())
    }

    /// Returns the position of a value under one of these keys. If the value is not found, returns
    /// the position of the key; if the key is not found either, the beginning of the file.
    fn find_position(&self, keys: &[&str], value: &str) -> YamlPosition {
        let entries: Vec<&YamlMappingEntry> =
            keys.iter().filter_map(|key| self.0.get(key)).collect();
        let in_value = entries
            .iter()
            .find_map(|entry| find_yaml_scalar_position(&entry.node, value));
        let of_key = entries.first().map(|entry| entry.place);
        in_value.or(of_key).unwrap_or((1, 1))
    }
}

fn find_yaml_scalar_position(node: &YamlNode, value: &str) -> Option<YamlPosition> {
    match &node.kind {
        YamlNodeKind::Scalar(text, _) => {
            (!value.is_empty() && text.contains(value)).then_some(node.place)
        }
        YamlNodeKind::List(nodes) => nodes
            .iter()
            .find_map(|node| find_yaml_scalar_position(node, value)),
        YamlNodeKind::Mapping(entries) => entries
            .iter()
            .find_map(|entry| find_yaml_scalar_position(&entry.node, value)),
    }
}

fn check_file_references(
    skill: &Skill,
    add: &mut impl FnMut(YamlPosition, Severity, String, &str),
) {
    let mut seen = BTreeSet::new();
    let mut is_code = false;
    for (at, line) in (skill.body_line..).zip(skill.body.lines()) {
        is_code ^= line.trim_start().starts_with("```");
        for captures in FILE_REFERENCE_REGEX.captures_iter(line) {
            let name = |name: &str| captures.name(name).map(|found| found.as_str());
            let (link, path) = (name("link"), name("based").or_else(|| name("code")));
            // Markdown link syntax inside code is an example, not a link.
            let Some(path) = path.or(link.filter(|_| !is_code)) else {
                continue;
            };
            let path = path.trim_end_matches('.');
            let is_local = !path.contains("://")
                && !path.starts_with(['/', '#', '<', '$', '{'])
                && !path.starts_with("mailto:");
            if !is_local
                || seen.len() >= MAX_CHECKED_FILE_REFERENCES
                || !seen.insert(path.to_owned())
            {
                continue;
            }
            let mut names = Path::new(path).components();
            let (fault, hint) = if names.any(|name| name == Component::ParentDir) {
                let hint = "put the file into the bundle; it cannot be read as part of the skill";
                ("leads out of the bundle", hint)
            } else if !skill.bundle_contains(Path::new(path)) {
                ("is not in the bundle", "add the file or correct the path")
            } else {
                continue;
            };
            add(
                (at, 1),
                Severity::Warning,
                format!("`{path}` {fault}"),
                hint,
            );
        }
    }
}

fn check_script_files(
    skill: &Skill,
    available: &dyn ProgramAndVariableLookup,
    add: &mut impl FnMut(YamlPosition, Severity, String, &str),
) {
    let mut told = BTreeSet::new();
    for name in skill.file_names_in("scripts") {
        let ending = name.rsplit('.').next().unwrap_or_default();
        let Some((_, program)) = SCRIPT_INTERPRETERS_BY_EXTENSION
            .iter()
            .find(|(known, _)| *known == ending)
        else {
            continue;
        };
        if !available.has_program(program) && told.insert(program) {
            let text = format!("`scripts/{name}` needs `{program}`, which is not on this machine");
            let hint = "install it; the script cannot run without";
            add((1, 1), Severity::Warning, text, hint);
        }
    }
}
