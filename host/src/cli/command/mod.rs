//! Slash commands: one registry of those that are built in, those of plugins, templates of prompts, and skills.
//!
//! Owns which commands there are, in what order, which of two of one name is meant, and how a typed line becomes a call of one.
//! Only a person calls them; the model has no way to. It must not know terminals: whoever asks shows what comes out. Start from
//! [`Commands::parse`].

mod about;
mod arguments;
mod built_in;
mod find;
mod help;
pub(super) mod helper;
mod language;
mod own;
mod template;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use self::built_in::BuiltIn;
use self::helper::Helper;
use self::template::Template;
use super::exit_code::{Usage, bail_usage};
use crate::event::{CommandResult, Event};
use crate::grant::Trust;
use crate::grant::held::HeldFolder;
use crate::host::Session;
use crate::paths::Paths;
use crate::plugin::commands::CommandReply;
use crate::plugin::load::PluginSet;
use crate::skill::{Skill, Skills, Source, key};

/// Longest description of a command, in bytes.
const MAX_DESCRIPTION_BYTES: usize = 200;

/// Longest name of a command, in bytes.
const MAX_NAME_BYTES: usize = 64;

/// Every command that can be called, in the order in which names are looked up.
pub(super) struct Commands {
    entries: Vec<Entry>,
    about: About,
    helper: Helper,
}

/// Parts of the host that built-in commands tell of.
pub(super) struct About {
    pub(super) paths: Paths,
    pub(super) plugins: Arc<PluginSet>,
    /// Rules of the settings, each a line for people.
    pub(super) rules: Vec<String>,
    /// Tokens of a conversation from which on it is compacted; `None` when it never is.
    pub(super) compacts_at: Option<u64>,
    pub(super) skills: Arc<Skills>,
}

/// One command.
struct Entry {
    name: String,
    description: String,
    /// JSON Schema of the arguments; a command without one takes the text behind its name.
    arguments: Option<Value>,
    origin: Origin,
    /// Permissions of the plugin that runs it, in plain words; empty for a command that only makes text.
    may: Vec<String>,
    kind: Kind,
}

impl Entry {
    /// Whether a typed name is that of this command. Names of skills are compared as they look.
    fn is_called(&self, name: &str) -> bool {
        self.name == name || matches!(self.kind, Kind::Skill(_)) && key(&self.name) == key(name)
    }
}

enum Kind {
    BuiltIn(&'static BuiltIn),
    Template(Template),
    /// A command of this plugin.
    Plugin(String),
    Skill(Arc<Skill>),
    /// A file that cannot be used, and why.
    Broken(String),
}

/// Source of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Origin {
    BuiltIn,
    /// The folder `prompts` beside the user's settings.
    User,
    Plugin(Trust, String),
    /// `.rind/prompts`.
    Project,
    /// A skill found there.
    Skill(Trust, Source),
}

impl Origin {
    /// The place in the order in which names are looked up: nothing from a project goes before what is the user's.
    fn rank(&self) -> (u8, &str) {
        match self {
            Self::BuiltIn => (0, ""),
            Self::User => (1, ""),
            Self::Plugin(trust, name) => (rank(*trust), name),
            Self::Project => (5, ""),
            Self::Skill(trust, Source::Plugin(name)) => (rank(*trust), name),
            // Behind the templates beside them.
            Self::Skill(Trust::User, _) => (1, "skills"),
            Self::Skill(Trust::Project, _) => (5, "skills"),
            Self::Skill(trust, _) => (rank(*trust), "skills"),
        }
    }

    /// The word before the colon in a name that says which of several commands is meant.
    fn qualifier(&self) -> &str {
        match self {
            Self::BuiltIn => "rind",
            Self::User => "user",
            Self::Plugin(_, name) | Self::Skill(_, Source::Plugin(name)) => name,
            Self::Project => "project",
            Self::Skill(..) => "skill",
        }
    }
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::BuiltIn => f.write_str("built in"),
            Self::User => f.write_str("your prompts"),
            Self::Plugin(_, name) => write!(f, "plugin {name}"),
            Self::Project => f.write_str("the project's prompts"),
            Self::Skill(_, source) => match source {
                Source::Managed => f.write_str("skills that come with rind"),
                Source::Package => f.write_str("installed skills"),
                Source::User | Source::ClaudeUser | Source::AgentsUser => {
                    f.write_str("your skills")
                }
                Source::Project | Source::ClaudeProject | Source::AgentsProject => {
                    f.write_str("the project's skills")
                }
                Source::Plugin(name) => write!(f, "skills of plugin {name}"),
                Source::Local => f.write_str("skills of the command line"),
            },
        }
    }
}

/// The place of what a plugin of this trust brings.
fn rank(trust: Trust) -> u8 {
    match trust {
        Trust::Managed => 2,
        Trust::Package => 3,
        Trust::User => 4,
        Trust::Project => 6,
        Trust::Local => 7,
    }
}

/// A call of a command, ready to run.
#[derive(Clone, Debug)]
pub(super) struct Call {
    entry: usize,
    arguments: Value,
    /// The line that was typed.
    line: String,
}

/// Result of a command.
#[derive(Debug)]
pub(super) enum Outcome {
    /// Text for the person. It may hold text of others, and is made printable where it is shown.
    Text(String),
    /// Input of a turn.
    Prompt {
        text: String,
        /// The command and its source, as in `/review of the project's prompts`.
        command: String,
    },
    /// No output: the command did its work.
    Nothing,
    /// An action that only whoever runs the session can take.
    Action(Action),
}

/// An action of whoever runs the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// End the program.
    Quit,
    /// Ask this model from the next turn on.
    Model(String),
    /// Go on with another session: its whole id, and what to say about it.
    Resume { id: String, text: String },
}

/// A proposal for the end of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Completion {
    /// Offset in the line, in bytes, from which on `text` takes the place of what is there.
    pub(super) start: usize,
    pub(super) text: String,
    /// A few words on it; may be empty.
    pub(super) help: String,
}

/// Returns name and arguments of a line that calls a command: a slash at its very beginning and a name. A path is none, and a
/// blank before the slash makes a prompt of the line.
pub(super) fn split(line: &str) -> Option<(&str, &str)> {
    let rest = line.strip_prefix('/')?;
    let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
    let (name, arguments) = rest.split_at(end);
    let (qualifier, own) = name.split_once(':').unwrap_or(("x", name));
    let is_typed = |name: &str| is_name(name) || is_skill_name(name);
    (is_typed(own) && is_name(qualifier)).then(|| (name, arguments.trim()))
}

/// Whether this may be the name of a skill, which is that of a folder.
fn is_skill_name(name: &str) -> bool {
    let fits = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    name.len() <= MAX_NAME_BYTES
        && name.chars().all(fits)
        && name.starts_with(char::is_alphanumeric)
}

/// Names that no skill may take.
pub(super) fn reserved() -> Vec<&'static str> {
    built_in::names().collect()
}

fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !name.is_empty() && name.len() <= MAX_NAME_BYTES && name.chars().all(fits)
}

impl Commands {
    /// Collects the commands: those that are built in, those of the plugins that run, and the templates of plugins, of the user
    /// and of the project, whose folder is given when it is trusted. `program` is Rind's own, which renders templates.
    pub(super) async fn new(about: About, project: Option<&HeldFolder>, program: PathBuf) -> Self {
        Self::with_helper(about, project, Helper::Program(program)).await
    }

    async fn with_helper(about: About, project: Option<&HeldFolder>, helper: Helper) -> Self {
        let mut entries = built_in::entries();
        entries.extend(find::of_user(&about.paths));
        entries.extend(find::of_plugins(&about.plugins));
        entries.extend(
            project
                .into_iter()
                .flat_map(|held| find::of_project(&about.paths, held)),
        );
        entries.extend(find::of_skills(&about.skills));
        // Stable: of one source, the order is that in which they were found.
        entries.sort_by(|one, other| one.origin.rank().cmp(&other.origin.rank()));
        find::check_templates(&mut entries, &helper).await;
        Self {
            entries,
            about,
            helper,
        }
    }

    /// Reads a line that [calls](split) a command.
    ///
    /// # Errors
    /// There is no such command, or its arguments do not fit; both in words for the person who typed it.
    pub(super) fn parse(&self, line: &str) -> Result<Call, String> {
        let Some((name, text)) = split(line) else {
            return Err(format!("`{}` is no command", line.escape_debug()));
        };
        let Some((at, entry)) = self.find(name) else {
            return Err(self.unknown(name));
        };
        if let Kind::Broken(why) = &entry.kind {
            return Err(format!("/{name} cannot be used: {why}"));
        }
        let arguments = match &entry.arguments {
            None => Ok(text.into()),
            Some(schema) => arguments::read(schema, text),
        };
        let arguments =
            arguments.map_err(|why| format!("{why}; usage: {}", help::usage(name, entry)))?;
        Ok(Call {
            entry: at,
            arguments,
            line: line.to_owned(),
        })
    }

    /// Runs a call that [needs no session](Self::needs_no_session), and says so as an event.
    ///
    /// # Errors
    /// There is no such command. One that could not do its work has an event as well.
    pub(super) async fn run_alone(
        &self,
        call: &Call,
    ) -> anyhow::Result<(anyhow::Result<Outcome>, Event)> {
        let started = Instant::now();
        let outcome = self.run(call, None, &CancellationToken::new()).await;
        let Some(entry) = self.entries.get(call.entry) else {
            bail_usage!("there is no such command");
        };
        let event = event(entry, &outcome, started);
        Ok((outcome, event))
    }

    /// Whether a call needs a conversation that it is about: without one it can only say so.
    pub(super) fn is_about_session(&self, call: &Call) -> bool {
        match self.entries.get(call.entry).map(|entry| &entry.kind) {
            Some(Kind::BuiltIn(command)) => command.is_about_session,
            _ => false,
        }
    }

    /// Whether a call has to wait for the end of a running turn, which has the session to itself.
    pub(super) fn waits_for_turn(&self, call: &Call) -> bool {
        let kind = self.entries.get(call.entry).map(|entry| &entry.kind);
        let makes_input = matches!(
            kind,
            Some(Kind::Plugin(_) | Kind::Template(_) | Kind::Skill(_))
        );
        makes_input || self.is_about_session(call)
    }

    /// Whether a call does its work without any session.
    pub(super) fn needs_no_session(&self, call: &Call) -> bool {
        match self.entries.get(call.entry).map(|entry| &entry.kind) {
            Some(Kind::BuiltIn(command)) => !command.is_about_session,
            _ => false,
        }
    }

    /// Runs a call. `session` is the open one, between two turns.
    ///
    /// # Errors
    /// The command could not do its work.
    pub(super) async fn run(
        &self,
        call: &Call,
        mut session: Option<&mut Session>,
        cancel: &CancellationToken,
    ) -> anyhow::Result<Outcome> {
        let Some(entry) = self.entries.get(call.entry) else {
            bail_usage!("there is no such command");
        };
        if let Some(session) = session.as_deref_mut() {
            session.tell_opening();
        }
        let started = Instant::now();
        let outcome = Self::run_entry(self, entry, call, session.as_deref_mut(), cancel).await;
        // That of a plugin is told of by the session.
        let is_told = matches!(entry.kind, Kind::Plugin(_));
        if let Some(session) = session.filter(|_| !is_told) {
            session.tell_command(event(entry, &outcome, started));
        }
        outcome
    }

    async fn run_entry(
        &self,
        entry: &Entry,
        call: &Call,
        session: Option<&mut Session>,
        cancel: &CancellationToken,
    ) -> anyhow::Result<Outcome> {
        match &entry.kind {
            Kind::BuiltIn(command) => {
                own::run(self, command, &call.arguments, session, cancel).await
            }
            Kind::Template(template) => {
                let text = template.render(&call.arguments, &self.helper, cancel);
                let text = text.await.map_err(Usage)?;
                let command = format!("/{} of {}", entry.name, entry.origin);
                Ok(Outcome::Prompt { text, command })
            }
            Kind::Plugin(plugin) => {
                let Some(session) = session else {
                    bail_usage!("/{} runs in a session, and none is open", entry.name);
                };
                let arguments = match &call.arguments {
                    Value::String(text) if entry.arguments.is_none() => text.clone(),
                    value => value.to_string(),
                };
                let ran = session.run_command(plugin, &entry.name, arguments, cancel);
                Ok(match ran.await? {
                    CommandReply::Text(text) => Outcome::Text(text),
                    CommandReply::Nothing => Outcome::Nothing,
                    CommandReply::Prompt(text) => {
                        let command = format!("/{} of {}", entry.name, entry.origin);
                        Outcome::Prompt { text, command }
                    }
                })
            }
            Kind::Skill(skill) => {
                let Some(session) = session else {
                    bail_usage!("/{} runs in a session, and none is open", entry.name);
                };
                let invoked = session.invoke_skill(&skill.id, &call.arguments, &call.line);
                // It may ask, and Ctrl-C takes the question away.
                let text = tokio::select! {
                    biased;
                    () = cancel.cancelled() => bail_usage!("it was interrupted"),
                    text = invoked => text.map_err(|error| Usage(error.to_string()))?,
                };
                let command = format!("/{} of {}", entry.name, entry.origin);
                Ok(Outcome::Prompt { text, command })
            }
            Kind::Broken(why) => bail_usage!("{why}"),
        }
    }

    /// Proposes ends for a line that begins with a slash: names, then arguments.
    pub(super) fn complete(&self, line: &str) -> Vec<Completion> {
        let Some(rest) = line.strip_prefix('/') else {
            return Vec::new();
        };
        let Some(end) = rest.find(char::is_whitespace) else {
            return self.complete_name(rest);
        };
        let (name, text) = rest.split_at(end);
        let Some((_, entry)) = self.find(name) else {
            return Vec::new();
        };
        let blanks = text.len() - text.trim_start().len();
        let (text, offset) = (text.trim_start(), 1 + end + blanks);
        if let Kind::BuiltIn(command) = &entry.kind
            && let Some(list) = command.values
        {
            let values = list(self).into_iter();
            let fits = values.filter(|(value, _)| value.starts_with(text));
            let proposal = |(text, help)| Completion {
                start: offset,
                text,
                help,
            };
            return fits.map(proposal).collect();
        }
        let schema = entry.arguments.as_ref();
        schema.map_or_else(Vec::new, |schema| arguments::complete(schema, text, offset))
    }

    fn complete_name(&self, begun: &str) -> Vec<Completion> {
        let mut found = Vec::new();
        for (at, entry) in self.entries.iter().enumerate() {
            let text = self.shown_name(at, entry);
            if text.starts_with(begun) && !matches!(entry.kind, Kind::Broken(_)) {
                found.push(Completion {
                    start: 1,
                    text,
                    help: entry.description.clone(),
                });
            }
        }
        found
    }

    /// The name by which an entry is called: with its source where another one is meant by the bare name.
    fn shown_name(&self, at: usize, entry: &Entry) -> String {
        match self.shadow(at, entry) {
            None => entry.name.clone(),
            Some(_) => format!("{}:{}", entry.origin.qualifier(), entry.name),
        }
    }

    /// The entry that is meant by the bare name of this one.
    fn shadow(&self, at: usize, entry: &Entry) -> Option<&Entry> {
        let mut before = self.entries.iter().take(at);
        before.find(|other| other.name == entry.name)
    }

    fn find(&self, name: &str) -> Option<(usize, &Entry)> {
        let mut entries = self.entries.iter().enumerate();
        entries.find(|(_, entry)| match name.split_once(':') {
            None => entry.is_called(name),
            Some((qualifier, own)) => entry.is_called(own) && entry.origin.qualifier() == qualifier,
        })
    }

    fn unknown(&self, name: &str) -> String {
        let near = |entry: &&Entry| {
            strsim::levenshtein(&entry.name, name) <= 2 || entry.name.starts_with(name)
        };
        let near: Vec<String> = self
            .entries
            .iter()
            .filter(near)
            .map(|entry| format!("/{}", entry.name))
            .collect();
        let near = match near.is_empty() {
            true => String::new(),
            false => format!(" (did you mean {}?)", near.join(" or ")),
        };
        format!(
            "there is no command /{name}{near}; /help lists all, and a line that begins with a blank is a prompt"
        )
    }
}

/// A command that was run, as an event.
fn event(entry: &Entry, outcome: &anyhow::Result<Outcome>, started: Instant) -> Event {
    let (outcome, text) = match outcome {
        Ok(Outcome::Text(text)) => (CommandResult::Text, Some(text.clone())),
        Ok(Outcome::Prompt { .. }) => (CommandResult::Prompt, None),
        Ok(Outcome::Nothing) => (CommandResult::Nothing, None),
        Ok(Outcome::Action(_)) => (CommandResult::Action, None),
        Err(error) => (CommandResult::Failed, Some(format!("{error:#}"))),
    };
    Event::Command {
        command: entry.name.clone(),
        source: entry.origin.to_string(),
        outcome,
        text,
        duration_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
    }
}

/// Returns the event of a call of `/permissions` that is about this session, which its chat answers.
pub(super) fn permissions_event(text: String) -> Event {
    Event::Command {
        command: "permissions".to_owned(),
        source: Origin::BuiltIn.to_string(),
        outcome: CommandResult::Text,
        text: Some(text),
        duration_ms: 0,
    }
}

/// Returns the folder of the user's own templates.
fn user_prompts(paths: &Paths) -> PathBuf {
    paths.config.join("prompts")
}

#[cfg(test)]
mod tests;
