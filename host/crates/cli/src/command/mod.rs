//! Slash commands: one registry of built-in commands, commands of plugins, prompt templates, skills
//! and prompts of MCP servers.
//!
//! Owns the commands and their order, the resolution of names that several commands share, and the
//! parsing of a typed line into a call. Only a person calls commands; the model cannot. Does not
//! use the terminal: the caller shows the outcome. Start from [`SlashCommandSet::parse_call`].

mod about;
mod arguments;
mod beside;
mod built_in;
mod find;
mod help;
pub(super) mod helper;
mod language;
mod list;
mod origin;
mod own;
mod prompts;
mod rewind;
mod run;
mod served;
mod template;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use serde_json::Value;

pub(super) use self::beside::OpenSessionHandles;
use self::built_in::BuiltInSlashCommand;
use self::helper::TemplateRenderBackend;
use self::list::RankedSlashCommandList;
use self::origin::SlashCommandOrigin;
pub(super) use self::prompts::CommandsServedAsMcpPrompts;
pub(super) use self::run::build_permissions_command_event;
use self::template::CommandTemplate;
use super::open::OptionalTerminalQuestionSender;
use rind_lib::agent::CompactConfig;
use rind_lib::grant::held::InMemoryFolder;
use rind_lib::host::InputCompletionRequest;
use rind_lib::lock::lock_ignoring_poison;
use rind_lib::message::PromptImageAttachment;
use rind_lib::paths::RindPaths;
use rind_lib::plugin::load::{FoundPluginSet, LoadedPlugin};
use rind_lib::provider::{Provider, SelectedProviderAndModel};
use rind_lib::skill::{SessionSkills, Skill, normalize_skill_name};
use rind_lib::tool::policy::SharedApprovalMode;
use rind_mcp::ApprovedServerPrompts;

/// Maximum length of the description of a command, in bytes.
const MAX_COMMAND_DESCRIPTION_BYTES: usize = 200;

/// Maximum length of the name of a command, in bytes.
const MAX_COMMAND_NAME_BYTES: usize = 64;

/// Slash commands that can be called, from all sources.
pub(super) struct SlashCommandSet {
    list: RwLock<RankedSlashCommandList>,
    about: BuiltInCommandContext,
    helper: TemplateRenderBackend,
    /// Channel for questions to the person at the terminal; `None` outside a session.
    asker: Mutex<OptionalTerminalQuestionSender>,
    /// Session that is open; `None` if no session is open.
    open: Mutex<Option<OpenSessionHandles>>,
    /// Names of the models that the server listed; empty until the server was asked.
    models: Mutex<Vec<String>>,
}

/// Parts of the host that built-in commands show and change.
pub(super) struct BuiltInCommandContext {
    pub(super) paths: RindPaths,
    pub(super) plugins: Arc<FoundPluginSet>,
    /// Permission rules of the settings, one line of text each.
    pub(super) rules: Vec<String>,
    /// Settings for compacting long conversations.
    pub(super) compact: CompactConfig,
    pub(super) skills: Arc<SessionSkills>,
    /// Approval mode of the session, which `/mode` switches.
    pub(super) switch: SharedApprovalMode,
    /// Whether calls that do more than read are only described and not run.
    pub(super) is_dry_run: bool,
    /// Prompts of the MCP servers that the operator approved.
    pub(super) servers: Vec<ApprovedServerPrompts>,
}

struct SlashCommandDefinition {
    name: String,
    description: String,
    /// JSON Schema of the arguments. `None`: the command takes the text after its name as one
    /// string.
    arguments: Option<Value>,
    origin: SlashCommandOrigin,
    /// Permissions of the plugin that runs the command, in plain language; empty for a command that
    /// only produces text.
    may: Vec<String>,
    kind: SlashCommandImplementation,
}

impl SlashCommandDefinition {
    /// Whether a typed name calls this command. Names of skills are compared by their
    /// [`normalize_skill_name`], which ignores case and invisible characters.
    fn matches_typed_name(&self, name: &str) -> bool {
        self.name == name
            || matches!(self.kind, SlashCommandImplementation::Skill(_))
                && normalize_skill_name(&self.name) == normalize_skill_name(name)
    }

    /// Whether the command is a prompt of an MCP server.
    fn is_mcp_server_prompt(&self) -> bool {
        matches!(self.origin, SlashCommandOrigin::Server(_))
    }

    /// Returns a line with the reason if this is a template that cannot be used.
    fn broken_template_warning_line(&self) -> Option<String> {
        let is_skill = matches!(self.origin, SlashCommandOrigin::Skill(..));
        match &self.kind {
            SlashCommandImplementation::Broken(why) if !is_skill => Some(format!(
                "the command /{} of {} cannot be used: {why}",
                self.name, self.origin
            )),
            _ => None,
        }
    }
}

enum SlashCommandImplementation {
    BuiltIn(&'static BuiltInSlashCommand),
    Template(CommandTemplate),
    Plugin(String),
    Skill(Arc<Skill>),
    /// The prompt of this name on the MCP server in `origin`.
    ServerPrompt(String),
    /// File that defines an unusable command, with the reason.
    Broken(String),
}

/// Call of a slash command with parsed arguments, ready to run.
#[derive(Clone)]
pub(super) struct SlashCommandCall {
    entry: Arc<SlashCommandDefinition>,
    arguments: Value,
    line: String,
}

impl SlashCommandCall {
    /// Returns the line of the call as the person typed it.
    pub(super) fn typed_line(&self) -> &str {
        &self.line
    }
}

#[derive(Debug)]
pub(super) enum SlashCommandRunOutcome {
    /// Untrusted text for the person. It is escaped when it is shown.
    Text(String),
    /// Input for a turn, which the command created.
    Prompt {
        text: String,
        /// The command and its source, such as `/review of the project's prompts`.
        command: String,
        /// Images that are sent to the model together with the text.
        images: Vec<PromptImageAttachment>,
    },
    /// No text and no action: the command has done its work.
    Nothing,
    /// An action that only the owner of the session can take.
    Action(PostCommandSessionAction),
}

/// Action that a command leaves to the code that owns the session, such as the chat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PostCommandSessionAction {
    Quit,
    /// Continue the interrupted turn of the session.
    Continue,
    /// Use this model from the next turn on.
    Model(String),
    /// End this session, and begin a new one.
    New,
    /// Reload settings, plugins, skills and templates in the same session.
    Reload,
    /// Copy this text to the clipboard of the terminal.
    Copy(String),
    /// Continue the existing session with the full id `id`, and show `text`.
    Resume {
        id: String,
        text: String,
    },
}

/// Name, description and usage of a command, for another program that lists the commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SlashCommandDescription {
    /// Name of the command, without the slash.
    pub(super) name: String,
    pub(super) description: String,
    /// Usage of the arguments, such as `<path> [depth]`; empty if there are none.
    pub(super) arguments: String,
}

/// Proposal to complete a line that the person types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InputLineCompletion {
    /// Byte offset in the line from which `text` replaces the rest.
    pub(super) start: usize,
    pub(super) text: String,
    /// Short help text for the completion; may be empty.
    pub(super) help: String,
}

/// Splits a line that calls a command into name and arguments. Such a line starts with a slash and
/// a name. A path is not a command, and a line with a blank before the slash is an ordinary prompt.
pub(super) fn split_command(line: &str) -> Option<(&str, &str)> {
    let rest = line.strip_prefix('/')?;
    let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
    let (name, arguments) = rest.split_at(end);
    let (qualifier, own) = name.split_once(':').unwrap_or(("x", name));
    let is_typed = |name: &str| is_valid_command_name(name) || is_valid_skill_name(name);
    (is_typed(own) && is_valid_command_name(qualifier)).then(|| (name, arguments.trim()))
}

/// Whether `name` can be the name of a skill, which is also the name of the skill's folder.
fn is_valid_skill_name(name: &str) -> bool {
    let fits = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    name.len() <= MAX_COMMAND_NAME_BYTES
        && name.chars().all(fits)
        && name.starts_with(char::is_alphanumeric)
}

/// A template of a project, as a person reads it before trusting the project.
#[derive(Clone, Debug)]
pub(super) struct ProjectCommandTemplate {
    pub(super) name: String,
    pub(super) description: String,
    /// Prompt that replaces the slash command that the person typed.
    pub(super) text: String,
}

/// Returns the templates of slash commands that a project contains.
pub(super) fn list_project_command_templates(
    paths: &RindPaths,
    held: &InMemoryFolder,
) -> Vec<ProjectCommandTemplate> {
    let entries = find::commands_of_project(paths, held).into_iter();
    let templates = entries.map(|entry| ProjectCommandTemplate {
        text: match &entry.kind {
            SlashCommandImplementation::Template(template) => {
                template.body_with_line_padding().to_owned()
            }
            _ => String::new(),
        },
        name: entry.name,
        description: entry.description,
    });
    templates.collect()
}

/// Returns the names that skills must not have, because built-in commands have them.
pub(super) fn reserved_skill_names() -> Vec<&'static str> {
    built_in::built_in_names().collect()
}

fn is_valid_command_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !name.is_empty() && name.len() <= MAX_COMMAND_NAME_BYTES && name.chars().all(fits)
}

/// Whether a template may have this name. Names of templates may contain `_`, those of other
/// commands may not.
fn is_valid_template_name(name: &str) -> bool {
    is_valid_command_name(&name.replace('_', "-"))
}

impl SlashCommandSet {
    /// Collects the commands: built-in commands, commands of plugins, skills, prompts of MCP
    /// servers, and templates of plugins, of the user and, if trusted, of the project. `program` is
    /// Rind's own binary, which renders templates in a separate process.
    pub(super) async fn new(
        about: BuiltInCommandContext,
        project: Option<&InMemoryFolder>,
        program: PathBuf,
    ) -> Self {
        Self::new_with_template_renderer(about, project, TemplateRenderBackend::Program(program))
            .await
    }

    async fn new_with_template_renderer(
        about: BuiltInCommandContext,
        project: Option<&InMemoryFolder>,
        helper: TemplateRenderBackend,
    ) -> Self {
        let mut entries = built_in::built_in_command_definitions();
        entries.extend(find::read_user_template_commands(&about.paths));
        entries.extend(find::plugin_commands(&about.plugins));
        entries.extend(
            project
                .into_iter()
                .flat_map(|held| find::commands_of_project(&about.paths, held)),
        );
        entries.extend(find::skill_commands(&about.skills));
        entries.extend(find::mcp_prompts_to_commands(&about.servers));
        find::mark_broken_command_templates(&mut entries, &helper).await;
        Self {
            list: RwLock::new(RankedSlashCommandList::new(
                entries.into_iter().map(Arc::new),
            )),
            about,
            helper,
            asker: Mutex::default(),
            open: Mutex::default(),
            models: Mutex::default(),
        }
    }

    /// Sets the channel through which commands ask the person at the terminal.
    pub(super) fn set_question_asker(&self, asker: OptionalTerminalQuestionSender) {
        *lock_ignoring_poison(&self.asker) = asker;
    }

    /// Records the open session, so that commands can read it while a turn borrows the session.
    pub(super) fn set_open_session(&self, open: OpenSessionHandles) {
        *lock_ignoring_poison(&self.open) = Some(open);
    }

    /// Drops the reference to the open session, which would keep the session's file locked.
    pub(super) fn drop_open_session_reference(&self) {
        *lock_ignoring_poison(&self.open) = None;
    }

    /// Records the model that the open session uses from now on.
    pub(super) fn set_open_session_model(&self, selected: &SelectedProviderAndModel) {
        if let Some(open) = &mut *lock_ignoring_poison(&self.open) {
            open.provider = selected.provider.clone();
            open.model.clone_from(&selected.model);
        }
        lock_ignoring_poison(&self.models).clear();
    }

    /// Returns the provider and the model name of the open session.
    pub(super) fn model_of_open_session(&self) -> Option<(Arc<dyn Provider>, String)> {
        let open = lock_ignoring_poison(&self.open);
        open.as_ref()
            .map(|open| (open.provider.clone(), open.model.clone()))
    }

    fn open_session_snapshot(&self) -> Option<OpenSessionHandles> {
        lock_ignoring_poison(&self.open).clone()
    }

    /// Sets the model names that `/model` proposes.
    pub(super) fn set_model_names_to_propose(&self, names: Vec<String>) {
        *lock_ignoring_poison(&self.models) = names;
    }

    /// Returns the names of the models that the provider's server listed.
    pub(super) fn model_names_to_propose(&self) -> Vec<String> {
        lock_ignoring_poison(&self.models).clone()
    }

    fn terminal_question_sender(&self) -> OptionalTerminalQuestionSender {
        lock_ignoring_poison(&self.asker).clone()
    }

    /// Returns a line with the reason for each template that cannot be used. Faults of skills are
    /// reported elsewhere, when skills are discovered.
    pub(super) fn broken_template_warning_lines(&self) -> Vec<String> {
        let list = self.command_list();
        list.iter()
            .filter_map(|entry| entry.broken_template_warning_line())
            .collect()
    }

    /// Replaces the commands and templates of a plugin by those of its new version.
    pub(super) async fn replace_plugin_commands(&self, plugin: &LoadedPlugin) {
        let mut entries = find::commands_of_plugin(plugin);
        find::mark_broken_command_templates(&mut entries, &self.helper).await;
        let mut list = self.list.write().unwrap_or_else(PoisonError::into_inner);
        let is_own = |entry: &&Arc<SlashCommandDefinition>| match &entry.origin {
            SlashCommandOrigin::Plugin(_, name) => *name == plugin.manifest.name,
            _ => false,
        };
        let others = list.iter().filter(|entry| !is_own(entry)).cloned();
        *list = RankedSlashCommandList::new(others.chain(entries.into_iter().map(Arc::new)));
    }

    fn command_list(&self) -> RankedSlashCommandList {
        let list = self.list.read();
        list.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Parses a line that [calls](split_command) a command.
    ///
    /// # Errors
    /// There is no such command, or its arguments do not fit. The error is a text for the person
    /// who typed the line.
    pub(super) fn parse_call(&self, line: &str) -> Result<SlashCommandCall, String> {
        let Some((name, text)) = split_command(line) else {
            return Err(format!("`{}` is not a command", line.escape_debug()));
        };
        let list = self.command_list();
        let Some((_, entry)) = list.find_command_by_typed_name(name) else {
            return Err(list.format_unknown_command_error(name));
        };
        if let SlashCommandImplementation::Broken(why) = &entry.kind {
            return Err(format!("/{name} cannot be used: {why}"));
        }
        let arguments = match &entry.arguments {
            None => Ok(text.into()),
            Some(schema) => arguments::parse_command_arguments(schema, text),
        };
        let arguments = arguments
            .map_err(|why| format!("{why}; usage: {}", help::command_usage_line(name, entry)))?;
        Ok(SlashCommandCall {
            entry: entry.clone(),
            arguments,
            line: line.to_owned(),
        })
    }

    /// Lists the commands that another program can show and call: those that need no terminal.
    pub(super) fn list_commands_without_terminal(&self) -> Vec<SlashCommandDescription> {
        let list = self.command_list();
        let mut offers = Vec::new();
        for (at, entry) in list.iter().enumerate() {
            let is_left_out = match &entry.kind {
                SlashCommandImplementation::BuiltIn(command) => command.needs_terminal(),
                SlashCommandImplementation::Broken(_) => true,
                _ => false,
            };
            if is_left_out {
                continue;
            }
            let name = list.unambiguous_command_name(at, entry);
            let usage = help::command_usage_line(&name, entry);
            let arguments = usage.split_once(' ').map_or("", |(_, arguments)| arguments);
            offers.push(SlashCommandDescription {
                arguments: arguments.to_owned(),
                description: entry.description.clone(),
                name,
            });
        }
        offers
    }

    /// Whether calls that do more than read are only described and not run.
    pub(super) fn is_dry_run_session(&self) -> bool {
        self.about.is_dry_run
    }

    /// Whether a call invokes a built-in command that needs an open session.
    pub(super) fn is_call_needing_session(&self, call: &SlashCommandCall) -> bool {
        matches!(&call.entry.kind, SlashCommandImplementation::BuiltIn(command) if command.is_about_session)
    }

    /// Whether the call invokes a built-in slash command.
    pub(super) fn is_built_in_call(&self, call: &SlashCommandCall) -> bool {
        matches!(call.entry.kind, SlashCommandImplementation::BuiltIn(_))
    }

    /// Whether the command must wait for the end of a running turn, because both need exclusive
    /// access to the session.
    pub(super) fn should_wait_for_turn_end(&self, call: &SlashCommandCall) -> bool {
        match &call.entry.kind {
            SlashCommandImplementation::BuiltIn(command) => command.should_wait_for_turn_end(),
            _ => true,
        }
    }

    /// Whether a call invokes a built-in command that works without a session.
    pub(super) fn can_run_without_session(&self, call: &SlashCommandCall) -> bool {
        matches!(&call.entry.kind, SlashCommandImplementation::BuiltIn(command) if !command.is_about_session)
    }

    /// Parses a line in which an argument for the prompt of an MCP server is being typed. Returns
    /// the server, the argument, and the byte offset of the argument's value in the line.
    pub(super) fn parse_partial_mcp_prompt_argument(
        &self,
        line: &str,
    ) -> Option<(String, InputCompletionRequest, usize)> {
        let rest = line.strip_prefix('/')?;
        let (name, text) = rest.split_at(rest.find(char::is_whitespace)?);
        let list = self.command_list();
        let (_, entry) = list.find_command_by_typed_name(name)?;
        let (SlashCommandOrigin::Server(server), SlashCommandImplementation::ServerPrompt(prompt)) =
            (&entry.origin, &entry.kind)
        else {
            return None;
        };
        let begun = arguments::find_partial_argument(entry.arguments.as_ref()?, text.trim_start())?;
        let start = line.len() - text.trim_start().len() + begun.start;
        let begun = InputCompletionRequest::Argument {
            prompt: prompt.clone(),
            name: begun.name,
            value: begun.value,
            others: begun.others,
        };
        Some((server.clone(), begun, start))
    }

    /// Proposes completions for a line that begins with a slash: first for the name of the command,
    /// then for its arguments.
    pub(super) fn complete_line(&self, line: &str) -> Vec<InputLineCompletion> {
        let Some(rest) = line.strip_prefix('/') else {
            return Vec::new();
        };
        let Some(end) = rest.find(char::is_whitespace) else {
            return self.command_list().complete_name(rest);
        };
        let (name, text) = rest.split_at(end);
        let list = self.command_list();
        let Some((_, entry)) = list.find_command_by_typed_name(name) else {
            return Vec::new();
        };
        let blanks = text.len() - text.trim_start().len();
        let (text, offset) = (text.trim_start(), 1 + end + blanks);
        if let SlashCommandImplementation::BuiltIn(command) = &entry.kind
            && let Some(list) = command.values
        {
            let values = list(self).into_iter();
            let fits = values.filter(|(value, _)| value.starts_with(text));
            let proposal = |(text, help)| InputLineCompletion {
                start: offset,
                text,
                help,
            };
            return fits.map(proposal).collect();
        }
        let schema = entry.arguments.as_ref();
        schema.map_or_else(Vec::new, |schema| {
            arguments::complete_argument(schema, text, offset)
        })
    }
}

/// Returns a line with the reason for each template that cannot be used: templates of the user, of
/// plugins and, if trusted, of the project.
pub(super) async fn find_all_template_faults(
    paths: &RindPaths,
    plugins: &FoundPluginSet,
    project: Option<&InMemoryFolder>,
    program: PathBuf,
) -> Vec<String> {
    let mut entries = find::read_user_template_commands(paths);
    entries.extend(find::plugin_commands(plugins));
    entries.extend(
        project
            .into_iter()
            .flat_map(|held| find::commands_of_project(paths, held)),
    );
    find::mark_broken_command_templates(&mut entries, &TemplateRenderBackend::Program(program))
        .await;
    entries
        .iter()
        .filter_map(SlashCommandDefinition::broken_template_warning_line)
        .collect()
}

/// Returns the folder of the slash command templates that the user wrote.
fn user_prompts_folder(paths: &RindPaths) -> PathBuf {
    paths.config.join("prompts")
}

#[cfg(test)]
mod tests;
