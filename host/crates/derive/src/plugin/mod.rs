//! Derives the skill of a plugin: its tools with arguments and examples, its commands and hooks,
//! and its permissions.
//!
//! `SKILL.md` lists everything in short form, and pages in `references` have the details. The
//! plugin is loaded without grants, so the skill describes it as its author wrote it.

mod package;

use std::collections::BTreeMap;

use serde_json::Value;

use super::bundle::SkillDraft;
use super::markdown::{MarkdownBlockKind, sanitize_docs_markdown, sanitized_first_sentence};
use super::schema;
use super::text::{
    code_span, end_with_full_stop, fence_code, join_names_with_limit, skill_slug, to_markdown_line,
};
use super::{MAX_ENTRIES_PER_LIST, MAX_README_EXCERPT_BYTES, count_unlisted_items};
pub use package::PluginPackage;
use package::{PackagedCommand, ToolCallExample};
use rind_lib::message::{EffectClass, ToolSpec};

/// Maximum length of a description in the list of all tools, in bytes.
const MAX_LISTED_DESCRIPTION_BYTES: usize = 300;

/// Maximum length of a description on a tool's own page, in bytes.
const MAX_TOOL_PAGE_DESCRIPTION_BYTES: usize = 8 << 10;

/// Maximum number of example calls that the skill shows per tool.
const MAX_EXAMPLES_PER_TOOL: usize = 3;

/// Maximum number of tools or commands that the skill's description names.
const MAX_TOOLS_NAMED_IN_DESCRIPTION: usize = 8;

/// Maximum number of arguments per tool in the list of all tools.
const MAX_LISTED_ARGUMENTS_PER_TOOL: usize = 20;

pub(crate) fn draft_plugin_skill(package: &PluginPackage) -> SkillDraft {
    let name = &package.name;
    let mut references = BTreeMap::new();
    let mut body = format!(
        "{}\n\n",
        to_markdown_line(&package.description, MAX_LISTED_DESCRIPTION_BYTES * 2)
    );
    if !package.tools.is_empty() {
        body.push_str("## Tools\n\n");
        let tools = package.tools.iter();
        tools
            .take(MAX_ENTRIES_PER_LIST)
            .for_each(|tool| body.push_str(&format_tool_line(tool)));
        if let Some(n) = count_unlisted_items(package.tools.len()) {
            body.push_str(&format!("- and {n} more\n"));
        }
        body.push_str(
            "\nArguments and examples of each: [references/tools.md](references/tools.md).\n\n",
        );
        let all: Vec<String> = package
            .tools
            .iter()
            .map(|tool| render_tool_page(tool, &package.examples))
            .collect();
        references.insert(
            "tools.md".to_owned(),
            format!("# Tools of the plugin {name}\n\n{}", all.join("\n")),
        );
    }
    write_commands_section(&mut body, package);
    if !package.hooks.is_empty() {
        body.push_str("## What it does by itself\n\nThe host calls it at these points of a session; nothing has to be done for it.\n\n");
        package.hooks.iter().for_each(|hook| body.push_str(hook));
        body.push('\n');
    }
    body.push_str(&render_permissions_section(package));
    if let Some(settings) = package
        .settings
        .as_ref()
        .map(schema::list_properties)
        .filter(|list| !list.is_empty())
    {
        references.insert(
            "settings.md".to_owned(),
            format!(
                "# Settings of the plugin {name}\n\nThe operator sets them in `config.toml`, under `[plugins.{name}.config]`.\n\n{settings}"
            ),
        );
    }
    if let Some(readme) = package.readme.as_deref().map(|text| {
        sanitize_docs_markdown(text, MarkdownBlockKind::Document, MAX_README_EXCERPT_BYTES)
    }) {
        let is_more = readme.trim() != package.description.trim() && !readme.is_empty();
        if is_more {
            references.insert(
                "readme.md".to_owned(),
                format!("# README of the plugin {name}\n\n{readme}"),
            );
        }
    }
    list_unlinked_pages(&mut body, &references);
    SkillDraft {
        name: skill_slug(name).unwrap_or_else(|| "plugin".to_owned()),
        package: name.clone(),
        version: Some(package.version.clone()),
        description: format_plugin_description(package),
        side_effects: package.side_effects.clone(),
        library_depends: vec![name.clone()],
        title: format!("Plugin {name} {}", package.version),
        body,
        references,
        ..SkillDraft::default()
    }
}

/// Returns the description for the catalogue: the purpose of the plugin, and when a model should
/// read the skill.
fn format_plugin_description(package: &PluginPackage) -> String {
    let what = end_with_full_stop(&rind_lib::text::escape_and_truncate_line(
        &package.description,
        600,
    ));
    let names: Vec<&str> = package
        .tools
        .iter()
        .map(|tool| tool.name.as_str())
        .collect();
    let when = match (names.as_slice(), package.commands.as_slice()) {
        ([], []) => format!(
            "Use when the plugin {} acts in a session, or to understand what it did.",
            package.name
        ),
        ([], commands) => {
            let names: Vec<String> = commands
                .iter()
                .map(|command| format!("/{}", command.name))
                .collect();
            format!(
                "Use when the user asks about its commands: {}.",
                join_names_with_limit(&names, MAX_TOOLS_NAMED_IN_DESCRIPTION)
            )
        }
        ([one], _) => format!("Use when its tool {one} is to be called."),
        (names, _) => format!(
            "Use when one of its tools is to be called: {}.",
            join_names_with_limit(names, MAX_TOOLS_NAMED_IN_DESCRIPTION)
        ),
    };
    rind_lib::text::escape_and_truncate_line(&format!("{what} {when}"), 1000)
}

fn format_tool_line(tool: &ToolSpec) -> String {
    let text = sanitized_first_sentence(
        &tool.description,
        MarkdownBlockKind::Plain,
        MAX_LISTED_DESCRIPTION_BYTES,
    );
    let arguments = match schema::sorted_property_names(&tool.parameters).as_slice() {
        [] => "No arguments.".to_owned(),
        names => format!(
            "Arguments: {}.",
            join_names_with_limit(names, MAX_LISTED_ARGUMENTS_PER_TOOL)
        ),
    };
    format!(
        "- {} ({}): {} {arguments}\n",
        code_span(&tool.name, 64),
        describe_tool_effect(tool.effect_class),
        end_with_full_stop(&text)
    )
}

fn describe_tool_effect(class: EffectClass) -> &'static str {
    match class {
        EffectClass::Read => "only reads",
        EffectClass::Write => "changes files",
        EffectClass::Execute => "runs programs",
        EffectClass::External => "reaches the network or other services",
    }
}

fn render_tool_page(tool: &ToolSpec, examples: &[ToolCallExample]) -> String {
    let mut page = format!(
        "## {}\n\n{}\n\nEffect: {}.\n",
        code_span(&tool.name, 64),
        sanitize_docs_markdown(
            &tool.description,
            MarkdownBlockKind::Plain,
            MAX_TOOL_PAGE_DESCRIPTION_BYTES
        ),
        describe_tool_effect(tool.effect_class)
    );
    let arguments = schema::list_properties(&tool.parameters);
    match arguments.is_empty() {
        true => page.push_str("\nIt takes no arguments.\n"),
        false => page.push_str(&format!("\nArguments:\n\n{arguments}")),
    }
    let examples = examples.iter().filter(|example| example.tool == tool.name);
    for example in examples.take(MAX_EXAMPLES_PER_TOOL) {
        let result = match serde_json::from_str::<Value>(&example.result) {
            Ok(Value::Object(_) | Value::Array(_)) => fence_code("json", &example.result),
            _ => fence_code("text", &example.result),
        };
        page.push_str(&format!(
            "\nExample: {}\n\n{}\nanswers\n\n{result}",
            to_markdown_line(&example.case, MAX_LISTED_DESCRIPTION_BYTES),
            fence_code("json", &example.arguments)
        ));
    }
    page
}

fn write_commands_section(body: &mut String, package: &PluginPackage) {
    if !package.commands.is_empty() || !package.prompts.is_empty() {
        body.push_str("## Slash commands\n\nThe user types them; they are not tools.\n\n");
        let commands = package.commands.iter().take(MAX_ENTRIES_PER_LIST);
        commands.for_each(|command| body.push_str(&format_slash_command_item(command)));
        for file in package.prompts.iter().take(MAX_ENTRIES_PER_LIST) {
            let name = file.trim_end_matches(".md");
            body.push_str(&format!(
                "- {}: a template of a prompt.\n",
                code_span(&format!("/{name}"), 80)
            ));
        }
        body.push('\n');
    }
    if !package.skills.is_empty() {
        let names: Vec<String> = package
            .skills
            .iter()
            .map(|name| code_span(name, 80))
            .collect();
        body.push_str(&format!(
            "It carries skills of its own: {}.\n\n",
            join_names_with_limit(&names, MAX_ENTRIES_PER_LIST)
        ));
    }
}

fn format_slash_command_item(command: &PackagedCommand) -> String {
    let names = command
        .arguments
        .as_ref()
        .map(schema::sorted_property_names)
        .unwrap_or_default();
    let arguments = match names.as_slice() {
        [] => String::new(),
        names => format!(
            " Arguments: {}.",
            join_names_with_limit(names, MAX_LISTED_ARGUMENTS_PER_TOOL)
        ),
    };
    let name = code_span(&format!("/{}", command.name), 80);
    let text = to_markdown_line(&command.description, MAX_LISTED_DESCRIPTION_BYTES);
    format!("- {name}: {text}{arguments}\n")
}

/// Renders the section that lists the plugin's requested permissions and required plugins.
fn render_permissions_section(package: &PluginPackage) -> String {
    let mut text = "## What it may touch\n\n".to_owned();
    if package.permissions.is_empty() {
        text.push_str("It asks for no permission: it reaches no files, no network and no model.\n");
    } else {
        text.push_str("It asks the operator for permission to:\n\n");
        for permission in &package.permissions {
            text.push_str(&format!(
                "- {}\n",
                to_markdown_line(permission, MAX_LISTED_DESCRIPTION_BYTES)
            ));
        }
        if let Some(together) = &package.together {
            text.push_str(&format!(
                "\nTogether: it {}.\n",
                to_markdown_line(together, MAX_LISTED_DESCRIPTION_BYTES * 2)
            ));
        }
        text.push_str(&format!(
            "\nWhat was granted on this machine: `rind plugin inspect {} --grants`.\n",
            package.name
        ));
    }
    if !package.dependencies.is_empty() {
        let names: Vec<String> = package
            .dependencies
            .iter()
            .map(|name| code_span(name, 80))
            .collect();
        text.push_str(&format!(
            "\nIt needs these plugins: {}.\n",
            names.join(", ")
        ));
    }
    text.push('\n');
    text
}

/// Lists the pages in `references` that no section links to.
fn list_unlinked_pages(body: &mut String, references: &BTreeMap<String, String>) {
    let pages = [
        ("settings.md", "its settings, which the operator changes"),
        ("readme.md", "its own documentation"),
    ];
    let there: Vec<_> = pages
        .iter()
        .filter(|(name, _)| references.contains_key(*name))
        .collect();
    if there.is_empty() {
        return;
    }
    body.push_str("## More\n\n");
    for (name, what) in there {
        body.push_str(&format!(
            "- [references/{name}](references/{name}): {what}\n"
        ));
    }
}
