//! The run of a turn from its start to its end, and the built-in order of its primitives.
//!
//! The body of a turn is wrapped in one `select`: when the user interrupts, the body is dropped at
//! its current await, and [`TurnRun::end_turn`] puts the session in order. So the body itself has no
//! branches for cancellation. Start from `LiveAgent::run_turn`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::answer::AnswerEnd;
use super::answer_schema::AnswerCheck;
use super::blobs::keep_attached;
use super::known_input::{InputDecision, decide_on_input};
use super::lifecycle::LiveAgent;
use super::outcome::{Error, TurnOutcome};
use super::plugin_order::run_plugin_order;
use super::spec::TurnSpec;
use super::step::StepOrder;
use super::stop::EarlyStop;
use super::turn::{TurnRun, TurnWork};
use crate::point::payload::{Source, TurnInput};

/// Time that tools have, after the user interrupted, to stop by themselves and report their work so
/// far. A little longer than the time that a call gets once its token is set.
const TOOL_GRACE: Duration = Duration::from_secs(5);

impl LiveAgent {
    /// Runs one turn: from its input to the final output.
    ///
    /// However the turn ends, every tool call in the session has a result and `turn-end` has fired.
    /// A set `cancel` ends it at the next await with
    /// [`StopReason::Cancelled`](crate::point::payload::StopReason::Cancelled). If this future is
    /// dropped instead, the next turn closes the calls that it left open.
    ///
    /// # Errors
    /// Only when the host itself fails, which means: the session cannot be written.
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
        self.take_replacements(None);
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
        turn.attached = keep_attached(&turn.ctx.scope.family.root, spec.attached.into()).await;
        turn.answers = AnswerCheck::new(spec.answer_schema);
        turn.ctx.scope.budget.limit_cost(spec.max_cost_usd);
        if let Some(preset) = spec.preset {
            turn.ctx.scope.skills.presets.keep_to_preset(preset);
        }
        run_to_end(turn).await
    }

    /// Replaces all but the newest messages with a summary, as compaction does when a conversation
    /// grows too long. It is a turn that answers nothing: hooks of compaction may use all of a
    /// turn, and their usage is counted.
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
                ended = run_body(&mut turn) => ended,
            }
        }
    };
    turn.end_turn(ended).await
}

/// The whole of a turn: input, answer, output, and again for every follow-up.
async fn run_body(turn: &mut TurnRun<'_>) -> Result<(), EarlyStop> {
    turn.agent.start_session().await;
    if matches!(turn.work, TurnWork::Compact) {
        let done = turn.agent.compaction.compact_now(&turn.ctx).await?;
        turn.outputs.push(done);
        return Ok(());
    }
    if let Some(invoked) = turn.begin_skill().await {
        turn.take_input().await?;
        return turn.answer_by_fork(invoked).await;
    }
    match turn.agent.spec.agent_loop.clone() {
        Some(own) => Box::pin(run_plugin_order(turn, own)).await,
        None => run_built_in(turn).await,
    }
}

/// The built-in order: asks the model until it calls no tool, then outputs its answer.
async fn run_built_in(turn: &mut TurnRun<'_>) -> Result<(), EarlyStop> {
    let decision = turn.begin_input().await?;
    turn.build_system(decision).await?;
    let order = StepOrder::default();
    loop {
        turn.request_answer(&order).await?;
        turn.run_open_calls().await?;
        if matches!(turn.finish_answer().await?, AnswerEnd::Done) {
            return Ok(());
        }
    }
}

/// Waits for an interrupt by the user, then for running tools to stop. A call whose token is set
/// ends by itself, and so does the body, with the partial result of the tool; this function only
/// bounds that wait.
async fn wait_for_interrupt(cancel: CancellationToken, is_running_tools: Arc<AtomicBool>) {
    cancel.cancelled().await;
    if is_running_tools.load(Ordering::Acquire) {
        tokio::time::sleep(TOOL_GRACE).await;
    }
}
