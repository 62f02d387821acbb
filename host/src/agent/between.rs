//! Calls of a plugin between two turns, for a slash command or a run of its loop. Such a call may
//! use everything that a turn offers, and its usage is recorded.

use std::time::Instant;

use tokio_util::sync::CancellationToken;

use super::budget::SpentUses;
use super::lifecycle::LiveAgent;
use super::outcome::Error;
use crate::event::Event;
use crate::message::Usage;
use crate::point::caller::Caller;
use crate::point::failure::Failure;
use crate::price::Cost;
use crate::session::Body;

/// A call that has ended.
pub(crate) struct EndedCall<T> {
    /// Result, or the reason why there is none.
    pub(crate) result: Result<T, String>,
    /// Whether the call was cancelled and therefore has no result.
    pub(crate) was_interrupted: bool,
    /// Duration of the call in milliseconds.
    pub(crate) duration_ms: u64,
    /// Tokens that the call used.
    pub(crate) usage: Usage,
    /// Cost of the tokens.
    pub(crate) cost: Cost,
}

impl LiveAgent {
    /// Prepares the session for a call of a plugin: models, tools and subagents are available to it
    /// as in a turn, until `cancel` is set. The call has the limits of a turn, reduced by the usage
    /// in `spent`. The first call also runs `session-start`.
    ///
    /// # Errors
    /// The session cannot be written.
    pub(crate) async fn begin_call(
        &mut self,
        spent: SpentUses,
        cancel: &CancellationToken,
    ) -> Result<Caller, Error> {
        self.announce_session();
        self.take_replacements(None);
        self.dispatcher.begin_turn();
        self.spec.session.cut_turn()?;
        let scope = self.enter_turn(cancel.clone());
        scope.budget.set_spent(spent);
        tokio::select! {
            biased;
            () = cancel.cancelled() => {}
            () = self.start_session() => {}
        }
        Ok(scope.scope_caller(0))
    }

    /// Waits for the end of the call, at most until `cancel` is set or a hook that must see
    /// everything has failed. If such a hook fails at any time before the end, the call has failed
    /// as well.
    pub(crate) async fn end_call<T>(
        &mut self,
        call: impl Future<Output = Result<T, Failure>>,
        cancel: &CancellationToken,
    ) -> EndedCall<T> {
        let started = Instant::now();
        // If this future is dropped, the guard ends the subagents of the call.
        let scope = self.scope.as_ref();
        let guard = scope.map(|scope| scope.agents.clone().drop_guard());
        let mut was_interrupted = false;
        let mut result = tokio::select! {
            biased;
            () = cancel.cancelled() => {
                was_interrupted = true;
                Err("it was interrupted".to_owned())
            }
            why = self.family.halt.wait() => Err(stopped_text(&why)),
            ran = call => ran.map_err(|failure| failure.to_string()),
        };
        let duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let scope = self.scope.clone();
        if let Some(scope) = &scope {
            scope.end_agents().await;
        }
        if let Some(guard) = guard {
            guard.disarm();
        }
        self.report_failures().await;
        if let Some(why) = self.family.halt.take()
            && result.is_ok()
        {
            result = Err(stopped_text(&why));
        }
        if let Some(scope) = &scope {
            scope.end_skills(&scope.scope_caller(0)).await;
            scope.end_scope();
        }
        let used = scope.map(|scope| (scope.budget.usage(), scope.budget.cost()));
        let (usage, cost) = used.unwrap_or_default();
        EndedCall {
            result,
            was_interrupted,
            duration_ms,
            usage,
            cost,
        }
    }

    /// Takes the usage that plugins have charged to the last call's limits.
    pub(crate) fn take_spent(&self) -> SpentUses {
        let scope = self.scope.as_ref();
        scope
            .map(|scope| scope.budget.take_spent())
            .unwrap_or_default()
    }

    /// Writes the entry of a call to the session, and emits its event.
    ///
    /// # Errors
    /// The session cannot be written. The events are emitted even so.
    pub(crate) async fn keep_call(&mut self, body: Body, event: Event) -> Result<(), Error> {
        let kept = match self.spec.session.append(body) {
            Ok(()) => self.spec.session.synced().await,
            Err(error) => Err(error),
        };
        self.emit_event_to_observers(event);
        Ok(kept?)
    }
}

/// Returns the error text of a call that was stopped.
fn stopped_text(why: &str) -> String {
    format!("it was stopped: {why}")
}
