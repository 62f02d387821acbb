//! Calls single hooks without running the agent loop, for a test case of a plugin that names a
//! point and a payload.
//!
//! The hooks run through the usual dispatcher in a turn of the session, so that they can use the
//! model, tools and the conversation as in any turn.

use std::sync::Arc;
use std::time::Instant;

use tokio_util::sync::CancellationToken;

use super::lifecycle::LiveAgent;
use super::outcome::Error;
use super::scope::SharedTurnState;
use crate::event::Event;
use crate::point::ExtensionPoint;
use crate::point::caller::Caller;
use crate::point::dispatch::HookDispatchResult;
use crate::point::payload::{Source, StopReason, TurnSummary};
use crate::session::Body;

/// Turn without requests to a model, in which only hooks are called.
pub struct HookOnlyTurn<'a> {
    agent: &'a mut LiveAgent,
    scope: Arc<SharedTurnState>,
    started: Instant,
}

impl<'a> HookOnlyTurn<'a> {
    /// Begins a turn in which only hooks are called.
    ///
    /// # Errors
    /// The session cannot be written.
    pub(crate) fn begin_turn(agent: &'a mut LiveAgent) -> Result<Self, Error> {
        agent.emit_session_opened();
        agent.dispatcher.reset_quarantine_at_turn_start();
        let session = agent.spec.session.clone();
        session.close_interrupted_turn()?;
        let scope = agent.create_shared_turn_state(CancellationToken::new());
        session.append(Body::TurnStart {
            turn: scope.number,
            input: String::new(),
            source: Source::Terminal,
            command: None,
            input_id: None,
            continues: None,
            attached: Vec::new(),
            plugins: agent.spec.config.plugin_set.clone(),
        })?;
        Ok(Self {
            agent,
            scope,
            started: Instant::now(),
        })
    }
}

impl HookOnlyTurn<'_> {
    /// Calls the hooks of a point in the given step of the turn, and waits for hooks in the
    /// background. Messages that the hooks add emit events as in any turn. `call` is the id of the
    /// tool call in the payload.
    ///
    /// # Errors
    /// The session cannot be written.
    pub async fn dispatch_hooks_in_step<P: ExtensionPoint>(
        &self,
        payload: P::Payload,
        step: u32,
        call: Option<&str>,
    ) -> Result<HookDispatchResult<P::Payload>, Error> {
        let mut caller = self.scope.caller_info_for_step(step);
        if let Some(id) = call {
            caller = caller.for_tool_call(id);
        }
        let out = self
            .scope
            .emitter
            .dispatch_hooks::<P>(&caller, payload)
            .await;
        for (plugin, injection) in &out.inject {
            self.scope
                .emitter
                .emit_injected_plugin_text(&caller, plugin, injection.clone())
                .await?;
        }
        self.agent.wait_for_background_hooks().await;
        Ok(out)
    }

    /// Returns the caller that hooks see if they are called in the given step of the turn.
    pub fn caller_info_for_step(&self, step: u32) -> Caller {
        self.scope.caller_info_for_step(step)
    }

    /// Ends the turn. If an observing hook with `on_failure = "block"` failed, returns the reason
    /// with which the failure would have ended a normal turn.
    ///
    /// # Errors
    /// The session cannot be written.
    pub async fn end_turn(self) -> Result<Option<String>, Error> {
        let cost = self.scope.budget.cost_so_far();
        let summary = TurnSummary {
            stop: StopReason::Done,
            steps: 0,
            tool_calls: self.scope.budget.n_tool_calls_made(),
            usage: self.scope.budget.usage(),
            cost_usd: cost.usd,
            unpriced_tokens: cost.unpriced_tokens,
            duration_ms: u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
            output: String::new(),
        };
        let session = &self.agent.spec.session;
        session.append(Body::TurnEnd {
            turn: self.scope.number,
            summary: summary.clone(),
            output: String::new(),
        })?;
        session.sync_on_blocking_thread().await?;
        self.agent.spec.events.emit(Event::TurnEnd {
            turn: self.scope.number,
            summary,
            output: String::new(),
        });
        Ok(self.agent.family.halt.take_reason())
    }
}
