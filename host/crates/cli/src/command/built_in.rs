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
    /// Whether the command may run while a turn runs. Such commands do not need the session to
    /// themselves.
    is_beside: bool,
    /// Values to propose for the argument.
    pub(super) values: Option<Values>,
    pub(super) does: BuiltInWork,
}

/// Returns values to propose for an argument, each with a short description.
type Values = fn(&CommandSet) -> Vec<(String, String)>;

/// Identifies the function that runs a built-in command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BuiltInWork {
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
    const fn new(name: &'static str, does: BuiltInWork, description: &'static str) -> Self {
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

    const fn taking_argument(mut self, name: &'static str, help: &'static str) -> Self {
        self.argument = Some((name, help));
        self
    }

    const fn needing_argument(mut self) -> Self {
        self.needs_argument = true;
        self
    }

    const fn about_session(mut self) -> Self {
        self.is_about_session = true;
        self
    }

    const fn beside_turn(mut self) -> Self {
        self.is_beside = true;
        self
    }

    /// Whether the command needs the terminal of a chat, or ends the chat's session.
    pub(super) fn needs_terminal(&self) -> bool {
        use BuiltInWork::{Copy, New, Quit, Reload, Resume};
        matches!(self.does, Copy | New | Quit | Reload | Resume)
    }

    /// Whether the command must wait for the end of a running turn.
    pub(super) fn waits_for_turn(&self) -> bool {
        let makes_input = self.does == BuiltInWork::Init;
        makes_input || (self.is_about_session && !self.is_beside)
    }

    const fn proposing_values(mut self, values: Values) -> Self {
        self.values = Some(values);
        self
    }
}

/// All built-in commands, in the order of the help.
const TABLE: &[BuiltIn] = &[
    BuiltIn::new("help", BuiltInWork::Help, "List commands, or explain one")
        .taking_argument("command", "Name of a command")
        .proposing_values(own::command_values),
    BuiltIn::new(
        "model",
        BuiltInWork::Model,
        "Show the model, or ask another one from the next turn on",
    )
    .taking_argument(
        "name",
        "Name of a model of the same provider, or PROVIDER/NAME",
    )
    .proposing_values(own::model_values),
    BuiltIn::new(
        "mode",
        BuiltInWork::Mode,
        "List the modes of approval, or switch to one",
    )
    .taking_argument("name", "ask, accept-edits, plan or full")
    .proposing_values(own::mode_values),
    BuiltIn::new(
        "status",
        BuiltInWork::Status,
        "Show session, model, mode, folder, plugins and commands in the background",
    ),
    BuiltIn::new(
        "stop",
        BuiltInWork::Stop,
        "Stop a command in the background, or list those that run",
    )
    .taking_argument("id", "Id of a command, as in bg-1, or `all`")
    .proposing_values(own::background_values)
    .about_session()
    .beside_turn(),
    BuiltIn::new(
        "plugins",
        BuiltInWork::Plugins,
        "List the running plugins, and why others do not run",
    ),
    BuiltIn::new(
        "permissions",
        BuiltInWork::Permissions,
        "List the mode, the permissions of plugins, and the rules for tool calls",
    ),
    BuiltIn::new(
        "skills",
        BuiltInWork::Skills,
        "List skills: who may run them, and which are active",
    ),
    BuiltIn::new(
        "done",
        BuiltInWork::Done,
        "End the skills that stay active from turn to turn",
    )
    .about_session(),
    BuiltIn::new(
        "cost",
        BuiltInWork::Cost,
        "Show tokens and cost of this session",
    )
    .about_session()
    .beside_turn(),
    BuiltIn::new(
        "context",
        BuiltInWork::Context,
        "Show what fills the model's context window",
    )
    .about_session()
    .beside_turn(),
    BuiltIn::new(
        "compact",
        BuiltInWork::Compact,
        "Replace older messages with a summary now",
    )
    .about_session(),
    BuiltIn::new(
        "diff",
        BuiltInWork::Diff,
        "Show which files a turn changed, with the changed lines",
    )
    .taking_argument(
        "turn",
        "Number of the turn; default: the last turn that changed files",
    )
    .about_session()
    .beside_turn(),
    BuiltIn::new(
        "undo",
        BuiltInWork::Undo,
        "Take back the last turn: the conversation, the files, or both",
    )
    .taking_argument(
        "parts",
        "`conversation`, `files` or `both`; add `overwrite` to restore files that were changed since",
    )
    .proposing_values(own::rewind_values)
    .about_session(),
    BuiltIn::new(
        "rewind",
        BuiltInWork::Rewind,
        "Go back to before a turn, as /undo does; without a number, list turns",
    )
    .taking_argument("turn", "Number of the turn, then the arguments of /undo")
    .about_session(),
    BuiltIn::new(
        "continue",
        BuiltInWork::Continue,
        "Continue the turn that was interrupted when the program ended",
    )
    .about_session(),
    BuiltIn::new(
        "fork",
        BuiltInWork::Fork,
        "Copy this session and continue in the copy",
    )
    .about_session(),
    BuiltIn::new("rename", BuiltInWork::Rename, "Give this session a title")
        .taking_argument("title", "The title, a few words")
        .needing_argument()
        .about_session()
        .beside_turn(),
    BuiltIn::new(
        "copy",
        BuiltInWork::Copy,
        "Put the last answer into the clipboard, through the terminal",
    )
    .about_session()
    .beside_turn(),
    BuiltIn::new(
        "export",
        BuiltInWork::Export,
        "Write the conversation to a Markdown file",
    )
    .taking_argument(
        "file",
        "File to write, relative to the workspace; it must not exist yet",
    )
    .about_session(),
    BuiltIn::new(
        "resume",
        BuiltInWork::Resume,
        "List sessions of this folder, or continue one",
    )
    .taking_argument("session", "Id of a session, the beginning of an id, or `last`")
    .proposing_values(own::session_values),
    BuiltIn::new(
        "new",
        BuiltInWork::New,
        "Begin a new conversation; this one is kept",
    )
    .about_session(),
    BuiltIn::new("clear", BuiltInWork::New, "The same as /new").about_session(),
    BuiltIn::new(
        "init",
        BuiltInWork::Init,
        "Let the model look at the project and write AGENTS.md, its notes for agents",
    ),
    BuiltIn::new(
        "reload",
        BuiltInWork::Reload,
        "Reload settings, plugins, skills and templates, and continue this session",
    )
    .about_session(),
    BuiltIn::new("quit", BuiltInWork::Quit, "End the program"),
];

pub(super) fn built_in_names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|command| command.name)
}

pub(super) fn built_in_entries() -> Vec<CommandEntry> {
    let entry = |command: &'static BuiltIn| CommandEntry {
        name: command.name.to_owned(),
        description: command.description.to_owned(),
        arguments: Some(command_schema(command)),
        origin: CommandOrigin::BuiltIn,
        may: Vec::new(),
        kind: CommandKind::BuiltIn(command),
    };
    TABLE.iter().map(entry).collect()
}

fn command_schema(command: &BuiltIn) -> Value {
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
