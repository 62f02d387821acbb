//! Runs calls of commands and emits events about them.

use std::time::Instant;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::origin::SlashCommandOrigin;
use super::{
    SlashCommandCall, SlashCommandDefinition, SlashCommandImplementation, SlashCommandRunOutcome,
    SlashCommandSet, own,
};
use crate::exit_code::{Usage, bail_usage};
use rind_lib::event::{CommandResult, Event};
use rind_lib::host::{Session, SessionPromptsAndResources};
use rind_lib::plugin::commands::SlashCommandReply;
use rind_mcp::mcp_tool_source_name;

impl SlashCommandSet {
    /// Runs a call that [works without a session](Self::can_run_without_session). Returns
    /// the outcome and the event that reports it, even if the command failed.
    pub(crate) async fn run_sessionless_command(
        &self,
        call: &SlashCommandCall,
    ) -> (anyhow::Result<SlashCommandRunOutcome>, Event) {
        let started = Instant::now();
        let outcome = self
            .run_command_call(call, None, &CancellationToken::new())
            .await;
        let event = build_command_run_event(&call.entry, &outcome, started);
        (outcome, event)
    }

    /// Runs a slash command. `session` is the open session; it must have no running turn.
    ///
    /// # Errors
    /// The command failed.
    pub(crate) async fn run_command_call(
        &self,
        call: &SlashCommandCall,
        mut session: Option<&mut Session>,
        cancel: &CancellationToken,
    ) -> anyhow::Result<SlashCommandRunOutcome> {
        let entry = &call.entry;
        if let Some(session) = session.as_deref_mut() {
            session.emit_opening();
        }
        let started = Instant::now();
        let outcome =
            Self::run_command_implementation(self, entry, call, session.as_deref_mut(), cancel)
                .await;
        // The session has already emitted the event for a command of a plugin.
        let is_told = matches!(entry.kind, SlashCommandImplementation::Plugin(_));
        if let Some(session) = session.filter(|_| !is_told) {
            session.report_command(build_command_run_event(entry, &outcome, started));
        }
        outcome
    }

    async fn run_command_implementation(
        &self,
        entry: &SlashCommandDefinition,
        call: &SlashCommandCall,
        session: Option<&mut Session>,
        cancel: &CancellationToken,
    ) -> anyhow::Result<SlashCommandRunOutcome> {
        let prompt = |text| SlashCommandRunOutcome::Prompt {
            text,
            command: format!("/{} of {}", entry.name, entry.origin),
            images: Vec::new(),
        };
        match &entry.kind {
            SlashCommandImplementation::BuiltIn(command) => {
                own::run_built_in_command(self, command, &call.arguments, session, cancel).await
            }
            SlashCommandImplementation::Template(template) => {
                let text = template.render_text(&call.arguments, &self.helper, cancel);
                Ok(prompt(text.await.map_err(Usage)?))
            }
            SlashCommandImplementation::Plugin(plugin) => {
                let Some(session) = session else {
                    bail_usage!("/{} needs a session, and none is open", entry.name);
                };
                let arguments = match &call.arguments {
                    Value::String(text) if entry.arguments.is_none() => text.clone(),
                    value => value.to_string(),
                };
                let ran = session.run_command(plugin, &entry.name, arguments, cancel);
                Ok(match ran.await? {
                    SlashCommandReply::Text(text) => SlashCommandRunOutcome::Text(text),
                    SlashCommandReply::Nothing => SlashCommandRunOutcome::Nothing,
                    SlashCommandReply::Prompt(text) => prompt(text),
                })
            }
            SlashCommandImplementation::Skill(skill) => {
                let Some(session) = session else {
                    bail_usage!("/{} needs a session, and none is open", entry.name);
                };
                let invoked = session.invoke_skill(&skill.id, &call.arguments, &call.line);
                // The skill may ask for approval, and Ctrl-C must end that question.
                tokio::select! {
                    biased;
                    () = cancel.cancelled() => bail_usage!("the command was interrupted"),
                    text = invoked => Ok(prompt(text.map_err(|error| Usage(error.to_string()))?)),
                }
            }
            SlashCommandImplementation::ServerPrompt(name) => {
                let Some(session) = session else {
                    bail_usage!("/{} runs in a session, and none is open", entry.name);
                };
                self.fetch_mcp_prompt(call, name, &session.materials(), cancel)
                    .await
            }
            SlashCommandImplementation::Broken(why) => bail_usage!("{why}"),
        }
    }

    /// Fetches the prompt that a slash command names from an MCP server.
    async fn fetch_mcp_prompt(
        &self,
        call: &SlashCommandCall,
        name: &str,
        materials: &SessionPromptsAndResources,
        cancel: &CancellationToken,
    ) -> anyhow::Result<SlashCommandRunOutcome> {
        let entry = &call.entry;
        let server = entry.origin.command_name_prefix();
        if self.about.is_dry_run {
            bail_usage!(
                "/{server}:{} is not run: a dry run starts no server",
                entry.name
            );
        }
        let arguments = call.arguments.as_object().cloned().unwrap_or_default();
        let origin = mcp_tool_source_name(server);
        tokio::select! {
            biased;
            () = cancel.cancelled() => bail_usage!("the command was interrupted"),
            fetched = materials.fetch_prompt(&origin, name, arguments) => match fetched {
                Ok(fetched) => Ok(SlashCommandRunOutcome::Prompt {
                    text: fetched.text,
                    command: format!("/{server}:{} of {}", entry.name, entry.origin),
                    images: fetched.images,
                }),
                Err(why) => Err(Usage(format!("MCP server `{server}` {why}")).into()),
            },
        }
    }
}

/// Returns the event for a command that was run.
fn build_command_run_event(
    entry: &SlashCommandDefinition,
    outcome: &anyhow::Result<SlashCommandRunOutcome>,
    started: Instant,
) -> Event {
    let (outcome, text) = match outcome {
        Ok(SlashCommandRunOutcome::Text(text)) => (CommandResult::Text, Some(text.clone())),
        Ok(SlashCommandRunOutcome::Prompt { .. }) => (CommandResult::Prompt, None),
        Ok(SlashCommandRunOutcome::Nothing) => (CommandResult::Nothing, None),
        Ok(SlashCommandRunOutcome::Action(_)) => (CommandResult::Action, None),
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

/// Returns the event that reports a `/permissions` command which the chat answered itself.
pub(crate) fn build_permissions_command_event(text: String) -> Event {
    Event::Command {
        command: "permissions".to_owned(),
        source: SlashCommandOrigin::BuiltIn.to_string(),
        outcome: CommandResult::Text,
        text: Some(text),
        duration_ms: 0,
    }
}
