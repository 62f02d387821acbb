//! Requests to the program that holds a session: who shows a session need not be who runs it.
//!
//! Only the holder of a session subscribes to the subject of its requests. So a request to a
//! session without a holder is answered by the server at once. The answer comes in parts, each of
//! which the caller acknowledges: a slow caller slows the holder's answer down, and the holder stops
//! when the caller is gone. Nothing here is stored: what must survive is in the log and in the queue.
//!
//! Access is decided by the accounts and permissions of the servers: every client that may publish
//! to the subjects of a tenant may call. The module must not know what requests mean. Start from [`SessionCalls`].

mod answer;
mod ask;
mod boards;
mod parts;

pub use answer::{AnsweredSession, CallHandler};
pub use ask::{CallBody, CallError};
pub use boards::{AnsweredBoards, HolderBoard};

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::NatsSessions;
use crate::names::session_token;
use crate::sessions::StoreParts;
use rind_lib::session::SessionAddress;

/// Maximum size of a request's body, in bytes. Messages of NATS have at most 1 MB by default.
pub const MAX_CALL_BYTES: usize = 700 << 10;

/// Maximum number of requests that a program answers at once, without streams of events.
const MAX_ANSWERING: usize = 64;

/// Maximum number of streams of events that a program sends at once. They last long, and leave room
/// for the answers to questions.
const MAX_STREAMS: usize = 192;

/// Sends and answers requests about sessions.
#[derive(Clone)]
pub struct SessionCalls {
    parts: Arc<StoreParts>,
    /// Permits for the requests that are being answered.
    answering: Arc<Semaphore>,
    /// Permits for the streams of events.
    streaming: Arc<Semaphore>,
}

impl std::fmt::Debug for SessionCalls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("SessionCalls")
            .field(&self.parts.name)
            .finish()
    }
}

impl SessionCalls {
    /// Returns the requests about the sessions of a store.
    #[must_use]
    pub fn new(sessions: &NatsSessions) -> Self {
        Self {
            parts: sessions.parts().clone(),
            answering: Arc::new(Semaphore::new(MAX_ANSWERING)),
            streaming: Arc::new(Semaphore::new(MAX_STREAMS)),
        }
    }

    /// Returns the subject of the requests about a session.
    fn subject(&self, at: &SessionAddress) -> String {
        let tenant = self.parts.streams.names.tenant();
        format!("rind.{tenant}.call.{}", session_token(at.root()))
    }

    /// Returns the subject on which a program announces that it now holds a session.
    fn held_subject(&self, at: &SessionAddress) -> String {
        let tenant = self.parts.streams.names.tenant();
        format!("rind.{tenant}.held.{}", session_token(at.root()))
    }

    /// Returns the subject by which all holders are asked for their boards.
    fn boards_subject(&self) -> String {
        format!("rind.{}.boards", self.parts.streams.names.tenant())
    }
}
