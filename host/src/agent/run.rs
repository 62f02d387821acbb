//! Runs a turn from start to end, and owns the built-in order of its primitives.
//!
//! The body of a turn is wrapped in one `select`: when the user interrupts, the body is dropped at
//! its current await point, and [`RunningTurn::end_turn`] closes the open entries of the session.
//! The body itself therefore needs no branches for cancellation. Start from `LiveAgent::run_turn`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::answer::TurnEndAttemptOutcome;
use super::answer_schema::TurnAnswerSchemaChecker;
use super::blobs::store_attachments;
use super::known_input::{InputIdLookupResult, look_up_input_id};
use super::lifecycle::LiveAgent;
use super::outcome::{Error, TurnOutcome};
use super::plugin_order::run_turn_with_plugin_loop;
use super::spec::TurnSpec;
use super::step::StepModelRequestOptions;
use super::stop::EarlyTurnEndReason;
use super::turn::{RunningTurn, TurnKind};
use crate::point::payload::{Source, TurnInput};

/// Time in which running tools can stop and return their partial results after the user interrupted
/// the turn. Slightly longer than the timeout of a single call after its token is cancelled.
const INTERRUPTED_TOOLS_STOP_TIMEOUT: Duration = Duration::from_secs(5);

impl LiveAgent {
    /// Runs one turn: from its input to the final output.
    ///
    /// However the turn ends, every tool call in the session has a result and `turn-end` has fired.
    /// Cancelling `cancel` ends the turn at its next await point with
    /// [`StopReason::Cancelled`](crate::point::payload::StopReason::Cancelled). If this future is
    /// dropped instead, the next turn closes the calls that were left open.
    ///
    /// # Errors
    /// The session cannot be written, or the turn that ran the input with the same id was
    /// interrupted and other turns came after that turn.
    pub(crate) async fn run_turn(
        &mut self,
        spec: TurnSpec,
        cancel: &CancellationToken,
    ) -> Result<TurnOutcome, Error> {
        self.emit_session_opened();
        let spec = match look_up_input_id(&self.spec, spec)? {
            InputIdLookupResult::Run(spec) => spec,
            InputIdLookupResult::Known(outcome) => return Ok(outcome),
        };
        self.apply_plugin_replacements(None);
        let input = TurnInput {
            text: spec.text,
            source: spec.source,
        };
        let work = TurnKind::Answer {
            command: spec.command,
            input_id: spec.input_id,
            continues: spec.continues.map(Box::new),
        };
        let mut turn = RunningTurn::new(self, input, work, cancel.clone());
        turn.attached = store_attachments(&turn.ctx.scope.family.root, spec.attached.into()).await;
        turn.answers = TurnAnswerSchemaChecker::new(spec.answer_schema);
        turn.ctx.scope.budget.set_max_turn_cost(spec.max_cost_usd);
        if let Some(preset) = spec.preset {
            turn.ctx.scope.skills.presets.set_turn_preset(preset);
        }
        run_turn_to_end(turn).await
    }

    /// Replaces all but the newest messages with a summary, like the automatic compaction of long
    /// conversations. This is a turn without an answer, because hooks of compaction may need a
    /// turn, and their usage must be counted.
    ///
    /// # Errors
    /// The session cannot be written.
    pub(crate) async fn compact_session(
        &mut self,
        cancel: &CancellationToken,
    ) -> Result<TurnOutcome, Error> {
        self.emit_session_opened();
        let input = TurnInput {
            text: "/compact".to_owned(),
            source: Source::Terminal,
        };
        run_turn_to_end(RunningTurn::new(
            self,
            input,
            TurnKind::Compact,
            cancel.clone(),
        ))
        .await
    }
}

async fn run_turn_to_end(mut turn: RunningTurn<'_>) -> Result<TurnOutcome, Error> {
    let ended = match turn.begin_turn() {
        Err(error) => Err(error),
        Ok(()) => {
            let interrupted = wait_for_interrupt(
                turn.ctx.scope.cancel.clone(),
                turn.calls.shared_running_flag(),
            );
            let family = turn.ctx.scope.family.clone();
            tokio::select! {
                biased;
                () = interrupted => Err(EarlyTurnEndReason::Cancelled),
                why = family.halt.wait_for_reason() => Err(EarlyTurnEndReason::Blocked(format!("[stopped: {why}]"))),
                ended = run_turn_body(&mut turn) => ended,
            }
        }
    };
    turn.end_turn(ended).await
}

/// Runs the body of a turn: takes the input, answers it, outputs the answer, and repeats this for
/// every follow-up.
async fn run_turn_body(turn: &mut RunningTurn<'_>) -> Result<(), EarlyTurnEndReason> {
    turn.agent.run_session_start_hooks().await;
    if matches!(turn.work, TurnKind::Compact) {
        let done = turn
            .agent
            .compaction
            .compact_conversation_on_user_request(&turn.ctx)
            .await?;
        turn.outputs.push(done);
        return Ok(());
    }
    if let Some(invoked) = turn.activate_invoked_skills().await {
        turn.assess_and_append_input().await?;
        return turn.answer_by_skill_subagent(invoked).await;
    }
    match turn.agent.spec.agent_loop.clone() {
        Some(own) => Box::pin(run_turn_with_plugin_loop(turn, own)).await,
        None => run_built_in_loop(turn).await,
    }
}

/// Runs the built-in agent loop: asks the model until it calls no more tools, then outputs its
/// answer.
async fn run_built_in_loop(turn: &mut RunningTurn<'_>) -> Result<(), EarlyTurnEndReason> {
    let decision = turn.begin_turn_with_input().await?;
    turn.build_system_prompt(decision).await?;
    let order = StepModelRequestOptions::default();
    loop {
        turn.request_answer(&order).await?;
        turn.run_pending_tool_calls().await?;
        if matches!(
            turn.try_end_with_answer().await?,
            TurnEndAttemptOutcome::Done
        ) {
            return Ok(());
        }
    }
}

/// Waits until the user interrupts, and then for at most [`INTERRUPTED_TOOLS_STOP_TIMEOUT`] if
/// tools are running. A running call whose token is cancelled normally returns its partial result,
/// and the body of the turn then ends by itself; this function only limits the wait for that.
async fn wait_for_interrupt(cancel: CancellationToken, is_running_tools: Arc<AtomicBool>) {
    cancel.cancelled().await;
    if is_running_tools.load(Ordering::Acquire) {
        tokio::time::sleep(INTERRUPTED_TOOLS_STOP_TIMEOUT).await;
    }
}
