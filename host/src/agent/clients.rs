//! Keeps the users of clients whose tool calls are running. If a plugin asks a question during a
//! client's call, the question goes to the user of that client.
//!
//! The user of one client is never asked about the call of another client. If the plugin makes a
//! further call, a question during that call goes to the approver of the session.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::sync::watch;

use crate::lock::lock_ignoring_poison;
use crate::point::caller::Caller;
use crate::tool::approval::Approver;

/// Approver that asks the user of a client; `None` if the client cannot ask its user.
type ClientUserApprover = Option<Arc<dyn Approver>>;

/// Users who answer the questions of clients' running calls, by call id, and the number of
/// questions that wait for their answers.
#[derive(Default)]
pub(super) struct ClientCallApproverRegistry {
    calls: Mutex<HashMap<String, ClientUserApprover>>,
    n_questions: watch::Sender<u32>,
}

/// Guard of a running call of a client. Dropping the guard removes the record of the user who
/// answers questions during the call.
pub(super) struct ApproverRegistrationGuard<'a> {
    users: &'a ClientCallApproverRegistry,
    id: String,
}

impl ClientCallApproverRegistry {
    /// Records the user who answers questions during the call `id`.
    pub(super) fn register_approver(
        &self,
        id: &str,
        user: ClientUserApprover,
    ) -> ApproverRegistrationGuard<'_> {
        lock_ignoring_poison(&self.calls).insert(id.to_owned(), user);
        ApproverRegistrationGuard {
            users: self,
            id: id.to_owned(),
        }
    }

    /// Records that a question to a client's user waits for an answer, until the returned guard is
    /// dropped.
    pub(super) fn register_open_client_question(&self) -> OpenClientQuestionGuard<'_> {
        self.n_questions.send_modify(|n| *n += 1);
        OpenClientQuestionGuard(self)
    }

    /// Whether a client's user is currently asked a question.
    pub(super) fn has_open_question(&self) -> bool {
        *self.n_questions.borrow() > 0
    }

    /// Waits until at least one question to a client's user waits for an answer.
    pub(super) async fn wait_until_question_pending(&self) {
        // An error would mean that the sender was dropped, which is impossible while `self` holds
        // it.
        let _ = self.n_questions.subscribe().wait_for(|n| *n > 0).await;
    }

    /// Returns the user of the client that makes the call in `caller`; `None` if no client makes
    /// it. Calls that a plugin makes during this call have other ids, so questions during them go
    /// to the approver of the session.
    pub(super) fn find_client_approver(&self, caller: &Caller) -> Option<ClientUserApprover> {
        lock_ignoring_poison(&self.calls)
            .get(&**caller.call.as_ref()?)
            .cloned()
    }
}

/// Guard of a question that waits for an answer of a client's user.
pub(super) struct OpenClientQuestionGuard<'a>(&'a ClientCallApproverRegistry);

impl Drop for OpenClientQuestionGuard<'_> {
    fn drop(&mut self) {
        self.0.n_questions.send_modify(|n| *n = n.saturating_sub(1));
    }
}

impl Drop for ApproverRegistrationGuard<'_> {
    fn drop(&mut self) {
        lock_ignoring_poison(&self.users.calls).remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::approval::AllowAllApprover;

    #[test]
    fn a_user_is_found_by_the_call_while_it_runs() {
        let users = ClientCallApproverRegistry::default();
        let caller = Caller::default();
        assert!(users.find_client_approver(&caller).is_none());
        let first = users.register_approver("a", Some(Arc::new(AllowAllApprover)));
        let second = users.register_approver("b", None);
        assert!(matches!(
            users.find_client_approver(&caller.for_tool_call("a")),
            Some(Some(_))
        ));
        assert!(matches!(
            users.find_client_approver(&caller.for_tool_call("b")),
            Some(None)
        ));
        assert!(
            users
                .find_client_approver(&caller.for_tool_call("c"))
                .is_none()
        );
        drop((first, second));
        assert!(!users.has_open_question());
        let asking = users.register_open_client_question();
        assert!(users.has_open_question());
        drop(asking);
        assert!(!users.has_open_question());
        assert!(
            users
                .find_client_approver(&caller.for_tool_call("a"))
                .is_none()
        );
    }
}
