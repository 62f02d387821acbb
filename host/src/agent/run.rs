//! Runs a turn from start to end, and owns the built-in order of its primitives.
//!
//! The body of a turn is wrapped in one `select`: when the user interrupts, the body is dropped at
//! its current await point, and [`TurnRun::end_turn`] closes the open entries of the session. The
//! body itself therefore needs no branches for cancellation. Start from `LiveAgent::run_turn`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::answer::TurnEndAttempt;
use super::answer_schema::TurnAnswerSchemaCheck;
use super::blobs::store_attachments;
use super::known_input::{InputDecision, decide_on_input};
use super::lifecycle::LiveAgent;
use super::outcome::{Error, TurnOutcome};
use super::plugin_order::run_turn_in_plugin_order;
use super::spec::TurnSpec;
use super::step::StepRequestOptions;
use super::stop::EarlyStop;
use super::turn::{TurnRun, TurnWork};
use crate::point::payload::{Source, TurnInput};

/// Time in which running tools can stop and return their partial results after the user interrupted
/// the turn. Slightly longer than the timeout of a single call after its token is cancelled.
const TOOL_GRACE: Duration = Duration::from_secs(5);

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
        self.announce_session();
        let spec = match decide_on_input(&self.spec, spec)? {
            InputDecision::Run(spec) => spec,
            InputDecision::Known(outcome) => return Ok(outcome),
        };
        self.apply_plugin_replacements(None);
        let input = TurnInput {
            text: spec.text,
            source: spec.source,
        };
        let work = TurnWork::Answer {
            command: spec.command,
            input_id: spec.input_id,
            continues: spec.continues.map(Box::new),
        };
        let mut turn = TurnRun::new(self, input, work, cancel.clone());
        turn.attached = store_attachments(&turn.ctx.scope.family.root, spec.attached.into()).await;
        turn.answers = TurnAnswerSchemaCheck::new(spec.answer_schema);
        turn.ctx.scope.budget.set_max_turn_cost(spec.max_cost_usd);
        if let Some(preset) = spec.preset {
            turn.ctx.scope.skills.presets.set_turn_preset(preset);
        }
        run_to_end(turn).await
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
        self.announce_session();
        let input = TurnInput {
            text: "/compact".to_owned(),
            source: Source::Terminal,
        };
        run_to_end(TurnRun::new(self, input, TurnWork::Compact, cancel.clone())).await
    }
}

async fn run_to_end(mut turn: TurnRun<'_>) -> Result<TurnOutcome, Error> {
    let ended = match turn.begin_turn() {
        Err(error) => Err(error),
        Ok(()) => {
            let interrupted =
                wait_for_interrupt(turn.ctx.scope.cancel.clone(), turn.calls.is_running());
            let family = turn.ctx.scope.family.clone();
            tokio::select! {
                biased;
                () = interrupted => Err(EarlyStop::Cancelled),
                why = family.halt.wait() => Err(EarlyStop::Blocked(format!("[stopped: {why}]"))),
                ended = run_turn_body(&mut turn) => ended,
            }
        }
    };
    turn.end_turn(ended).await
}

/// Runs the body of a turn: takes the input, answers it, outputs the answer, and repeats this for
/// every follow-up.
async fn run_turn_body(turn: &mut TurnRun<'_>) -> Result<(), EarlyStop> {
    turn.agent.run_session_start_hooks().await;
    if matches!(turn.work, TurnWork::Compact) {
        let done = turn.agent.compaction.compact_now(&turn.ctx).await?;
        turn.outputs.push(done);
        return Ok(());
    }
    if let Some(invoked) = turn.activate_invoked_skills().await {
        turn.take_input().await?;
        return turn.answer_by_subagent(invoked).await;
    }
    match turn.agent.spec.agent_loop.clone() {
        Some(own) => Box::pin(run_turn_in_plugin_order(turn, own)).await,
        None => run_built_in_order(turn).await,
    }
}

/// Runs the built-in agent loop: asks the model until it calls no more tools, then outputs its
/// answer.
async fn run_built_in_order(turn: &mut TurnRun<'_>) -> Result<(), EarlyStop> {
    let decision = turn.begin_turn_input().await?;
    turn.build_system_prompt(decision).await?;
    let order = StepRequestOptions::default();
    loop {
        turn.request_answer(&order).await?;
        turn.run_pending_tool_calls().await?;
        if matches!(
            turn.output_or_continue_answer().await?,
            TurnEndAttempt::Done
        ) {
            return Ok(());
        }
    }
}

/// Waits until the user interrupts, and then for at most [`TOOL_GRACE`] if tools are running. A
/// running call whose token is cancelled normally returns its partial result, and the body of the
/// turn then ends by itself; this function only limits the wait for that.
async fn wait_for_interrupt(cancel: CancellationToken, is_running_tools: Arc<AtomicBool>) {
    cancel.cancelled().await;
    if is_running_tools.load(Ordering::Acquire) {
        tokio::time::sleep(TOOL_GRACE).await;
    }
}
