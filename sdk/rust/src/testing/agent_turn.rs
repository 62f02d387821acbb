//! Simulates the turn of an agent loop in tests: the test supplies the input and answers the
//! requests.
//!
//! The order of the primitives is checked as in the host. Where the host would end the turn, the
//! call panics, so that the test fails with the reason.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::answers::Answerer;
use crate::agent_turn::{CallReport, ModelAnswer, RequestOrder, TakenInput, TurnFinish};
use crate::payloads::Decision;
use crate::types::{Error, ToolCall};

/// Maximum number of primitives between two requests, as in the host.
const MAX_PRIMITIVES: u32 = 64;

/// State of the simulated turn.
#[derive(Default)]
struct FakeTurn {
    /// Input that `take-input` has not returned yet.
    input: Option<String>,
    is_resumed: bool,
    is_taken: bool,
    has_prompt: bool,
    /// Whether the conversation ends with an answer, which `reflect` and `finish` require.
    has_answer: bool,
    /// Whether the last answer had calls, after which `finish` requires another request.
    has_had_calls: bool,
    is_over: bool,
    /// Number of primitives that the loop called since its last request to the model.
    n_since: u32,
    /// Calls of the last answer that did not run yet.
    open: Vec<ToolCall>,
    /// Calls of each answer outside of the conversation, by the answer's number.
    aside: BTreeMap<u32, Vec<ToolCall>>,
    /// Primitives that the loop called: the name of each, followed by its text or number if it has
    /// one.
    asked: Vec<String>,
}

impl FakeTurn {
    /// Returns the reason why the host would end the turn when this primitive is called; `None` if
    /// it would not.
    fn primitive_fault(&mut self, name: &str) -> Option<&'static str> {
        self.n_since += 1;
        let is_open = !self.open.is_empty();
        match name {
            _ if self.is_over => Some("came after the end of the turn"),
            _ if self.n_since > MAX_PRIMITIVES => {
                Some("is the 65th primitive without a request to the model")
            }
            "is-resumed" => None,
            "run-calls" => (!is_open).then_some("came without open calls"),
            _ if is_open => {
                Some("came while calls of the last answer were open; `run-calls` comes first")
            }
            "take-input" => None,
            _ if !self.is_taken => Some("came before `take-input`"),
            "build-prompt" => self.has_prompt.then_some("came twice"),
            "inject" => None,
            _ if !self.has_prompt => Some("came before `build-prompt`"),
            "reflect" | "finish" => {
                (!self.has_answer).then_some("came without a new answer of the model")
            }
            _ => None,
        }
    }

    /// Records that the last answer of the conversation has these calls.
    fn record_answer_calls(&mut self, calls: Vec<ToolCall>) {
        self.aside.clear();
        self.has_answer = true;
        self.has_had_calls = !calls.is_empty();
        self.open = calls;
    }

    /// Makes the last answer and all answers outside the conversation unusable, because a message
    /// was added to the conversation after them.
    fn forget_answers(&mut self) {
        self.aside.clear();
        self.has_answer = false;
    }
}

thread_local! {
    static REQUESTS: Answerer<RequestOrder, ModelAnswer> = const { Answerer::new("answer_requests") };
    static TURN: RefCell<FakeTurn> = RefCell::default();
}

/// Removes the simulated turn and the function that answers requests on this thread.
pub(super) fn reset() {
    REQUESTS.with(Answerer::reset);
    TURN.take();
}

/// Sets the input of the turn that the plugin's agent loop runs on this thread, and the function
/// that answers the loop's requests to the model. Without this function, requests are denied.
/// Reflection accepts every answer.
///
/// # Panics
/// A function of the agent loop panics where the host would end the turn, with the reason: a
/// request before the prompt, an answer that ends the turn with open calls, and so on.
pub fn answer_requests(
    input: &str,
    answer: impl Fn(RequestOrder) -> Result<ModelAnswer, Error> + 'static,
) {
    TURN.with_borrow_mut(|turn| turn.input = Some(input.to_owned()));
    REQUESTS.with(|own| own.set(answer));
}

/// Marks the turn as the continuation of an interrupted turn.
pub fn resume_turn() {
    TURN.with_borrow_mut(|turn| turn.is_resumed = true);
}

/// Returns the primitives that the loop called: the name of each, followed by the text of an
/// injection or the number of an accepted answer.
#[must_use]
pub fn asked_primitives() -> Vec<String> {
    TURN.with_borrow(|turn| turn.asked.clone())
}

/// Creates an answer of a model without tool calls.
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

    /// Records a call of the agent-loop function `name` with its text or number, and panics if the
    /// function must not be called now. The host would end the turn without an error that the loop
    /// can see, so the test must fail here.
    fn note(name: &str, more: &str) {
        let fault = TURN.with_borrow_mut(|turn| {
            let asked = format!("{name} {more}");
            turn.asked.push(asked.trim_end().to_owned());
            turn.primitive_fault(name)
        });
        if let Some(why) = fault {
            panic!("the host ends the turn: `{name}` {why}");
        }
    }

    pub(crate) fn is_resumed() -> Result<bool, Error> {
        note("is-resumed", "");
        Ok(TURN.with_borrow(|turn| turn.is_resumed))
    }

    pub(crate) fn take_input() -> Result<Option<TakenInput>, Error> {
        note("take-input", "");
        let text = TURN.with_borrow_mut(|turn| {
            turn.is_taken = true;
            turn.input.take()
        });
        Ok(text.map(|text| TakenInput {
            text,
            decision: Decision::Direct,
        }))
    }

    pub(crate) fn build_prompt() -> Result<(), Error> {
        note("build-prompt", "");
        TURN.with_borrow_mut(|turn| turn.has_prompt = true);
        Ok(())
    }

    pub(crate) fn request(order: &RequestOrder) -> Result<ModelAnswer, Error> {
        note("request", "");
        TURN.with_borrow_mut(|turn| turn.n_since = 0);
        let answer = REQUESTS.with(|own| own.answer(order.clone()))?;
        TURN.with_borrow_mut(|turn| match order.aside {
            true => {
                turn.aside.insert(answer.id, answer.calls.clone());
            }
            false => turn.record_answer_calls(answer.calls.clone()),
        });
        Ok(answer)
    }

    pub(crate) fn accept(id: u32) -> Result<(), Error> {
        note("accept", &id.to_string());
        TURN.with_borrow_mut(|turn| match turn.aside.remove(&id) {
            Some(calls) => {
                turn.record_answer_calls(calls);
                Ok(())
            }
            None => Err(Error::NotFound(format!(
                "there is no answer {id} to accept: it was not requested with `aside`, was already accepted, or the conversation has continued since it was requested"
            ))),
        })
    }

    pub(crate) fn run_calls() -> Result<Vec<CallReport>, Error> {
        note("run-calls", "");
        let open = TURN.with_borrow_mut(|turn| std::mem::take(&mut turn.open));
        let reports = open.into_iter().map(|call| CallReport {
            name: call.name,
            is_error: false,
        });
        Ok(reports.collect())
    }

    pub(crate) fn inject(text: &str) -> Result<(), Error> {
        note("inject", text);
        TURN.with_borrow_mut(super::FakeTurn::forget_answers);
        Ok(())
    }

    pub(crate) fn reflect() -> Result<Option<String>, Error> {
        note("reflect", "");
        Ok(None)
    }

    pub(crate) fn finish() -> Result<TurnFinish, Error> {
        note("finish", "");
        let has_had_calls = TURN.with_borrow(|turn| turn.has_had_calls);
        if has_had_calls {
            TURN.with_borrow_mut(super::FakeTurn::forget_answers);
            return Ok(TurnFinish::Again(
                "the model has received another message since then".to_owned(),
            ));
        }
        TURN.with_borrow_mut(|turn| turn.is_over = true);
        Ok(TurnFinish::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call() -> ToolCall {
        ToolCall {
            id: "1".to_owned(),
            name: "read_file".to_owned(),
            arguments: "{}".to_owned(),
        }
    }

    /// Begins a turn whose answers are numbered from 1, where the first has a call.
    fn begin() {
        crate::testing::reset();
        let n = RefCell::new(0);
        answer_requests("do it", move |_| {
            *n.borrow_mut() += 1;
            let mut answer = model_answer(*n.borrow(), "text");
            answer.calls.extend((answer.id == 1).then(call));
            Ok(answer)
        });
        host::take_input().unwrap();
        host::build_prompt().unwrap();
    }

    #[test]
    fn an_accepted_answer_has_open_calls_and_others_are_forgotten() {
        begin();
        let aside = RequestOrder::new().aside();
        host::request(&aside).unwrap();
        host::request(&aside).unwrap();
        assert!(matches!(host::accept(7), Err(Error::NotFound(_))));
        host::accept(1).unwrap();
        assert_eq!(host::run_calls().unwrap().len(), 1);
        assert!(matches!(host::accept(2), Err(Error::NotFound(_))));
        host::request(&aside).unwrap();
        host::inject("go on").unwrap();
        assert!(matches!(host::accept(3), Err(Error::NotFound(_))));
    }

    #[test]
    #[should_panic(expected = "`finish` came while calls of the last answer were open")]
    fn an_answer_with_open_calls_does_not_go_out() {
        begin();
        host::request(&RequestOrder::new()).unwrap();
        let _ = host::finish();
    }

    #[test]
    #[should_panic(expected = "`finish` came without a new answer of the model")]
    fn an_answer_before_an_injection_does_not_go_out() {
        begin();
        host::request(&RequestOrder::new().aside()).unwrap();
        host::request(&RequestOrder::new()).unwrap();
        host::inject("go on").unwrap();
        let _ = host::finish();
    }
}
