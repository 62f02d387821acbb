//! Runs a turn in the order of a plugin's loop: the loop requests one primitive after the other,
//! and the turn executes them.
//!
//! Owns the rules for the loop: the primitives that must come first, the maximum number of
//! primitives between two requests to the model, and the models that a loop may name. A loop that
//! breaks a rule, fails or returns too early ends the turn. The guards are inside the primitives,
//! so the built-in order passes them as well. Start from [`run_plugin_order`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::Receiver;

use super::answer::AnswerEnd;
use super::reply::{ReplyShortfall, SeenReply};
use super::step::{ReviewedReply, StepCost, StepOrder};
use super::stop::EarlyStop;
use super::turn::TurnRun;
use crate::point::agent_loop::{
    AgentLoop, AnswerOrder, CallReport, MAX_CANDIDATES, MAX_PRIMITIVES, TakenInput, TurnAnswer,
    TurnFinish, TurnPrimitive, TurnPrimitives, check_added_size,
};
use crate::point::failure::Failure;
use crate::point::handle::HandleError;
use crate::point::outcome::{Injection, Level};
use crate::point::payload::Decision;
use crate::point::trace::{AccessOutcome, AccessRecord, Reached};
use crate::text::clean_line;

/// Time within which a loop must return once the turn is over.
const END_GRACE: Duration = Duration::from_secs(5);

/// Id of the answer that already existed when an interrupted turn is continued. The ids of other
/// answers are step numbers, which start at 1.
const READY: u32 = 0;

/// Entry of the setting `loop_models` that permits loops to use every model.
const EVERY_MODEL: &str = "*";

/// Maximum length of a model's name in an error, in bytes.
const MAX_SHOWN: usize = 96;

/// Result of a primitive: the outer error ends the turn, the inner error is returned to the loop.
type Carried<T> = Result<Result<T, HandleError>, EarlyStop>;

/// Runs a turn in the order of the plugin's loop `own`.
pub(super) async fn run_plugin_order(
    turn: &mut TurnRun<'_>,
    own: Arc<dyn AgentLoop>,
) -> Result<(), EarlyStop> {
    let (primitives, asked) = TurnPrimitives::channel();
    let caller = turn.ctx.caller();
    let name: Arc<str> = own.plugin().into();
    turn.ctx.scope.emitter.sink.access(AccessRecord {
        plugin: name.clone(),
        reached: Reached::External,
        target: format!("the order of turn {}", turn.ctx.scope.number),
        outcome: AccessOutcome::Done,
        reason: None,
        origin: caller.origin(),
    });
    let order = PluginOrder {
        turn,
        name,
        decision: None,
        has_prompt: false,
        n_since: 0,
        candidates: BTreeMap::new(),
        is_over: false,
    };
    order
        .follow_loop(own.run_turn(caller, primitives), asked)
        .await
}

/// A turn that follows the loop of a plugin, with the state for checking the rules.
struct PluginOrder<'t, 'a> {
    turn: &'t mut TurnRun<'a>,
    /// Name of the plugin of the loop.
    name: Arc<str>,
    /// Assessment of the input; `None` until the loop has taken the input.
    decision: Option<Decision>,
    has_prompt: bool,
    /// Number of primitives since the last request to the model.
    n_since: u32,
    /// Answers that are not part of the conversation, by step number.
    candidates: BTreeMap<u32, ReviewedReply>,
    /// Whether the turn has finished: the answer was output and there is no follow-up.
    is_over: bool,
}

impl PluginOrder<'_, '_> {
    /// Executes the primitives that the loop requests until the loop returns.
    async fn follow_loop(
        mut self,
        mut run: impl Future<Output = Result<(), Failure>> + Unpin,
        mut asked: Receiver<TurnPrimitive>,
    ) -> Result<(), EarlyStop> {
        loop {
            let primitive = tokio::select! {
                biased;
                Some(primitive) = asked.recv() => primitive,
                ended = &mut run => return self.end_run(ended),
                () = tokio::time::sleep(END_GRACE), if self.is_over => {
                    let why = format!("it did not return within {} s", END_GRACE.as_secs());
                    self.warn_late(&why);
                    return Ok(());
                }
            };
            if self.is_over {
                self.warn_late(&format!("it asked for `{}`", primitive.name()));
                return Ok(());
            }
            self.check_rules(&primitive)?;
            self.carry_out(primitive).await?;
        }
    }

    fn end_run(self, ended: Result<(), Failure>) -> Result<(), EarlyStop> {
        match ended {
            Ok(()) if self.is_over => Ok(()),
            Ok(()) => Err(self.fault("it returned before it finished the turn")),
            Err(failure) if self.is_over => {
                self.warn_late(&failure.to_string());
                Ok(())
            }
            Err(failure) => Err(self.fault(&failure.to_string())),
        }
    }

    /// Emits a warning about a fault of the loop after the end of the turn, which the fault no
    /// longer affects.
    fn warn_late(&self, why: &str) {
        let text = format!(
            "the loop of plugin {} failed after the end of the turn: {why}",
            self.name
        );
        self.turn.ctx.emit_notice(Level::Warn, text);
    }

    fn fault(&self, why: &str) -> EarlyStop {
        EarlyStop::Loop {
            plugin: self.name.to_string(),
            why: why.to_owned(),
        }
    }

    /// Returns the error that ends the turn if the loop may not use this primitive now.
    fn check_rules(&mut self, primitive: &TurnPrimitive) -> Result<(), EarlyStop> {
        use TurnPrimitive as P;
        self.n_since += 1;
        if self.n_since > MAX_PRIMITIVES {
            return Err(self.fault(&format!(
                "it asked for more than {MAX_PRIMITIVES} primitives without a request to the model"
            )));
        }
        let name = primitive.name();
        let is_open = self.turn.open.is_some();
        let has_answer = self.turn.answer.is_there();
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
        Err(self.fault(&format!("`{name}` {why}")))
    }

    async fn carry_out(&mut self, primitive: TurnPrimitive) -> Result<(), EarlyStop> {
        // Ignore a failed `send`: the loop has ended and does not wait for the reply.
        match primitive {
            TurnPrimitive::IsResumed(reply) => {
                let _ = reply.send(Ok(self.turn.continued().is_some()));
            }
            TurnPrimitive::TakeInput(reply) => {
                let _ = reply.send(Ok(self.take_input().await?));
            }
            TurnPrimitive::BuildPrompt(reply) => {
                let decision = self.decision.unwrap_or(Decision::Direct);
                self.turn.build_system(decision).await?;
                self.has_prompt = true;
                let _ = reply.send(Ok(()));
            }
            TurnPrimitive::Request(order, reply) => {
                let _ = reply.send(self.request(order).await?);
            }
            TurnPrimitive::Accept(id, reply) => {
                let _ = reply.send(self.accept(id).await?);
            }
            TurnPrimitive::RunCalls(reply) => {
                let _ = reply.send(Ok(self.run_calls().await?));
            }
            TurnPrimitive::Inject(text, reply) => {
                let _ = reply.send(self.inject(text).await?);
            }
            TurnPrimitive::Reflect(reply) => {
                let _ = reply.send(Ok(self.reflect().await?));
            }
            TurnPrimitive::Finish(reply) => {
                let _ = reply.send(Ok(self.finish().await?));
            }
        }
        Ok(())
    }

    /// Takes the input of the turn at the first call, and new messages of the user at later calls.
    async fn take_input(&mut self) -> Result<Option<TakenInput>, EarlyStop> {
        let Some(decision) = self.decision else {
            let decision = self.turn.begin_input().await?;
            self.decision = Some(decision);
            return Ok(Some(self.taken(decision)));
        };
        let n_before = self.turn.reflected.n_user_texts();
        if !self.turn.take_steering().await? {
            return Ok(None);
        }
        self.forget_answers();
        Ok(Some(self.user_texts_since(n_before, decision)))
    }

    fn taken(&self, decision: Decision) -> TakenInput {
        TakenInput {
            text: self.turn.input.text.clone(),
            decision,
        }
    }

    /// Returns the user's texts from index `n_before` on. The text is empty if a hook dropped the
    /// user's text and added its own message.
    fn user_texts_since(&self, n_before: usize, decision: Decision) -> TakenInput {
        let text = self.turn.reflected.user_texts_since(n_before);
        TakenInput {
            text: text.unwrap_or_default(),
            decision,
        }
    }

    /// Discards the answers that preceded a new message: the candidates, the answer from before an
    /// interruption, and cut text that would have been continued.
    fn forget_answers(&mut self) {
        self.candidates.clear();
        self.turn.ready_answer = None;
        self.turn.answer.forget_answer();
        self.turn.progress.ends_answer(false);
    }

    async fn request(&mut self, order: AnswerOrder) -> Carried<TurnAnswer> {
        let is_aside = order.is_aside;
        if is_aside && let Some(text) = self.turn.ready_answer.clone() {
            return Ok(Ok(self.ready_answer(text)));
        }
        let order = match self.step_order(order) {
            Ok(order) => order,
            Err(error) => return Ok(Err(error)),
        };
        self.n_since = 0;
        if !is_aside {
            self.candidates.clear();
            let cost = self.turn.request_answer(&order).await?;
            return Ok(Ok(self.kept_answer(cost)));
        }
        match self.turn.request_aside(&order).await {
            Ok((cost, reviewed)) => {
                let id = self.turn.ctx.step;
                let answer = answer_of(id, cost, reviewed.reply());
                self.candidates.insert(id, reviewed);
                Ok(Ok(answer))
            }
            // A failed candidate does not end the turn: the loop may ask another model.
            Err(EarlyStop::Provider(why)) => Ok(Err(HandleError::Failed(why))),
            Err(stop) => Err(stop),
        }
    }

    /// Checks a loop's request to the model and resolves its preset.
    fn step_order(&self, order: AnswerOrder) -> Result<StepOrder, HandleError> {
        let spec = &self.turn.agent.spec;
        if let Some(model) = &order.model {
            let mut known = spec.config.loop_models.iter();
            let is_known = |known: &String| known == model || known == EVERY_MODEL;
            if *model != spec.model && !known.any(is_known) {
                return Err(HandleError::Denied(format!(
                    "the loop may not ask the model `{}`; the operator lists permitted models as `loop_models` under [agent] in the settings",
                    clean_line(model, MAX_SHOWN)
                )));
            }
        }
        if order.is_aside && self.candidates.len() >= MAX_CANDIDATES {
            return Err(HandleError::Limit(format!(
                "at most {MAX_CANDIDATES} answers outside the conversation are kept; accept one, or request one inside the conversation"
            )));
        }
        let preset = order.preset.as_deref();
        let preset = preset
            .map(|name| spec.presets.find_preset(name))
            .transpose();
        if let Some(note) = &order.note {
            check_added("note", note)?;
        }
        Ok(StepOrder {
            model: order.model,
            preset: preset.map_err(HandleError::InvalidInput)?,
            note: order.note.map(|note| (self.name.clone(), note)),
            aside: order.is_aside.then(|| self.name.clone()),
        })
    }

    /// Returns the answer to a request inside the conversation, in the form for the loop.
    fn kept_answer(&self, cost: StepCost) -> TurnAnswer {
        let id = self.turn.ctx.step;
        if let Some(open) = &self.turn.open {
            return answer_of(id, cost, open);
        }
        let last = self.turn.answer.last_step();
        let is_cut = last.is_some_and(|last| last.shortfall == Some(ReplyShortfall::CutText));
        TurnAnswer {
            id,
            model: cost.model,
            text: last.map(|last| last.draft.clone()).unwrap_or_default(),
            calls: Vec::new(),
            is_cut,
            usage: cost.usage,
        }
    }

    /// Returns the answer that already existed when the turn was interrupted, in the form for the
    /// loop.
    fn ready_answer(&self, text: String) -> TurnAnswer {
        TurnAnswer {
            id: READY,
            model: self.turn.ctx.scope.skills.model(),
            text,
            calls: Vec::new(),
            is_cut: false,
            usage: crate::message::Usage::default(),
        }
    }

    async fn accept(&mut self, id: u32) -> Carried<()> {
        if id == READY && self.turn.ready_answer.is_some() {
            self.turn.request_answer(&StepOrder::default()).await?;
            return Ok(Ok(()));
        }
        let Some(reviewed) = self.candidates.remove(&id) else {
            return Ok(Err(HandleError::NotFound(format!(
                "there is no answer {id} to accept: it was not requested with `aside`, was already accepted, or the conversation has continued since it was requested"
            ))));
        };
        self.candidates.clear();
        self.turn.ctx.passing.clear();
        self.turn.keep_reply(reviewed).await?;
        Ok(Ok(()))
    }

    async fn run_calls(&mut self) -> Result<Vec<CallReport>, EarlyStop> {
        let n_before = self.turn.reflected.n_used();
        self.turn.run_open_calls().await?;
        let used = self.turn.reflected.used_since(n_before).iter();
        let reports = used.map(|used| CallReport {
            name: used.name.clone(),
            is_error: used.is_error,
        });
        Ok(reports.collect())
    }

    async fn inject(&mut self, text: String) -> Carried<()> {
        if let Err(error) = check_added("text", &text) {
            return Ok(Err(error));
        }
        self.forget_answers();
        let injection = Injection { text, keep: true };
        let injections = vec![(self.name.clone(), injection)];
        self.turn.ctx.inject_texts(injections).await?;
        Ok(Ok(()))
    }

    /// Reflects on the last answer. If reflection asks for another step, its message makes the
    /// candidates outdated; cut text is kept, because the next answer continues it.
    async fn reflect(&mut self) -> Result<Option<String>, EarlyStop> {
        let why = self.turn.reflect_answer().await?;
        if why.is_some() {
            self.candidates.clear();
        }
        Ok(why)
    }

    async fn finish(&mut self) -> Result<TurnFinish, EarlyStop> {
        let n_before = self.turn.reflected.n_user_texts();
        let finish = match self.turn.finish_answer().await? {
            AnswerEnd::Done => {
                self.is_over = true;
                return Ok(TurnFinish::Done);
            }
            AnswerEnd::Again(why) => TurnFinish::Again(why),
            AnswerEnd::FollowUp => {
                let decision = self.decision.unwrap_or(Decision::Direct);
                TurnFinish::FollowUp(self.user_texts_since(n_before, decision))
            }
        };
        self.candidates.clear();
        Ok(finish)
    }
}

fn answer_of(id: u32, cost: StepCost, reply: &SeenReply) -> TurnAnswer {
    TurnAnswer {
        id,
        model: cost.model,
        text: reply.draft.clone(),
        calls: reply.calls.clone(),
        is_cut: reply.cut.is_some(),
        usage: cost.usage,
    }
}

/// Checks a text that a loop adds to the conversation: it must not be empty or too long.
fn check_added(what: &str, text: &str) -> Result<(), HandleError> {
    if text.trim().is_empty() {
        return Err(HandleError::InvalidInput(format!("the {what} is empty")));
    }
    check_added_size(what, text.len())
}
