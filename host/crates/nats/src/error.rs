//! Defines the errors of the store. A message names a remedy if there is one.

use std::error::Error as StdError;
use std::time::Duration;

use rind_lib::session;

use crate::QuotaExceededError;

/// Failure of a request to the servers, invalid setting, or invalid data from a server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NatsError {
    /// The connection to a NATS server failed.
    #[error(
        "cannot connect to {server}; check that a NATS server with JetStream runs there and that the credentials are right"
    )]
    Connect {
        /// Address of the NATS server, without credentials.
        server: String,
        /// Error of the NATS client library.
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The NATS server is too old to keep sessions safely.
    #[error(
        "the NATS server {server} has version {found}, and sessions need 2.14 or later (2.15 is advised): an older \
         cluster lets several writers append to one session; update the server"
    )]
    OldServer {
        /// Address of the NATS server.
        server: String,
        /// Version that the server reported, with control characters removed.
        found: String,
    },
    /// The NATS server runs without JetStream, which stores the sessions.
    #[error(
        "the NATS server {server} runs without JetStream; start it with `-js` or a `jetstream` block"
    )]
    NoJetStream {
        /// Address of the NATS server.
        server: String,
    },
    /// A setting for the connection to NATS cannot be used.
    #[error("{what} cannot be used: {why}")]
    Config {
        /// Name and value of the invalid setting.
        what: String,
        /// Reason why the setting cannot be used.
        why: String,
    },
    /// JetStream answered a request with an error.
    #[error("{what} was refused by the server: {why}")]
    Refused {
        /// Description of the request, as the subject of the message.
        what: String,
        /// Error description of the server, with control characters removed.
        why: String,
        /// Error code that JetStream returned.
        code: u64,
    },
    /// A request to the NATS servers failed, or was not answered.
    #[error("{what} got no answer from the server")]
    Unanswered {
        /// Description of the request, as the subject of the message.
        what: String,
        /// Error of the NATS client library.
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
    /// Data in the store is missing, or contradicts other stored data.
    #[error("{what} is damaged in the store: {why}")]
    Damaged {
        /// Description of the damaged data, such as the session.
        what: String,
        /// Description of the damage to the data.
        why: String,
    },
    /// Files of a session cannot be stored or restored.
    #[error("the files in {folder} cannot be stored or restored: {why}")]
    Files {
        /// Path of the folder in which a worker keeps the files of a session.
        folder: String,
        /// Reason why the files cannot be stored or restored.
        why: String,
    },
    /// Workers gave up on an input after its last attempt.
    #[error(
        "the input {input} was given up after {attempts} attempts: {cause}; it is now a dead letter, which can be sent again"
    )]
    GivenUp {
        /// Id of the input that was given up.
        input: String,
        /// Number of attempts to run the input.
        attempts: u32,
        /// Reason why the last attempt failed, with control characters removed.
        cause: String,
    },
    /// A set of plugins cannot be used or published.
    #[error("the set of plugins of {of} cannot be used: {why}")]
    PluginSet {
        /// Tenant or class of workers to which the set belongs.
        of: String,
        /// Reason why the set cannot be used or published.
        why: String,
    },
    /// The tenant has used up one of its quotas.
    #[error(transparent)]
    OverQuota(QuotaExceededError),
    /// The threads of the session store have ended.
    #[error("the connection to the session store in NATS has ended; restart the program")]
    Ended,
}

impl NatsError {
    /// Returns the time until the tenant's quota allows the request again; `None` for errors other
    /// than a used-up quota.
    #[must_use]
    pub fn time_until_available(&self) -> Option<Duration> {
        match self {
            Self::OverQuota(refusal) => Some(refusal.time_until_available()),
            _ => None,
        }
    }

    /// Creates the error for a request that failed or was not answered.
    pub(crate) fn nats_request_error(
        what: impl Into<String>,
        source: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
        Self::Unanswered {
            what: what.into(),
            source: sanitize_source_error(source.into()),
        }
    }

    /// Creates the error for a request that JetStream refused.
    pub(crate) fn from_jetstream_refusal(what: impl Into<String>, code: u64, why: &str) -> Self {
        Self::Refused {
            what: what.into(),
            why: rind_lib::text::escape_and_truncate_line(why, 300),
            code,
        }
    }

    /// Converts the error into a session error that names the store.
    pub(crate) fn into_store_error(self, store: &str) -> session::Error {
        session::Error::Store {
            store: store.to_owned(),
            source: Box::new(self),
        }
    }
}

/// Removes control characters from an error of the client library. Parts of its text come from the
/// servers.
pub(crate) fn sanitize_source_error(
    source: Box<dyn StdError + Send + Sync>,
) -> Box<dyn StdError + Send + Sync> {
    let chain = rind_lib::text::format_error_chain(&*source);
    rind_lib::text::escape_and_truncate_line(&chain, 300).into()
}
