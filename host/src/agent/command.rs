//! A command of a plugin between two turns: it may use what a turn offers, and what it used is kept.

use tokio_util::sync::CancellationToken;

use super::{Agent, Error};
use crate::event::{CommandResult, Event};
use crate::point::caller::Caller;
use crate::session::Body;

/// A command that a plugin ran.
pub(crate) struct CommandDone {
    /// Name of the plugin.
    pub(crate) plugin: String,
    /// Name of the command.
    pub(crate) command: String,
    /// Result of the command.
    pub(crate) outcome: CommandResult,
    /// Text for the person, or the reason why it failed.
    pub(crate) text: Option<String>,
    /// Milliseconds that it took.
    pub(crate) duration_ms: u64,
}

/// Reason in the session for calls whose turn was never ended.
const DROPPED: &str = "[dropped: the turn before ended without a result of this call]";

impl Agent {
    /// Prepares the session for a command of a plugin: models, tools and subagents are there for it as in a turn, with the budgets of
    /// one, until `cancel` is set. In the first one, `session-start` is part of it.
    ///
    /// # Errors
    /// The session cannot be written.
    pub(crate) async fn begin_command(
        &mut self,
        cancel: &CancellationToken,
    ) -> Result<Caller, Error> {
        self.announce();
        self.take_replacements(None);
        self.dispatcher.begin_turn();
        self.spec.session.cut_turn(DROPPED)?;
        let scope = self.enter_turn(cancel.clone());
        tokio::select! {
            biased;
            () = cancel.cancelled() => {}
            () = self.start() => {}
        }
        Ok(scope.caller(0))
    }

    /// Returns the reason why the command must not go on, once there is one: the failure of a hook that must see everything.
    pub(crate) async fn halted(&self) -> String {
        self.family.halt.wait().await
    }

    /// Keeps what was done, and tells those who watch. Returns what was kept: when a hook that must see everything has failed, the
    /// command has failed as well.
    ///
    /// # Errors
    /// The session cannot be written.
    pub(crate) async fn end_command(
        &mut self,
        mut done: CommandDone,
    ) -> Result<CommandDone, Error> {
        self.report_failures().await;
        if let Some(why) = self.family.halt.take()
            && done.outcome != CommandResult::Failed
        {
            done.outcome = CommandResult::Failed;
            done.text = Some(stopped(&why));
        }
        let scope = self.scope.clone();
        if let Some(scope) = &scope {
            scope.end_skills(&scope.caller(0)).await;
        }
        scope.iter().for_each(|scope| scope.ends());
        let used = scope.map(|scope| (scope.usage(), scope.cost()));
        let (usage, cost) = used.unwrap_or_default();
        let is_failed = done.outcome == CommandResult::Failed;
        self.spec.session.append(Body::Command {
            plugin: done.plugin.clone(),
            command: done.command.clone(),
            outcome: done.outcome,
            reason: done.text.clone().filter(|_| is_failed),
            duration_ms: done.duration_ms,
            usage,
            cost_usd: cost.usd,
            unpriced_tokens: cost.unpriced_tokens,
        })?;
        self.spec.session.synced().await?;
        self.tell(Event::Command {
            command: done.command.clone(),
            source: format!("plugin {}", done.plugin),
            outcome: done.outcome,
            text: done.text.clone(),
            duration_ms: done.duration_ms,
        });
        Ok(done)
    }
}

/// Returns the reason for a command that did not go on.
pub(crate) fn stopped(why: &str) -> String {
    format!("it was stopped: {why}")
}
