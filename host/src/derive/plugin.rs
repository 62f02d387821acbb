//! The skill of a plugin: its tools with arguments and examples, its commands and hooks, and what it asks for.

use std::collections::BTreeMap;

use serde_json::Value;

use super::bundle::{Draft, SourceHash};
use super::hooks;
use super::markdown::{Kind, first_line, prose};
use super::schema;
use super::text::{code, fenced, line, slug};
use crate::cases::file::{Case, CaseFile};
use crate::grant::{Granted, combined, in_words};
use crate::message::{EffectClass, ToolSpec};
use crate::plugin::commands::CommandSpec;
use crate::plugin::inspect::inspect;
use crate::plugin::load::Loaded;
use crate::plugin::manifest::Manifest;

/// Longest description of a tool where all are listed, in bytes.
const MAX_LINE_BYTES: usize = 300;

/// Longest description of a tool, in bytes.
const MAX_DESCRIPTION_BYTES: usize = 8 << 10;

/// Longest part of a README that is kept, in bytes.
const MAX_README_BYTES: usize = 12 << 10;

/// Most examples of one tool.
const MAX_EXAMPLES: usize = 3;

/// Longest argument or result of an example, in bytes.
const MAX_EXAMPLE_BYTES: usize = 2 << 10;

/// Most tools that a description names.
const MAX_NAMED_TOOLS: usize = 8;

/// A plugin as it was read and loaded, with nothing granted.
pub(crate) struct PluginPackage<'a> {
    /// Manifest as its author wrote it.
    pub(crate) manifest: &'a Manifest,
    /// The loaded plugin.
    pub(crate) loaded: &'a Loaded,
    pub(crate) readme: Option<&'a str>,
    /// Cases of its tests, from which examples are taken.
    pub(crate) cases: &'a [CaseFile],
    /// Folders of the skills that it carries.
    pub(crate) skills: Vec<String>,
    pub(crate) hash: SourceHash,
}

/// Derives the skill of a plugin.
pub(crate) fn draft(package: PluginPackage<'_>) -> Draft {
    let manifest = package.manifest;
    let tools = sorted(&package.loaded.tools, |tool| &tool.name);
    let commands = sorted(&package.loaded.commands, |command| &command.name);
    let report = inspect(package.loaded);
    let mut references = BTreeMap::new();
    let mut body = format!("{}\n\n", line(&manifest.description, MAX_LINE_BYTES * 2));
    if !tools.is_empty() {
        body.push_str("## Tools\n\n");
        tools
            .iter()
            .for_each(|tool| body.push_str(&tool_line(tool)));
        body.push_str(
            "\nArguments and examples of each: [references/tools.md](references/tools.md).\n\n",
        );
        let all: Vec<String> = tools
            .iter()
            .map(|tool| tool_page(tool, package.cases))
            .collect();
        references.insert(
            "tools.md".to_owned(),
            format!(
                "# Tools of the plugin {}\n\n{}",
                manifest.name,
                all.join("\n")
            ),
        );
    }
    let prompts: Vec<&str> = report.prompts.iter().map(String::as_str).collect();
    commands_section(&mut body, &commands, &prompts, &package.skills);
    if !report.hooks.is_empty() {
        body.push_str("## What it does by itself\n\nThe host calls it at these points of a session; nothing has to be done for it.\n\n");
        report
            .hooks
            .iter()
            .for_each(|hook| body.push_str(&hooks::in_words(hook)));
        body.push('\n');
    }
    body.push_str(&touches(manifest, &report.hooks));
    if let Some(settings) = manifest
        .config
        .as_ref()
        .map(schema::list)
        .filter(|list| !list.is_empty())
    {
        let name = &manifest.name;
        references.insert(
            "settings.md".to_owned(),
            format!(
                "# Settings of the plugin {name}\n\nThe operator sets them in `config.toml`, under `[plugins.{name}.config]`.\n\n{settings}"
            ),
        );
    }
    if let Some(readme) = package
        .readme
        .map(|text| prose(text, Kind::Document, MAX_README_BYTES))
    {
        let is_more = readme.trim() != manifest.description.trim() && !readme.is_empty();
        if is_more {
            references.insert(
                "readme.md".to_owned(),
                format!("# README of the plugin {}\n\n{readme}", manifest.name),
            );
        }
    }
    more(&mut body, &references);
    Draft {
        name: slug(&manifest.name).unwrap_or_else(|| "plugin".to_owned()),
        package: manifest.name.clone(),
        version: Some(manifest.version.to_string()),
        source_hash: package.hash.text(),
        license: None,
        description: description(manifest, &tools, &commands),
        side_effects: manifest.side_effects.clone(),
        library_depends: vec![manifest.name.clone()],
        title: format!("Plugin {} {}", manifest.name, manifest.version),
        body,
        summary: None,
        references,
    }
}

fn sorted<T>(all: &[T], name: impl Fn(&T) -> &String) -> Vec<&T> {
    let mut all: Vec<&T> = all.iter().collect();
    all.sort_by(|a, b| name(a).cmp(name(b)));
    all
}

/// Says for the catalogue what the plugin is, and when a model should read on.
fn description(manifest: &Manifest, tools: &[&ToolSpec], commands: &[&CommandSpec]) -> String {
    let what = sentence(&manifest.description);
    let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    let when = match (names.as_slice(), commands) {
        ([], []) => format!(
            "Use when the plugin {} acts in a session, or to understand what it did.",
            manifest.name
        ),
        ([], commands) => {
            let names: Vec<String> = commands
                .iter()
                .map(|command| format!("/{}", command.name))
                .collect();
            format!(
                "Use when the user asks about its commands: {}.",
                shortened(&names)
            )
        }
        ([one], _) => format!("Use when its tool {one} is to be called."),
        (names, _) => format!(
            "Use when one of its tools is to be called: {}.",
            shortened(names)
        ),
    };
    crate::text::clean(&format!("{what} {when}"), 1000)
}

fn shortened<T: AsRef<str>>(names: &[T]) -> String {
    let shown: Vec<&str> = names
        .iter()
        .take(MAX_NAMED_TOOLS)
        .map(AsRef::as_ref)
        .collect();
    match names.len().saturating_sub(MAX_NAMED_TOOLS) {
        0 => shown.join(", "),
        n => format!("{} and {n} more", shown.join(", ")),
    }
}

/// The text with a full stop at its end.
fn sentence(text: &str) -> String {
    let text = crate::text::clean(text, 600);
    match text.ends_with(['.', '!', '?', '…']) {
        true => text,
        false => format!("{text}."),
    }
}

fn tool_line(tool: &ToolSpec) -> String {
    let arguments = match schema::names(&tool.parameters) {
        names if names.is_empty() => "No arguments.".to_owned(),
        names => format!("Arguments: {}.", names.join(", ")),
    };
    let text = first_line(&tool.description, Kind::Plain, MAX_LINE_BYTES);
    let stop = if text.ends_with(['.', '!', '?', '…']) || text.is_empty() {
        ""
    } else {
        "."
    };
    format!(
        "- {} ({}): {text}{stop} {arguments}\n",
        code(&tool.name, 64),
        effect(tool.effect_class)
    )
}

fn effect(class: EffectClass) -> &'static str {
    match class {
        EffectClass::Read => "only reads",
        EffectClass::Write => "changes files",
        EffectClass::Execute => "runs programs",
        EffectClass::External => "reaches the network or other services",
    }
}

fn tool_page(tool: &ToolSpec, cases: &[CaseFile]) -> String {
    let mut page = format!(
        "## {}\n\n{}\n\nEffect: {}.\n",
        code(&tool.name, 64),
        prose(&tool.description, Kind::Plain, MAX_DESCRIPTION_BYTES),
        effect(tool.effect_class)
    );
    let arguments = schema::list(&tool.parameters);
    match arguments.is_empty() {
        true => page.push_str("\nIt takes no arguments.\n"),
        false => page.push_str(&format!("\nArguments:\n\n{arguments}")),
    }
    let mut examples = cases
        .iter()
        .flat_map(|file| &file.cases)
        .filter_map(|case| example(case, &tool.name));
    for example in examples.by_ref().take(MAX_EXAMPLES) {
        page.push('\n');
        page.push_str(&example);
    }
    page
}

/// A case in which the model calls the tool and the result is known.
fn example(case: &Case, tool: &str) -> Option<String> {
    let call = case.given.tool.as_ref().filter(|call| call.name == tool)?;
    let result = case.expect.results.as_ref()?.first()?;
    let arguments = serde_json::to_string_pretty(&call.arguments).ok()?;
    if arguments.len() > MAX_EXAMPLE_BYTES || result.len() > MAX_EXAMPLE_BYTES {
        return None;
    }
    let result = match serde_json::from_str::<Value>(result) {
        Ok(Value::Object(_) | Value::Array(_)) => fenced("json", result),
        _ => fenced("text", result),
    };
    Some(format!(
        "Example: {}\n\n{}\nanswers\n\n{result}",
        line(&case.name, MAX_LINE_BYTES),
        fenced("json", &arguments)
    ))
}

fn commands_section(
    body: &mut String,
    commands: &[&CommandSpec],
    prompts: &[&str],
    skills: &[String],
) {
    if !commands.is_empty() || !prompts.is_empty() {
        body.push_str("## Slash commands\n\nThe user types them; they are not tools.\n\n");
        for command in commands {
            let arguments = command
                .arguments
                .as_ref()
                .map(schema::names)
                .unwrap_or_default();
            let arguments = match arguments.as_slice() {
                [] => String::new(),
                names => format!(" Arguments: {}.", names.join(", ")),
            };
            let name = code(&format!("/{}", command.name), 80);
            let text = line(&command.description, MAX_LINE_BYTES);
            body.push_str(&format!("- {name}: {text}{arguments}\n"));
        }
        for file in prompts {
            let name = file.trim_end_matches(".md");
            body.push_str(&format!(
                "- {}: a template of a prompt.\n",
                code(&format!("/{name}"), 80)
            ));
        }
        body.push('\n');
    }
    if !skills.is_empty() {
        let names: Vec<String> = skills.iter().map(|name| code(name, 80)).collect();
        body.push_str(&format!(
            "It carries skills of its own: {}.\n\n",
            names.join(", ")
        ));
    }
}

/// Lists permissions that it asks for, and plugins that it needs.
fn touches(manifest: &Manifest, hooks: &[crate::plugin::inspect::HookReport]) -> String {
    let requested = manifest.requested();
    let mut text = "## What it may touch\n\n".to_owned();
    if requested.is_empty() {
        text.push_str("It asks for no permission: it reaches no files, no network and no model.\n");
    } else {
        text.push_str("It asks the operator for permission to:\n\n");
        requested.iter().for_each(|capability| {
            text.push_str(&format!(
                "- {}\n",
                line(&in_words(capability), MAX_LINE_BYTES)
            ))
        });
        if let Some(together) = combined(&Granted::new(requested), !hooks.is_empty()) {
            text.push_str(&format!(
                "\nTogether: it {}.\n",
                line(&together, MAX_LINE_BYTES * 2)
            ));
        }
        text.push_str("\nWhat was granted on this machine: `rind plugin inspect ");
        text.push_str(&format!("{} --grants`.\n", manifest.name));
    }
    if !manifest.dependencies.is_empty() {
        let names = manifest
            .dependencies
            .iter()
            .map(|(name, range)| code(&format!("{name} {range}"), 80));
        text.push_str(&format!(
            "\nIt needs these plugins: {}.\n",
            names.collect::<Vec<_>>().join(", ")
        ));
    }
    text.push('\n');
    text
}

/// Cites the pages that the sections above do not.
fn more(body: &mut String, references: &BTreeMap<String, String>) {
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
