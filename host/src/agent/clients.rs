//! Users of the clients whose calls run. A plugin's question during a client's call goes to the
//! user of that client.
//!
//! The user of one client is never asked about the call of another client. If the plugin makes a
//! further call, a question in that call goes to the approver of the session.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::sync::watch;

use crate::lock::lock;
use crate::point::caller::Caller;
use crate::tool::approval::Approver;

/// Approver of a client's user; `None` if the client cannot ask its user.
type ClientUser = Option<Arc<dyn Approver>>;

/// Users of the clients' running calls, by call id, and the number of questions that wait for these
/// users.
#[derive(Default)]
pub(super) struct ClientUsers {
    calls: Mutex<HashMap<String, ClientUser>>,
    n_questions: watch::Sender<u32>,
}

/// Guard of a client's running call; the user is removed when the guard is dropped.
pub(super) struct ClientCall<'a> {
    users: &'a ClientUsers,
    id: String,
}

impl ClientUsers {
    /// Records the user who answers questions during the call with this id.
    pub(super) fn enter_call(&self, id: &str, user: ClientUser) -> ClientCall<'_> {
        lock(&self.calls).insert(id.to_owned(), user);
        ClientCall {
            users: self,
            id: id.to_owned(),
        }
    }

    /// Records that a question waits for a user, until the returned guard is dropped.
    pub(super) fn begin_question(&self) -> OpenQuestion<'_> {
        self.n_questions.send_modify(|n| *n += 1);
        OpenQuestion(self)
    }

    /// Whether a question waits for a user.
    pub(super) fn is_asking(&self) -> bool {
        *self.n_questions.borrow() > 0
    }

    /// Waits until at least one question waits for a user.
    pub(super) async fn wait_asking(&self) {
        // An error would mean that the sender was dropped, but `self` still holds it.
        let _ = self.n_questions.subscribe().wait_for(|n| *n > 0).await;
    }

    /// Returns the user of the client that made this call; `None` if no client made it. Further
    /// calls that a plugin makes have other ids, so questions in them go to the approver of the
    /// session.
    pub(super) fn find_user(&self, caller: &Caller) -> Option<ClientUser> {
        lock(&self.calls).get(&**caller.call.as_ref()?).cloned()
    }
}

/// Guard of a question that waits for a user.
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
