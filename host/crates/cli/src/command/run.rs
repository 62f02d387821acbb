//! Runs calls of commands, and says so as events.

use std::time::Instant;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::origin::Origin;
use super::{Call, Commands, Entry, Kind, Outcome, own};
use crate::exit_code::{Usage, bail_usage};
use rind_lib::event::{CommandResult, Event};
use rind_lib::host::Session;
use rind_lib::plugin::commands::CommandReply;

impl Commands {
    /// Runs a call that [needs no session](Self::needs_no_session), and says so as an event.
    /// One that could not do its work has an event as well.
    pub(crate) async fn run_alone(&self, call: &Call) -> (anyhow::Result<Outcome>, Event) {
        let started = Instant::now();
        let outcome = self.run(call, None, &CancellationToken::new()).await;
        let event = event(&call.entry, &outcome, started);
        (outcome, event)
    }

    /// Runs a call. `session` is the open one, between two turns.
    ///
    /// # Errors
    /// The command could not do its work.
    pub(crate) async fn run(
        &self,
        call: &Call,
        mut session: Option<&mut Session>,
        cancel: &CancellationToken,
    ) -> anyhow::Result<Outcome> {
        let entry = &call.entry;
        if let Some(session) = session.as_deref_mut() {
            session.tell_opening();
        }
        let started = Instant::now();
        let outcome = Self::run_entry(self, entry, call, session.as_deref_mut(), cancel).await;
        // The session itself emits the event of a plugin's command.
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
        let prompt = |text| Outcome::Prompt {
            text,
            command: format!("/{} of {}", entry.name, entry.origin),
        };
        match &entry.kind {
            Kind::BuiltIn(command) => {
                own::run(self, command, &call.arguments, session, cancel).await
            }
            Kind::Template(template) => {
                let text = template.render(&call.arguments, &self.helper, cancel);
                Ok(prompt(text.await.map_err(Usage)?))
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
                    CommandReply::Prompt(text) => prompt(text),
                })
            }
            Kind::Skill(skill) => {
                let Some(session) = session else {
                    bail_usage!("/{} runs in a session, and none is open", entry.name);
                };
                let invoked = session.invoke_skill(&skill.id, &call.arguments, &call.line);
                // The skill may ask for approval; Ctrl-C cancels the question.
                tokio::select! {
                    biased;
                    () = cancel.cancelled() => bail_usage!("it was interrupted"),
                    text = invoked => Ok(prompt(text.map_err(|error| Usage(error.to_string()))?)),
                }
            }
            Kind::Broken(why) => bail_usage!("{why}"),
        }
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

/// Returns the event of a call of `/permissions` that is about this session, which its chat
/// answers.
pub(crate) fn permissions_event(text: String) -> Event {
    Event::Command {
        command: "permissions".to_owned(),
        source: Origin::BuiltIn.to_string(),
        outcome: CommandResult::Text,
        text: Some(text),
        duration_ms: 0,
    }
}
