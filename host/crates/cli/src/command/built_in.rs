//! The table of built-in commands: name, arguments and help.

use serde_json::{Value, json};

use super::{CommandEntry, CommandKind, CommandOrigin, CommandSet, own};

pub(super) struct BuiltIn {
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    /// Name and description of the argument.
    argument: Option<(&'static str, &'static str)>,
    /// Whether the argument is required.
    needs_argument: bool,
    /// Whether the command needs a session.
    pub(super) is_about_session: bool,
    /// Whether the command may run while a turn runs, because it needs only shared access to the
    /// session.
    is_beside: bool,
    /// Values to propose for the argument.
    pub(super) values: Option<Values>,
    pub(super) does: BuiltInAction,
}

/// Returns values to propose for an argument, each with a short description.
type Values = fn(&CommandSet) -> Vec<(String, String)>;

/// Identifies the function that runs a built-in command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BuiltInAction {
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

impl BuiltIn {
    const fn new(name: &'static str, does: BuiltInAction, description: &'static str) -> Self {
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

    const fn with_argument(mut self, name: &'static str, help: &'static str) -> Self {
        self.argument = Some((name, help));
        self
    }

    const fn require_argument(mut self) -> Self {
        self.needs_argument = true;
        self
    }

    const fn require_session(mut self) -> Self {
        self.is_about_session = true;
        self
    }

    const fn allow_during_turn(mut self) -> Self {
        self.is_beside = true;
        self
    }

    /// Whether the command needs the terminal of a chat, or ends the chat's session.
    pub(super) fn needs_terminal(&self) -> bool {
        use BuiltInAction::{Copy, New, Quit, Reload, Resume};
        matches!(self.does, Copy | New | Quit | Reload | Resume)
    }

    /// Whether the command must wait for the end of a running turn.
    pub(super) fn waits_for_turn(&self) -> bool {
        let makes_input = self.does == BuiltInAction::Init;
        makes_input || (self.is_about_session && !self.is_beside)
    }

    const fn with_proposed_values(mut self, values: Values) -> Self {
        self.values = Some(values);
        self
    }
}

/// All built-in commands, in the order of the help.
const TABLE: &[BuiltIn] = &[
    BuiltIn::new("help", BuiltInAction::Help, "List commands, or explain one")
        .with_argument("command", "Name of a command")
        .with_proposed_values(own::propose_commands),
    BuiltIn::new(
        "model",
        BuiltInAction::Model,
        "Show the model, or ask another one from the next turn on",
    )
    .with_argument(
        "name",
        "Name of a model of the same provider, or PROVIDER/NAME",
    )
    .with_proposed_values(own::propose_models),
    BuiltIn::new(
        "mode",
        BuiltInAction::Mode,
        "List the modes of approval, or switch to one",
    )
    .with_argument("name", "ask, accept-edits, plan or full")
    .with_proposed_values(own::propose_modes),
    BuiltIn::new(
        "status",
        BuiltInAction::Status,
        "Show session, model, mode, folder, plugins and commands in the background",
    ),
    BuiltIn::new(
        "stop",
        BuiltInAction::Stop,
        "Stop a command in the background, or list those that run",
    )
    .with_argument("id", "Id of a command, as in bg-1, or `all`")
    .with_proposed_values(own::propose_background_commands)
    .require_session()
    .allow_during_turn(),
    BuiltIn::new(
        "plugins",
        BuiltInAction::Plugins,
        "List the running plugins, and why others do not run",
    ),
    BuiltIn::new(
        "permissions",
        BuiltInAction::Permissions,
        "List the mode, the permissions of plugins, and the rules for tool calls",
    ),
    BuiltIn::new(
        "skills",
        BuiltInAction::Skills,
        "List skills: who may run them, and which are active",
    ),
    BuiltIn::new(
        "done",
        BuiltInAction::Done,
        "End the skills that stay active from turn to turn",
    )
    .require_session(),
    BuiltIn::new(
        "cost",
        BuiltInAction::Cost,
        "Show tokens and cost of this session",
    )
    .require_session()
    .allow_during_turn(),
    BuiltIn::new(
        "context",
        BuiltInAction::Context,
        "Show what fills the model's context window",
    )
    .require_session()
    .allow_during_turn(),
    BuiltIn::new(
        "compact",
        BuiltInAction::Compact,
        "Replace older messages with a summary now",
    )
    .require_session(),
    BuiltIn::new(
        "diff",
        BuiltInAction::Diff,
        "Show which files a turn changed, with the changed lines",
    )
    .with_argument(
        "turn",
        "Number of the turn; default: the last turn that changed files",
    )
    .require_session()
    .allow_during_turn(),
    BuiltIn::new(
        "undo",
        BuiltInAction::Undo,
        "Take back the last turn: the conversation, the files, or both",
    )
    .with_argument(
        "parts",
        "`conversation`, `files` or `both`; add `overwrite` to restore files that were changed since",
    )
    .with_proposed_values(own::propose_undo_parts)
    .require_session(),
    BuiltIn::new(
        "rewind",
        BuiltInAction::Rewind,
        "Go back to before a turn, as /undo does; without a number, list turns",
    )
    .with_argument("turn", "Number of the turn, then the arguments of /undo")
    .require_session(),
    BuiltIn::new(
        "continue",
        BuiltInAction::Continue,
        "Continue the turn that was interrupted when the program ended",
    )
    .require_session(),
    BuiltIn::new(
        "fork",
        BuiltInAction::Fork,
        "Copy this session and continue in the copy",
    )
    .require_session(),
    BuiltIn::new("rename", BuiltInAction::Rename, "Give this session a title")
        .with_argument("title", "The title, a few words")
        .require_argument()
        .require_session()
        .allow_during_turn(),
    BuiltIn::new(
        "copy",
        BuiltInAction::Copy,
        "Put the last answer into the clipboard, through the terminal",
    )
    .require_session()
    .allow_during_turn(),
    BuiltIn::new(
        "export",
        BuiltInAction::Export,
        "Write the conversation to a Markdown file",
    )
    .with_argument(
        "file",
        "File to write, relative to the workspace; it must not exist yet",
    )
    .require_session(),
    BuiltIn::new(
        "resume",
        BuiltInAction::Resume,
        "List sessions of this folder, or continue one",
    )
    .with_argument("session", "Id of a session, the beginning of an id, or `last`")
    .with_proposed_values(own::propose_sessions),
    BuiltIn::new(
        "new",
        BuiltInAction::New,
        "Begin a new conversation; this one is kept",
    )
    .require_session(),
    BuiltIn::new("clear", BuiltInAction::New, "The same as /new").require_session(),
    BuiltIn::new(
        "init",
        BuiltInAction::Init,
        "Let the model look at the project and write AGENTS.md, its notes for agents",
    ),
    BuiltIn::new(
        "reload",
        BuiltInAction::Reload,
        "Reload settings, plugins, skills and templates, and continue this session",
    )
    .require_session(),
    BuiltIn::new("quit", BuiltInAction::Quit, "End the program"),
];

pub(super) fn built_in_names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|command| command.name)
}

pub(super) fn built_in_entries() -> Vec<CommandEntry> {
    let entry = |command: &'static BuiltIn| CommandEntry {
        name: command.name.to_owned(),
        description: command.description.to_owned(),
        arguments: Some(build_command_schema(command)),
        origin: CommandOrigin::BuiltIn,
        may: Vec::new(),
        kind: CommandKind::BuiltIn(command),
    };
    TABLE.iter().map(entry).collect()
}

fn build_command_schema(command: &BuiltIn) -> Value {
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
