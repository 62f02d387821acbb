//! Calls during which the user is asked, and suspended calls that wait until the client returns
//! with the answer.
//!
//! In the older protocol the server asks during the request. In the newer one the server ends the
//! request with its question, and the client sends the request again with the answer and a state
//! that identifies the call. The call itself keeps running: hooks and policy see it once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use rind_lib::host::OutsideResult;
use rind_lib::lock::lock;
use rind_lib::point::handle::{PersonAnswer, PersonQuestion};
use rind_lib::tool::approval::{ApprovalAnswer, Approver, Question};
use rmcp::model::{ElicitRequest, ElicitResult, JsonObject};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::DropGuard;

use super::convert::{describe_question, read_answer};
use super::forms::{describe_form, read_form};
use super::session::{ServedSession, WaitingClient};

/// Timeout for the user's answer.
const ASK_TIMEOUT: Duration = Duration::from_secs(600);

/// Maximum number of calls that wait until their client returns with an answer.
const MAX_PENDING: usize = 64;

/// Key of an approval question in a result that asks for input.
const APPROVAL: &str = "approval";

/// Key of a plugin's question in a result that asks for input.
const ANSWER: &str = "answer";

/// Answer of the client's user; the error is the reason why there is none.
pub(super) type UserAnswer = Result<ElicitResult, String>;

/// A question for the client's user.
pub(super) struct AskedQuestion {
    /// Key of the question in a result that asks for input.
    pub(super) key: &'static str,
    pub(super) request: ElicitRequest,
    pub(super) reply: oneshot::Sender<UserAnswer>,
}

/// Asks the user of the client about one call, by sending the questions to the task that serves the
/// request.
pub(super) struct ClientApprover(pub(super) mpsc::Sender<AskedQuestion>);

impl Approver for ClientApprover {
    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(async move {
            let no = |why: &str| ApprovalAnswer::No(why.to_owned());
            let Some(request) = describe_question(question) else {
                return no("the call is too long for a question, so nobody was asked");
            };
            match self.ask_user(APPROVAL, request).await {
                Ok(result) => read_answer(&result.action, result.content.as_ref()),
                Err(why) => no(&why),
            }
        })
    }

    fn answer<'a>(&'a self, question: &'a PersonQuestion) -> BoxFuture<'a, Option<PersonAnswer>> {
        Box::pin(async move {
            let asked = self.ask_user(ANSWER, describe_form(question)).await;
            read_form(&question.kind, &asked.ok()?)
        })
    }
}

impl ClientApprover {
    /// Passes a question on and waits for the user's answer.
    async fn ask_user(&self, key: &'static str, request: ElicitRequest) -> UserAnswer {
        let (reply, answer) = oneshot::channel();
        let asked = AskedQuestion {
            key,
            request,
            reply,
        };
        let gone = |_| "the client is gone".to_owned();
        self.0.send(asked).await.map_err(gone)?;
        match tokio::time::timeout(ASK_TIMEOUT, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err("the client did not ask its user".to_owned()),
            Err(_) => Err("nobody answered in ten minutes".to_owned()),
        }
    }
}

/// A call that is running in a session.
pub(super) struct RunningCall {
    pub(super) tool: String,
    /// Name of the plugin that runs the tool.
    pub(super) origin: Option<String>,
    /// Session in which the call runs.
    pub(super) session: ServedSession,
    pub(super) arguments: JsonObject,
    pub(super) result: oneshot::Receiver<OutsideResult>,
    pub(super) asked: mpsc::Receiver<AskedQuestion>,
    /// Cancels the call when it is dropped, because its client is then gone.
    pub(super) _guard: DropGuard,
}

/// A running call that waits for its user's answer.
pub(super) struct PendingCall {
    pub(super) call: RunningCall,
    pub(super) asked: AskedQuestion,
    since: Instant,
    _waiting: WaitingClient,
}

/// Calls that wait until their client returns with an answer, keyed by their state.
#[derive(Clone, Default)]
pub(super) struct PendingCalls(Arc<Mutex<HashMap<String, PendingCall>>>);

impl PendingCalls {
    /// Stores a waiting call and returns its new state; `None` if too many calls wait.
    pub(super) fn keep_call(&self, call: RunningCall, asked: AskedQuestion) -> Option<String> {
        let mut pending = lock(&self.0);
        pending.retain(|_, own| own.since.elapsed() < ASK_TIMEOUT);
        if pending.len() >= MAX_PENDING {
            return None;
        }
        let state = rind_lib::clock::new_id();
        let since = Instant::now();
        let kept = PendingCall {
            _waiting: call.session.begin_wait(),
            call,
            asked,
            since,
        };
        pending.insert(state.clone(), kept);
        Some(state)
    }

    /// Cancels the call that has waited longest. Returns whether there was one.
    pub(super) fn give_up_oldest(&self) -> bool {
        let mut pending = lock(&self.0);
        let oldest = pending.iter().min_by_key(|(_, own)| own.since);
        let oldest = oldest.map(|(state, _)| state.clone());
        oldest.and_then(|state| pending.remove(&state)).is_some()
    }

    /// Removes and returns the call with this state. `None` if there is none, or if its tool and
    /// arguments differ from those of the request.
    pub(super) fn take_call(
        &self,
        state: &str,
        tool: &str,
        arguments: &JsonObject,
    ) -> Option<PendingCall> {
        let mut pending = lock(&self.0);
        let own = pending.get(state)?;
        if own.call.tool != tool || own.call.arguments != *arguments {
            return None;
        }
        pending.remove(state)
    }
}

#[cfg(test)]
mod tests {
    use rind_lib::point::handle::QuestionKind;
    use tokio_util::sync::CancellationToken;

    use super::*;

    fn running(cancel: &CancellationToken) -> (RunningCall, oneshot::Sender<OutsideResult>) {
        let (sender, result) = oneshot::channel();
        let call = RunningCall {
            tool: "t".to_owned(),
            origin: None,
            session: ServedSession::unserved(),
            arguments: JsonObject::new(),
            result,
            asked: mpsc::channel(1).1,
            _guard: cancel.clone().drop_guard(),
        };
        (call, sender)
    }

    fn question() -> AskedQuestion {
        AskedQuestion {
            key: APPROVAL,
            request: describe_form(&PersonQuestion {
                plugin: "p".to_owned(),
                text: "q".to_owned(),
                kind: QuestionKind::Confirm { default: false },
                is_muted: false,
            }),
            reply: oneshot::channel().0,
        }
    }

    #[test]
    fn a_state_is_for_one_call_and_counts_once() {
        let pending = PendingCalls::default();
        let cancel = CancellationToken::new();
        let (call, _result) = running(&cancel);
        let state = pending.keep_call(call, question()).unwrap();
        let none = JsonObject::new();
        assert!(pending.take_call("other", "t", &none).is_none());
        assert!(pending.take_call(&state, "u", &none).is_none());
        let other = serde_json::json!({"a": 1}).as_object().cloned().unwrap();
        assert!(pending.take_call(&state, "t", &other).is_none());
        assert!(pending.take_call(&state, "t", &none).is_some());
        assert!(pending.take_call(&state, "t", &none).is_none());
        assert!(cancel.is_cancelled(), "the taken call was dropped");
    }

    #[test]
    fn the_call_that_has_waited_longest_is_given_up_first() {
        let pending = PendingCalls::default();
        let tokens = [CancellationToken::new(), CancellationToken::new()];
        for token in &tokens {
            let call = running(token).0;
            assert!(pending.keep_call(call, question()).is_some());
            std::thread::sleep(Duration::from_millis(2));
        }
        assert!(pending.give_up_oldest());
        assert!(tokens[0].is_cancelled() && !tokens[1].is_cancelled());
        assert!(pending.give_up_oldest() && !pending.give_up_oldest());
    }

    #[test]
    fn calls_that_wait_are_bounded() {
        let pending = PendingCalls::default();
        let cancel = CancellationToken::new();
        let kept = (0..=MAX_PENDING).filter(|_| {
            let call = running(&cancel).0;
            pending.keep_call(call, question()).is_some()
        });
        assert_eq!(kept.count(), MAX_PENDING);
    }
}
