//! One turn from its start to its end, however it ends.
//!
//! [`Turn::run`] wraps the turn's body in one `select`: when the user interrupts, the body is dropped at whatever await it
//! stands, and [`Turn::end`] puts the session in order. So the body itself has no branches for cancellation, and all it has
//! to do is to keep what must survive in the turn and not in its own variables.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::call::RanCall;
use super::{Agent, Error, TurnOutcome};
use crate::event::Event;
use crate::message::{Message, Role, Usage};
use crate::point::Point;
use crate::point::caller::Caller;
use crate::point::catalog as at;
use crate::point::dispatch::{Dispatched, Said, Verdict};
use crate::point::merge::injected_message;
use crate::point::outcome::{Injection, Level};
use crate::point::payload::{
    FailureReport, ReflectVerdict, Reflection, StopReason, TurnInput, TurnSummary, UsedTool,
};
use crate::provider::SystemBlock;
use crate::session::{self, Body};

/// How long tools have, after the user interrupted, to stop by themselves and say what they did so far. A little longer
/// than what a call is given once its token is set.
const TOOL_GRACE: Duration = Duration::from_secs(5);

/// What the model reads as the result of a call that the user interrupted.
const CANCELLED: &str = "[cancelled: the user interrupted the turn before this call had a result]";

/// What the model reads as the result of a call that was open when the turn ended for another reason.
const ABANDONED: &str = "[abandoned: the turn ended before this call had a result]";

/// What a dropped turn left open, as the next turn tells the model.
const DROPPED: &str = "[interrupted: the turn before was dropped before this call had a result]";

/// Why the body of a turn ended before its time.
pub(super) enum Stop {
    /// A hook refused to go on. The text says who and why.
    Blocked(String),
    /// The step limit was reached; the output says so.
    MaxSteps,
    /// The user interrupted.
    Cancelled,
    /// The provider gave no answer, for this reason.
    Provider(String),
    /// The host failed.
    Host(Error),
}

impl From<session::Error> for Stop {
    fn from(error: session::Error) -> Self {
        Self::Host(error.into())
    }
}

/// A turn on its way.
pub(super) struct Turn<'a> {
    pub(super) agent: &'a mut Agent,
    pub(super) input: TurnInput,
    pub(super) cancel: CancellationToken,
    pub(super) number: u32,
    pub(super) step: u32,
    /// The step that may not be passed; a follow-up moves it on.
    pub(super) last_step: u32,
    pub(super) n_calls: u32,
    pub(super) usage: Usage,
    pub(super) used: Vec<UsedTool>,
    /// Messages for the next request only.
    pub(super) passing: Vec<Message>,
    pub(super) system: Vec<SystemBlock>,
    /// The answer that is streaming in, in case it never ends.
    pub(super) partial: String,
    /// Calls that ran and whose results are not in the session yet.
    pub(super) ran: Mutex<Vec<RanCall>>,
    /// Whether tools are running, which then get a moment to stop by themselves.
    pub(super) is_running_tools: Arc<AtomicBool>,
    /// Rounds of reflection that asked for another step.
    pub(super) n_rounds: u32,
    /// Criteria of reflection that the model was told of.
    n_criteria: usize,
    pub(super) outputs: Vec<String>,
    started: Instant,
}

impl<'a> Turn<'a> {
    pub(super) fn new(agent: &'a mut Agent, input: TurnInput, cancel: CancellationToken) -> Self {
        Self {
            number: agent.spec.session.turn() + 1,
            last_step: agent.spec.config.max_steps.max(1),
            agent,
            input,
            cancel,
            step: 0,
            n_calls: 0,
            usage: Usage::default(),
            used: Vec::new(),
            passing: Vec::new(),
            system: Vec::new(),
            partial: String::new(),
            ran: Mutex::new(Vec::new()),
            is_running_tools: Arc::default(),
            n_rounds: 0,
            n_criteria: 0,
            outputs: Vec::new(),
            started: Instant::now(),
        }
    }

    /// Runs the turn to its end.
    pub(super) async fn run(mut self) -> Result<TurnOutcome, Error> {
        let ended = match self.begin() {
            Err(error) => Err(error),
            Ok(()) => {
                let interrupted = interrupted(self.cancel.clone(), self.is_running_tools.clone());
                tokio::select! {
                    biased;
                    () = interrupted => Err(Stop::Cancelled),
                    ended = self.body() => ended,
                }
            }
        };
        self.end(ended).await
    }

    fn begin(&mut self) -> Result<(), Stop> {
        self.agent.dispatcher.begin_turn();
        let session = self.agent.spec.session.clone();
        session.cut_turn(DROPPED)?;
        session.append(Body::TurnStart {
            turn: self.number,
            input: self.input.text.clone(),
            source: self.input.source,
        })?;
        self.emit(Event::TurnStart {
            turn: self.number,
            input: self.input.text.clone(),
            source: self.input.source,
        });
        Ok(())
    }

    /// The whole of a turn: input, answer, output, and again for every follow-up.
    async fn body(&mut self) -> Result<(), Stop> {
        let decision = self.take_input().await?;
        self.build_system(decision).await?;
        loop {
            let answer = self.answer().await?;
            self.give_output(answer.draft).await?;
            if answer.is_cut {
                return Err(Stop::MaxSteps);
            }
            if !self.take_follow_up().await? {
                return Ok(());
            }
        }
    }

    /// Steps until the model has answered and reflection lets the answer stand.
    async fn answer(&mut self) -> Result<Answer, Stop> {
        let mut draft = String::new();
        loop {
            if self.step >= self.last_step {
                return Ok(self.cut(&draft));
            }
            let step = self.take_step().await?;
            if !step.draft.is_empty() {
                draft.clone_from(&step.draft);
            }
            if step.goes_on || self.agent.steering.has_steering() {
                continue;
            }
            let reflected = self.reflect(step.draft).await;
            match reflected.continue_because {
                Some(reason) => {
                    let message = Message::text(Role::User, format!("[reflection] {reason}"));
                    self.push(message).await?;
                }
                None => {
                    return Ok(Answer {
                        draft: reflected.draft,
                        is_cut: false,
                    });
                }
            }
        }
    }

    fn cut(&self, draft: &str) -> Answer {
        let max = self.agent.spec.config.max_steps;
        let note = format!(
            "[stopped: the limit of {max} steps was reached before the work was done; say `continue` to go on]"
        );
        Answer {
            draft: if draft.is_empty() {
                note
            } else {
                format!("{draft}\n\n{note}")
            },
            is_cut: true,
        }
    }

    /// `pre-reflect` → the built-in reflection → `post-reflect`, which may ask for another step, within bounds.
    async fn reflect(&mut self, draft: String) -> ReflectVerdict {
        let reflection = Reflection {
            draft,
            input: self.input.text.clone(),
            tools: self.used.clone(),
            criteria: Vec::new(),
        };
        let reflection = self.dispatch::<at::PreReflect>(reflection).await.value;
        let verdict = super::reflect::reflect(&reflection, self.n_criteria);
        // The model is told of a criterion once; asking again for the same would never end.
        self.n_criteria = reflection.criteria.len();
        let mut verdict = self.dispatch::<at::PostReflect>(verdict).await.value;
        if verdict.continue_because.is_none() {
            return verdict;
        }
        let has_rounds = self.n_rounds < self.agent.spec.config.reflect_rounds;
        if has_rounds && self.step < self.last_step {
            self.n_rounds += 1;
        } else if let Some(reason) = verdict.continue_because.take() {
            self.agent.notice(
                Level::Warn,
                format!("reflection asked for another step and none is left: {reason}"),
            );
        }
        verdict
    }

    /// `pre-output`, the output, `post-output`.
    async fn give_output(&mut self, draft: String) -> Result<(), Stop> {
        let shown = self.dispatch::<at::PreOutput>(draft).await;
        let (text, refusal) = match blocked(&shown) {
            Some(said) => {
                let text = format!(
                    "[the answer was held back by plugin {}: {}]",
                    said.plugin, said.text
                );
                (text.clone(), Some(text))
            }
            None => (shown.value, None),
        };
        self.outputs.push(text.clone());
        self.dispatch::<at::PostOutput>(text).await;
        match refusal {
            Some(text) => Err(Stop::Blocked(text)),
            None => Ok(()),
        }
    }

    /// Puts the session in order and tells everybody, however the turn ended.
    async fn end(mut self, ended: Result<(), Stop>) -> Result<TurnOutcome, Error> {
        let (stop, last_words, fault) = match ended {
            Ok(()) => (StopReason::Done, None, None),
            Err(Stop::MaxSteps) => (StopReason::MaxSteps, None, None),
            Err(Stop::Blocked(text)) => (StopReason::Blocked, Some(text), None),
            Err(Stop::Cancelled) => {
                let text = "[cancelled by the user]".to_owned();
                (StopReason::Cancelled, Some(text), None)
            }
            Err(Stop::Provider(why)) => {
                self.fail("provider", &why).await;
                let text = format!("[the model gave no answer: {why}]");
                (StopReason::Failed, Some(text), None)
            }
            Err(Stop::Host(error)) => {
                let why = chain(&error);
                self.fail("session", &why).await;
                let text = format!("[the host failed: {why}]");
                (StopReason::Failed, Some(text), Some(error))
            }
        };
        if let Some(text) = last_words
            && self.outputs.last() != Some(&text)
        {
            self.outputs.push(text);
        }
        let closed = self.close_open(stop).await;
        let outcome = TurnOutcome {
            turn: self.number,
            output: self.outputs.join("\n\n"),
            summary: self.summary(stop),
        };
        let session = self.agent.spec.session.clone();
        let written = session.append(Body::TurnEnd {
            turn: outcome.turn,
            summary: outcome.summary.clone(),
            output: outcome.output.clone(),
        });
        self.dispatch::<at::TurnEnd>(outcome.summary.clone()).await;
        let synced = session.sync();
        self.emit(Event::TurnEnd {
            turn: outcome.turn,
            summary: outcome.summary.clone(),
            output: outcome.output.clone(),
        });
        // The first fault is the cause of the others.
        if let Some(error) = fault {
            return Err(error);
        }
        match closed {
            Err(Stop::Host(error)) => Err(error),
            _ => {
                written?;
                synced?;
                Ok(outcome)
            }
        }
    }

    /// Gives every call a result and keeps what was streamed of an answer that never ended.
    async fn close_open(&mut self, stop: StopReason) -> Result<(), Stop> {
        let why = if stop == StopReason::Cancelled {
            CANCELLED
        } else {
            ABANDONED
        };
        let session = self.agent.spec.session.clone();
        self.keep_partial().await?;
        // What ran to its end keeps its result, but not before the hooks have seen it: one of them may take secrets out.
        let ran = std::mem::take(&mut *self.lock_ran());
        let (mut known, mut inject) = (Vec::with_capacity(ran.len()), Vec::new());
        for call in ran {
            let finished = self.finish_call(call).await?;
            known.push(finished.value.result);
            inject.extend(finished.inject);
        }
        for message in session.close_calls(&known, why)? {
            self.emit(Event::MessageEnd {
                message: message.clone(),
            });
            self.dispatch::<at::MessageEnd>(message).await;
        }
        self.inject(inject).await
    }

    /// Keeps what was streamed of an answer that never ended: the user has read it and may speak of it.
    async fn keep_partial(&mut self) -> Result<(), Stop> {
        let partial = std::mem::take(&mut self.partial);
        if partial.trim().is_empty() {
            return Ok(());
        }
        let text = format!("{partial}\n\n[the answer was cut off here]");
        let message = Message::text(Role::Assistant, text);
        let reviewed = self.dispatch::<at::PostReason>(message).await;
        if blocked(&reviewed).is_none() {
            self.push(reviewed.value).await?;
        }
        Ok(())
    }

    fn summary(&self, stop: StopReason) -> TurnSummary {
        TurnSummary {
            stop,
            steps: self.step,
            tool_calls: self.n_calls,
            usage: self.usage,
            cost_usd: 0.0,
            duration_ms: u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
            output: self.outputs.join("\n\n"),
        }
    }

    /// Calls the hooks of a point, then tells the `error` point of those that failed.
    pub(super) async fn dispatch<P: Point>(&self, payload: P::Payload) -> Dispatched<P::Payload> {
        let caller = self.caller();
        let out = self.agent.dispatcher.dispatch::<P>(&caller, payload).await;
        for report in self.agent.sink.take_failures() {
            self.agent
                .dispatcher
                .dispatch::<at::Error>(&caller, report)
                .await;
        }
        out
    }

    async fn fail(&self, place: &str, why: &str) {
        self.emit(Event::Error {
            place: place.to_owned(),
            message: why.to_owned(),
        });
        self.dispatch::<at::Error>(FailureReport {
            place: place.to_owned(),
            message: why.to_owned(),
            plugin: None,
        })
        .await;
    }

    /// Puts a finished message into the session and tells everybody.
    pub(super) async fn push(&self, message: Message) -> Result<(), Stop> {
        self.agent.spec.session.append(Body::Message {
            message: message.clone(),
        })?;
        self.emit(Event::MessageEnd {
            message: message.clone(),
        });
        self.dispatch::<at::MessageEnd>(message).await;
        Ok(())
    }

    /// Takes in what plugins want to say: kept messages go into the session, the others into the next request.
    pub(super) async fn inject(
        &mut self,
        injections: Vec<(Arc<str>, Injection)>,
    ) -> Result<(), Stop> {
        for (plugin, injection) in injections {
            let keep = injection.keep;
            let message = self.inject_one(&plugin, injection).await?;
            if !keep {
                self.passing.push(message);
            }
        }
        Ok(())
    }

    /// Makes the message of an injection, and puts it into the session when it is to be kept.
    pub(super) async fn inject_one(
        &self,
        plugin: &str,
        injection: Injection,
    ) -> Result<Message, Stop> {
        let Injection { text, keep } = injection;
        let message = injected_message(plugin, &text);
        let plugin = plugin.to_owned();
        self.agent.spec.session.append(Body::Injected {
            plugin: plugin.clone(),
            text: text.clone(),
            keep,
        })?;
        self.emit(Event::Injected { plugin, text, keep });
        if keep {
            self.push(message.clone()).await?;
        }
        Ok(message)
    }

    pub(super) fn caller(&self) -> Caller {
        let mut caller = self.agent.caller();
        caller.context.turn = self.number;
        caller.context.step = self.step;
        caller.context.tokens_used = self.usage.total();
        caller.context.tool_calls = self.n_calls;
        caller
    }

    pub(super) fn lock_ran(&self) -> MutexGuard<'_, Vec<RanCall>> {
        self.ran.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn emit(&self, event: Event) {
        self.agent.spec.events.emit(event);
    }
}

/// Returns when the user has interrupted, and tools that were running had their moment. A call whose token is set ends by
/// itself, and then the body does, with what the tool had to say; waiting here only bounds that.
async fn interrupted(cancel: CancellationToken, is_running_tools: Arc<AtomicBool>) {
    cancel.cancelled().await;
    if is_running_tools.load(Ordering::Acquire) {
        tokio::time::sleep(TOOL_GRACE).await;
    }
}

/// What the steps came to.
struct Answer {
    draft: String,
    /// Whether the step limit cut it.
    is_cut: bool,
}

/// Who refused, if somebody did.
pub(super) fn blocked<T>(dispatched: &Dispatched<T>) -> Option<&Said> {
    match &dispatched.verdict {
        Verdict::Block(said) => Some(said),
        _ => None,
    }
}

/// An error and its causes in one line.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
