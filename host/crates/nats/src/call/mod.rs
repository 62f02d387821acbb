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
//! [`SessionRequests`].

mod answer;
mod ask;
mod boards;
mod parts;

pub use answer::{CallHandler, SessionAnswerTaskGuard};
pub use ask::{CallBody, CallError};
pub use boards::{BoardAnswerTaskGuard, HeldSessionsBoard};

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::NatsSessions;
use crate::names::session_id_to_subject_token;
use crate::sessions::SharedStoreState;
use rind_lib::session::SessionAddress;

/// Maximum size of a request's body, in bytes. By default, NATS limits messages to 1 MB.
pub const MAX_CALL_BYTES: usize = 700 << 10;

/// Maximum number of requests that a program answers concurrently, not counting event streams.
const MAX_ANSWERING: usize = 64;

/// Maximum number of event streams that a program sends concurrently. Event streams stay open for
/// long, so they do not count towards [`MAX_ANSWERING`].
const MAX_STREAMS: usize = 192;

/// Sends and answers requests for sessions.
#[derive(Clone)]
pub struct SessionRequests {
    parts: Arc<SharedStoreState>,
    /// Permits for concurrent requests other than event streams.
    answering: Arc<Semaphore>,
    /// Permits for concurrent event streams.
    streaming: Arc<Semaphore>,
}

impl std::fmt::Debug for SessionRequests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("SessionCalls")
            .field(&self.parts.name)
            .finish()
    }
}

impl SessionRequests {
    /// Creates the value that sends and answers requests about the sessions of a store.
    #[must_use]
    pub fn new(sessions: &NatsSessions) -> Self {
        Self {
            parts: sessions.parts().clone(),
            answering: Arc::new(Semaphore::new(MAX_ANSWERING)),
            streaming: Arc::new(Semaphore::new(MAX_STREAMS)),
        }
    }

    /// Returns the NATS subject on which the program that holds a session receives requests.
    fn subject(&self, at: &SessionAddress) -> String {
        let tenant = self.parts.streams.names.tenant();
        format!(
            "rind.{tenant}.call.{}",
            session_id_to_subject_token(at.root())
        )
    }

    /// Returns the subject on which a program announces that it has opened a session.
    fn session_held_subject(&self, at: &SessionAddress) -> String {
        let tenant = self.parts.streams.names.tenant();
        format!(
            "rind.{tenant}.held.{}",
            session_id_to_subject_token(at.root())
        )
    }

    /// Returns the subject on which all holders receive requests for the lists of their sessions
    /// (boards).
    fn board_requests_subject(&self) -> String {
        format!("rind.{}.boards", self.parts.streams.names.tenant())
    }
}
