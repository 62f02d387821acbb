//! Converts slash commands of other agents into templates, and their agents into presets of
//! subagents.

use std::path::Path;

use rind_lib::front_matter::{self, parse_yaml_document};
use serde_json::{Map, Value, json};

use super::file::{ImportFileReadError, find_markdown_files, read_text_and_record_file};
use super::plan::{ImportPlan, ImportedFile, ImportedFileKind, SettingNotImported};

/// Maximum length of the name of a template or preset, in bytes.
const MAX_TEMPLATE_NAME_BYTES: usize = 64;

/// Tool names of OpenCode, each with the name that Rind's presets use.
const OPENCODE_TO_RIND_TOOL_NAMES: &[(&str, &str)] = &[
    ("bash", "Bash"),
    ("edit", "Edit"),
    ("glob", "Glob"),
    ("grep", "Grep"),
    ("read", "Read"),
    ("write", "Write"),
];

/// Function that adds one Markdown file to the plan. Arguments: name, front matter, body, path,
/// plan.
type AddMarkdownFileFn = fn(&str, &Map<String, Value>, &str, &Path, &mut ImportPlan);

/// Adds each Markdown file of a folder to the plan with the function `add`.
pub(crate) fn add_markdown_files_of_folder(
    folder: &Path,
    add: AddMarkdownFileFn,
    plan: &mut ImportPlan,
) -> Result<(), ImportFileReadError> {
    for (name, path) in find_markdown_files(folder)? {
        if let Some(text) = read_text_and_record_file(&path, plan)? {
            let (front, body) = split_front_matter(&text, &path, plan);
            add(&name, &front, body, &path, plan);
        }
    }
    Ok(())
}

/// Returns the keys of a front matter that are not in `known`, joined with commas.
fn join_unknown_front_matter_keys(front: &Map<String, Value>, known: &[&str]) -> String {
    let others = front.keys().map(String::as_str);
    let others: Vec<&str> = others.filter(|key| !known.contains(key)).collect();
    others.join(", ")
}

/// Slash command of another agent, converted into a template of Rind.
#[derive(Debug)]
pub struct SlashCommandTemplate {
    /// Text of the template file.
    pub text: String,
    /// Parts of the command that have no effect in a template.
    pub losses: Vec<SettingNotImported>,
}

/// Converts the text of a slash command of Claude Code. `path` is the command's file, used in
/// messages.
#[must_use]
pub fn convert_claude_command(name: &str, text: &str, path: &Path) -> SlashCommandTemplate {
    let mut plan = ImportPlan::default();
    let (front, body) = split_front_matter(text, path, &mut plan);
    let text = build_command_template_text(name, &front, body, path, &mut plan);
    SlashCommandTemplate {
        text,
        losses: plan.losses,
    }
}

/// Converts one slash command to a template and adds it to the plan.
pub(crate) fn add_slash_command_template(
    name: &str,
    front: &Map<String, Value>,
    body: &str,
    path: &Path,
    plan: &mut ImportPlan,
) {
    let text = build_command_template_text(name, front, body, path, plan);
    add_imported_file_to_plan(ImportedFileKind::Template, name, text, path, plan);
}

/// Returns the text of the template for a slash command.
fn build_command_template_text(
    name: &str,
    front: &Map<String, Value>,
    body: &str,
    path: &Path,
    plan: &mut ImportPlan,
) -> String {
    let others =
        join_unknown_front_matter_keys(front, &["description", "argument-hint", "template"]);
    if !others.is_empty() {
        let why =
            "a template has none of these: it runs with the model, tools and rules of the session";
        plan.record_setting_not_imported(path, format!("/{name}: {others}"), why);
    }
    if body.contains("!`") {
        let why = "a template runs no commands: the model reads the line as it is, and may run the command under your rules";
        plan.record_setting_not_imported(path, format!("/{name}: !`…`"), why);
    }
    let description = front.get("description").and_then(Value::as_str);
    let hint = front.get("argument-hint").and_then(Value::as_str);
    let description = match (description, hint) {
        (Some(description), Some(hint)) => format!("{description} ({hint})"),
        (Some(text), None) | (None, Some(text)) => text.to_owned(),
        (None, None) => "Imported command".to_owned(),
    };
    format!(
        "---\ndescription: {}\n---\n{}\n",
        json!(description),
        convert_template_body(body).trim()
    )
}

/// Adds one agent of OpenCode as a preset. A primary agent, which starts conversations, is reported
/// as a loss.
pub(crate) fn add_opencode_agent(
    name: &str,
    front: &Map<String, Value>,
    body: &str,
    path: &Path,
    plan: &mut ImportPlan,
) {
    let what = format!("agent {name}");
    let entry = |key: &str| front.get(key).and_then(Value::as_str);
    if entry("mode") == Some("primary") {
        return plan.record_setting_not_imported(
            path,
            what,
            "it is a primary agent; put its text into AGENTS.md, and its model into [provider]",
        );
    }
    if front.contains_key("permission") {
        return plan.record_setting_not_imported(path, what, "it has permissions of its own, and a preset has none: the rules of [tools] hold for subagents, too");
    }
    let known = ["description", "mode", "model", "tools", "prompt", "disable"];
    let others = join_unknown_front_matter_keys(front, &known);
    if !others.is_empty() {
        plan.record_setting_not_imported(
            path,
            format!("{what}: {others}"),
            "a preset has none of these",
        );
    }
    let mut text = format!("---\nname: {}\n", json!(name));
    let description = entry("description").unwrap_or("Imported agent");
    text += &format!("description: {}\n", json!(description));
    if let Some(tools) = front.get("tools") {
        let is_on = |tool: &str| tools.get(tool).or_else(|| tools.get("*")) != Some(&json!(false));
        let on: Vec<&str> = OPENCODE_TO_RIND_TOOL_NAMES
            .iter()
            .filter(|(tool, _)| is_on(tool))
            .map(|(_, own)| *own)
            .collect();
        if on.is_empty() {
            return plan.record_setting_not_imported(
                path,
                what,
                "Rind has none of its tools; for a preset without tools use `minimal`",
            );
        }
        text += &format!("tools: {}\n", on.join(", "));
    }
    if let Some(model) = entry("model") {
        text += &format!(
            "model: {}\n",
            json!(model.rsplit('/').next().unwrap_or(model))
        );
    }
    text += &format!("---\n{}\n", body.trim());
    add_imported_file_to_plan(ImportedFileKind::Preset, name, text, path, plan);
}

fn add_imported_file_to_plan(
    kind: ImportedFileKind,
    name: &str,
    text: String,
    path: &Path,
    plan: &mut ImportPlan,
) {
    let own = name.to_ascii_lowercase().replace(['_', ' ', '.'], "-");
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if own.is_empty() || own.len() > MAX_TEMPLATE_NAME_BYTES || !own.chars().all(fits) {
        return plan.record_setting_not_imported(
            path,
            name,
            "a name consists of small letters, digits and `-`",
        );
    }
    if plan
        .files
        .iter()
        .any(|file| file.kind == kind && file.name == own)
    {
        let why = format!("another file has the name `{own}`");
        return plan.record_setting_not_imported(path, name, why);
    }
    plan.files.push(ImportedFile {
        kind,
        name: own,
        text,
        from: path.to_owned(),
    });
}

/// Splits a Markdown file into front matter and body. A front matter that cannot be parsed is
/// recorded as lost.
fn split_front_matter<'a>(
    text: &'a str,
    path: &Path,
    plan: &mut ImportPlan,
) -> (Map<String, Value>, &'a str) {
    let Some((front, body)) = front_matter::split_front_matter(text) else {
        return (Map::new(), text);
    };
    match parse_yaml_document(front) {
        Ok(document) => {
            let entries = document.entries.into_iter();
            (
                entries
                    .map(|entry| (entry.key, entry.node.to_json_value()))
                    .collect(),
                body,
            )
        }
        Err(((line, _), why)) => {
            plan.record_setting_not_imported(path, format!("front matter, line {line}"), why);
            (Map::new(), body)
        }
    }
}

/// Text that is appended to a template whose command does not refer to its arguments.
const APPENDED_ARGUMENTS_TEMPLATE: &str =
    "{% if arguments %}\n\nARGUMENTS: {{ arguments }}{% endif %}\n";

/// Converts the body of a command into a template: `$ARGUMENTS` and `$1` become template
/// expressions, and other text with the syntax of an expression is escaped.
///
/// If the command uses no arguments, the template appends them at its end, as Claude Code does.
fn convert_template_body(body: &str) -> String {
    let mut own = String::new();
    let mut takes_text = false;
    let mut rest = body;
    while let Some(at) = rest.find(['{', '$']) {
        let (before, found) = rest.split_at(at);
        own += before;
        let (written, n_read) = convert_leading_placeholder(found);
        takes_text |= found.starts_with('$') && n_read > 1;
        own += &written;
        rest = &found[n_read..];
    }
    own += rest;
    if !takes_text {
        own.truncate(own.trim_end().len());
        own += APPENDED_ARGUMENTS_TEMPLATE;
    }
    own
}

/// Returns the replacement for the beginning of `text`, which starts with `{` or `$`, and the
/// number of bytes that it replaces.
fn convert_leading_placeholder(text: &str) -> (String, usize) {
    if ["{{", "{%", "{#"]
        .iter()
        .any(|opening| text.starts_with(opening))
    {
        return (format!("{{{{ {} }}}}", json!(&text[..2])), 2);
    }
    if text.starts_with("$ARGUMENTS") {
        return ("{{ arguments }}".to_owned(), "$ARGUMENTS".len());
    }
    let digit = text[1..].chars().next().and_then(|c| c.to_digit(10));
    match digit
        .and_then(|n| n.checked_sub(1))
        .filter(|_| text.starts_with('$'))
    {
        Some(index) => (
            format!("{{{{ (arguments|split)[{index}]|default(\"\") }}}}"),
            2,
        ),
        None => (text[..1].to_owned(), 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_become_expressions_and_other_braces_stay() {
        for (body, expected) in [
            ("Fix $ARGUMENTS now", "Fix {{ arguments }} now"),
            (
                "Compare $1 and $2",
                r#"Compare {{ (arguments|split)[0]|default("") }} and {{ (arguments|split)[1]|default("") }}"#,
            ),
            ("Use ${{ secrets.X }}", r#"Use ${{ "{{" }} secrets.X }}"#),
            ("{% raw %}", r#"{{ "{%" }} raw %}"#),
            ("costs $0 or $x or {}", "costs $0 or $x or {}"),
            ("ends with $", "ends with $"),
            ("ä{", "ä{"),
        ] {
            let after = if expected.contains("arguments") {
                ""
            } else {
                APPENDED_ARGUMENTS_TEMPLATE
            };
            assert_eq!(
                convert_template_body(body),
                format!("{expected}{after}"),
                "{body}"
            );
        }
    }

    #[test]
    fn a_command_keeps_its_description_and_loses_what_templates_lack() {
        let mut plan = ImportPlan::default();
        let front = json!({ "description": "Say: \"hi\"", "argument-hint": "[who]", "allowed-tools": "Bash(git:*)" });
        let front = front.as_object().unwrap();
        add_slash_command_template(
            "git_fix",
            front,
            "Look: !`git status`",
            Path::new("c.md"),
            &mut plan,
        );
        let file = &plan.files[0];
        assert_eq!(file.name, "git-fix");
        let expected = format!(
            "---\ndescription: \"Say: \\\"hi\\\" ([who])\"\n---\nLook: !`git status`{APPENDED_ARGUMENTS_TEMPLATE}"
        );
        assert_eq!(file.text, expected);
        assert_eq!(plan.losses.len(), 2);
    }

    #[test]
    fn an_agent_of_opencode_keeps_the_tools_that_it_has_not_switched_off() {
        let mut plan = ImportPlan::default();
        let front = json!({ "description": "Reviews", "mode": "subagent", "tools": { "write": false, "edit": false, "bash": false }, "model": "anthropic/claude-x" });
        add_opencode_agent(
            "review",
            front.as_object().unwrap(),
            "Review.",
            Path::new("a.md"),
            &mut plan,
        );
        assert_eq!(
            plan.files[0].text,
            "---\nname: \"review\"\ndescription: \"Reviews\"\ntools: Glob, Grep, Read\nmodel: \"claude-x\"\n---\nReview.\n"
        );
        let front = json!({ "mode": "primary" });
        add_opencode_agent(
            "build",
            front.as_object().unwrap(),
            "",
            Path::new("b.md"),
            &mut plan,
        );
        assert_eq!(plan.files.len(), 1);
        assert_eq!(plan.losses.len(), 1);
    }
}
