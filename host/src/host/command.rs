//! Runs slash commands of plugins in a session.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::Session;
use crate::agent::{self, LimitedCallCounts};
use crate::event::{CommandResult, Event};
use crate::plugin::commands::{PluginSlashCommand, SlashCommandReply};
use crate::session::Body;

/// Reason why a command of a plugin has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PluginCommandError {
    /// No plugin of the session has this command.
    #[error("plugin `{plugin}` has no command `/{command}` in this session")]
    Unknown {
        /// Name of the plugin that was to run the command.
        plugin: String,
        /// Name of the command that was not found.
        command: String,
    },
    /// The plugin failed, refused, or was interrupted.
    #[error("the command `/{command}` of plugin `{plugin}` failed: {why}")]
    Failed {
        /// Name of the plugin that provides the command.
        plugin: String,
        /// Name of the command that failed.
        command: String,
        /// Reason why the command failed.
        why: String,
    },
    /// The session cannot be written or read.
    #[error(transparent)]
    Agent(#[from] agent::Error),
}

impl Session {
    /// Returns the slash commands of the plugins. Only users run them, never a model.
    #[must_use]
    pub fn commands(&self) -> Arc<[Arc<PluginSlashCommand>]> {
        self.offers.commands()
    }

    /// Runs a command of a plugin, under its permissions and within its deadline, until `cancel` is
    /// set. `arguments` is JSON text that fits the command's schema, or, for a command without a
    /// schema, the text after its name. If the command returns an input of a turn, pass the input
    /// to [`turn`](Self::turn).
    ///
    /// # Errors
    /// There is no such command, it failed, or the session cannot be written.
    pub async fn run_command(
        &mut self,
        plugin: &str,
        command: &str,
        arguments: String,
        cancel: &CancellationToken,
    ) -> Result<SlashCommandReply, PluginCommandError> {
        let commands = self.offers.commands();
        let mut commands = commands.iter();
        let found = commands.find(|own| own.plugin_name() == plugin && own.spec().name == command);
        let Some(own) = found else {
            return Err(PluginCommandError::Unknown {
                plugin: plugin.to_owned(),
                command: command.to_owned(),
            });
        };
        let caller = self
            .agent
            .begin_plugin_call_between_turns(LimitedCallCounts::default(), cancel)
            .await?;
        let call = own.run(&caller, arguments);
        let ended = self.agent.wait_for_plugin_call_end(call, cancel).await;
        let (outcome, text) = match &ended.result {
            Ok(SlashCommandReply::Text(text)) => (CommandResult::Text, Some(text)),
            Ok(SlashCommandReply::Prompt(_)) => (CommandResult::Prompt, None),
            Ok(SlashCommandReply::Nothing) => (CommandResult::Nothing, None),
            Err(why) => (CommandResult::Failed, Some(why)),
        };
        let body = Body::Command {
            plugin: plugin.to_owned(),
            command: command.to_owned(),
            outcome,
            reason: ended.result.as_ref().err().cloned(),
            duration_ms: ended.duration_ms,
            usage: ended.usage,
            cost_usd: ended.cost.usd,
            unpriced_tokens: ended.cost.unpriced_tokens,
        };
        let event = Event::Command {
            command: command.to_owned(),
            source: format!("plugin {plugin}"),
            outcome,
            text: text.cloned(),
            duration_ms: ended.duration_ms,
        };
        self.agent.record_plugin_call(body, event).await?;
        ended.result.map_err(|why| PluginCommandError::Failed {
            plugin: plugin.to_owned(),
            command: command.to_owned(),
            why,
        })
    }
}
