//! Finds the commands that are not built in: templates of the user, of plugins and of a trusted
//! project, commands of plugins, skills that a person may run, and prompts of MCP servers.
//!
//! A file that cannot be used becomes an entry with the reason, so that `/help` can show it.

use std::sync::Arc;

use super::helper::TemplateRenderBackend;
use super::template::CommandTemplate;
use super::{
    MAX_COMMAND_DESCRIPTION_BYTES, SlashCommandDefinition, SlashCommandImplementation,
    SlashCommandOrigin, is_valid_template_name, user_prompts_folder,
};
use rind_lib::grant::held::InMemoryFolder;
use rind_lib::paths::{RindPaths, file_stem};
use rind_lib::plugin::commands::CommandSpec;
use rind_lib::plugin::load::{FoundPluginSet, LoadedPlugin};
use rind_lib::plugin::prompts::{
    MAX_TEMPLATES_PER_FOLDER, PROMPT_TEMPLATES_FOLDER_NAME, PromptTemplateFile,
};
use rind_lib::skill::{SessionSkills, Severity, Skill, Source, UnusableSkill};
use rind_lib::text::escape_and_truncate_line;
use rind_mcp::ApprovedServerPrompts;
use rind_operator::project_commands::read_commands;

/// Reads the templates in the folder `prompts` next to the user's settings.
pub(super) fn read_user_template_commands(paths: &RindPaths) -> Vec<SlashCommandDefinition> {
    let files = rind_lib::plugin::prompts::read_prompt_files(&user_prompts_folder(paths), None);
    commands_from_prompt_files(files, &SlashCommandOrigin::User)
}

/// Lists the commands of all loaded plugins, and the templates in their folders.
pub(super) fn plugin_commands(plugins: &FoundPluginSet) -> Vec<SlashCommandDefinition> {
    let each = plugins.plugins.iter();
    each.flat_map(|plugin| commands_of_plugin(plugin)).collect()
}

/// Lists the slash commands and the prompt templates of one plugin.
pub(super) fn commands_of_plugin(plugin: &LoadedPlugin) -> Vec<SlashCommandDefinition> {
    let origin = SlashCommandOrigin::Plugin(plugin.trust, plugin.manifest.name.clone());
    let own = plugin.commands.iter();
    let own = own.map(|spec| plugin_command_entry(plugin, spec, &origin));
    own.chain(commands_from_prompt_files(plugin.prompts.clone(), &origin))
        .collect()
}

fn plugin_command_entry(
    plugin: &LoadedPlugin,
    spec: &CommandSpec,
    origin: &SlashCommandOrigin,
) -> SlashCommandDefinition {
    let granted = plugin.granted_capabilities().capabilities().iter();
    SlashCommandDefinition {
        name: spec.name.clone(),
        description: spec.description.clone(),
        arguments: spec.arguments.clone(),
        origin: origin.clone(),
        may: granted.map(rind_lib::grant::describe_capability).collect(),
        kind: SlashCommandImplementation::Plugin(plugin.manifest.name.clone()),
    }
}

/// Lists the project's templates and its slash commands for Claude Code, from the copy of their
/// files that was made when the project was trusted.
pub(super) fn commands_of_project(
    paths: &RindPaths,
    held: &InMemoryFolder,
) -> Vec<SlashCommandDefinition> {
    let own = rind_lib::plugin::prompts::read_prompt_files(
        &paths.project_folder().join(PROMPT_TEMPLATES_FOLDER_NAME),
        Some(held),
    );
    let mut files = own.to_vec();
    // A template of Rind hides a command for Claude Code with the same name.
    let commands = read_commands(&paths.workspace, held).templates.into_iter();
    let is_own = |file: &PromptTemplateFile| {
        let name = file_stem(&file.path);
        own.iter().any(|own| file_stem(&own.path) == name)
    };
    files.extend(commands.filter(|file| !is_own(file)));
    commands_from_prompt_files(files.into(), &SlashCommandOrigin::Project)
}

/// Lists the skills that a person may run, and the unusable skills with the reason.
pub(super) fn skill_commands(skills: &SessionSkills) -> Vec<SlashCommandDefinition> {
    let usable = skills
        .iter()
        .filter(|skill| skill.is_startable_by_user())
        .map(skill_command_entry);
    let unusable = skills
        .unusable_skills()
        .iter()
        .map(create_unusable_skill_entry);
    usable.chain(unusable).collect()
}

fn skill_command_entry(skill: &Arc<Skill>) -> SlashCommandDefinition {
    SlashCommandDefinition {
        name: strip_plugin_prefix(&skill.id, &skill.source).to_owned(),
        description: escape_and_truncate_line(&skill.description, MAX_COMMAND_DESCRIPTION_BYTES),
        arguments: skill.arguments.clone(),
        origin: SlashCommandOrigin::Skill(skill.trust, skill.source.clone()),
        may: Vec::new(),
        kind: SlashCommandImplementation::Skill(skill.clone()),
    }
}

/// Converts the prompts of MCP servers that the operator accepted to slash commands.
pub(super) fn mcp_prompts_to_commands(
    servers: &[ApprovedServerPrompts],
) -> Vec<SlashCommandDefinition> {
    let mut entries = Vec::new();
    for own in servers {
        let origin = SlashCommandOrigin::Server(own.server.clone());
        entries.extend(own.prompts.iter().map(|prompt| SlashCommandDefinition {
            name: prompt.slash_command_name(),
            description: escape_and_truncate_line(
                &prompt.description,
                MAX_COMMAND_DESCRIPTION_BYTES,
            ),
            arguments: Some(prompt.arguments_schema()),
            origin: origin.clone(),
            may: Vec::new(),
            kind: SlashCommandImplementation::ServerPrompt(prompt.name.clone()),
        }));
    }
    entries
}

/// Returns the id of a skill without the prefix `plugin:`.
fn strip_plugin_prefix<'a>(id: &'a str, source: &Source) -> &'a str {
    let plugin = source.plugin_name();
    let own = plugin.and_then(|plugin| id.strip_prefix(plugin)?.strip_prefix(':'));
    own.unwrap_or(id)
}

fn create_unusable_skill_entry(skill: &UnusableSkill) -> SlashCommandDefinition {
    let mut faults = skill.diagnostics.iter();
    let fault = faults.find(|fault| fault.severity == Severity::Error);
    let why = fault.map_or_else(|| "it cannot be used".to_owned(), ToString::to_string);
    let name = strip_plugin_prefix(&skill.id, &skill.source).to_owned();
    let origin = SlashCommandOrigin::Skill(skill.trust, skill.source.clone());
    broken_command_entry(name, format!("{}:{why}", skill.file.display()), &origin)
}

/// Checks all templates. An entry whose template cannot be used becomes a broken entry with the
/// reason.
pub(super) async fn mark_broken_command_templates(
    entries: &mut [SlashCommandDefinition],
    helper: &TemplateRenderBackend,
) {
    let sources: Vec<&str> = entries
        .iter()
        .filter_map(|entry| match &entry.kind {
            SlashCommandImplementation::Template(template) => {
                Some(template.body_with_line_padding())
            }
            _ => None,
        })
        .collect();
    if sources.is_empty() {
        return;
    }
    let mut names = helper
        .find_undeclared_template_variables(&sources)
        .await
        .into_iter();
    for entry in entries {
        let SlashCommandImplementation::Template(template) = &mut entry.kind else {
            continue;
        };
        let Some(Err(why)) = names
            .next()
            .map(|names| template.check_variables_are_declared(names))
        else {
            continue;
        };
        *entry = broken_command_entry(file_stem(&template.path), why, &entry.origin);
    }
}

fn commands_from_prompt_files(
    files: Arc<[PromptTemplateFile]>,
    origin: &SlashCommandOrigin,
) -> Vec<SlashCommandDefinition> {
    let n_more = files.len().saturating_sub(MAX_TEMPLATES_PER_FOLDER);
    let mut entries: Vec<SlashCommandDefinition> = files
        .iter()
        .take(MAX_TEMPLATES_PER_FOLDER)
        .map(|file| command_from_prompt_file(file, origin))
        .collect();
    if let Some(file) = files.get(MAX_TEMPLATES_PER_FOLDER) {
        let why = format!(
            "{n_more} more files are ignored: a folder of prompts may have at most {MAX_TEMPLATES_PER_FOLDER}"
        );
        entries.push(broken_command_entry(file_stem(&file.path), why, origin));
    }
    entries
}

fn command_from_prompt_file(
    file: &PromptTemplateFile,
    origin: &SlashCommandOrigin,
) -> SlashCommandDefinition {
    let (path, name) = (&file.path, file_stem(&file.path));
    let bytes = match &file.bytes {
        Ok(bytes) => bytes,
        Err(why) => {
            return broken_command_entry(name, format!("{}: {why}", path.display()), origin);
        }
    };
    if !is_valid_template_name(&name) {
        let why = format!(
            "{}: the name of a template consists of a-z, 0-9, `-` and `_`",
            path.display()
        );
        return broken_command_entry(name, why, origin);
    }
    match CommandTemplate::parse_template_file(path, bytes) {
        Err(why) => broken_command_entry(name, why, origin),
        Ok(template) => SlashCommandDefinition {
            name,
            description: template.description.clone(),
            arguments: template.arguments.clone(),
            origin: origin.clone(),
            may: Vec::new(),
            kind: SlashCommandImplementation::Template(template),
        },
    }
}

fn broken_command_entry(
    name: String,
    why: String,
    origin: &SlashCommandOrigin,
) -> SlashCommandDefinition {
    SlashCommandDefinition {
        name,
        description: String::new(),
        arguments: None,
        origin: origin.clone(),
        may: Vec::new(),
        kind: SlashCommandImplementation::Broken(why),
    }
}
