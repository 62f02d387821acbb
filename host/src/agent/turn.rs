//! State of a turn, and the primitives that complete an answer.
//!
//! The loop of a turn consists of primitives: [`RunningTurn::assess_and_append_input`],
//! [`RunningTurn::build_system_prompt`], [`RunningTurn::request_answer`],
//! [`RunningTurn::run_pending_tool_calls`], [`RunningTurn::reflect_on_last_answer`] and
//! [`RunningTurn::try_end_with_answer`]. The primitives themselves call hooks, check
//! policy and limits and write session entries, so calling them in another order does not skip a
//! check. `run` has the built-in order, `plugin_order` the order of a plugin's loop.
//!
//! The future that runs the primitives may be dropped at any await point: data that must survive
//! belongs in [`RunningTurn`].

use std::time::Instant;

use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::answer::{
    CONTINUE_TRUNCATED_ANSWER_PROMPT, CurrentAnswerState, EMPTY_ANSWER_RETRY_PROMPT,
    REPEATED_EMPTY_ANSWER_NOTICE, REPEATEDLY_TRUNCATED_ANSWER_NOTE, TurnEndAttemptOutcome,
};
use super::answer_schema::{AnswerMismatchConsequence, TurnAnswerSchemaChecker};
use super::blobs::list_blobs;
use super::calls::TurnToolCallRunner;
use super::ctx::TurnContext;
use super::lifecycle::LiveAgent;
use super::reflect::REFLECTION_MESSAGE_PREFIX;
use super::reflect::second::ReflectionState;
use super::reply::{IncompleteReplyKind, StoredModelReply};
use super::stop::{EarlyTurnEndReason, blocked_answer_placeholder, hook_block_reason};
use super::stream::{StreamedAnswerProgress, starts_with_ignoring_whitespace};
use crate::event::Event;
use crate::message::{Content, Message, Origin, Role};
use crate::point::catalog as at;
use crate::point::dispatch::PluginAttributedText;
use crate::point::outcome::Level;
use crate::point::payload::TurnInput;
use crate::provider::SystemPromptBlock;
use crate::session::{Body, FramePosition, InterruptedTurn};
use crate::text::format_count_with_noun;

/// Reason for another step after the user sent a message during the turn.
const NEW_USER_MESSAGE_STEP_REASON: &str = "the person said something";

#[derive(Clone, Debug)]
pub(super) enum TurnKind {
    Answer {
        /// Slash command that produced the input, with the command's source.
        command: Option<String>,
        /// Id that the caller assigned to the input; see `known_input`.
        input_id: Option<String>,
        /// Interrupted turn that this turn continues; `None` for a new turn.
        continues: Option<Box<InterruptedTurn>>,
    },
    /// Replaces older messages with a summary; there is no answer.
    Compact,
}

pub(super) struct RunningTurn<'a> {
    pub(super) agent: &'a mut LiveAgent,
    /// Access to hooks, session and events, shared by the parts of the turn.
    pub(super) ctx: TurnContext,
    pub(super) input: TurnInput,
    /// Images that belong to the input, in the form in which the session stores them.
    pub(super) attached: Vec<Content>,
    pub(super) work: TurnKind,
    /// Number of the last step that the turn may run. Each follow-up of the user raises this
    /// number.
    pub(super) last_step: u32,
    pub(super) system: Vec<SystemPromptBlock>,
    /// Task that writes the text of the system prompt to the session. The end of the turn waits for
    /// it.
    pub(super) keeping: Option<JoinHandle<()>>,
    /// Shown and partial text of the answer that is streaming.
    pub(super) progress: StreamedAnswerProgress,
    /// Tool calls whose results are not in the session yet.
    pub(super) calls: TurnToolCallRunner,
    pub(super) reflected: ReflectionState,
    /// State of the answer to the current input of the turn.
    pub(super) answer: CurrentAnswerState,
    /// The last answer while some of its calls have no results yet.
    pub(super) open: Option<StoredModelReply>,
    /// Whether a step has begun and the event for its end was not emitted yet.
    pub(super) is_in_step: bool,
    /// Check of the answer against the turn's JSON Schema, if it has one.
    pub(super) answers: TurnAnswerSchemaChecker,
    pub(super) outputs: Vec<String>,
    /// Answer that the model wrote before the turn was interrupted; the turn that continues it uses
    /// this answer instead of a request.
    pub(super) ready_answer: Option<String>,
    /// The last answer, if it could not be written to the session.
    pub(super) unkept: Option<String>,
    /// Whether the model was already reminded that subagents still run.
    told_of_agents: bool,
    /// Guard that stops the subagents if the turn is dropped.
    pub(super) agents_guard: Option<DropGuard>,
    /// Position of the first entry of the turn in the session.
    pub(super) begins_at: FramePosition,
    pub(super) started: Instant,
}

impl<'a> RunningTurn<'a> {
    pub(super) fn new(
        agent: &'a mut LiveAgent,
        input: TurnInput,
        work: TurnKind,
        cancel: CancellationToken,
    ) -> Self {
        let scope = agent.create_shared_turn_state(cancel);
        Self {
            agents_guard: Some(scope.agents.clone().drop_guard()),
            told_of_agents: false,
            ctx: TurnContext::new(scope),
            last_step: agent.spec.config.max_steps.max(1),
            agent,
            input,
            attached: Vec::new(),
            work,
            system: Vec::new(),
            keeping: None,
            progress: StreamedAnswerProgress::default(),
            calls: TurnToolCallRunner::default(),
            reflected: ReflectionState::default(),
            answer: CurrentAnswerState::default(),
            open: None,
            is_in_step: false,
            answers: TurnAnswerSchemaChecker::default(),
            outputs: Vec::new(),
            ready_answer: None,
            unkept: None,
            begins_at: FramePosition::START,
            started: Instant::now(),
        }
    }

    pub(super) fn begin_turn(&mut self) -> Result<(), EarlyTurnEndReason> {
        self.agent.dispatcher.reset_quarantine_at_turn_start();
        let session = self.agent.spec.session.clone();
        session.close_interrupted_turn()?;
        self.begins_at = session.next_entry_position();
        let (command, input_id, continues) = match &self.work {
            TurnKind::Answer {
                command,
                input_id,
                continues,
            } => {
                let continues = continues.as_ref().map(|before| before.turn);
                (command.clone(), input_id.clone(), continues)
            }
            TurnKind::Compact => (Some(self.input.text.clone()), None, None),
        };
        session.append(Body::TurnStart {
            turn: self.ctx.scope.number,
            input: self.input.text.clone(),
            source: self.input.source,
            command: command.clone(),
            input_id: input_id.clone(),
            continues,
            // Store the images together with the input now, because the program may be killed while
            // hooks check the input.
            attached: list_blobs(&self.attached),
            plugins: self.agent.spec.config.plugin_set.clone(),
        })?;
        self.ctx.emit_event(Event::TurnStart {
            turn: self.ctx.scope.number,
            input: self.input.text.clone(),
            source: self.input.source,
            command,
            input_id,
        });
        Ok(())
    }

    /// Checks the last answer. Returns the reason for another step, or `None` if the answer may be
    /// output. Appends a message to the conversation if the model must be asked for more.
    pub(super) async fn reflect_on_last_answer(
        &mut self,
    ) -> Result<Option<String>, EarlyTurnEndReason> {
        if self.answer.is_last_answer_accepted() {
            return Ok(None);
        }
        if self.answer.is_truncated_too_often() {
            return Err(self
                .end_turn_with_note(REPEATEDLY_TRUNCATED_ANSWER_NOTE)
                .await);
        }
        let Some(step) = self.answer.take_last_step_result() else {
            return Ok(Some("there is no answer".to_owned()));
        };
        let has_step = self.has_step_left();
        if step.shortfall == Some(IncompleteReplyKind::CutText) && has_step {
            self.answer.store_truncated_text(step.draft);
            return self
                .request_another_step("the answer was cut", CONTINUE_TRUNCATED_ANSWER_PROMPT)
                .await;
        }
        if self.answer.is_repeated_empty_answer() && !step.goes_on {
            self.ctx
                .emit_notice(Level::Warn, REPEATED_EMPTY_ANSWER_NOTICE);
            self.answer
                .store_accepted_draft(format!("[{REPEATED_EMPTY_ANSWER_NOTICE}]"));
            return Ok(None);
        }
        if self.answer.is_first_empty_answer() && !step.goes_on && has_step {
            return self
                .request_another_step("the answer was empty", EMPTY_ANSWER_RETRY_PROMPT)
                .await;
        }
        if step.goes_on {
            return Ok(Some(
                "the model has received another message since then".to_owned(),
            ));
        }
        if self.take_queued_steering_texts().await? {
            return Ok(Some(NEW_USER_MESSAGE_STEP_REASON.to_owned()));
        }
        if has_step && let Some(text) = self.build_running_agents_reminder() {
            return self
                .request_another_step("subagents still run", &text)
                .await;
        }
        let checked = match self.answers.check_draft(step.draft, has_step) {
            Ok(checked) => checked,
            Err(AnswerMismatchConsequence::GiveUp(why)) => {
                return Err(EarlyTurnEndReason::WrongAnswer(why));
            }
            Err(AnswerMismatchConsequence::AskAgain(text)) => {
                return self
                    .request_another_step("the answer does not match its schema", &text)
                    .await;
            }
        };
        let reflected = self
            .reflected
            .reflect_on_draft(&self.ctx, &self.input.text, checked, has_step)
            .await?;
        if let Some(reason) = reflected.continue_because {
            return self
                .request_another_step(&reason, &format!("{REFLECTION_MESSAGE_PREFIX}{reason}"))
                .await;
        }
        self.answer.store_accepted_draft(reflected.draft);
        Ok(None)
    }

    /// Outputs the last answer unless another step is needed, then takes the user's next follow-up
    /// input, if there is one.
    pub(super) async fn try_end_with_answer(
        &mut self,
    ) -> Result<TurnEndAttemptOutcome, EarlyTurnEndReason> {
        if let Some(why) = self.reflect_on_last_answer().await? {
            return Ok(TurnEndAttemptOutcome::Again(why));
        }
        // The user may have sent another input while hooks checked the answer. At the step limit
        // that input stays queued for the next turn, and this answer is final.
        let draft = self.answer.take_accepted_draft().unwrap_or_default();
        if self.has_step_left() && self.take_queued_steering_texts().await? {
            return Ok(TurnEndAttemptOutcome::for_another_step(
                NEW_USER_MESSAGE_STEP_REASON,
            ));
        }
        self.emit_output(draft).await?;
        Ok(match self.take_follow_up().await? {
            true => TurnEndAttemptOutcome::FollowUp,
            false => TurnEndAttemptOutcome::Done,
        })
    }

    /// Appends a message that asks the model for another step, and returns the reason `why`.
    async fn request_another_step(
        &self,
        why: &str,
        text: &str,
    ) -> Result<Option<String>, EarlyTurnEndReason> {
        let message = Message::text(Role::User, text).from(Origin::Reflection);
        self.ctx.append_and_emit_message(message).await?;
        Ok(Some(why.to_owned()))
    }

    fn has_step_left(&self) -> bool {
        self.ctx.step < self.last_step
    }

    /// Returns the note about the limit, such as that of steps or cost, which forbids another
    /// request in this turn; `None` if no limit is reached.
    pub(super) fn reached_limit_note(&self) -> Option<String> {
        if self.answer.is_truncated_too_often() {
            return Some(REPEATEDLY_TRUNCATED_ANSWER_NOTE.to_owned());
        }
        if !self.has_step_left() {
            return Some(self.format_step_limit_note());
        }
        self.format_cost_limit_note()
    }

    /// Outputs the last text of the model together with a note of the host about a limit, and
    /// returns the reason with which the turn stops early.
    pub(super) async fn end_turn_with_note(&mut self, note: &str) -> EarlyTurnEndReason {
        // Skip the schema check, because the text contains a note of the host. The stop reason
        // shows that the turn ended at a limit.
        self.answers = TurnAnswerSchemaChecker::default();
        let draft = self.answer.take_last_model_text();
        let text = match draft.is_empty() {
            true => note.to_owned(),
            false => format!("{draft}\n\n{note}"),
        };
        match self.emit_output(text).await {
            Ok(()) => EarlyTurnEndReason::MaxSteps,
            Err(stop) => stop,
        }
    }

    fn format_step_limit_note(&self) -> String {
        let max = format_count_with_noun(u64::from(self.agent.spec.config.max_steps), "step");
        format!(
            "[stopped: the limit of {max} was reached before the work was done; say `continue` to continue]"
        )
    }

    /// Returns the note that the turn has exceeded its cost limit; `None` if it has not.
    fn format_cost_limit_note(&self) -> Option<String> {
        let most = self.agent.spec.config.max_cost_usd?;
        let spent = self.ctx.scope.budget.cost_so_far().usd;
        (spent > most || most <= 0.0).then(|| {
            format!("[stopped: the limit of ${most:.2} was reached before the work was done; ${spent:.4} were spent]")
        })
    }

    /// Returns a reminder for the model that ending the turn stops its running subagents; `None` if
    /// none runs or it was already reminded.
    fn build_running_agents_reminder(&mut self) -> Option<String> {
        let running = self.ctx.scope.running_model_started_subagents();
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

    /// Returns the output after the hooks of `pre-output` and of `output-delta`. The hooks of
    /// `output-delta` are skipped if they already checked the complete text while it streamed.
    async fn run_output_hooks(&self, draft: String) -> Result<String, PluginAttributedText> {
        let judged = self
            .ctx
            .dispatch_hooks_of_point::<at::PreOutput>(draft)
            .await;
        if let Some(said) = hook_block_reason(&judged) {
            return Err(said.clone());
        }
        let (text, shown) = (judged.value, &self.progress.shown);
        // The hooks of `output-delta` have already checked all text that was shown.
        if !shown.is_empty()
            && starts_with_ignoring_whitespace(&text, shown)
            && starts_with_ignoring_whitespace(shown, &text)
        {
            return Ok(text);
        }
        self.ctx
            .scope
            .emitter
            .run_output_delta_hooks_on_text(&self.ctx.caller(), text)
            .await
    }

    /// Emits a correction event if the text that the user was shown so far is not a prefix of
    /// `text`.
    pub(super) fn emit_shown_text_correction_if_needed(&mut self, text: &str) {
        if !starts_with_ignoring_whitespace(text, &self.progress.shown) {
            let shown = self.progress.take_shown_text();
            self.ctx
                .scope
                .emitter
                .emit_shown_text_correction(shown, text.to_owned());
        }
    }

    /// Calls the hooks of `pre-output`, emits the output, and calls the hooks of `post-output`.
    pub(super) async fn emit_output(&mut self, draft: String) -> Result<(), EarlyTurnEndReason> {
        let (text, refusal) = match self.run_output_hooks(draft).await {
            Ok(text) => (text, None),
            Err(said) => {
                let text = blocked_answer_placeholder(&said);
                (text.clone(), Some(text))
            }
        };
        self.emit_shown_text_correction_if_needed(&text);
        self.progress.take_shown_text();
        self.outputs.push(text.clone());
        let matches = self.answers.check_final_answer_against_schema(&text);
        self.ctx
            .dispatch_hooks_of_point::<at::PostOutput>(text)
            .await;
        match refusal {
            Some(text) => Err(EarlyTurnEndReason::Blocked(text)),
            None => matches.map_err(EarlyTurnEndReason::WrongAnswer),
        }
    }
}
