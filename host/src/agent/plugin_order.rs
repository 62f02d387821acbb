//! Runs a turn in the order of a plugin's loop: the loop requests one primitive after the other,
//! and the turn executes them.
//!
//! Owns the rules for the loop: the primitives that must come first, the maximum number of
//! primitives between two requests to the model, and the models that a loop may name. A loop that
//! breaks a rule, fails or returns too early ends the turn. The guards are inside the primitives,
//! so the built-in order passes them as well. Start from [`run_turn_with_plugin_loop`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::Receiver;

use super::answer::TurnEndAttemptOutcome;
use super::reply::{IncompleteReplyKind, StoredModelReply};
use super::step::{HookReviewedReply, StepModelRequestOptions, StepModelUsage};
use super::stop::EarlyTurnEndReason;
use super::turn::RunningTurn;
use crate::point::agent_loop::{
    AgentLoop, AgentLoopModelAnswer, AgentLoopModelRequest, MAX_CANDIDATE_ANSWERS,
    MAX_OPERATIONS_BETWEEN_MODEL_REQUESTS, ProcessedTurnInput, ToolCallSummary, TurnFinishResult,
    TurnOperationRequest, TurnOperationRequestSender, check_added_text_size,
};
use crate::point::failure::Failure;
use crate::point::handle::HostFunctionError;
use crate::point::outcome::{Injection, Level};
use crate::point::payload::Decision;
use crate::point::trace::{AccessOutcome, AccessRecord, Reached};
use crate::text::escape_and_truncate_line;

/// Time within which the loop of a plugin must return after the turn has ended.
const PLUGIN_LOOP_RETURN_TIMEOUT: Duration = Duration::from_secs(5);

/// Id of the answer that the model had already written when the turn was interrupted. Other answers
/// have the number of their step, which starts at 1, as the id.
const ANSWER_BEFORE_INTERRUPTION_ID: u32 = 0;

/// Entry of the setting `loop_models` that permits loops to use every model.
const ANY_LOOP_MODEL_WILDCARD: &str = "*";

/// Maximum length of a model's name in an error, in bytes.
const MAX_SHOWN_MODEL_NAME_BYTES: usize = 96;

/// Result of an operation that a plugin's loop requests in a turn: the outer error ends the turn,
/// the inner error is returned to the loop.
type LoopOperationResult<T> = Result<Result<T, HostFunctionError>, EarlyTurnEndReason>;

/// Runs a turn in which the plugin's loop `own` determines the order of the steps.
pub(super) async fn run_turn_with_plugin_loop(
    turn: &mut RunningTurn<'_>,
    own: Arc<dyn AgentLoop>,
) -> Result<(), EarlyTurnEndReason> {
    let (primitives, asked) = TurnOperationRequestSender::channel();
    let caller = turn.ctx.caller();
    let name: Arc<str> = own.plugin().into();
    turn.ctx
        .scope
        .emitter
        .sink
        .record_plugin_access(AccessRecord {
            plugin: name.clone(),
            reached: Reached::External,
            target: format!("the order of turn {}", turn.ctx.scope.number),
            outcome: AccessOutcome::Done,
            reason: None,
            origin: caller.action_origin(),
        });
    let order = PluginAgentLoopTurn {
        turn,
        name,
        decision: None,
        has_prompt: false,
        n_since: 0,
        candidates: BTreeMap::new(),
        is_over: false,
    };
    order
        .execute_requested_operations(own.run_turn(caller, primitives), asked)
        .await
}

/// Turn that a plugin's loop controls, with the state for checking that the loop keeps the rules
/// for such turns.
struct PluginAgentLoopTurn<'t, 'a> {
    turn: &'t mut RunningTurn<'a>,
    /// Name of the plugin whose loop runs the turn.
    name: Arc<str>,
    /// Assessment of the turn's input; `None` until the loop has taken the input.
    decision: Option<Decision>,
    has_prompt: bool,
    /// Number of operations that the loop has requested since the last request to the model.
    n_since: u32,
    /// Answers that are not part of the conversation, by step number.
    candidates: BTreeMap<u32, HookReviewedReply>,
    /// Whether the turn has finished: the answer was output and there is no follow-up.
    is_over: bool,
}

impl PluginAgentLoopTurn<'_, '_> {
    /// Executes the primitives that the loop requests until the loop returns.
    async fn execute_requested_operations(
        mut self,
        mut run: impl Future<Output = Result<(), Failure>> + Unpin,
        mut asked: Receiver<TurnOperationRequest>,
    ) -> Result<(), EarlyTurnEndReason> {
        loop {
            let primitive = tokio::select! {
                biased;
                Some(primitive) = asked.recv() => primitive,
                ended = &mut run => return self.check_loop_finished_turn(ended),
                () = tokio::time::sleep(PLUGIN_LOOP_RETURN_TIMEOUT), if self.is_over => {
                    let why = format!("it did not return within {} s", PLUGIN_LOOP_RETURN_TIMEOUT.as_secs());
                    self.warn_of_loop_fault_after_turn(&why);
                    return Ok(());
                }
            };
            if self.is_over {
                self.warn_of_loop_fault_after_turn(&format!("it asked for `{}`", primitive.name()));
                return Ok(());
            }
            self.check_operation_allowed(&primitive)?;
            self.execute_operation(primitive).await?;
        }
    }

    fn check_loop_finished_turn(
        self,
        ended: Result<(), Failure>,
    ) -> Result<(), EarlyTurnEndReason> {
        match ended {
            Ok(()) if self.is_over => Ok(()),
            Ok(()) => Err(self.create_loop_fault("it returned before it finished the turn")),
            Err(failure) if self.is_over => {
                self.warn_of_loop_fault_after_turn(&failure.to_string());
                Ok(())
            }
            Err(failure) => Err(self.create_loop_fault(&failure.to_string())),
        }
    }

    /// Emits a warning about a fault of the loop after the end of the turn, which the fault no
    /// longer affects.
    fn warn_of_loop_fault_after_turn(&self, why: &str) {
        let text = format!(
            "the loop of plugin {} failed after the end of the turn: {why}",
            self.name
        );
        self.turn.ctx.emit_notice(Level::Warn, text);
    }

    fn create_loop_fault(&self, why: &str) -> EarlyTurnEndReason {
        EarlyTurnEndReason::Loop {
            plugin: self.name.to_string(),
            why: why.to_owned(),
        }
    }

    /// Returns an error, which ends the turn, if the loop may not use this primitive now.
    fn check_operation_allowed(
        &mut self,
        primitive: &TurnOperationRequest,
    ) -> Result<(), EarlyTurnEndReason> {
        use TurnOperationRequest as P;
        self.n_since += 1;
        if self.n_since > MAX_OPERATIONS_BETWEEN_MODEL_REQUESTS {
            return Err(self.create_loop_fault(&format!(
                "it called more than {MAX_OPERATIONS_BETWEEN_MODEL_REQUESTS} primitives of a turn without sending a request to the model"
            )));
        }
        let name = primitive.name();
        let is_open = self.turn.open.is_some();
        let has_answer = self.turn.answer.has_answer();
        let why = match primitive {
            P::IsResumed(_) => return Ok(()),
            P::RunCalls(_) if !is_open => "came without open calls",
            P::RunCalls(_) => return Ok(()),
            _ if is_open => {
                "came while calls of the last answer were open; `run-calls` comes first"
            }
            P::TakeInput(_) => return Ok(()),
            _ if self.decision.is_none() => "came before `take-input`",
            P::BuildPrompt(_) if self.has_prompt => "came twice",
            P::BuildPrompt(_) | P::Inject(..) => return Ok(()),
            _ if !self.has_prompt => "came before `build-prompt`",
            P::Reflect(_) | P::Finish(_) if !has_answer => "came without a new answer of the model",
            _ => return Ok(()),
        };
        Err(self.create_loop_fault(&format!("`{name}` {why}")))
    }

    async fn execute_operation(
        &mut self,
        primitive: TurnOperationRequest,
    ) -> Result<(), EarlyTurnEndReason> {
        // Ignore a failed `send`: the loop has ended and does not wait for the reply.
        match primitive {
            TurnOperationRequest::IsResumed(reply) => {
                let _ = reply.send(Ok(self.turn.interrupted_turn_to_continue().is_some()));
            }
            TurnOperationRequest::TakeInput(reply) => {
                let _ = reply.send(Ok(self.take_next_input().await?));
            }
            TurnOperationRequest::BuildPrompt(reply) => {
                let decision = self.decision.unwrap_or(Decision::Direct);
                self.turn.build_system_prompt(decision).await?;
                self.has_prompt = true;
                let _ = reply.send(Ok(()));
            }
            TurnOperationRequest::Request(order, reply) => {
                let _ = reply.send(self.request_answer_for_loop(order).await?);
            }
            TurnOperationRequest::Accept(id, reply) => {
                let _ = reply.send(self.accept_answer_candidate(id).await?);
            }
            TurnOperationRequest::RunCalls(reply) => {
                let _ = reply.send(Ok(self.run_calls().await?));
            }
            TurnOperationRequest::Inject(text, reply) => {
                let _ = reply.send(self.inject_text(text).await?);
            }
            TurnOperationRequest::Reflect(reply) => {
                let _ = reply.send(Ok(self.reflect_on_answer().await?));
            }
            TurnOperationRequest::Finish(reply) => {
                let _ = reply.send(Ok(self.finish_turn().await?));
            }
        }
        Ok(())
    }

    /// Takes the input of the turn at the first call, and new messages of the user at later calls.
    async fn take_next_input(&mut self) -> Result<Option<ProcessedTurnInput>, EarlyTurnEndReason> {
        let Some(decision) = self.decision else {
            let decision = self.turn.begin_turn_with_input().await?;
            self.decision = Some(decision);
            return Ok(Some(self.to_loop_input(decision)));
        };
        let n_before = self.turn.reflected.n_user_texts();
        if !self.turn.take_queued_steering_texts().await? {
            return Ok(None);
        }
        self.discard_answers_before_message();
        Ok(Some(self.user_texts_since(n_before, decision)))
    }

    fn to_loop_input(&self, decision: Decision) -> ProcessedTurnInput {
        ProcessedTurnInput {
            text: self.turn.input.text.clone(),
            decision,
        }
    }

    /// Returns the texts of the user from index `n_before` on. The result is empty if a hook
    /// replaced the text of the user by a message of its own.
    fn user_texts_since(&self, n_before: usize, decision: Decision) -> ProcessedTurnInput {
        let text = self.turn.reflected.user_texts_from_index(n_before);
        ProcessedTurnInput {
            text: text.unwrap_or_default(),
            decision,
        }
    }

    /// Discards the answers that precede a new message: the candidates, the answer from before an
    /// interruption, and an answer cut by a token limit that is not continued now.
    fn discard_answers_before_message(&mut self) {
        self.candidates.clear();
        self.turn.ready_answer = None;
        self.turn.answer.forget_last_answer();
        self.turn.progress.end_answer(false);
    }

    async fn request_answer_for_loop(
        &mut self,
        order: AgentLoopModelRequest,
    ) -> LoopOperationResult<AgentLoopModelAnswer> {
        let is_aside = order.is_aside;
        if is_aside && let Some(text) = self.turn.ready_answer.clone() {
            return Ok(Ok(self.answer_before_interruption(text)));
        }
        let order = match self.validate_loop_model_request(order) {
            Ok(order) => order,
            Err(error) => return Ok(Err(error)),
        };
        self.n_since = 0;
        if !is_aside {
            self.candidates.clear();
            let cost = self.turn.request_answer(&order).await?;
            return Ok(Ok(self.stored_answer_for_loop(cost)));
        }
        match self.turn.request_answer_candidate(&order).await {
            Ok((cost, reviewed)) => {
                let id = self.turn.ctx.step;
                let answer = to_agent_loop_answer(id, cost, reviewed.reply());
                self.candidates.insert(id, reviewed);
                Ok(Ok(answer))
            }
            // A failed candidate does not end the turn: the loop may ask another model.
            Err(EarlyTurnEndReason::Provider(why)) => Ok(Err(HostFunctionError::Failed(why))),
            Err(stop) => Err(stop),
        }
    }

    /// Checks a request to the model that an agent loop makes, and resolves the preset that the
    /// request names.
    fn validate_loop_model_request(
        &self,
        order: AgentLoopModelRequest,
    ) -> Result<StepModelRequestOptions, HostFunctionError> {
        let spec = &self.turn.agent.spec;
        if let Some(model) = &order.model {
            let mut known = spec.config.loop_models.iter();
            let is_known = |known: &String| known == model || known == ANY_LOOP_MODEL_WILDCARD;
            if *model != spec.model && !known.any(is_known) {
                return Err(HostFunctionError::Denied(format!(
                    "the loop may not ask the model `{}`; the operator lists permitted models as `loop_models` under [agent] in the settings",
                    escape_and_truncate_line(model, MAX_SHOWN_MODEL_NAME_BYTES)
                )));
            }
        }
        if order.is_aside && self.candidates.len() >= MAX_CANDIDATE_ANSWERS {
            return Err(HostFunctionError::Limit(format!(
                "at most {MAX_CANDIDATE_ANSWERS} answers requested with `aside` are kept; accept one of them, or request an answer without `aside`"
            )));
        }
        let preset = order.preset.as_deref();
        let preset = preset
            .map(|name| spec.presets.find_preset(name))
            .transpose();
        if let Some(note) = &order.note {
            check_text_added_by_loop("note", note)?;
        }
        Ok(StepModelRequestOptions {
            model: order.model,
            preset: preset.map_err(HostFunctionError::InvalidInput)?,
            note: order.note.map(|note| (self.name.clone(), note)),
            aside: order.is_aside.then(|| self.name.clone()),
        })
    }

    /// Converts the stored answer to a request of the conversation to the form that the plugin's
    /// loop gets.
    fn stored_answer_for_loop(&self, cost: StepModelUsage) -> AgentLoopModelAnswer {
        let id = self.turn.ctx.step;
        if let Some(open) = &self.turn.open {
            return to_agent_loop_answer(id, cost, open);
        }
        let last = self.turn.answer.last_step_result();
        let is_cut = last.is_some_and(|last| last.shortfall == Some(IncompleteReplyKind::CutText));
        AgentLoopModelAnswer {
            id,
            model: cost.model,
            text: last.map(|last| last.draft.clone()).unwrap_or_default(),
            calls: Vec::new(),
            is_cut,
            usage: cost.usage,
        }
    }

    /// Returns the answer that the model had already given when the turn was interrupted, as the
    /// plugin's agent loop receives it.
    fn answer_before_interruption(&self, text: String) -> AgentLoopModelAnswer {
        AgentLoopModelAnswer {
            id: ANSWER_BEFORE_INTERRUPTION_ID,
            model: self.turn.ctx.scope.skills.turn_model(),
            text,
            calls: Vec::new(),
            is_cut: false,
            usage: crate::message::Usage::default(),
        }
    }

    async fn accept_answer_candidate(&mut self, id: u32) -> LoopOperationResult<()> {
        if id == ANSWER_BEFORE_INTERRUPTION_ID && self.turn.ready_answer.is_some() {
            self.turn
                .request_answer(&StepModelRequestOptions::default())
                .await?;
            return Ok(Ok(()));
        }
        let Some(reviewed) = self.candidates.remove(&id) else {
            return Ok(Err(HostFunctionError::NotFound(format!(
                "there is no answer {id} to accept: it was not requested with `aside`, was already accepted, or the conversation has continued since it was requested"
            ))));
        };
        self.candidates.clear();
        self.turn.ctx.passing.clear();
        self.turn.add_reply_to_conversation(reviewed).await?;
        Ok(Ok(()))
    }

    async fn run_calls(&mut self) -> Result<Vec<ToolCallSummary>, EarlyTurnEndReason> {
        let n_before = self.turn.reflected.n_tool_calls();
        self.turn.run_pending_tool_calls().await?;
        let used = self.turn.reflected.tool_calls_since(n_before).iter();
        let reports = used.map(|used| ToolCallSummary {
            name: used.name.clone(),
            is_error: used.is_error,
        });
        Ok(reports.collect())
    }

    async fn inject_text(&mut self, text: String) -> LoopOperationResult<()> {
        if let Err(error) = check_text_added_by_loop("text", &text) {
            return Ok(Err(error));
        }
        self.discard_answers_before_message();
        let injection = Injection { text, keep: true };
        let injections = vec![(self.name.clone(), injection)];
        self.turn.ctx.inject_texts(injections).await?;
        Ok(Ok(()))
    }

    /// Reflects on the last answer. If reflection asks for another step, discards the answers that
    /// the loop requested outside the conversation. Keeps text that a token limit cut, because the
    /// next answer continues it.
    async fn reflect_on_answer(&mut self) -> Result<Option<String>, EarlyTurnEndReason> {
        let why = self.turn.reflect_on_last_answer().await?;
        if why.is_some() {
            self.candidates.clear();
        }
        Ok(why)
    }

    async fn finish_turn(&mut self) -> Result<TurnFinishResult, EarlyTurnEndReason> {
        let n_before = self.turn.reflected.n_user_texts();
        let finish = match self.turn.try_end_with_answer().await? {
            TurnEndAttemptOutcome::Done => {
                self.is_over = true;
                return Ok(TurnFinishResult::Done);
            }
            TurnEndAttemptOutcome::Again(why) => TurnFinishResult::Again(why),
            TurnEndAttemptOutcome::FollowUp => {
                let decision = self.decision.unwrap_or(Decision::Direct);
                TurnFinishResult::FollowUp(self.user_texts_since(n_before, decision))
            }
        };
        self.candidates.clear();
        Ok(finish)
    }
}

fn to_agent_loop_answer(
    id: u32,
    cost: StepModelUsage,
    reply: &StoredModelReply,
) -> AgentLoopModelAnswer {
    AgentLoopModelAnswer {
        id,
        model: cost.model,
        text: reply.draft.clone(),
        calls: reply.calls.clone(),
        is_cut: reply.cut.is_some(),
        usage: cost.usage,
    }
}

/// Checks a text that a loop adds to the conversation: it must not be empty or too long.
fn check_text_added_by_loop(what: &str, text: &str) -> Result<(), HostFunctionError> {
    if text.trim().is_empty() {
        return Err(HostFunctionError::InvalidInput(format!(
            "the {what} is empty"
        )));
    }
    check_added_text_size(what, text.len())
}
