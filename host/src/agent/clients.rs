//! Users of the clients whose calls run: a question of a plugin in such a call is theirs.
//!
//! The user of one client is not asked about the call of another client. A question in a call that a plugin
//! makes in turn goes to the approver of the session.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::sync::watch;

use crate::lock::lock;
use crate::point::caller::Caller;
use crate::tool::approval::Approver;

/// Way to the user of a client; `None` if the client cannot ask.
type ClientUser = Option<Arc<dyn Approver>>;

/// The running calls of clients, by id, and the questions that wait for their users.
#[derive(Default)]
pub(super) struct ClientUsers {
    calls: Mutex<HashMap<String, ClientUser>>,
    n_questions: watch::Sender<u32>,
}

/// A call of a client that runs; its user is forgotten when this is dropped.
pub(super) struct ClientCall<'a> {
    users: &'a ClientUsers,
    id: String,
}

impl ClientUsers {
    /// Notes whose call has this id.
    pub(super) fn enter_call(&self, id: &str, user: ClientUser) -> ClientCall<'_> {
        lock(&self.calls).insert(id.to_owned(), user);
        ClientCall {
            users: self,
            id: id.to_owned(),
        }
    }

    /// Records that a question waits for a user, until the result is dropped.
    pub(super) fn begin_question(&self) -> OpenQuestion<'_> {
        self.n_questions.send_modify(|n| *n += 1);
        OpenQuestion(self)
    }

    /// Whether a question waits for a user.
    pub(super) fn is_asking(&self) -> bool {
        *self.n_questions.borrow() > 0
    }

    /// Waits until a question waits for a user.
    pub(super) async fn wait_asking(&self) {
        // The sender lives as long as this.
        let _ = self.n_questions.subscribe().wait_for(|n| *n > 0).await;
    }

    /// Returns the user of the client whose call led to this caller; `None` if no client's call did.
    /// Calls that a plugin makes in turn have ids of their own, so theirs is the approver of the
    /// session.
    pub(super) fn find_user(&self, caller: &Caller) -> Option<ClientUser> {
        lock(&self.calls).get(&**caller.call.as_ref()?).cloned()
    }
}

/// A question that waits for a user.
pub(super) struct OpenQuestion<'a>(&'a ClientUsers);

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        self.0.n_questions.send_modify(|n| *n = n.saturating_sub(1));
    }
}

impl Drop for ClientCall<'_> {
    fn drop(&mut self) {
        lock(&self.users.calls).remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::approval::AllowAll;

    #[test]
    fn a_user_is_found_by_the_call_while_it_runs() {
        let users = ClientUsers::default();
        let caller = Caller::default();
        assert!(users.find_user(&caller).is_none());
        let first = users.enter_call("a", Some(Arc::new(AllowAll)));
        let second = users.enter_call("b", None);
        assert!(matches!(
            users.find_user(&caller.for_call("a")),
            Some(Some(_))
        ));
        assert!(matches!(users.find_user(&caller.for_call("b")), Some(None)));
        assert!(users.find_user(&caller.for_call("c")).is_none());
        drop((first, second));
        assert!(!users.is_asking());
        let asking = users.begin_question();
        assert!(users.is_asking());
        drop(asking);
        assert!(!users.is_asking());
        assert!(users.find_user(&caller.for_call("a")).is_none());
    }
}
