//! Prepares and records calls of a plugin between two turns: for a slash command, or for a run of
//! the plugin's loop. Such a call may use everything that a turn offers, and its usage is recorded.

use std::time::Instant;

use tokio_util::sync::CancellationToken;

use super::budget::LimitedCallCounts;
use super::lifecycle::LiveAgent;
use super::outcome::Error;
use crate::event::Event;
use crate::message::Usage;
use crate::point::caller::Caller;
use crate::point::failure::Failure;
use crate::price::Cost;
use crate::session::Body;

/// Outcome of a call of a plugin between two turns.
pub(crate) struct PluginCallBetweenTurnsOutcome<T> {
    /// Value that the call returned, or the reason why there is none.
    pub(crate) result: Result<T, String>,
    /// Whether the call was cancelled and therefore has no result.
    pub(crate) was_interrupted: bool,
    /// Duration of the plugin call in milliseconds.
    pub(crate) duration_ms: u64,
    /// Tokens that the model requests of the plugin call used.
    pub(crate) usage: Usage,
    /// Cost of the tokens in `usage`.
    pub(crate) cost: Cost,
}

impl LiveAgent {
    /// Prepares the session for a call of a plugin: models, tools and subagents are available to it
    /// as in a turn, until `cancel` is cancelled. The call has the limits of a turn, minus the
    /// usage in `spent`. The first call also runs `session-start`.
    ///
    /// # Errors
    /// The session cannot be written.
    pub(crate) async fn begin_plugin_call_between_turns(
        &mut self,
        spent: LimitedCallCounts,
        cancel: &CancellationToken,
    ) -> Result<Caller, Error> {
        self.emit_session_opened();
        self.apply_plugin_replacements(None);
        self.dispatcher.reset_quarantine_at_turn_start();
        self.spec.session.close_interrupted_turn()?;
        let scope = self.create_shared_turn_state(cancel.clone());
        scope.budget.set_call_counts(spent);
        tokio::select! {
            biased;
            () = cancel.cancelled() => {}
            () = self.run_session_start_hooks() => {}
        }
        Ok(scope.caller_info_for_step(0))
    }

    /// Waits until the call ends, `cancel` is cancelled, or a hook with `on_failure = "block"` has
    /// failed at a point that cannot be blocked. If such a hook fails before the end of the call,
    /// the call counts as failed as well.
    pub(crate) async fn wait_for_plugin_call_end<T>(
        &mut self,
        call: impl Future<Output = Result<T, Failure>>,
        cancel: &CancellationToken,
    ) -> PluginCallBetweenTurnsOutcome<T> {
        let started = Instant::now();
        // If this future is dropped, the guard stops the subagents of the call.
        let scope = self.scope.as_ref();
        let guard = scope.map(|scope| scope.agents.clone().drop_guard());
        let mut was_interrupted = false;
        let mut result = tokio::select! {
            biased;
            () = cancel.cancelled() => {
                was_interrupted = true;
                Err("the call was interrupted".to_owned())
            }
            why = self.family.halt.wait_for_reason() => Err(format_stopped_call_error(&why)),
            ran = call => ran.map_err(|failure| failure.to_string()),
        };
        let duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let scope = self.scope.clone();
        if let Some(scope) = &scope {
            scope.stop_running_subagents().await;
        }
        if let Some(guard) = guard {
            guard.disarm();
        }
        self.report_hook_failures().await;
        if let Some(why) = self.family.halt.take_reason()
            && result.is_ok()
        {
            result = Err(format_stopped_call_error(&why));
        }
        if let Some(scope) = &scope {
            scope.end_skills(&scope.caller_info_for_step(0)).await;
            scope.mark_turn_ended();
        }
        let used = scope.map(|scope| (scope.budget.usage(), scope.budget.cost_so_far()));
        let (usage, cost) = used.unwrap_or_default();
        PluginCallBetweenTurnsOutcome {
            result,
            was_interrupted,
            duration_ms,
            usage,
            cost,
        }
    }

    /// Returns the numbers of calls that count towards the limits, and resets them to 0: those of
    /// the last call between turns, and the earlier ones that
    /// [`begin_plugin_call_between_turns`](Self::begin_plugin_call_between_turns) got.
    pub(crate) fn take_call_counts(&self) -> LimitedCallCounts {
        let scope = self.scope.as_ref();
        scope
            .map(|scope| scope.budget.take_call_counts())
            .unwrap_or_default()
    }

    /// Writes the entry of a call to the session, and emits its event.
    ///
    /// # Errors
    /// The session cannot be written. The event is emitted nevertheless.
    pub(crate) async fn record_plugin_call(
        &mut self,
        body: Body,
        event: Event,
    ) -> Result<(), Error> {
        let kept = match self.spec.session.append(body) {
            Ok(()) => self.spec.session.sync_on_blocking_thread().await,
            Err(error) => Err(error),
        };
        self.emit_event_to_observers(event);
        Ok(kept?)
    }
}

/// Returns the error text of a call that was stopped.
fn format_stopped_call_error(why: &str) -> String {
    format!("it was stopped: {why}")
}
