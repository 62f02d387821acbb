//! Slash commands of plugins in a session.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use tokio_util::sync::CancellationToken;

use super::Session;
use crate::agent;
use crate::agent::{CommandDone, stopped};
use crate::event::CommandResult;
use crate::lock::lock;
use crate::plugin::commands::{CommandReply, PluginCommand};

/// Reason why a command of a plugin has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// No plugin of the session has this command.
    #[error("plugin `{plugin}` has no command `/{command}` in this session")]
    Unknown {
        /// Name of the plugin.
        plugin: String,
        /// Name of the command.
        command: String,
    },
    /// The plugin failed, refused, or was interrupted.
    #[error("the command `/{command}` of plugin `{plugin}` failed: {why}")]
    Failed {
        /// Name of the plugin.
        plugin: String,
        /// Name of the command.
        command: String,
        /// Reason.
        why: String,
    },
    /// The session failed.
    #[error(transparent)]
    Agent(#[from] agent::Error),
}

/// Slash commands of the plugins of a session. Cheap to clone.
#[derive(Clone)]
pub(super) struct SessionCommands(Arc<Mutex<Arc<[Arc<PluginCommand>]>>>);

impl SessionCommands {
    pub(super) fn new(commands: Vec<PluginCommand>) -> Self {
        let commands = commands.into_iter().map(Arc::new);
        Self(Arc::new(Mutex::new(commands.collect())))
    }

    fn now(&self) -> Arc<[Arc<PluginCommand>]> {
        lock(&self.0).clone()
    }

    /// Puts the commands of a plugin in place of those of its last version.
    pub(super) fn replace(&self, plugin: &str, commands: Vec<PluginCommand>) {
        let mut all = lock(&self.0);
        let others = all.iter().filter(|own| own.plugin() != plugin).cloned();
        let commands = commands.into_iter().map(Arc::new);
        *all = others.chain(commands).collect();
    }
}

impl Session {
    /// Slash commands of the plugins. Only a person calls them, never a model.
    #[must_use]
    pub fn commands(&self) -> Arc<[Arc<PluginCommand>]> {
        self.commands.now()
    }

    /// Runs a command of a plugin, under its permissions and within its deadline, until `cancel` is set. `arguments` is JSON text that
    /// fits the command's schema; for a command without one, the text behind the name. An input of a turn that comes out is for
    /// [`turn`](Self::turn).
    ///
    /// # Errors
    /// There is no such command, it failed, or the session cannot be written.
    pub async fn run_command(
        &mut self,
        plugin: &str,
        command: &str,
        arguments: String,
        cancel: &CancellationToken,
    ) -> Result<CommandReply, CommandError> {
        let commands = self.commands.now();
        let mut commands = commands.iter();
        let found = commands.find(|own| own.plugin() == plugin && own.spec().name == command);
        let Some(own) = found else {
            return Err(CommandError::Unknown {
                plugin: plugin.to_owned(),
                command: command.to_owned(),
            });
        };
        let caller = self.agent.begin_command(cancel).await?;
        let started = Instant::now();
        let ran = tokio::select! {
            biased;
            () = cancel.cancelled() => Err("it was interrupted".to_owned()),
            why = self.agent.halted() => Err(stopped(&why)),
            ran = own.run(&caller, arguments) => ran.map_err(|failure| failure.to_string()),
        };
        let (outcome, text) = match &ran {
            Ok(CommandReply::Text(text)) => (CommandResult::Text, Some(text.clone())),
            Ok(CommandReply::Prompt(_)) => (CommandResult::Prompt, None),
            Ok(CommandReply::Nothing) => (CommandResult::Nothing, None),
            Err(why) => (CommandResult::Failed, Some(why.clone())),
        };
        let done = CommandDone {
            plugin: plugin.to_owned(),
            command: command.to_owned(),
            outcome,
            text,
            duration_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        };
        let done = self.agent.end_command(done).await?;
        match (done.outcome, ran) {
            (CommandResult::Failed, _) | (_, Err(_)) => Err(CommandError::Failed {
                plugin: done.plugin,
                command: done.command,
                why: done.text.unwrap_or_default(),
            }),
            (_, Ok(reply)) => Ok(reply),
        }
    }
}
