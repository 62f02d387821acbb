//! Runs loops of plugins in a session, and limits all runs together.
//!
//! [`PluginLoopHostService`] provides the functions that a run has in addition to those of its
//! session.

mod desk;
mod names;
mod order;
mod spending;
mod turn;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub(crate) use desk::{
    LOOP_TURN_COMPLETION_GRACE_PERIOD, LoopServiceOptions, PluginLoopHostService,
};
pub use names::plugin_owning_loop_session;
pub use turn::{LoopTurnRunner, PluginLoopTurnRequest};

use super::Session;
use crate::agent::{self, LimitedCallCounts, PluginCallBetweenTurnsOutcome};
use crate::event::{Event, LoopResult};
use crate::plugin::loops::{LoopRunResult, PluginLoop};
use crate::session::Body;

/// Period in which all runs of loops in a session together may use the limits of one turn. Without
/// it, a loop that runs ten times a second could start forty subagents in one second.
const SHARED_TURN_LIMITS_RESET_PERIOD: Duration = Duration::from_secs(60);

/// Reason why a run of a loop has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoopRunError {
    /// The plugin does not have a loop in this session.
    #[error("plugin `{plugin}` has no loop in this session")]
    Unknown {
        /// Name of the plugin that has no loop.
        plugin: String,
    },
    /// The plugin failed, or was stopped at its deadline or by a hook.
    #[error("the loop of plugin `{plugin}` failed: {why}")]
    Failed {
        /// Name of the plugin whose loop failed.
        plugin: String,
        /// Reason why the run of the loop failed.
        why: String,
    },
    /// The run of the loop was cancelled.
    #[error("the loop of plugin `{plugin}` was interrupted")]
    Interrupted {
        /// Name of the plugin whose loop was interrupted.
        plugin: String,
    },
    /// The session of the loop cannot be written or read.
    #[error(transparent)]
    Agent(#[from] agent::Error),
}

/// Counters of a turn's limits, shared by all runs of loops in a session.
#[derive(Default)]
pub(super) struct SharedTurnLimitCounters {
    spent: LimitedCallCounts,
    /// Time of the first run in the current period, in which the limits are counted.
    since: Option<Instant>,
}

impl SharedTurnLimitCounters {
    /// Returns the usage of earlier runs in this period, and begins a new period if the last one is
    /// over. The usage is kept until a run reports its own, because a run that cannot start reports
    /// none.
    fn usage_in_current_period(&mut self, now: Instant) -> LimitedCallCounts {
        let is_over = |since: Instant| now.duration_since(since) >= SHARED_TURN_LIMITS_RESET_PERIOD;
        if self.since.is_none_or(is_over) {
            self.since = Some(now);
            self.spent = LimitedCallCounts::new_for_period("minute");
        }
        self.spent.clone()
    }
}

impl Session {
    /// Returns the loops of the plugins. A loop runs only in [`run_loop`](Self::run_loop).
    #[must_use]
    pub fn loops(&self) -> Arc<[Arc<PluginLoop>]> {
        self.offers.plugin_loops()
    }

    /// Runs the loop of a plugin once, under its permissions and within its deadline, until
    /// `cancel` is set. Everything that it asks, calls or runs passes hooks, policy and approval as
    /// in a turn, and all runs within a minute share the limits of one turn. Turns that the loop
    /// starts run in sessions of their own and end with the run. The loop receives no messages.
    ///
    /// # Errors
    /// The plugin has no loop, the run failed or was interrupted, or the session cannot be written.
    pub async fn run_loop(
        &mut self,
        plugin: &str,
        cancel: &CancellationToken,
    ) -> Result<LoopRunResult, LoopRunError> {
        let parts = LoopServiceOptions {
            runner: None,
            watcher: None,
            max_session_bytes: u64::MAX,
            shutdown: cancel.clone(),
        };
        let Some((desk, _)) = PluginLoopHostService::new(self, plugin, parts) else {
            return Err(LoopRunError::Unknown {
                plugin: plugin.to_owned(),
            });
        };
        self.run_loop_with_messages(plugin, &desk, cancel).await
    }

    /// Runs the loop of a plugin once, like [`run_loop`](Self::run_loop), with messages and turns
    /// from `desk`. A run that waits for the end of the host or starts turns has some time to
    /// return after `cancel` is set.
    pub(crate) async fn run_loop_with_messages(
        &mut self,
        plugin: &str,
        desk: &Arc<PluginLoopHostService>,
        cancel: &CancellationToken,
    ) -> Result<LoopRunResult, LoopRunError> {
        let loops = self.offers.plugin_loops();
        let Some(own) = loops.iter().find(|own| own.plugin_name() == plugin) else {
            return Err(LoopRunError::Unknown {
                plugin: plugin.to_owned(),
            });
        };
        let spent = self.shared.usage_in_current_period(Instant::now());
        let caller = self
            .agent
            .begin_plugin_call_between_turns(spent, cancel)
            .await?;
        desk.begin_loop_run();
        let interrupt = CancellationToken::new();
        let run = self
            .agent
            .wait_for_plugin_call_end(own.run(&caller, desk.clone()), &interrupt);
        let ended = tokio::select! {
            ended = run => ended,
            never = interrupt_run_after_grace(desk, cancel, &interrupt) => match never {},
        };
        desk.end_loop_run().await;
        self.shared.spent = self.agent.take_call_counts();
        let (body, event) = create_loop_run_entry_and_event(plugin, &ended);
        self.agent.record_plugin_call(body, event).await?;
        let plugin = plugin.to_owned();
        ended.result.map_err(|why| match ended.was_interrupted {
            true => LoopRunError::Interrupted { plugin },
            false => LoopRunError::Failed { plugin, why },
        })
    }

    /// Emits an event about a loop to the observers of the session.
    pub(crate) fn emit_loop_event(&mut self, event: Event) {
        self.agent.emit_event_to_observers(event);
    }

    /// Returns the length of the session's file, in bytes.
    pub(crate) fn session_file_size(&self) -> u64 {
        self.agent.spec().session.total_entry_bytes()
    }

    /// Resets the counts of the plugins' usage in this session, such as log lines and requests.
    pub(crate) fn reset_plugin_usage_counts(&self) {
        self.offers.reset_plugin_usage_limit_counts();
    }
}

/// Waits until `cancel` is set, then interrupts a run of a loop: at once, or after
/// [`LOOP_TURN_COMPLETION_GRACE_PERIOD`] if the run was notified that the host ends. Never returns.
async fn interrupt_run_after_grace(
    desk: &PluginLoopHostService,
    cancel: &CancellationToken,
    interrupt: &CancellationToken,
) -> Infallible {
    cancel.cancelled().await;
    if desk.is_notified_of_shutdown() {
        tokio::time::sleep(LOOP_TURN_COMPLETION_GRACE_PERIOD).await;
    }
    interrupt.cancel();
    std::future::pending().await
}

/// Creates the session entry and the event of a run.
fn create_loop_run_entry_and_event(
    plugin: &str,
    ended: &PluginCallBetweenTurnsOutcome<LoopRunResult>,
) -> (Body, Event) {
    let (outcome, after, reason) = match &ended.result {
        Ok(LoopRunResult::Done) => (LoopResult::Done, None, None),
        Ok(LoopRunResult::Again { after, reason }) => {
            (LoopResult::Again, Some(after), Some(reason))
        }
        Err(why) => (LoopResult::Failed, None, Some(why)),
    };
    let after_ms = after.map(|after| u64::try_from(after.as_millis()).unwrap_or(u64::MAX));
    let body = Body::LoopRun {
        plugin: plugin.to_owned(),
        outcome,
        after_ms,
        reason: reason.cloned(),
        duration_ms: ended.duration_ms,
        usage: ended.usage,
        cost_usd: ended.cost.usd,
        unpriced_tokens: ended.cost.unpriced_tokens,
    };
    let event = Event::LoopRun {
        plugin: plugin.to_owned(),
        outcome,
        after_ms,
        reason: reason.cloned(),
        duration_ms: ended.duration_ms,
    };
    (body, event)
}
