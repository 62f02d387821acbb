//! Sends requests to the program that holds a session, so that another program can show the
//! session.
//!
//! Only the holder of a session subscribes to the session's request subject. If a session has no
//! holder, the server reports this to the caller at once. The answer is sent in parts, and the
//! caller acknowledges each part. This gives backpressure, and the holder notices when the caller
//! is gone. Requests are not stored: data that must survive is in the log and in the queue.
//!
//! The accounts and permissions of the NATS servers control access: every client that may publish
//! to the subjects of a tenant may call. The module must not interpret requests. Start from
//! [`SessionRequestMessenger`].

mod answer;
mod ask;
mod boards;
mod parts;

pub use answer::{SessionRequestHandler, SessionRequestTaskGuard};
pub use ask::{AnswerBodyStream, SessionRequestError};
pub use boards::{ProgramSessionList, SessionListResponderGuard};

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::NatsSessions;
use crate::names::session_id_to_subject_token;
use crate::sessions::SharedNatsStoreState;
use rind_lib::session::SessionAddress;

/// Maximum size of a request's body, in bytes. By default, NATS limits messages to 1 MB.
pub const MAX_REQUEST_BODY_BYTES: usize = 700 << 10;

/// Maximum number of requests that a program answers concurrently, not counting event streams.
const MAX_CONCURRENTLY_ANSWERED_REQUESTS: usize = 64;

/// Maximum number of event streams that a program sends concurrently. Event streams stay open for
/// long, so they do not count towards [`MAX_CONCURRENTLY_ANSWERED_REQUESTS`].
const MAX_CONCURRENT_EVENT_STREAMS: usize = 192;

/// Sends requests for sessions to other programs, and answers their requests.
#[derive(Clone)]
pub struct SessionRequestMessenger {
    parts: Arc<SharedNatsStoreState>,
    /// Permits for answering requests concurrently, except for event streams.
    answering: Arc<Semaphore>,
    /// Permits for serving event streams concurrently.
    streaming: Arc<Semaphore>,
}

impl std::fmt::Debug for SessionRequestMessenger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("SessionRequestMessenger")
            .field(&self.parts.name)
            .finish()
    }
}

impl SessionRequestMessenger {
    /// Creates the value that sends and answers requests about the sessions of a store.
    #[must_use]
    pub fn new(sessions: &NatsSessions) -> Self {
        Self {
            parts: sessions.shared_store_state().clone(),
            answering: Arc::new(Semaphore::new(MAX_CONCURRENTLY_ANSWERED_REQUESTS)),
            streaming: Arc::new(Semaphore::new(MAX_CONCURRENT_EVENT_STREAMS)),
        }
    }

    /// Returns the NATS subject on which the program that holds a session receives requests.
    fn session_requests_subject(&self, at: &SessionAddress) -> String {
        let tenant = self.parts.streams.names.tenant();
        format!(
            "rind.{tenant}.call.{}",
            session_id_to_subject_token(at.root_session_id())
        )
    }

    /// Returns the subject on which a program announces that it has opened a session.
    fn session_opened_subject(&self, at: &SessionAddress) -> String {
        let tenant = self.parts.streams.names.tenant();
        format!(
            "rind.{tenant}.held.{}",
            session_id_to_subject_token(at.root_session_id())
        )
    }

    /// Returns the subject on which all holders receive requests for the lists of their sessions
    /// (boards).
    fn session_list_requests_subject(&self) -> String {
        format!("rind.{}.boards", self.parts.streams.names.tenant())
    }
}
