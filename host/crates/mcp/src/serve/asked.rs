//! Asks the client's user during tool calls, and stores suspended calls until the client sends the
//! answer.
//!
//! In the older protocol, the server asks during the request. In the newer protocol, the server
//! ends the request with its question, and the client sends the request again with the answer and a
//! state string that identifies the call. The call itself continues, so hooks and policy judge it
//! only once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use rind_lib::host::ClientToolCallResult;
use rind_lib::lock::lock_ignoring_poison;
use rind_lib::point::handle::{PluginUserQuestion, UserAnswerToPlugin};
use rind_lib::tool::approval::{ApprovalAnswer, Approver, Question};
use rmcp::model::{ElicitRequest, ElicitResult, JsonObject};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::DropGuard;

use super::convert::{parse_approval_answer, to_approval_elicitation};
use super::forms::{parse_form_answer, to_elicitation_form};
use super::session::{HostSessionForClients, SuspendedCallCountGuard};

/// Maximum time to wait for an answer of the client's user.
const USER_ANSWER_TIMEOUT: Duration = Duration::from_secs(600);

/// Maximum number of suspended calls, which wait until their client sends the user's answer.
const MAX_SUSPENDED_CALLS: usize = 64;

/// Key of an approval question in a result that asks for input.
const APPROVAL_INPUT_REQUEST_KEY: &str = "approval";

/// Key of a plugin's question in a result that asks for input.
const PLUGIN_INPUT_REQUEST_KEY: &str = "answer";

/// Answer of the client's user, or the reason why the user gave none.
pub(super) type ClientUserAnswer = Result<ElicitResult, String>;

/// Question that a tool call asks the client's user.
pub(super) struct ClientUserQuestion {
    /// Key of the question in a result that asks for input.
    pub(super) key: &'static str,
    pub(super) request: ElicitRequest,
    pub(super) reply: oneshot::Sender<ClientUserAnswer>,
}

/// Approver that asks the client's user. It sends the questions of one call to the task that serves
/// the client's request.
pub(super) struct McpClientUserApprover(pub(super) mpsc::Sender<ClientUserQuestion>);

impl Approver for McpClientUserApprover {
    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(async move {
            let no = |why: &str| ApprovalAnswer::No(why.to_owned());
            let Some(request) = to_approval_elicitation(question) else {
                return no("the call is too long for a question, so nobody was asked");
            };
            match self.ask_user(APPROVAL_INPUT_REQUEST_KEY, request).await {
                Ok(result) => parse_approval_answer(&result.action, result.content.as_ref()),
                Err(why) => no(&why),
            }
        })
    }

    fn answer<'a>(
        &'a self,
        question: &'a PluginUserQuestion,
    ) -> BoxFuture<'a, Option<UserAnswerToPlugin>> {
        Box::pin(async move {
            let asked = self
                .ask_user(PLUGIN_INPUT_REQUEST_KEY, to_elicitation_form(question))
                .await;
            parse_form_answer(&question.kind, &asked.ok()?)
        })
    }
}

impl McpClientUserApprover {
    /// Sends a question to the task that serves the request, and waits for the user's answer.
    async fn ask_user(&self, key: &'static str, request: ElicitRequest) -> ClientUserAnswer {
        let (reply, answer) = oneshot::channel();
        let asked = ClientUserQuestion {
            key,
            request,
            reply,
        };
        let gone = |_| "the client is gone".to_owned();
        self.0.send(asked).await.map_err(gone)?;
        match tokio::time::timeout(USER_ANSWER_TIMEOUT, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err("the client did not ask its user".to_owned()),
            Err(_) => Err("the user did not answer within ten minutes".to_owned()),
        }
    }
}

/// Tool call of a client that is running in a session.
pub(super) struct RunningClientToolCall {
    pub(super) tool: String,
    /// Name of the plugin or other source that provides the called tool.
    pub(super) origin: Option<String>,
    /// Session of the host in which the tool call runs.
    pub(super) session: HostSessionForClients,
    pub(super) arguments: JsonObject,
    pub(super) result: oneshot::Receiver<ClientToolCallResult>,
    pub(super) asked: mpsc::Receiver<ClientUserQuestion>,
    /// Guard that cancels the call when this value is dropped, for example because the client is
    /// gone.
    pub(super) _guard: DropGuard,
}

/// Suspended call, which waits for the answer of the client's user.
pub(super) struct SuspendedToolCall {
    pub(super) call: RunningClientToolCall,
    pub(super) asked: ClientUserQuestion,
    since: Instant,
    _waiting: SuspendedCallCountGuard,
}

/// Suspended tool calls, keyed by the state string that the client sends back.
#[derive(Clone, Default)]
pub(super) struct SuspendedToolCalls(Arc<Mutex<HashMap<String, SuspendedToolCall>>>);

impl SuspendedToolCalls {
    /// Stores a suspended call and returns its new state string; `None` if too many calls are
    /// suspended.
    pub(super) fn store_suspended_call(
        &self,
        call: RunningClientToolCall,
        asked: ClientUserQuestion,
    ) -> Option<String> {
        let mut pending = lock_ignoring_poison(&self.0);
        pending.retain(|_, own| own.since.elapsed() < USER_ANSWER_TIMEOUT);
        if pending.len() >= MAX_SUSPENDED_CALLS {
            return None;
        }
        let state = rind_lib::clock::new_uuid_v7();
        let since = Instant::now();
        let kept = SuspendedToolCall {
            _waiting: call.session.increment_suspended_call_count(),
            call,
            asked,
            since,
        };
        pending.insert(state.clone(), kept);
        Some(state)
    }

    /// Cancels the suspended call that has waited longest for its user's answers. Returns whether a
    /// call was suspended.
    pub(super) fn cancel_oldest_suspended_call(&self) -> bool {
        let mut pending = lock_ignoring_poison(&self.0);
        let oldest = pending.iter().min_by_key(|(_, own)| own.since);
        let oldest = oldest.map(|(state, _)| state.clone());
        oldest.and_then(|state| pending.remove(&state)).is_some()
    }

    /// Removes and returns the suspended call with this state string. `None` if no call has it, or
    /// if the call's tool or arguments differ from those of the request.
    pub(super) fn take_suspended_call(
        &self,
        state: &str,
        tool: &str,
        arguments: &JsonObject,
    ) -> Option<SuspendedToolCall> {
        let mut pending = lock_ignoring_poison(&self.0);
        let own = pending.get(state)?;
        if own.call.tool != tool || own.call.arguments != *arguments {
            return None;
        }
        pending.remove(state)
    }
}

#[cfg(test)]
mod tests {
    use rind_lib::point::handle::PluginUserQuestionKind;
    use tokio_util::sync::CancellationToken;

    use super::*;

    fn running(
        cancel: &CancellationToken,
    ) -> (RunningClientToolCall, oneshot::Sender<ClientToolCallResult>) {
        let (sender, result) = oneshot::channel();
        let call = RunningClientToolCall {
            tool: "t".to_owned(),
            origin: None,
            session: HostSessionForClients::without_serving_task(),
            arguments: JsonObject::new(),
            result,
            asked: mpsc::channel(1).1,
            _guard: cancel.clone().drop_guard(),
        };
        (call, sender)
    }

    fn question() -> ClientUserQuestion {
        ClientUserQuestion {
            key: APPROVAL_INPUT_REQUEST_KEY,
            request: to_elicitation_form(&PluginUserQuestion {
                plugin: "p".to_owned(),
                text: "q".to_owned(),
                kind: PluginUserQuestionKind::Confirm { default: false },
                is_muted: false,
            }),
            reply: oneshot::channel().0,
        }
    }

    #[test]
    fn a_state_is_for_one_call_and_counts_once() {
        let pending = SuspendedToolCalls::default();
        let cancel = CancellationToken::new();
        let (call, _result) = running(&cancel);
        let state = pending.store_suspended_call(call, question()).unwrap();
        let none = JsonObject::new();
        assert!(pending.take_suspended_call("other", "t", &none).is_none());
        assert!(pending.take_suspended_call(&state, "u", &none).is_none());
        let other = serde_json::json!({"a": 1}).as_object().cloned().unwrap();
        assert!(pending.take_suspended_call(&state, "t", &other).is_none());
        assert!(pending.take_suspended_call(&state, "t", &none).is_some());
        assert!(pending.take_suspended_call(&state, "t", &none).is_none());
        assert!(cancel.is_cancelled(), "the taken call was dropped");
    }

    #[test]
    fn the_call_that_has_waited_longest_is_given_up_first() {
        let pending = SuspendedToolCalls::default();
        let tokens = [CancellationToken::new(), CancellationToken::new()];
        for token in &tokens {
            let call = running(token).0;
            assert!(pending.store_suspended_call(call, question()).is_some());
            std::thread::sleep(Duration::from_millis(2));
        }
        assert!(pending.cancel_oldest_suspended_call());
        assert!(tokens[0].is_cancelled() && !tokens[1].is_cancelled());
        assert!(pending.cancel_oldest_suspended_call() && !pending.cancel_oldest_suspended_call());
    }

    #[test]
    fn calls_that_wait_are_bounded() {
        let pending = SuspendedToolCalls::default();
        let cancel = CancellationToken::new();
        let kept = (0..=MAX_SUSPENDED_CALLS).filter(|_| {
            let call = running(&cancel).0;
            pending.store_suspended_call(call, question()).is_some()
        });
        assert_eq!(kept.count(), MAX_SUSPENDED_CALLS);
    }
}
