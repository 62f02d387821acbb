//! The table of built-in commands: name, arguments and help.

use serde_json::{Value, json};

use super::{
    SlashCommandDefinition, SlashCommandImplementation, SlashCommandOrigin, SlashCommandSet, own,
};

pub(super) struct BuiltInSlashCommand {
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    /// Name and description of the command's argument; `None` if it takes none.
    argument: Option<(&'static str, &'static str)>,
    /// Whether the command needs its argument.
    needs_argument: bool,
    /// Whether the command can run only while a session is open.
    pub(super) is_about_session: bool,
    /// Whether the command may run while a turn runs, because it needs only shared access to the
    /// session.
    is_beside: bool,
    /// Function that lists values to propose for the argument; `None` if there are none.
    pub(super) values: Option<ProposeArgumentValuesFn>,
    pub(super) does: BuiltInSlashCommandId,
}

/// Returns values to propose for an argument, each with a short description.
type ProposeArgumentValuesFn = fn(&SlashCommandSet) -> Vec<(String, String)>;

/// Identifies the function that runs a built-in command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BuiltInSlashCommandId {
    Help,
    Model,
    Plugins,
    Permissions,
    Skills,
    Done,
    Continue,
    Cost,
    Context,
    Compact,
    Undo,
    Rewind,
    Fork,
    Export,
    Resume,
    Quit,
    Mode,
    Status,
    Stop,
    Diff,
    Copy,
    Rename,
    New,
    Reload,
    Init,
}

impl BuiltInSlashCommand {
    const fn new(
        name: &'static str,
        does: BuiltInSlashCommandId,
        description: &'static str,
    ) -> Self {
        Self {
            name,
            description,
            argument: None,
            needs_argument: false,
            is_about_session: false,
            is_beside: false,
            values: None,
            does,
        }
    }

    const fn declare_argument(mut self, name: &'static str, help: &'static str) -> Self {
        self.argument = Some((name, help));
        self
    }

    const fn require_argument(mut self) -> Self {
        self.needs_argument = true;
        self
    }

    const fn mark_session_required(mut self) -> Self {
        self.is_about_session = true;
        self
    }

    const fn mark_allowed_during_turn(mut self) -> Self {
        self.is_beside = true;
        self
    }

    /// Whether the command needs the terminal of a chat, or ends the chat's session.
    pub(super) fn needs_terminal(&self) -> bool {
        use BuiltInSlashCommandId::{Copy, New, Quit, Reload, Resume};
        matches!(self.does, Copy | New | Quit | Reload | Resume)
    }

    /// Whether the command must wait for the end of a running turn.
    pub(super) fn should_wait_for_turn_end(&self) -> bool {
        let makes_input = self.does == BuiltInSlashCommandId::Init;
        makes_input || (self.is_about_session && !self.is_beside)
    }

    const fn with_proposed_argument_values(mut self, values: ProposeArgumentValuesFn) -> Self {
        self.values = Some(values);
        self
    }
}

/// Built-in slash commands, in the order in which `/help` lists them.
const BUILT_IN_COMMANDS: &[BuiltInSlashCommand] = &[
    BuiltInSlashCommand::new("help", BuiltInSlashCommandId::Help, "List commands, or explain one")
        .declare_argument("command", "Name of a command")
        .with_proposed_argument_values(own::propose_help_command_arguments),
    BuiltInSlashCommand::new(
        "model",
        BuiltInSlashCommandId::Model,
        "Show the model, or ask another one from the next turn on",
    )
    .declare_argument(
        "name",
        "Name of a model of the same provider, or PROVIDER/NAME",
    )
    .with_proposed_argument_values(own::propose_model_command_arguments),
    BuiltInSlashCommand::new(
        "mode",
        BuiltInSlashCommandId::Mode,
        "List the modes of approval, or switch to one",
    )
    .declare_argument("name", "ask, accept-edits, plan or full")
    .with_proposed_argument_values(own::propose_mode_command_arguments),
    BuiltInSlashCommand::new(
        "status",
        BuiltInSlashCommandId::Status,
        "Show session, model, mode, folder, plugins and commands in the background",
    ),
    BuiltInSlashCommand::new(
        "stop",
        BuiltInSlashCommandId::Stop,
        "Stop a command in the background, or list those that run",
    )
    .declare_argument("id", "Id of a command, as in bg-1, or `all`")
    .with_proposed_argument_values(own::propose_stop_command_arguments)
    .mark_session_required()
    .mark_allowed_during_turn(),
    BuiltInSlashCommand::new(
        "plugins",
        BuiltInSlashCommandId::Plugins,
        "List the running plugins, and why others do not run",
    ),
    BuiltInSlashCommand::new(
        "permissions",
        BuiltInSlashCommandId::Permissions,
        "List the mode, the permissions of plugins, and the rules for tool calls",
    ),
    BuiltInSlashCommand::new(
        "skills",
        BuiltInSlashCommandId::Skills,
        "List skills: who may run them, and which are active",
    ),
    BuiltInSlashCommand::new(
        "done",
        BuiltInSlashCommandId::Done,
        "End the skills that stay active from turn to turn",
    )
    .mark_session_required(),
    BuiltInSlashCommand::new(
        "cost",
        BuiltInSlashCommandId::Cost,
        "Show tokens and cost of this session",
    )
    .mark_session_required()
    .mark_allowed_during_turn(),
    BuiltInSlashCommand::new(
        "context",
        BuiltInSlashCommandId::Context,
        "Show what fills the model's context window",
    )
    .mark_session_required()
    .mark_allowed_during_turn(),
    BuiltInSlashCommand::new(
        "compact",
        BuiltInSlashCommandId::Compact,
        "Replace older messages with a summary now",
    )
    .mark_session_required(),
    BuiltInSlashCommand::new(
        "diff",
        BuiltInSlashCommandId::Diff,
        "Show which files a turn changed, with the changed lines",
    )
    .declare_argument(
        "turn",
        "Number of the turn; default: the last turn that changed files",
    )
    .mark_session_required()
    .mark_allowed_during_turn(),
    BuiltInSlashCommand::new(
        "undo",
        BuiltInSlashCommandId::Undo,
        "Take back the last turn: the conversation, the files, or both",
    )
    .declare_argument(
        "parts",
        "`conversation`, `files` or `both`; add `overwrite` to restore files that were changed since",
    )
    .with_proposed_argument_values(own::propose_undo_command_arguments)
    .mark_session_required(),
    BuiltInSlashCommand::new(
        "rewind",
        BuiltInSlashCommandId::Rewind,
        "Go back to before a turn, as /undo does; without a number, list turns",
    )
    .declare_argument("turn", "Number of the turn, then the arguments of /undo")
    .mark_session_required(),
    BuiltInSlashCommand::new(
        "continue",
        BuiltInSlashCommandId::Continue,
        "Continue the turn that was interrupted when the program ended",
    )
    .mark_session_required(),
    BuiltInSlashCommand::new(
        "fork",
        BuiltInSlashCommandId::Fork,
        "Copy this session and continue in the copy",
    )
    .mark_session_required(),
    BuiltInSlashCommand::new("rename", BuiltInSlashCommandId::Rename, "Give this session a title")
        .declare_argument("title", "The title, a few words")
        .require_argument()
        .mark_session_required()
        .mark_allowed_during_turn(),
    BuiltInSlashCommand::new(
        "copy",
        BuiltInSlashCommandId::Copy,
        "Put the last answer into the clipboard, through the terminal",
    )
    .mark_session_required()
    .mark_allowed_during_turn(),
    BuiltInSlashCommand::new(
        "export",
        BuiltInSlashCommandId::Export,
        "Write the conversation to a Markdown file",
    )
    .declare_argument(
        "file",
        "File to write, relative to the workspace; it must not exist yet",
    )
    .mark_session_required(),
    BuiltInSlashCommand::new(
        "resume",
        BuiltInSlashCommandId::Resume,
        "List sessions of this folder, or continue one",
    )
    .declare_argument("session", "Id of a session, the beginning of an id, or `last`")
    .with_proposed_argument_values(own::propose_resume_command_arguments),
    BuiltInSlashCommand::new(
        "new",
        BuiltInSlashCommandId::New,
        "Begin a new conversation; this one is kept",
    )
    .mark_session_required(),
    BuiltInSlashCommand::new("clear", BuiltInSlashCommandId::New, "The same as /new").mark_session_required(),
    BuiltInSlashCommand::new(
        "init",
        BuiltInSlashCommandId::Init,
        "Let the model look at the project and write AGENTS.md, its notes for agents",
    ),
    BuiltInSlashCommand::new(
        "reload",
        BuiltInSlashCommandId::Reload,
        "Reload settings, plugins, skills and templates, and continue this session",
    )
    .mark_session_required(),
    BuiltInSlashCommand::new("quit", BuiltInSlashCommandId::Quit, "End the program"),
];

pub(super) fn built_in_names() -> impl Iterator<Item = &'static str> {
    BUILT_IN_COMMANDS.iter().map(|command| command.name)
}

pub(super) fn built_in_command_definitions() -> Vec<SlashCommandDefinition> {
    let entry = |command: &'static BuiltInSlashCommand| SlashCommandDefinition {
        name: command.name.to_owned(),
        description: command.description.to_owned(),
        arguments: Some(build_command_schema(command)),
        origin: SlashCommandOrigin::BuiltIn,
        may: Vec::new(),
        kind: SlashCommandImplementation::BuiltIn(command),
    };
    BUILT_IN_COMMANDS.iter().map(entry).collect()
}

fn build_command_schema(command: &BuiltInSlashCommand) -> Value {
    let mut properties = serde_json::Map::new();
    if let Some((name, help)) = command.argument {
        let property = json!({"type": "string", "description": help});
        properties.insert(name.to_owned(), property);
    }
    let required: Vec<String> = match command.needs_argument {
        true => properties.keys().cloned().collect(),
        false => Vec::new(),
    };
    json!({"type": "object", "properties": properties, "required": required})
}
