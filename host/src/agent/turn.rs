//! One turn from its start to its end.
//!
//! [`TurnRun::run_turn`] wraps the turn's body in one `select`: when the user interrupts, the body
//! is dropped at its current await, and [`TurnRun::end_turn`] puts the session in order. So the
//! body itself has no branches for cancellation, and all it has to do is to keep the data that must
//! survive in the turn and not in its own variables.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::answer_schema::{AnswerCheck, AnswerMismatch};
use super::calls::TurnCalls;
use super::ctx::TurnCtx;
use super::known_input::{InputDecision, decide_on_input};
use super::lifecycle::LiveAgent;
use super::outcome::{Error, TurnOutcome};
use super::reflect::MARK;
use super::reflect::second::ReflectionState;
use super::reply::{ReplyShortfall, ReplyStep};
use super::spec::TurnSpec;
use super::stop::{EarlyStop, blocked_by, held_back};
use super::stream::{AnswerProgress, goes_on_from};
use crate::event::Event;
use crate::message::{Attachment, Message, Origin, Role};
use crate::point::catalog as at;
use crate::point::dispatch::AttributedText;
use crate::point::outcome::Level;
use crate::point::payload::{Source, TurnInput};
use crate::provider::SystemBlock;
use crate::session::{Body, InterruptedTurn, Position};

/// Time that tools have, after the user interrupted, to stop by themselves and report their work so
/// far. A little longer than the time that a call gets once its token is set.
const TOOL_GRACE: Duration = Duration::from_secs(5);

/// Maximum number of consecutive answers cut by a token limit. A model that does not write less
/// after two of them usually repeats the same answer, at full cost.
const MAX_CUT: u32 = 3;

/// Note at the end of a turn after [`MAX_CUT`] cut answers.
const CUT_AGAIN: &str = "[stopped: the answer was cut at the token limit three times in a row; raise the limit of the model's \
                         answer, or ask for less at once]";

/// Message for the model after its text was cut.
const CONTINUE: &str = "[your answer was cut by its token limit; continue exactly where it stopped, without repeating anything]";

/// Message for the model after an answer without text and tool calls.
const EMPTY: &str =
    "[your answer was empty; answer the last message of the user, or say why you cannot]";

/// Notice after the second consecutive empty answer.
const EMPTY_AGAIN: &str =
    "the model gave an empty answer twice in a row; ask again, or choose another model with /model";

#[derive(Clone, Debug)]
pub(super) enum TurnWork {
    Answer {
        /// The slash command that made the input, and its source.
        command: Option<String>,
        /// Id that the caller gave the input.
        input_id: Option<String>,
        /// Interrupted turn that goes on.
        continues: Option<Box<InterruptedTurn>>,
    },
    /// Replaces older messages with a summary and answers nothing.
    Compact,
}

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
        turn.attached = spec.attached.into();
        turn.answers = AnswerCheck::new(spec.answer_schema);
        turn.ctx.scope.budget.limit_cost(spec.max_cost_usd);
        if let Some(preset) = spec.preset {
            turn.ctx.scope.skills.keep_to_preset(preset);
        }
        turn.run_turn().await
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
        TurnRun::new(self, input, TurnWork::Compact, cancel.clone())
            .run_turn()
            .await
    }
}

pub(super) struct TurnRun<'a> {
    pub(super) agent: &'a mut LiveAgent,
    /// The way to hooks, session and events, which the parts of the turn share.
    pub(super) ctx: TurnCtx,
    pub(super) input: TurnInput,
    /// Images that belong to the input.
    pub(super) attached: Arc<[Attachment]>,
    pub(super) work: TurnWork,
    /// The step that may not be passed; a follow-up moves it on.
    pub(super) last_step: u32,
    pub(super) system: Vec<SystemBlock>,
    /// Task that writes the text of the system prompt to the session.
    pub(super) keeping: Option<JoinHandle<()>>,
    /// The answer that is streaming in.
    pub(super) progress: AnswerProgress,
    /// Tool calls whose results are not in the session yet.
    pub(super) calls: TurnCalls,
    pub(super) reflected: ReflectionState,
    /// Check of answers that must match a schema.
    pub(super) answers: AnswerCheck,
    pub(super) outputs: Vec<String>,
    /// Answer that the model gave before the turn was interrupted.
    pub(super) ready_answer: Option<String>,
    /// Whether the model was told of subagents that still run.
    told_of_agents: bool,
    /// Ends the subagents when the turn is dropped.
    pub(super) agents_guard: Option<DropGuard>,
    /// Offset of the turn's first entry in the file of the session, in bytes.
    pub(super) begins_at: Position,
    pub(super) started: Instant,
}

impl<'a> TurnRun<'a> {
    pub(super) fn new(
        agent: &'a mut LiveAgent,
        input: TurnInput,
        work: TurnWork,
        cancel: CancellationToken,
    ) -> Self {
        let scope = agent.enter_turn(cancel);
        Self {
            agents_guard: Some(scope.agents.clone().drop_guard()),
            told_of_agents: false,
            ctx: TurnCtx::new(scope),
            last_step: agent.spec.config.max_steps.max(1),
            agent,
            input,
            attached: Arc::default(),
            work,
            system: Vec::new(),
            keeping: None,
            progress: AnswerProgress::default(),
            calls: TurnCalls::default(),
            reflected: ReflectionState::default(),
            answers: AnswerCheck::default(),
            outputs: Vec::new(),
            ready_answer: None,
            begins_at: Position::START,
            started: Instant::now(),
        }
    }

    pub(super) async fn run_turn(mut self) -> Result<TurnOutcome, Error> {
        let ended = match self.begin_turn() {
            Err(error) => Err(error),
            Ok(()) => {
                let interrupted =
                    wait_for_interrupt(self.ctx.scope.cancel.clone(), self.calls.is_running());
                let family = self.ctx.scope.family.clone();
                tokio::select! {
                    biased;
                    () = interrupted => Err(EarlyStop::Cancelled),
                    why = family.halt.wait() => Err(EarlyStop::Blocked(format!("[stopped: {why}]"))),
                    ended = self.run_body() => ended,
                }
            }
        };
        self.end_turn(ended).await
    }

    fn begin_turn(&mut self) -> Result<(), EarlyStop> {
        self.agent.dispatcher.begin_turn();
        let session = self.agent.spec.session.clone();
        session.cut_turn()?;
        self.begins_at = session.end();
        let (command, input_id, continues) = match &self.work {
            TurnWork::Answer {
                command,
                input_id,
                continues,
            } => {
                let continues = continues.as_ref().map(|before| before.turn);
                (command.clone(), input_id.clone(), continues)
            }
            TurnWork::Compact => (Some(self.input.text.clone()), None, None),
        };
        session.append(Body::TurnStart {
            turn: self.ctx.scope.number,
            input: self.input.text.clone(),
            source: self.input.source,
            command: command.clone(),
            input_id,
            continues,
        })?;
        self.ctx.emit_event(Event::TurnStart {
            turn: self.ctx.scope.number,
            input: self.input.text.clone(),
            source: self.input.source,
            command,
        });
        Ok(())
    }

    /// The whole of a turn: input, answer, output, and again for every follow-up.
    async fn run_body(&mut self) -> Result<(), EarlyStop> {
        self.agent.start_session().await;
        if matches!(self.work, TurnWork::Compact) {
            let done = self.agent.compaction.compact_now(&self.ctx).await?;
            self.outputs.push(done);
            return Ok(());
        }
        let fork = self.begin_skill().await;
        let decision = self.take_input().await?;
        if let Some(invoked) = fork {
            return self.answer_by_fork(invoked).await;
        }
        let scope = self.ctx.scope.clone();
        self.agent.join_archived(&scope).await;
        self.agent
            .archival
            .begin_archiving(&self.agent.spec, &scope);
        self.build_system(decision).await?;
        loop {
            let answer = self.answer_input().await?;
            if answer.is_cut {
                // A note of the host is no answer, and the stop reason says so.
                self.answers = AnswerCheck::default();
            }
            self.give_output(answer.draft).await?;
            if answer.is_cut {
                return Err(EarlyStop::MaxSteps);
            }
            if !self.take_follow_up().await? {
                return Ok(());
            }
        }
    }

    /// Runs steps until the model has answered and reflection accepts the answer.
    async fn answer_input(&mut self) -> Result<DraftAnswer, EarlyStop> {
        let mut draft = String::new();
        // Cut text that the next step continues.
        let mut begun = String::new();
        let (mut n_cut, mut n_empty) = (0, 0);
        loop {
            if self.ctx.step >= self.last_step {
                return Ok(self.cut_draft(&draft, &self.step_limit()));
            }
            if let Some(note) = self.cost_limit() {
                return Ok(self.cut_draft(&draft, &note));
            }
            let mut step = match self.ready_answer.take() {
                Some(draft) => ReplyStep::whole(draft),
                None => self.take_step().await?,
            };
            step.draft.insert_str(0, &begun);
            begun.clear();
            let is_cut_text = step.shortfall == Some(ReplyShortfall::CutText);
            self.progress.ends_answer(is_cut_text);
            if !step.draft.is_empty() {
                draft.clone_from(&step.draft);
            }
            match step.shortfall {
                Some(ReplyShortfall::CutText | ReplyShortfall::CutCalls) => n_cut += 1,
                Some(ReplyShortfall::Empty) => n_empty += 1,
                None => (n_cut, n_empty) = (0, 0),
            }
            if n_cut >= MAX_CUT {
                return Ok(self.cut_draft(&draft, CUT_AGAIN));
            }
            let has_step = self.ctx.step < self.last_step;
            if is_cut_text && has_step {
                begun = step.draft;
                self.ctx
                    .push(Message::text(Role::User, CONTINUE).from(Origin::Reflection))
                    .await?;
                continue;
            }
            if n_empty > 1 && !step.goes_on {
                self.ctx.emit_notice(Level::Warn, EMPTY_AGAIN);
                return Ok(DraftAnswer {
                    draft: format!("[{EMPTY_AGAIN}]"),
                    is_cut: false,
                });
            }
            if n_empty == 1 && !step.goes_on && has_step {
                self.ctx
                    .push(Message::text(Role::User, EMPTY).from(Origin::Reflection))
                    .await?;
                continue;
            }
            // A text that a hook removed without a replacement is no reason to ask the model again.
            if step.goes_on || self.take_steering().await? {
                continue;
            }
            if has_step && let Some(text) = self.remind_of_agents() {
                self.ctx
                    .push(Message::text(Role::User, text).from(Origin::Reflection))
                    .await?;
                continue;
            }
            let checked = match self.answers.check_draft(step.draft, has_step) {
                Ok(checked) => checked,
                Err(AnswerMismatch::GiveUp(why)) => return Err(EarlyStop::WrongAnswer(why)),
                Err(AnswerMismatch::AskAgain(text)) => {
                    self.ctx
                        .push(Message::text(Role::User, text).from(Origin::Reflection))
                        .await?;
                    continue;
                }
            };
            let reflected = self
                .reflected
                .reflect_on_draft(&self.ctx, &self.input.text, checked, has_step)
                .await?;
            match reflected.continue_because {
                Some(reason) => {
                    let message = Message::text(Role::User, format!("{MARK}{reason}"));
                    self.ctx.push(message.from(Origin::Reflection)).await?;
                }
                // The user may have sent more while hooks checked the answer. At the step limit
                // that input waits for the next turn, and this answer stands.
                None if self.ctx.step < self.last_step && self.take_steering().await? => {}
                None => {
                    return Ok(DraftAnswer {
                        draft: reflected.draft,
                        is_cut: false,
                    });
                }
            }
        }
    }

    fn step_limit(&self) -> String {
        let max = self.agent.spec.config.max_steps;
        format!(
            "[stopped: the limit of {max} steps was reached before the work was done; say `continue` to go on]"
        )
    }

    /// Returns the note of a turn that has spent all that it may.
    fn cost_limit(&self) -> Option<String> {
        let most = self.agent.spec.config.max_cost_usd?;
        let spent = self.ctx.scope.budget.cost().usd;
        (spent > most || most <= 0.0).then(|| {
            format!("[stopped: the limit of ${most:.2} was reached before the work was done; ${spent:.4} were spent]")
        })
    }

    /// Returns a text that tells the model, once, that an answer now ends its subagents.
    fn remind_of_agents(&mut self) -> Option<String> {
        let running = self.ctx.scope.running_agents();
        if running.is_empty() || std::mem::replace(&mut self.told_of_agents, true) {
            return None;
        }
        let ids: Vec<&str> = running.iter().map(|agent| &*agent.id).collect();
        Some(format!(
            "[subagents still run: {}; the end of the turn stops them. Wait for them with `wait_subagents`, or answer again to end \
             the turn without their results]",
            ids.join(", ")
        ))
    }

    fn cut_draft(&self, draft: &str, note: &str) -> DraftAnswer {
        DraftAnswer {
            draft: if draft.is_empty() {
                note.to_owned()
            } else {
                format!("{draft}\n\n{note}")
            },
            is_cut: true,
        }
    }

    /// Returns the output after the hooks of `pre-output`, and after those of `output-delta` unless
    /// they already passed all of it.
    async fn judge_output(&self, draft: String) -> Result<String, AttributedText> {
        let judged = self.ctx.dispatch_point::<at::PreOutput>(draft).await;
        if let Some(said) = blocked_by(&judged) {
            return Err(said.clone());
        }
        let (text, shown) = (judged.value, &self.progress.shown);
        // The hooks of `output-delta` have checked everything that was shown.
        if !shown.is_empty() && goes_on_from(&text, shown) && goes_on_from(shown, &text) {
            return Ok(text);
        }
        self.ctx
            .scope
            .emitter
            .look_at(&self.ctx.caller(), text)
            .await
    }

    /// Emits a correction if the shown text is not the beginning of `text`.
    pub(super) fn settle_shown(&mut self, text: &str) {
        if !goes_on_from(text, &self.progress.shown) {
            let shown = self.progress.take_shown();
            self.ctx.scope.emitter.correct_text(shown, text.to_owned());
        }
    }

    /// Runs `pre-output`, emits the output, and runs `post-output`.
    pub(super) async fn give_output(&mut self, draft: String) -> Result<(), EarlyStop> {
        let (text, refusal) = match self.judge_output(draft).await {
            Ok(text) => (text, None),
            Err(said) => {
                let text = held_back(&said);
                (text.clone(), Some(text))
            }
        };
        self.settle_shown(&text);
        self.progress.take_shown();
        self.outputs.push(text.clone());
        let matches = self.answers.check_output(&text);
        self.ctx.dispatch_point::<at::PostOutput>(text).await;
        match refusal {
            Some(text) => Err(EarlyStop::Blocked(text)),
            None => matches.map_err(EarlyStop::WrongAnswer),
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

/// Answer that the steps produced.
struct DraftAnswer {
    draft: String,
    /// Whether the step limit cut it.
    is_cut: bool,
}
