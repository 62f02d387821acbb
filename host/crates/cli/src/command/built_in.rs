//! The table of commands that are built in: name, arguments, help.

use serde_json::{Value, json};

use super::{Commands, Entry, Kind, Origin, own};

pub(super) struct BuiltIn {
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    /// The one argument and a few words on it.
    argument: Option<(&'static str, &'static str)>,
    /// Whether it is about a conversation that there is.
    pub(super) is_about_session: bool,
    /// Values to propose for the argument, each with a few words.
    pub(super) values: Option<Values>,
    pub(super) does: Does,
}

/// Values to propose for an argument, each with a few words.
type Values = fn(&Commands) -> Vec<(String, String)>;

/// Work of a built-in command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Does {
    Help,
    Model,
    Plugins,
    Permissions,
    Skills,
    Done,
    Cost,
    Context,
    Compact,
    Undo,
    Fork,
    Export,
    Resume,
    Quit,
}

impl BuiltIn {
    const fn new(name: &'static str, does: Does, description: &'static str) -> Self {
        Self {
            name,
            description,
            argument: None,
            is_about_session: false,
            values: None,
            does,
        }
    }

    const fn takes(mut self, name: &'static str, help: &'static str) -> Self {
        self.argument = Some((name, help));
        self
    }

    const fn about_session(mut self) -> Self {
        self.is_about_session = true;
        self
    }

    const fn proposes(mut self, values: Values) -> Self {
        self.values = Some(values);
        self
    }
}

/// All built-in commands, in the order of the help.
const TABLE: &[BuiltIn] = &[
    BuiltIn::new("help", Does::Help, "List commands, or explain one")
        .takes("command", "Name of a command")
        .proposes(own::names),
    BuiltIn::new("model", Does::Model, "Show the model, or ask another one from the next turn on")
        .takes("name", "Name of a model of the same provider, or PROVIDER/NAME"),
    BuiltIn::new("plugins", Does::Plugins, "List plugins that run, and why others do not"),
    BuiltIn::new(
        "permissions",
        Does::Permissions,
        "List what plugins were granted, and the rules for tool calls",
    ),
    BuiltIn::new("skills", Does::Skills, "List skills: who may run them, and which are active"),
    BuiltIn::new("done", Does::Done, "End the skills that stay active from turn to turn").about_session(),
    BuiltIn::new("cost", Does::Cost, "Show tokens and cost of this session").about_session(),
    BuiltIn::new("context", Does::Context, "Show what fills the window of the model").about_session(),
    BuiltIn::new("compact", Does::Compact, "Replace older messages with a summary now").about_session(),
    BuiltIn::new(
        "undo",
        Does::Undo,
        "Take the last turn out of the conversation; files and everything else that it changed stay",
    )
    .about_session(),
    BuiltIn::new("fork", Does::Fork, "Go on in a copy of this session up to now").about_session(),
    BuiltIn::new("export", Does::Export, "Write the conversation to a Markdown file")
        .takes("file", "File to write, relative to the workspace; it must not be there yet")
        .about_session(),
    BuiltIn::new("resume", Does::Resume, "List sessions of this folder, or go on with one")
        .takes("session", "Id of a session, the beginning of it, or `last`")
        .proposes(own::sessions),
    BuiltIn::new("quit", Does::Quit, "End the program"),
];

pub(super) fn names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|command| command.name)
}

pub(super) fn entries() -> Vec<Entry> {
    let entry = |command: &'static BuiltIn| Entry {
        name: command.name.to_owned(),
        description: command.description.to_owned(),
        arguments: Some(schema(command)),
        origin: Origin::BuiltIn,
        may: Vec::new(),
        kind: Kind::BuiltIn(command),
    };
    TABLE.iter().map(entry).collect()
}

fn schema(command: &BuiltIn) -> Value {
    let mut properties = serde_json::Map::new();
    if let Some((name, help)) = command.argument {
        let property = json!({"type": "string", "description": help});
        properties.insert(name.to_owned(), property);
    }
    json!({"type": "object", "properties": properties})
}
