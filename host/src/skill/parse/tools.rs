//! Reads `tools`, `disallowed-tools` and `allowed-tools`: restrictions, and calls that should skip
//! the approval question.
//!
//! A fault in a list of denied tools denies every tool, and a faulty entry in a list of allowed
//! tools is omitted. A faulty entry in `allowed-tools` is ignored, so that its calls need approval
//! as usual.

use std::path::Path;

use super::super::expand::BUNDLE_FOLDER_PLACEHOLDERS;
use super::super::scope::{RequestedApprovalExemption, SkillToolNamePattern, ToolScope};
use super::diagnose::SkillFileDiagnostics;
use super::values;
use crate::front_matter::{YamlMappingEntry, YamlNode, YamlNodeKind, YamlPosition};
use crate::tool::command::{CommandPattern, is_program_launcher};

/// Names of Claude Code's tools, each with the equivalent tools of this program.
const CLAUDE_TOOL_EQUIVALENTS: &[(&str, &[&str])] = &[
    ("Agent", &["spawn_subagent"]),
    ("Bash", &["bash"]),
    ("BashOutput", &["background"]),
    ("Edit", &["edit_file"]),
    ("Glob", &["list_files"]),
    ("Grep", &["search"]),
    ("KillShell", &["background"]),
    ("LS", &["list_files"]),
    ("MultiEdit", &["edit_file"]),
    ("Read", &["read_file"]),
    ("Task", &["spawn_subagent"]),
    ("Write", &["write_file"]),
];

/// Name of the tool that runs commands.
const BASH_TOOL_NAME: &str = "bash";

/// Maximum number of entries in a list of tools.
const MAX_TOOL_LIST_ENTRIES: usize = 500;

/// Returns the names of this program's tools that are equivalent to a Claude Code tool.
fn list_claude_tool_equivalents(name: &str) -> &'static [&'static str] {
    let found = CLAUDE_TOOL_EQUIVALENTS
        .iter()
        .find(|(claude, _)| *claude == name);
    found.map_or(&[], |(_, names)| names)
}

/// Whether Claude Code has a tool of this name that has equivalents in this program.
pub(in super::super) fn is_claude_tool(name: &str) -> bool {
    !list_claude_tool_equivalents(name).is_empty()
}

/// Returns Claude Code's names of the tools that are equivalent to one of this program.
pub(in crate::skill) fn claude_tool_names(name: &str) -> impl Iterator<Item = &'static str> {
    let named = CLAUDE_TOOL_EQUIVALENTS
        .iter()
        .filter(move |(_, names)| names.contains(&name));
    named.map(|(claude, _)| *claude)
}

/// Reads `tools: {allow: …, deny: …}`, or the list of allowed tools, as in agents of Claude Code.
///
/// For example:
///
/// ```yaml
/// tools:
///   allow: [read_file, search]
///   deny: [bash]
/// ```
pub(super) fn read_tools_field(
    entry: &YamlMappingEntry,
    scope: &mut ToolScope,
    reader: &mut SkillFileDiagnostics,
) {
    const TOOLS_SYNTAX_HINT: &str = "write `tools: {allow: [read_file], deny: [bash]}`";
    let is_list = match &entry.node.kind {
        YamlNodeKind::Scalar(text, _) => !entry.node.is_null() && !text.trim().is_empty(),
        YamlNodeKind::List(items) => !items.is_empty(),
        YamlNodeKind::Mapping(_) => false,
    };
    if is_list {
        let listed = read_allowed_tools(&entry.node, reader);
        scope.allow.get_or_insert(listed);
        return;
    }
    let YamlNodeKind::Mapping(entries) = &entry.node.kind else {
        let text = "`tools` is neither a list of tools nor a mapping with `allow` and `deny`";
        // The key was meant to restrict tools, so a fault must not allow all tools: allow none.
        scope.allow = Some(Vec::new());
        return reader.add_error(entry.node.place, text, TOOLS_SYNTAX_HINT);
    };
    if entries.is_empty() {
        reader.add_error(entry.node.place, "`tools` is empty", TOOLS_SYNTAX_HINT);
    }
    for entry in entries {
        match entry.key.as_str() {
            "allow" => {
                let patterns = read_tool_patterns("tools.allow", &entry.node, reader);
                let patterns = patterns.into_iter().map(|(pattern, _)| pattern).collect();
                // Keep an empty list that a fault in another key has already set.
                scope.allow.get_or_insert(patterns);
            }
            "deny" => read_denied_tools("tools.deny", &entry.node, scope, reader),
            other => {
                let text = format!("`tools` has the unknown key `{other}`");
                // The key may have been meant as `allow`: if there is no list yet, allow no tool.
                scope.allow.get_or_insert_default();
                reader.add_error(entry.place, text, TOOLS_SYNTAX_HINT);
            }
        }
    }
}

/// Returns the tools of a list of allowed tools, by this program's names. A tool that this program
/// does not have is omitted, which allows nothing more. A tool with a specifier is omitted too,
/// because allowing the tool completely would exceed the author's intention.
fn read_allowed_tools(
    node: &YamlNode,
    reader: &mut SkillFileDiagnostics,
) -> Vec<SkillToolNamePattern> {
    const TOOLS_KEY: &str = "tools";
    let mut patterns = Vec::new();
    for (item, place) in split_list_items(TOOLS_KEY, node, reader) {
        let Some((name, specifier)) = split_tool_specifier(&item) else {
            let text = format!("`{TOOLS_KEY}`: `{item}` has unbalanced parentheses");
            reader.add_error(place, text, "write `Read, Grep`, or `{allow: [read_file]}`");
            continue;
        };
        if specifier.is_some() {
            let text = format!("`{TOOLS_KEY}`: `{item}` names only some calls of `{name}`");
            let hint = "the tool cannot be called; name it without parentheses to allow it whole";
            reader.add_warning(place, text, hint);
            continue;
        }
        let names = list_claude_tool_equivalents(name);
        // Names of other programs' tools begin with a capital letter; names of this program's tools
        // never do.
        if names.is_empty() && name.starts_with(|c: char| c.is_ascii_uppercase()) {
            let text = format!("`{TOOLS_KEY}`: Rind has no tool that does what `{name}` does");
            reader.add_note(place, text, "");
            continue;
        }
        if !names.is_empty() {
            patterns.extend(claude_tool_equivalent_patterns(name));
            continue;
        }
        match SkillToolNamePattern::new(name) {
            Ok(pattern) => patterns.push(pattern),
            Err(why) => {
                let hint =
                    "write the names that the model sees, or `plugin:tool`; `*` matches any text";
                reader.add_error(place, format!("`{TOOLS_KEY}`: `{name}` {why}"), hint);
            }
        }
    }
    patterns
}

fn read_tool_patterns(
    key: &str,
    node: &YamlNode,
    reader: &mut SkillFileDiagnostics,
) -> Vec<(SkillToolNamePattern, YamlPosition)> {
    let mut patterns = Vec::new();
    for (text, place) in reader.read_text_list(key, node) {
        match SkillToolNamePattern::new(&text) {
            Ok(pattern) => patterns.push((pattern, place)),
            Err(why) => {
                let text = format!("`{key}`: `{text}` {why}");
                let hint =
                    "write the names that the model sees, or `plugin:tool`; `*` matches any text";
                reader.add_error(place, text, hint);
            }
        }
    }
    patterns
}

/// Reads a list of denied tools. A tool with a specifier is denied completely. After a fault, no
/// tool is allowed.
pub(super) fn read_denied_tools(
    key: &str,
    node: &YamlNode,
    scope: &mut ToolScope,
    reader: &mut SkillFileDiagnostics,
) {
    let n_faults = reader.n_faults;
    let patterns = parse_denied_tool_patterns(key, node, reader);
    scope.deny.extend(patterns);
    if reader.n_faults > n_faults {
        // The tools that were meant to be denied are unknown: allow none.
        scope.allow = Some(Vec::new());
    }
}

fn parse_denied_tool_patterns(
    key: &str,
    node: &YamlNode,
    reader: &mut SkillFileDiagnostics,
) -> Vec<SkillToolNamePattern> {
    let mut patterns = Vec::new();
    for (item, place) in split_list_items(key, node, reader) {
        let Some((name, specifier)) = split_tool_specifier(&item) else {
            let text = format!("`{key}`: `{item}` has unbalanced parentheses");
            reader.add_error(place, text, "write `Tool` or `Tool(what)`");
            let name = item.split(['(', ')']).next().unwrap_or_default();
            patterns.extend(SkillToolNamePattern::new(name));
            patterns.extend(claude_tool_equivalent_patterns(name));
            continue;
        };
        if specifier.is_some() {
            let text = format!("`{key}`: `{item}` is meant to deny only some calls of `{name}`");
            let hint = "here the whole tool is denied; a rule in [tools] can deny single commands";
            reader.add_warning(place, text, hint);
        }
        match SkillToolNamePattern::new(name) {
            Ok(pattern) => patterns.push(pattern),
            Err(why) => {
                let hint =
                    "write the names that the model sees, or `plugin:tool`; `*` matches any text";
                reader.add_error(place, format!("`{key}`: `{name}` {why}"), hint);
            }
        }
        patterns.extend(claude_tool_equivalent_patterns(name));
    }
    patterns
}

/// Returns patterns for this program's equivalents of a Claude Code tool.
fn claude_tool_equivalent_patterns(name: &str) -> impl Iterator<Item = SkillToolNamePattern> {
    let names = list_claude_tool_equivalents(name).iter();
    names.filter_map(|name| SkillToolNamePattern::new(name).ok())
}

/// Reads `allowed-tools`: calls that the author wants to run without an approval question. These
/// entries never restrict tools. `folder` is the directory of the bundle, which `{baseDir}` expands
/// to.
pub(super) fn parse_approval_exemptions(
    node: &YamlNode,
    folder: &Path,
    reader: &mut SkillFileDiagnostics,
) -> Vec<RequestedApprovalExemption> {
    const ALLOWED_TOOLS_KEY: &str = "allowed-tools";
    let mut spares = Vec::new();
    for (item, place) in split_list_items(ALLOWED_TOOLS_KEY, node, reader) {
        let Some((name, specifier)) = split_tool_specifier(&item) else {
            let text = format!("`{ALLOWED_TOOLS_KEY}`: `{item}` has unbalanced parentheses");
            reader.add_error(place, text, "write `Tool` or `Bash(program *)`");
            continue;
        };
        match parse_approval_exemption(name, specifier, folder) {
            Ok(found) => spares.extend(found),
            Err((why, hint)) => reader.add_warning(
                place,
                format!("`{ALLOWED_TOOLS_KEY}`: `{item}` {why}"),
                hint,
            ),
        }
    }
    spares
}

type ApprovalExemptionParseError = (String, &'static str);

fn parse_approval_exemption(
    name: &str,
    specifier: Option<&str>,
    folder: &Path,
) -> Result<Vec<RequestedApprovalExemption>, ApprovalExemptionParseError> {
    let names: Vec<&str> = match list_claude_tool_equivalents(name) {
        [] => vec![name],
        names => names.to_vec(),
    };
    let is_name = |name: &str| {
        let is_in_name = |c: char| c.is_ascii_alphanumeric() || "_-:".contains(c);
        !name.is_empty() && name.chars().all(is_in_name)
    };
    if !is_name(name) {
        let hint = "name each tool; it spares no question as it is";
        return Err(("names no single tool".to_owned(), hint));
    }
    let command = match (names.contains(&BASH_TOOL_NAME), specifier.map(str::trim)) {
        (true, None | Some("" | "*" | ":*")) => {
            let hint = "name the commands, as in `Bash(git status *)`; every command asks as usual";
            return Err(("would be every command".to_owned(), hint));
        }
        (true, Some(text)) => Some(parse_command_pattern(&expand_bundle_folder_placeholder(
            text, folder,
        )?)?),
        (false, None | Some("" | "*")) => None,
        (false, Some(_)) => {
            let hint = "the tool asks as usual; a rule in [tools] can allow single calls";
            return Err(("names only some calls".to_owned(), hint));
        }
    };
    let spare = |name: &str| RequestedApprovalExemption {
        tool: name.to_owned(),
        command: command.clone(),
    };
    Ok(names.into_iter().map(spare).collect())
}

/// Expands the placeholder for the bundle's directory in a command.
fn expand_bundle_folder_placeholder(
    text: &str,
    folder: &Path,
) -> Result<String, ApprovalExemptionParseError> {
    let is_placed = |name: &&&str| text.contains(**name);
    let Some(name) = BUNDLE_FOLDER_PLACEHOLDERS.iter().find(is_placed) else {
        return Ok(text.to_owned());
    };
    let folder = folder.to_string_lossy();
    // If the directory's name contains whitespace or wildcards, the pattern would match other
    // commands as well.
    if folder.contains(|c: char| c.is_whitespace() || "*'\"\\".contains(c)) {
        let why = format!(
            "has `{name}`, and the path of the skill's folder has whitespace, quotes, `*` or `\\`"
        );
        return Err((why, "every command asks as usual; rename the folder"));
    }
    Ok(text.replace(name, &folder))
}

/// Parses the command pattern in `Bash(…)`. `git log:*` is the same as `git log *`; a `:` before a
/// star is allowed only at the end.
fn parse_command_pattern(text: &str) -> Result<CommandPattern, ApprovalExemptionParseError> {
    const COMMAND_PATTERN_SYNTAX_HINT: &str =
        "write a command as it is typed, with `*` at its end: `Bash(git log *)`";
    let text = match text.strip_suffix(":*") {
        Some(program) => format!("{} *", program.trim_end()),
        None => text.to_owned(),
    };
    let program = text.split_whitespace().next().unwrap_or_default();
    let name = program.rsplit('/').next().unwrap_or_default();
    if program.contains(['*', ':', '=']) || name.is_empty() {
        return Err(("names no program".to_owned(), COMMAND_PATTERN_SYNTAX_HINT));
    }
    // These programs run other programs, so running one without a question would allow every
    // command.
    if is_program_launcher(name) {
        let hint = "name the program that it is to run; every command asks as usual";
        return Err(("would be every command".to_owned(), hint));
    }
    if text.contains(":*") {
        let why = "has `:*` in its middle, where it matches nothing";
        return Err((why.to_owned(), COMMAND_PATTERN_SYNTAX_HINT));
    }
    let is_chain = "is more than one command, or has what rules cannot match";
    CommandPattern::new(&text).map_err(|_| (is_chain.to_owned(), COMMAND_PATTERN_SYNTAX_HINT))
}

/// Splits a list of tools: a YAML list, or a text with commas or whitespace, which do not split
/// inside parentheses.
fn split_list_items(
    key: &str,
    node: &YamlNode,
    reader: &mut SkillFileDiagnostics,
) -> Vec<(String, YamlPosition)> {
    let texts: Vec<(&str, YamlPosition)> = match &node.kind {
        YamlNodeKind::Scalar(text, _) if !node.is_null() => vec![(text.as_str(), node.place)],
        YamlNodeKind::List(items) if items.iter().all(|item| item.scalar_text().is_some()) => items
            .iter()
            .filter_map(|item| Some((item.scalar_text()?, item.place)))
            .collect(),
        _ if node.is_null() => {
            let text = format!("`{key}` has no value");
            reader.add_error(node.place, text, "name tools or remove the key");
            return Vec::new();
        }
        _ => {
            let text = format!("`{key}` is neither a text nor a list of texts");
            reader.add_error(node.place, text, "write `Read, Grep` or `[Read, Grep]`");
            return Vec::new();
        }
    };
    let mut items = Vec::new();
    for (text, place) in texts {
        let split = values::split_outside_brackets(text, ['(', ')']).into_iter();
        items.extend(split.map(|item| (item, place)));
    }
    if items.len() > MAX_TOOL_LIST_ENTRIES {
        let text = format!("`{key}` has more than {MAX_TOOL_LIST_ENTRIES} entries");
        reader.add_error(node.place, text, "remove some of them");
        items.clear();
    }
    items
}

/// Parses `Name` or `Name(specifier)`; `None` if the parentheses do not match.
fn split_tool_specifier(item: &str) -> Option<(&str, Option<&str>)> {
    let Some((name, rest)) = item.split_once('(') else {
        return (!item.contains(')')).then_some((item, None));
    };
    let inner = rest.strip_suffix(')')?;
    let mut depth = 0_i32;
    for c in inner.chars() {
        depth += match c {
            '(' => 1,
            ')' => -1,
            _ => 0,
        };
        if depth < 0 {
            return None;
        }
    }
    (depth == 0 && !name.is_empty()).then_some((name, Some(inner)))
}
