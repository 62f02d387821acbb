//! The turn of a loop of the agent in tests: the test gives the input and answers the requests.

use std::cell::RefCell;

use super::answers::Answerer;
use crate::agent_turn::{CallReport, ModelAnswer, RequestOrder, TakenInput, TurnFinish};
use crate::payloads::Decision;
use crate::types::{Error, ToolCall};

/// State of the turn.
#[derive(Default)]
struct FakeTurn {
    /// Input that was not taken yet.
    input: Option<String>,
    is_resumed: bool,
    /// Calls of the last answer.
    open: Vec<ToolCall>,
    /// Names of the primitives that were asked for, those with a text with the text.
    asked: Vec<String>,
}

thread_local! {
    static REQUESTS: Answerer<RequestOrder, ModelAnswer> = const { Answerer::new("answer_requests") };
    static TURN: RefCell<FakeTurn> = RefCell::default();
}

/// Forgets the turn on this thread.
pub(super) fn reset() {
    REQUESTS.with(Answerer::reset);
    TURN.take();
}

/// Sets the input of the turn that the plugin's loop of the agent orders on this thread, and answers
/// its requests. Without it each request is denied. Reflection accepts every answer.
pub fn answer_requests(
    input: &str,
    answer: impl Fn(RequestOrder) -> Result<ModelAnswer, Error> + 'static,
) {
    TURN.with_borrow_mut(|turn| turn.input = Some(input.to_owned()));
    REQUESTS.with(|own| own.set(answer));
}

/// Lets the turn go on with one that was interrupted.
pub fn resume_turn() {
    TURN.with_borrow_mut(|turn| turn.is_resumed = true);
}

/// Returns the primitives that the loop has asked for: their names, with the text of an injection
/// and the number of an accepted answer.
#[must_use]
pub fn asked_primitives() -> Vec<String> {
    TURN.with_borrow(|turn| turn.asked.clone())
}

/// An answer of a model without calls.
#[must_use]
pub fn model_answer(id: u32, text: &str) -> ModelAnswer {
    ModelAnswer {
        id,
        model: "scripted".to_owned(),
        text: text.to_owned(),
        calls: Vec::new(),
        is_cut: false,
        usage: crate::types::Usage::default(),
    }
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "the functions have the signatures of the real host's"
)]
pub(crate) mod host {
    use super::{
        CallReport, Decision, Error, ModelAnswer, REQUESTS, RequestOrder, TURN, TakenInput,
        TurnFinish,
    };

    fn note(primitive: impl Into<String>) {
        TURN.with_borrow_mut(|turn| turn.asked.push(primitive.into()));
    }

    pub(crate) fn is_resumed() -> Result<bool, Error> {
        note("is-resumed");
        Ok(TURN.with_borrow(|turn| turn.is_resumed))
    }

    pub(crate) fn take_input() -> Result<Option<TakenInput>, Error> {
        note("take-input");
        let text = TURN.with_borrow_mut(|turn| turn.input.take());
        Ok(text.map(|text| TakenInput {
            text,
            decision: Decision::Direct,
        }))
    }

    pub(crate) fn build_prompt() -> Result<(), Error> {
        note("build-prompt");
        Ok(())
    }

    pub(crate) fn request(order: &RequestOrder) -> Result<ModelAnswer, Error> {
        note("request");
        let answer = REQUESTS.with(|own| own.answer(order.clone()))?;
        if !order.aside {
            TURN.with_borrow_mut(|turn| turn.open.clone_from(&answer.calls));
        }
        Ok(answer)
    }

    pub(crate) fn accept(id: u32) -> Result<(), Error> {
        note(format!("accept {id}"));
        Ok(())
    }

    pub(crate) fn run_calls() -> Result<Vec<CallReport>, Error> {
        note("run-calls");
        let open = TURN.with_borrow_mut(|turn| std::mem::take(&mut turn.open));
        let reports = open.into_iter().map(|call| CallReport {
            name: call.name,
            is_error: false,
        });
        Ok(reports.collect())
    }

    pub(crate) fn inject(text: &str) -> Result<(), Error> {
        note(format!("inject {text}"));
        Ok(())
    }

    pub(crate) fn reflect() -> Result<Option<String>, Error> {
        note("reflect");
        Ok(None)
    }

    pub(crate) fn finish() -> Result<TurnFinish, Error> {
        note("finish");
        Ok(TurnFinish::Done)
    }
}
