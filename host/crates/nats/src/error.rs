//! Errors of the store. Each message says what to do.

use std::error::Error as StdError;
use std::time::Duration;

use rind_lib::session;

use crate::QuotaRefusal;

/// An error of the server, its settings or its answers.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NatsError {
    /// The connection to a server failed.
    #[error(
        "cannot connect to {server}; check that a NATS server with JetStream runs there and that the credentials are right"
    )]
    Connect {
        /// Address of the server, without credentials.
        server: String,
        /// Error of the client.
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The server is too old to keep sessions safely.
    #[error(
        "the NATS server {server} has version {found}, and sessions need 2.14 or later (2.15 is advised): an older \
         cluster lets several writers append to one session; update the server"
    )]
    OldServer {
        /// Address of the server.
        server: String,
        /// Version that the server gave, made printable.
        found: String,
    },
    /// The server runs without JetStream.
    #[error(
        "the NATS server {server} runs without JetStream; start it with `-js` or a `jetstream` block"
    )]
    NoJetStream {
        /// Address of the server.
        server: String,
    },
    /// A value of the configuration cannot be used.
    #[error("{what} cannot be used: {why}")]
    Config {
        /// Setting and its value.
        what: String,
        /// Reason.
        why: String,
    },
    /// A request was answered with an error of JetStream.
    #[error("{what} was refused by the server: {why}")]
    Refused {
        /// Description of the request.
        what: String,
        /// Description that the server gave, made printable.
        why: String,
        /// Error code, from the documentation of JetStream.
        code: u64,
    },
    /// A request got no answer.
    #[error("{what} got no answer from the server")]
    Unanswered {
        /// Description of the request.
        what: String,
        /// Error of the client.
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
    /// Stored messages do not fit each other.
    #[error("{what} is damaged in the store: {why}")]
    Damaged {
        /// Session or value.
        what: String,
        /// Description of the damage.
        why: String,
    },
    /// Files of a session cannot be stored or restored.
    #[error("the files in {folder} cannot be stored or restored: {why}")]
    Files {
        /// Folder of the worker.
        folder: String,
        /// Reason.
        why: String,
    },
    /// Workers gave an input up.
    #[error(
        "the input {input} was given up after {attempts} attempts: {cause}; it is now a dead letter, which can be sent again"
    )]
    GivenUp {
        /// Id of the input.
        input: String,
        /// Number of attempts.
        attempts: u32,
        /// Reason of the last failure, made printable.
        cause: String,
    },
    /// A set of plugins cannot be used.
    #[error("the set of plugins of {of} cannot be used: {why}")]
    PluginSet {
        /// Tenant or class.
        of: String,
        /// Reason.
        why: String,
    },
    /// The tenant has used a quota up.
    #[error(transparent)]
    OverQuota(QuotaRefusal),
    /// The connection of the store has ended.
    #[error("the connection to the store has ended; restart the program")]
    Ended,
}

impl NatsError {
    /// Returns the time until the quota is free again that this is about; `None` for another error.
    #[must_use]
    pub fn free_in(&self) -> Option<Duration> {
        match self {
            Self::OverQuota(refusal) => Some(refusal.free_in()),
            _ => None,
        }
    }

    /// Creates the error of a request without an answer.
    pub(crate) fn unanswered(
        what: impl Into<String>,
        source: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
        Self::Unanswered {
            what: what.into(),
            source: cleaned_source(source.into()),
        }
    }

    /// Creates the error of a refusal by JetStream.
    pub(crate) fn refused(what: impl Into<String>, code: u64, why: &str) -> Self {
        Self::Refused {
            what: what.into(),
            why: rind_lib::text::clean_line(why, 300),
            code,
        }
    }

    /// Converts the error into an error of sessions for the store `store`.
    pub(crate) fn in_store(self, store: &str) -> session::Error {
        session::Error::Store {
            store: store.to_owned(),
            source: Box::new(self),
        }
    }
}

/// Returns an error of the client as text that a terminal may show: servers write parts of it.
pub(crate) fn cleaned_source(
    source: Box<dyn StdError + Send + Sync>,
) -> Box<dyn StdError + Send + Sync> {
    let chain = rind_lib::text::error_chain(&*source);
    rind_lib::text::clean_line(&chain, 300).into()
}
