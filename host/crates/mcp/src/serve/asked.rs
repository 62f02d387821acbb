//! Calls whose user is asked while they run, and calls that wait for the client to come back with the
//! answer.
//!
//! In the older protocol the server asks in the middle of a call. In the newer one it ends the request
//! with its question, and the client sends the request again with the answer and a state that names the
//! call. The call itself goes on: hooks and policy see it once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use rind_lib::host::OutsideResult;
use rind_lib::lock::lock;
use rind_lib::tool::approval::{ApprovalAnswer, Approver, Question};
use rmcp::model::{ElicitRequest, JsonObject};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::DropGuard;

use super::convert::describe_question;

/// Time in which a user must have answered.
const ASK_TIMEOUT: Duration = Duration::from_secs(600);

/// Maximum number of calls that wait for their client to return with an answer.
const MAX_PENDING: usize = 64;

/// A question that the user is to be asked.
pub(super) struct AskedQuestion {
    pub(super) request: ElicitRequest,
    pub(super) reply: oneshot::Sender<ApprovalAnswer>,
}

/// Asks the user of the client that makes one call.
pub(super) struct ClientApprover(pub(super) mpsc::Sender<AskedQuestion>);

impl Approver for ClientApprover {
    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(async move {
            let no = |why: &str| ApprovalAnswer::No(why.to_owned());
            let Some(request) = describe_question(question) else {
                return no("the call is too long for a question, so nobody was asked");
            };
            let (reply, answer) = oneshot::channel();
            let asked = AskedQuestion { request, reply };
            if self.0.send(asked).await.is_err() {
                return no("the client is gone");
            }
            match tokio::time::timeout(ASK_TIMEOUT, answer).await {
                Ok(Ok(answer)) => answer,
                Ok(Err(_)) => no("the client did not ask its user"),
                Err(_) => no("nobody answered in ten minutes"),
            }
        })
    }
}

/// A call that runs.
pub(super) struct RunningCall {
    pub(super) tool: String,
    pub(super) arguments: JsonObject,
    pub(super) result: oneshot::Receiver<OutsideResult>,
    pub(super) asked: mpsc::Receiver<AskedQuestion>,
    /// Cancels the call when it is dropped: its client is gone.
    pub(super) _guard: DropGuard,
}

/// A call that waits for an answer of its user.
pub(super) struct PendingCall {
    pub(super) call: RunningCall,
    pub(super) reply: oneshot::Sender<ApprovalAnswer>,
    since: Instant,
}

/// Calls that wait for their client to return with an answer, by their state.
#[derive(Clone, Default)]
pub(super) struct PendingCalls(Arc<Mutex<HashMap<String, PendingCall>>>);

impl PendingCalls {
    /// Keeps a call, and returns its state; `None` if too many wait.
    pub(super) fn keep_call(
        &self,
        call: RunningCall,
        reply: oneshot::Sender<ApprovalAnswer>,
    ) -> Option<String> {
        let mut pending = lock(&self.0);
        pending.retain(|_, own| own.since.elapsed() < ASK_TIMEOUT);
        if pending.len() >= MAX_PENDING {
            return None;
        }
        let state = rind_lib::clock::new_id();
        let since = Instant::now();
        pending.insert(state.clone(), PendingCall { call, reply, since });
        Some(state)
    }

    /// Takes the call with a state, if the request is the same as before.
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
    use tokio_util::sync::CancellationToken;

    use super::*;

    fn running(cancel: &CancellationToken) -> (RunningCall, oneshot::Sender<OutsideResult>) {
        let (sender, result) = oneshot::channel();
        let call = RunningCall {
            tool: "t".to_owned(),
            arguments: JsonObject::new(),
            result,
            asked: mpsc::channel(1).1,
            _guard: cancel.clone().drop_guard(),
        };
        (call, sender)
    }

    #[test]
    fn a_state_is_for_one_call_and_counts_once() {
        let pending = PendingCalls::default();
        let cancel = CancellationToken::new();
        let (call, _result) = running(&cancel);
        let state = pending.keep_call(call, oneshot::channel().0).unwrap();
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
    fn calls_that_wait_are_bounded() {
        let pending = PendingCalls::default();
        let cancel = CancellationToken::new();
        let kept = (0..=MAX_PENDING).filter(|_| {
            let call = running(&cancel).0;
            pending.keep_call(call, oneshot::channel().0).is_some()
        });
        assert_eq!(kept.count(), MAX_PENDING);
    }
}
